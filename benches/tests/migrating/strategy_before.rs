use reqwest::{Client, Response, StatusCode};
use reqwest_middleware::{ClientBuilder, Error};
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_retry::{
    RetryTransientMiddleware, Retryable, RetryableStrategy, default_on_request_failure,
    default_on_request_success,
};

struct ByStatus;

impl RetryableStrategy for ByStatus {
    fn handle(&self, result: &Result<Response, Error>) -> Option<Retryable> {
        match result {
            Ok(response) if response.status() == StatusCode::CONFLICT => Some(Retryable::Transient),
            Ok(response) if response.status() == StatusCode::BAD_GATEWAY => Some(Retryable::Fatal),
            Ok(response) => default_on_request_success(response),
            Err(error) => default_on_request_failure(error),
        }
    }
}

pub fn chain(http: Client) -> ClientBuilder {
    let backoff = ExponentialBackoff::builder().build_with_max_retries(3);
    let retry = RetryTransientMiddleware::new_with_policy_and_strategy(backoff, ByStatus);
    ClientBuilder::new(http).with(retry)
}
