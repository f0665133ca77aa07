//! How long a request may take, and how it is stopped.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod cancellation;
mod dropped;
#[path = "../support/held_clock.rs"]
mod held_clock;
mod http2;
mod scopes;
mod sockets;
mod time_limits;
mod transit;

use std::time::Duration;

use http::StatusCode;
use reqwest::{Client, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Result};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Backoff, Jitter, RetryErrorExt as _, RetryMiddleware, RetryPolicy, RetryPolicyBuilder,
    RetryTracker, StopReason,
};
use tokio::time::Instant;

const URL: &str = "http://service.test/path";

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn busy() -> Reply {
    Reply::status(StatusCode::SERVICE_UNAVAILABLE).body("busy")
}

fn fine() -> Reply {
    Reply::status(StatusCode::OK)
}

/// Every wait is this long.
fn waiting(delay: Duration) -> RetryPolicyBuilder {
    RetryPolicy::builder().backoff(Backoff::constant(delay)).jitter(Jitter::None)
}

fn client(policy: RetryPolicyBuilder, script: &Script) -> ClientWithMiddleware {
    let retry = RetryMiddleware::new(policy.build().unwrap());
    ClientBuilder::new(Client::new()).with(retry).with(script.clone()).build()
}

/// What came back.
#[derive(Debug, PartialEq)]
enum Back {
    Status(u16),
    /// reqwest's own error of a time limit.
    Timeout,
    HeadTimeout,
    Deadline,
    Cancelled,
    /// reqwest's own error of something else.
    Reqwest,
}

impl Back {
    fn of(result: &Result<Response>) -> Self {
        let error = match result {
            Ok(response) => return Self::Status(response.status().as_u16()),
            Err(error) => error,
        };
        match error.retry_error() {
            Some(ours) if ours.is_cancelled() => Self::Cancelled,
            Some(ours) if ours.is_deadline() => Self::Deadline,
            Some(ours) if ours.is_timeout() => Self::HeadTimeout,
            None if error.is_timeout() => Self::Timeout,
            None if matches!(error, reqwest_middleware::Error::Reqwest(_)) => Self::Reqwest,
            _ => panic!("{error:?}"),
        }
    }
}

/// A request, and what became of it.
#[derive(Debug, PartialEq)]
struct End {
    sent: usize,
    after: Duration,
    back: Back,
    stop: StopReason,
}

async fn run(policy: RetryPolicyBuilder, method: &str, script: &Script) -> End {
    let tracker = RetryTracker::new();
    let request = client(policy, script).request(method.parse().unwrap(), URL);
    let started = Instant::now();
    let result = request.with_extension(tracker.clone()).send().await;
    let (after, back) = (started.elapsed(), Back::of(&result));
    let stop = tracker.history().unwrap().stop_reason();
    End { sent: script.received().len(), after, back, stop }
}
