use reqwest_middleware::Error;
use reqwest_retry::RetryError;

/// The service's own error.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Failure {
    pub retries: u32,
    pub is_connect: bool,
    pub is_timeout: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let Error::Middleware(error) = error else { return Self::default() };
        let (retries, error) = match error.downcast_ref::<RetryError>() {
            Some(RetryError::WithRetries { retries, err }) => (*retries, err),
            Some(RetryError::Error(err)) => (0, err),
            None => return Self::default(),
        };
        Self { retries, is_connect: error.is_connect(), is_timeout: error.is_timeout() }
    }
}
