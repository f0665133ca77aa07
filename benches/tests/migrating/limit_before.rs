use std::time::Duration;

use reqwest::Client;
use reqwest_middleware::ClientBuilder;
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;

pub fn chain(http: Client) -> ClientBuilder {
    let backoff = ExponentialBackoff::builder()
        .build_with_total_retry_duration_and_max_retries(Duration::from_secs(30), 5);
    ClientBuilder::new(http).with(RetryTransientMiddleware::new_with_policy(backoff))
}
