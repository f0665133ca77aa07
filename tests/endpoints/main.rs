//! Rules for some of a client's requests: which request belongs to which endpoint, and what that changes.
//! No sockets: the script answers, and time is tokio's own, paused.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod choosing;
mod matching;
mod refused;
mod rules;
mod spec;

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use http::{Extensions, StatusCode};
use reqwest::{Client, Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    AttemptRecord, Backoff, Endpoint, EndpointBuilder, Jitter, ObservedCall, RetryHistory,
    RetryMiddlewareBuilder, RetryObserver, RetryPolicy, RetryPolicyBuilder,
};

const URL: &str = "http://service.test/path";

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn busy() -> Reply {
    Reply::status(StatusCode::SERVICE_UNAVAILABLE)
}

fn fine() -> Reply {
    Reply::status(StatusCode::OK)
}

/// So many sends without waits, whatever the method.
fn sends(count: u32) -> RetryPolicyBuilder {
    RetryPolicy::builder()
        .max_attempts(count)
        .backoff(Backoff::constant(Duration::ZERO))
        .throttle_backoff(Backoff::constant(Duration::ZERO))
        .jitter(Jitter::None)
        .assume_idempotent(true)
}

/// An endpoint for every request to `path`.
fn at(path: &str) -> EndpointBuilder {
    Endpoint::named(path).path(path)
}

/// One for all tests, since it takes a while to make: nothing is sent by it.
fn http() -> Client {
    static HTTP: LazyLock<Client> = LazyLock::new(Client::new);
    HTTP.clone()
}

/// The retry, for a chain that goes on.
fn chain(retry: RetryMiddlewareBuilder) -> ClientBuilder {
    ClientBuilder::new(http()).with(retry.build().unwrap())
}

fn client(retry: RetryMiddlewareBuilder, script: &Script) -> ClientWithMiddleware {
    chain(retry).with(script.clone()).build()
}

type Names = Vec<Option<String>>;

/// Takes down the endpoint that an observer is told: of each attempt, and of each call that is given up.
#[derive(Clone, Default)]
struct Told {
    attempts: Arc<Mutex<Names>>,
    given_up: Arc<Mutex<Names>>,
}

impl Told {
    /// Those since the last call of this.
    fn attempts(&self) -> Names {
        std::mem::take(&mut *self.attempts.lock().unwrap())
    }

    fn given_up(&self) -> Names {
        std::mem::take(&mut *self.given_up.lock().unwrap())
    }
}

impl RetryObserver for Told {
    fn attempt_ended(&self, call: &ObservedCall<'_>, _attempt: &AttemptRecord) {
        self.attempts.lock().unwrap().push(call.endpoint().map(str::to_owned));
    }

    fn gave_up(&self, call: &ObservedCall<'_>, _history: &RetryHistory) {
        self.given_up.lock().unwrap().push(call.endpoint().map(str::to_owned));
    }
}

/// An inner middleware that sees, and may change, each request before it is sent.
struct BeforeSend<F>(F);

#[async_trait]
impl<F: Fn(&mut Request) + Send + Sync + 'static> Middleware for BeforeSend<F> {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        (self.0)(&mut request);
        next.run(request, extensions).await
    }
}
