//! Clients and policies.

use std::time::Duration;

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_typed_retry::{Backoff, Jitter, RetryMiddleware, RetryPolicy, RetryPolicyBuilder};

/// For what no socket is behind.
pub(crate) const SCRIPTED: &str = "http://service.test/";

/// The defaults, but every wait is this one.
pub(crate) fn waits(delay: Duration) -> RetryPolicyBuilder {
    RetryPolicy::builder()
        .backoff(Backoff::constant(delay))
        .throttle_backoff(Backoff::constant(delay))
        .jitter(Jitter::None)
}

pub(crate) fn no_waits() -> RetryPolicyBuilder {
    waits(Duration::ZERO)
}

/// For servers of the test's own, whatever the environment says of proxies.
pub(crate) fn plain() -> reqwest::ClientBuilder {
    reqwest::Client::builder().no_proxy()
}

pub(crate) fn chain(policy: RetryPolicyBuilder) -> ClientBuilder {
    let retry = RetryMiddleware::new(policy.build().unwrap());
    ClientBuilder::new(plain().build().unwrap()).with(retry)
}

pub(crate) fn client(policy: RetryPolicyBuilder) -> ClientWithMiddleware {
    chain(policy).build()
}

/// An inner middleware that sees, and may change, each request before it is sent.
pub(crate) struct BeforeSend<F>(pub(crate) F);

#[async_trait]
impl<F> Middleware for BeforeSend<F>
where
    F: Fn(&mut Request, &mut Extensions) + Send + Sync + 'static,
{
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        (self.0)(&mut request, extensions);
        next.run(request, extensions).await
    }
}
