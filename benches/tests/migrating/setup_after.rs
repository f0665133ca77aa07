use std::time::Duration;

use reqwest::Client;
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::{PolicyError, RetryMiddleware, RetryPolicy};

pub fn chain(http: Client) -> Result<ClientBuilder, PolicyError> {
    let policy = RetryPolicy::builder()
        .max_attempts(4) // 3 retries
        .attempt_timeout(Duration::from_secs(10))
        .build()?;
    Ok(ClientBuilder::new(http).with(RetryMiddleware::new(policy)))
}
