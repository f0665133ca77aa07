use reqwest::{Client, StatusCode};
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::{PolicyError, RetryMiddleware, RetryPolicy, StatusSet};

pub fn chain(http: Client) -> Result<ClientBuilder, PolicyError> {
    let statuses =
        StatusSet::transient().with(StatusCode::CONFLICT).without(StatusCode::BAD_GATEWAY);
    let policy = RetryPolicy::builder().retry_statuses(statuses).max_attempts(4).build()?;
    Ok(ClientBuilder::new(http).with(RetryMiddleware::new(policy)))
}
