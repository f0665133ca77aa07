//! What the tests ask of the server, and of a client.

use std::sync::LazyLock;
use std::time::Duration;

use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_typed_retry::{Backoff, RetryMiddleware, RetryPolicy, RetryPolicyBuilder};

/// The server of `browser/src/main.rs`.
pub(crate) const SERVER: &str = env!("BROWSER_SERVER", "`browser/run` starts it and sets this");

/// Waits that no test notices.
pub(crate) fn quick() -> RetryPolicyBuilder {
    let backoff = Backoff::constant(Duration::from_millis(10));
    RetryPolicy::builder().backoff(backoff.clone()).throttle_backoff(backoff)
}

pub(crate) fn client(policy: RetryPolicyBuilder) -> ClientWithMiddleware {
    with(RetryMiddleware::new(policy.build().unwrap()))
}

pub(crate) fn with(retry: RetryMiddleware) -> ClientWithMiddleware {
    ClientBuilder::new(reqwest::Client::new()).with(retry).build()
}

/// The server may have served another run of the tests.
static RUN: LazyLock<u64> = LazyLock::new(rand::random);

/// Where each request of `name` is answered with these replies, in their order.
pub(crate) fn url(name: &str, replies: &str) -> String {
    format!("{SERVER}/{}-{name}?{replies}", *RUN)
}

/// A request that came.
#[derive(Debug)]
pub(crate) struct Came {
    pub(crate) method: String,
    /// After the first.
    pub(crate) at: Duration,
    pub(crate) key: String,
    pub(crate) body: String,
}

/// The lines that the server has of `name`.
pub(crate) async fn log(name: &str) -> Vec<String> {
    let url = format!("{SERVER}/log/{}-{name}", *RUN);
    let log = reqwest::get(url).await.unwrap().text().await.unwrap();
    log.lines().map(str::to_owned).collect()
}

/// The requests of `name` that came to the server.
pub(crate) async fn came(name: &str) -> Vec<Came> {
    let of_line = |line: String| {
        let mut words = line.splitn(4, ' ').map(str::to_owned);
        let mut word = || words.next().unwrap();
        let (method, at) = (word(), Duration::from_millis(word().parse().unwrap()));
        Came { method, at, key: word(), body: word() }
    };
    log(name).await.into_iter().filter(|line| line != "gone").map(of_line).collect()
}

pub(crate) async fn methods(name: &str) -> Vec<String> {
    came(name).await.into_iter().map(|came| came.method).collect()
}
