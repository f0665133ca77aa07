use reqwest::Client;
use reqwest_middleware::ClientBuilder;
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;

pub fn chain(http: Client) -> ClientBuilder {
    let backoff = ExponentialBackoff::builder().build_with_max_retries(3);
    ClientBuilder::new(http).with(RetryTransientMiddleware::new_with_policy(backoff))
}
