use reqwest::{Client, Response};
use reqwest_middleware::{ClientBuilder, Error};
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_retry::{
    DefaultRetryableStrategy, RetryTransientMiddleware, Retryable, RetryableStrategy,
};

struct BusyByField;

impl RetryableStrategy for BusyByField {
    fn handle(&self, result: &Result<Response, Error>) -> Option<Retryable> {
        match result {
            Ok(response) if response.headers().contains_key("x-busy") => Some(Retryable::Transient),
            _ => DefaultRetryableStrategy.handle(result),
        }
    }
}

pub fn chain(http: Client) -> ClientBuilder {
    let backoff = ExponentialBackoff::builder().build_with_max_retries(3);
    let retry = RetryTransientMiddleware::new_with_policy_and_strategy(backoff, BusyByField);
    ClientBuilder::new(http).with(retry)
}
