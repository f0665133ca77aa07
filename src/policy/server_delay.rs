//! How far a server's delay is followed.

use std::time::Duration;

use super::{StopReason, constants};

/// What to do with a delay that the server asks for.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};
/// use http::{Method, StatusCode};
/// use reqwest_typed_retry::{
///     Attempt, Jitter, Outcome, PolicyError, RetryPolicy, RetryableMethod, ServerDelays,
/// };
///
/// let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("90"))]);
/// let outcome = Outcome::response(StatusCode::SERVICE_UNAVAILABLE, &headers);
/// let delay = |delays| {
///     let policy = RetryPolicy::builder().server_delays(delays).jitter(Jitter::None).build()?;
///     let (class, now) = (RetryableMethod::Idempotent, SystemTime::now());
///     let attempt = Attempt::new(1, class, &Method::GET, outcome, now);
///     Ok::<_, PolicyError>(policy.decide(&attempt, &mut rand::rng()).delay())
/// };
/// let secs = Duration::from_secs;
/// assert_eq!(delay(ServerDelays::UpTo(secs(60)))?, None); // ServerDelayTooLong
/// assert_eq!(delay(ServerDelays::UpTo(secs(120)))?, Some(secs(90)));
/// assert_eq!(delay(ServerDelays::ClampedTo(secs(60)))?, Some(secs(60)));
/// assert_eq!(delay(ServerDelays::Ignored)?, Some(Duration::from_millis(100)));
/// # Ok::<(), PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerDelays {
    /// Wait as long as asked; beyond this limit stop at once
    /// ([`StopReason::ServerDelayTooLong`]) and return the response, its field
    /// readable. The default, with 60 s ([`constants::MAX_SERVER_DELAY`]).
    UpTo(Duration),
    /// Wait as long as asked, or this long if more was asked: the next send may then reach a server
    /// that said that it is closed. Zero is refused.
    ClampedTo(Duration),
    /// Never read the fields: the wait is that of the backoff, or what a
    /// [classifier](crate::Classifier) asks for, without a limit.
    Ignored,
}

impl ServerDelays {
    pub(super) const DEFAULT: Self = Self::UpTo(constants::MAX_SERVER_DELAY);

    /// The part of `asked` to wait for. The limit applies to what was asked, not to what jitter
    /// adds to it.
    pub(super) fn allow(self, asked: Duration) -> Result<Duration, StopReason> {
        match self {
            Self::UpTo(allowed) if asked > allowed => {
                Err(StopReason::ServerDelayTooLong { asked, allowed })
            }
            Self::ClampedTo(longest) => Ok(asked.min(longest)),
            Self::UpTo(_) | Self::Ignored => Ok(asked),
        }
    }
}
