use std::time::Duration;

use reqwest::Client;
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::{PolicyError, RetryMiddleware, RetryPolicy};

pub fn chain(http: Client) -> Result<ClientBuilder, PolicyError> {
    let policy = RetryPolicy::builder()
        .max_attempts(6) // or `unlimited_attempts()`
        .deadline(Duration::from_secs(30))
        .build()?;
    Ok(ClientBuilder::new(http).with(RetryMiddleware::new(policy)))
}
