use std::time::Duration;

use reqwest::Client;
use reqwest_middleware::ClientBuilder;
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_retry::{Jitter, RetryTransientMiddleware};

pub fn chain(http: Client) -> ClientBuilder {
    let backoff = ExponentialBackoff::builder()
        .retry_bounds(Duration::from_millis(500), Duration::from_secs(30))
        .base(3)
        .jitter(Jitter::None)
        .build_with_max_retries(5);
    ClientBuilder::new(http).with(RetryTransientMiddleware::new_with_policy(backoff))
}
