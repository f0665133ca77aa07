//! Clients that are listened to, and requests full of secrets.

use async_trait::async_trait;
use http::header::{AUTHORIZATION, COOKIE};
use http::{Extensions, HeaderValue};
use reqwest::{Body, Client, Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    MetricsObserver, RetryErrorExt as _, RetryHistory, RetryMiddleware, RetryMiddlewareBuilder,
    RetryPolicyBuilder,
};

use super::URL;
use super::listening::{Hooks, Shown};

/// Outside of the retry: makes of each request one with all secrets.
struct Secretive;

#[async_trait]
impl Middleware for Secretive {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        // reqwest's own builder takes the user out of the URL.
        *request.url_mut() = URL.parse().unwrap();
        for name in [AUTHORIZATION, COOKIE] {
            request.headers_mut().insert(name, HeaderValue::from_static("secret value"));
        }
        if request.body().is_none() {
            *request.body_mut() = Some(Body::from("secret body"));
        }
        next.run(request, extensions).await
    }
}

/// A client with this middleware, whose requests are full of secrets.
pub(crate) fn client(retry: RetryMiddleware, script: &Script) -> ClientWithMiddleware {
    ClientBuilder::new(Client::new()).with(Secretive).with(retry).with(script.clone()).build()
}

/// Everything that a scenario needs.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) hooks: Hooks,
}

impl World {
    pub(crate) fn shown(&self) -> &Shown {
        &self.hooks.shown
    }

    /// With everybody listening.
    pub(crate) fn retry(&self, policy: RetryPolicyBuilder) -> RetryMiddlewareBuilder {
        RetryMiddleware::builder(policy.build().unwrap())
            .observer(self.hooks.clone())
            .observer(MetricsObserver::new())
    }

    pub(crate) fn client(
        &self,
        retry: RetryMiddlewareBuilder,
        script: &Script,
    ) -> ClientWithMiddleware {
        self.shown().debug(&retry);
        let retry = retry.build().unwrap();
        self.shown().debug(&retry);
        client(retry, script)
    }

    /// One call with nothing special.
    pub(crate) async fn send(
        &self,
        method: &str,
        policy: RetryPolicyBuilder,
        replies: impl IntoIterator<Item = Reply>,
    ) {
        let client = self.client(self.retry(policy), &Script::new(replies));
        self.note(&client.request(method.parse().unwrap(), URL).send().await);
    }

    /// Takes down what a caller could print of the end of a call.
    pub(crate) fn note(&self, result: &Result<Response>) {
        match result {
            Ok(response) => {
                if let Some(history) = response.extensions().get::<RetryHistory>() {
                    self.shown().history(history);
                }
            }
            Err(error) => {
                if let Some(ours) = error.retry_error() {
                    self.shown().debug(ours);
                    self.shown().display(ours);
                    self.shown().display(&error.to_string());
                }
            }
        }
    }
}
