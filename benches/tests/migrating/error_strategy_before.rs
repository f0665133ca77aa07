use std::fmt;

use reqwest::{Client, Response};
use reqwest_middleware::{ClientBuilder, Error};
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_retry::{
    DefaultRetryableStrategy, RetryTransientMiddleware, Retryable, RetryableStrategy,
};

/// What the middleware that signs requests says while its key is renewed.
#[derive(Debug)]
pub struct NoKeyYet;

impl std::error::Error for NoKeyYet {}

impl fmt::Display for NoKeyYet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no key yet")
    }
}

struct ByError;

impl RetryableStrategy for ByError {
    fn handle(&self, result: &Result<Response, Error>) -> Option<Retryable> {
        match result {
            Err(Error::Middleware(error)) if error.is::<NoKeyYet>() => Some(Retryable::Transient),
            _ => DefaultRetryableStrategy.handle(result),
        }
    }
}

pub fn chain(http: Client) -> ClientBuilder {
    let backoff = ExponentialBackoff::builder().build_with_max_retries(3);
    let retry = RetryTransientMiddleware::new_with_policy_and_strategy(backoff, ByError);
    ClientBuilder::new(http).with(retry)
}
