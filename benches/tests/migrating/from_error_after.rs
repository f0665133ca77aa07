use reqwest::Client;
use reqwest_middleware::{ClientBuilder, Error};
use reqwest_typed_retry::{PolicyError, RetryErrorExt as _, RetryMiddleware, RetryPolicy};

pub fn chain(http: Client) -> Result<ClientBuilder, PolicyError> {
    let policy = RetryPolicy::builder().max_attempts(4).build()?;
    let retry = RetryMiddleware::builder(policy).wrap_errors().build()?;
    Ok(ClientBuilder::new(http).with(retry))
}

/// The service's own error.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Failure {
    pub retries: u32,
    pub is_connect: bool,
    pub is_timeout: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let attempts = error.retry_error().map_or(0, |ours| ours.attempts());
        Self {
            retries: attempts.saturating_sub(1),
            is_connect: error.reqwest_error().is_some_and(|inner| inner.is_connect()),
            is_timeout: error.timed_out(),
        }
    }
}
