//! The test that the README shows.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::time::Duration;

use reqwest_middleware::ClientBuilder;
use reqwest_middleware::reqwest::{Client, StatusCode};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{RetryMiddleware, RetryPolicy};

/// That of the service.
fn chain(http: Client) -> ClientBuilder {
    ClientBuilder::new(http).with(RetryMiddleware::new(RetryPolicy::default()))
}

#[tokio::test(start_paused = true)]
async fn waits_as_long_as_the_server_asks() {
    let script = Script::new([
        Reply::status(StatusCode::SERVICE_UNAVAILABLE).header("retry-after", 45),
        Reply::status(StatusCode::OK),
    ]);
    let client = chain(Client::new()).with(script.clone()).build();
    assert_eq!(client.get("http://service.test/").send().await.unwrap().status(), 200);
    let sent = script.received();
    assert!(sent[1].at - sent[0].at >= Duration::from_secs(45));
}
