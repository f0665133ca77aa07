//! What many requests do to a server that is sick, and to one that was.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod budget;
mod cooldown;
mod real_server;
mod sessions;
mod upstream;

use std::time::Duration;

use http::StatusCode;
use reqwest::{Client, Response, Url};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Result};
use reqwest_typed_retry::test_util::seeded_jitter;
use reqwest_typed_retry::{
    RetryBudget, RetryHistory, RetryMiddleware, RetryMiddlewareBuilder, RetryPolicy, StopReason,
};

use upstream::Upstream;

const A: &str = "http://a.test/";
const B: &str = "http://b.test/";

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn url(url: &str) -> Url {
    url.parse().unwrap()
}

fn tokens(capacity: u32) -> RetryBudget {
    RetryBudget::builder().capacity(capacity).build().unwrap()
}

/// A client of `upstream` with the default policy, and whatever `with` adds.
fn client(
    upstream: &Upstream,
    with: impl FnOnce(RetryMiddlewareBuilder) -> RetryMiddlewareBuilder,
) -> ClientWithMiddleware {
    client_of(RetryPolicy::default(), upstream, with)
}

fn client_of(
    policy: RetryPolicy,
    upstream: &Upstream,
    with: impl FnOnce(RetryMiddlewareBuilder) -> RetryMiddlewareBuilder,
) -> ClientWithMiddleware {
    let retry = with(RetryMiddleware::builder(policy).generator(seeded_jitter(7)));
    ClientBuilder::new(Client::new()).with(retry.build().unwrap()).with(upstream.clone()).build()
}

async fn get(client: &ClientWithMiddleware, url: &str) -> u16 {
    client.get(url).send().await.unwrap().status().as_u16()
}

fn stop(result: &Result<Response>) -> Option<StopReason> {
    Some(result.as_ref().unwrap().extensions().get::<RetryHistory>()?.stop_reason())
}

const OK: StatusCode = StatusCode::OK;
const BUSY: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
const LIMITED: StatusCode = StatusCode::TOO_MANY_REQUESTS;
