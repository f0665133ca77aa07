use std::time::Duration;

use reqwest::{Client, StatusCode};
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::{
    Backoff, FaultKind, FaultSet, Jitter, PolicyError, RetryMiddleware, RetryPolicy, ServerDelays,
    StatusSet,
};

/// What `ExponentialBackoff::builder().build_with_max_retries(retries)` did.
pub fn chain(http: Client, retries: u32) -> Result<ClientBuilder, PolicyError> {
    let any_5xx = (500..=599).filter_map(|code| StatusCode::from_u16(code).ok());
    let statuses = any_5xx.collect::<StatusSet>();
    let backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(30 * 60))?;
    let policy = RetryPolicy::builder()
        .assume_idempotent(true) // POST and PATCH, too
        .retry_statuses(
            statuses.with(StatusCode::REQUEST_TIMEOUT).with(StatusCode::TOO_MANY_REQUESTS),
        )
        .retry_faults(
            FaultSet::empty()
                .with(FaultKind::Dns)
                .with(FaultKind::Connect)
                .with(FaultKind::Tls)
                .with(FaultKind::Timeout)
                .with(FaultKind::ConnectionLost),
        )
        .backoff(backoff.clone())
        .throttle_backoff(backoff)
        .jitter(Jitter::Full)
        .server_delays(ServerDelays::Ignored)
        .max_attempts(retries.saturating_add(1))
        .build()?;
    let retry = RetryMiddleware::builder(policy).without_budget().build()?;
    Ok(ClientBuilder::new(http).with(retry))
}
