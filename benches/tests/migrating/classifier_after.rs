use reqwest::Client;
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::{Attempt, Outcome, PolicyError, RetryMiddleware, RetryPolicy, Verdict};

pub fn chain(http: Client) -> Result<ClientBuilder, PolicyError> {
    let policy = RetryPolicy::builder()
        .classifier(|attempt: &Attempt<'_>| match attempt.outcome() {
            Outcome::Response { headers, .. } if headers.contains_key("x-busy") => {
                Some(Verdict::Transient { delay: None })
            }
            _ => None, // the rules decide
        })
        .max_attempts(4)
        .build()?;
    Ok(ClientBuilder::new(http).with(RetryMiddleware::new(policy)))
}
