use reqwest_middleware::{ClientWithMiddleware, Error};
use reqwest_retry::RetryError;

/// Whether the connection did not come about, and how many retries there were.
pub async fn call(client: &ClientWithMiddleware, url: &str) -> Option<(bool, u32)> {
    let Err(Error::Middleware(error)) = client.get(url).send().await else { return None };
    match error.downcast_ref::<RetryError>() {
        Some(RetryError::WithRetries { retries, err }) => Some((err.is_connect(), *retries)),
        Some(RetryError::Error(err)) => Some((err.is_connect(), 0)),
        None => None,
    }
}
