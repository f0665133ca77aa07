use std::fmt;

use reqwest::Client;
use reqwest_middleware::{ClientBuilder, Error};
use reqwest_typed_retry::{Attempt, Outcome, PolicyError, RetryMiddleware, RetryPolicy, Verdict};

/// What the middleware that signs requests says while its key is renewed.
#[derive(Debug)]
pub struct NoKeyYet;

impl std::error::Error for NoKeyYet {}

impl fmt::Display for NoKeyYet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no key yet")
    }
}

fn by_error(attempt: &Attempt<'_>) -> Option<Verdict> {
    let Outcome::Fault { error: Some(error), .. } = attempt.outcome() else { return None };
    match error.downcast_ref::<Error>()? {
        Error::Middleware(error) if error.is::<NoKeyYet>() => {
            Some(Verdict::Transient { delay: None })
        }
        _ => None, // the rules decide
    }
}

pub fn chain(http: Client) -> Result<ClientBuilder, PolicyError> {
    let policy = RetryPolicy::builder().classifier(by_error).max_attempts(4).build()?;
    Ok(ClientBuilder::new(http).with(RetryMiddleware::new(policy)))
}
