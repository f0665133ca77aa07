use std::time::Duration;

use reqwest::Client;
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::{Backoff, Jitter, PolicyError, RetryMiddleware, RetryPolicy};

pub fn chain(http: Client) -> Result<ClientBuilder, PolicyError> {
    let backoff = Backoff::exponential(Duration::from_millis(500), Duration::from_secs(30))?;
    let policy = RetryPolicy::builder()
        .backoff(backoff.with_factor(3.0)?)
        .jitter(Jitter::None)
        .max_attempts(6)
        .build()?;
    Ok(ClientBuilder::new(http).with(RetryMiddleware::new(policy)))
}
