//! What a decision says.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

use super::FaultKind;

/// Send again after a delay, or stop; and why: by [`RetryPolicy::decide`](crate::RetryPolicy::decide).
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use http::{HeaderMap, Method, StatusCode};
/// use reqwest_typed_retry::{
///     Attempt, DelaySource, Jitter, Outcome, RetryPolicy, RetryReason, RetryableMethod, StopReason,
/// };
///
/// let policy = RetryPolicy::builder().jitter(Jitter::None).build()?;
/// # let headers = HeaderMap::new();
/// let outcome = Outcome::response(StatusCode::BAD_GATEWAY, &headers);
/// let decide = |number| {
///     let (class, now) = (RetryableMethod::Idempotent, SystemTime::now());
///     policy.decide(&Attempt::new(number, class, &Method::GET, outcome, now), &mut rand::rng())
/// };
/// let first = decide(1);
/// assert_eq!(first.delay(), Some(Duration::from_millis(100)));
/// assert_eq!(first.retry_reason(), Some(RetryReason::Status(StatusCode::BAD_GATEWAY)));
/// assert_eq!(first.delay_source(), Some(DelaySource::Backoff));
/// assert_eq!(first.to_string(), "retry in 100.00ms (set by the backoff): status 502");
///
/// let last = decide(3);
/// assert_eq!((last.delay(), last.stop_reason()), (None, Some(StopReason::AttemptsExhausted)));
/// assert_eq!(last.to_string(), "stop: attempts_exhausted");
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum RetryDecision {
    /// Wait for `delay`, then send the request again.
    #[non_exhaustive]
    RetryAfter {
        /// How long to wait first.
        delay: Duration,
        /// What calls for the resend.
        reason: RetryReason,
        /// Who set the delay.
        source: DelaySource,
    },
    /// Return the outcome in hand.
    #[non_exhaustive]
    DoNotRetry {
        /// Which rule ended the request.
        reason: StopReason,
    },
}

impl RetryDecision {
    /// The wait, if there is to be a resend.
    #[must_use]
    pub const fn delay(&self) -> Option<Duration> {
        match self {
            Self::RetryAfter { delay, .. } => Some(*delay),
            Self::DoNotRetry { .. } => None,
        }
    }

    /// What calls for the resend, if there is to be one.
    #[must_use]
    pub const fn retry_reason(&self) -> Option<RetryReason> {
        match self {
            Self::RetryAfter { reason, .. } => Some(*reason),
            Self::DoNotRetry { .. } => None,
        }
    }

    /// Who set the wait, if there is to be a resend.
    #[must_use]
    pub const fn delay_source(&self) -> Option<DelaySource> {
        match self {
            Self::RetryAfter { source, .. } => Some(*source),
            Self::DoNotRetry { .. } => None,
        }
    }

    /// Why not, if there is to be no resend.
    #[must_use]
    pub const fn stop_reason(&self) -> Option<StopReason> {
        match self {
            Self::RetryAfter { .. } => None,
            Self::DoNotRetry { reason } => Some(*reason),
        }
    }
}

impl fmt::Display for RetryDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RetryAfter { delay, reason, source } => {
                write!(f, "retry in {delay:.2?} (set by the {source}): {reason}")
            }
            Self::DoNotRetry { reason } => write!(f, "stop: {reason}"),
        }
    }
}

/// What calls for a resend. `Display` is for logs, [`as_str`](Self::as_str) for the labels of metrics.
///
/// ```
/// use http::StatusCode;
/// use reqwest_typed_retry::{FaultKind, RetryReason};
///
/// fn label(reason: RetryReason) -> &'static str {
///     match reason {
///         RetryReason::Status(_) => "the server answered",
///         RetryReason::Fault(_) => "the network failed",
///         _ => "something else", // new reasons may come
///     }
/// }
/// assert_eq!(label(RetryReason::Classifier), "something else");
///
/// let busy = RetryReason::Status(StatusCode::SERVICE_UNAVAILABLE);
/// assert_eq!((busy.as_str(), busy.to_string().as_str()), ("status", "status 503"));
/// assert_eq!(RetryReason::Fault(FaultKind::Timeout).as_str(), "timeout");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RetryReason {
    /// A status that the policy or its [profile](crate::ApiProfile) lists.
    Status(StatusCode),
    /// A fault that the policy lists.
    Fault(FaultKind),
    /// The server said so in a [field](crate::ApiProfile::verdict_field) that the profile knows.
    ServerDirective,
    /// A [classifier](crate::Classifier) of the application's own said so.
    Classifier,
}

impl RetryReason {
    /// A stable, low-cardinality label. Statuses share one: the number is in the variant. A fault has that
    /// of its [kind](FaultKind::as_str).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Status(_) => "status",
            Self::Fault(kind) => kind.as_str(),
            Self::ServerDirective => "server_directive",
            Self::Classifier => "classifier",
        }
    }
}

impl fmt::Display for RetryReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {}", status.as_u16()),
            other => f.write_str(other.as_str()),
        }
    }
}

/// Who set a delay.
///
/// ```
/// use reqwest_typed_retry::DelaySource;
///
/// fn asked_for(source: DelaySource) -> bool {
///     match source {
///         DelaySource::Server | DelaySource::Classifier => true,
///         DelaySource::Backoff | DelaySource::ThrottleBackoff => false,
///         _ => false, // new sources may come
///     }
/// }
/// assert!(asked_for(DelaySource::Server) && !asked_for(DelaySource::Backoff));
/// assert_eq!(DelaySource::ThrottleBackoff.as_str(), "throttle_backoff");
/// assert_eq!(DelaySource::Server.to_string(), "server");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DelaySource {
    /// The policy's [backoff](crate::RetryPolicyBuilder::backoff).
    Backoff,
    /// The policy's [backoff for a 429](crate::RetryPolicyBuilder::throttle_backoff) without a server delay.
    ThrottleBackoff,
    /// The server, by `Retry-After` or another field that the profile knows.
    Server,
    /// A [classifier](crate::Classifier) of the application's own.
    Classifier,
}

impl DelaySource {
    /// A stable, low-cardinality label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Backoff => "backoff",
            Self::ThrottleBackoff => "throttle_backoff",
            Self::Server => "server",
            Self::Classifier => "classifier",
        }
    }
}

impl fmt::Display for DelaySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which rule ended a logical request. `Display` is for logs, [`as_str`](Self::as_str) for the labels of
/// metrics.
///
/// ```
/// use reqwest_typed_retry::StopReason;
///
/// fn advice(reason: StopReason) -> &'static str {
///     match reason {
///         StopReason::Completed => "nothing to do",
///         StopReason::NotIdempotent => "look whether it took effect",
///         other if other.is_giving_up() => "try later",
///         _ => "read the response", // new reasons may come
///     }
/// }
/// assert_eq!(advice(StopReason::NotIdempotent), "look whether it took effect");
/// assert_eq!(advice(StopReason::BudgetExhausted), "try later");
/// assert_eq!(advice(StopReason::Permanent), "read the response");
///
/// assert_eq!(StopReason::BudgetExhausted.as_str(), "budget_exhausted");
/// let shown = StopReason::BudgetExhausted.to_string();
/// assert_eq!(shown, "budget_exhausted (the client's own retry budget is empty)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// There was nothing to retry: the response is below 400.
    Completed,
    /// A resend would meet the same status or fault again: it is not listed as transient, or a
    /// [classifier](crate::Classifier) says so.
    Permanent,
    /// The failure is transient, but the request might take effect twice (RFC 9110 9.2.2).
    NotIdempotent,
    /// The policy's last attempt has been sent.
    AttemptsExhausted,
    /// The server, or a [classifier](crate::Classifier), asked for a longer wait than the policy
    /// [allows](crate::ServerDelays::UpTo).
    #[non_exhaustive]
    ServerDelayTooLong {
        /// What it asked for.
        asked: Duration,
        /// What the policy allows.
        allowed: Duration,
    },
    /// The server said, of a status that is transient otherwise, that a resend is of no use: in a
    /// [field](crate::ApiProfile::verdict_field) that the profile knows.
    ServerRefused,
    /// The wait would not end before the deadline.
    DeadlineWouldPass,
    /// The deadline passed while an attempt was under way, or about to be. Decided by the driver of a
    /// session.
    DeadlinePassed,
    /// The client's own [`RetryBudget`](crate::RetryBudget) for this origin is empty. No limit of the
    /// server's: its outcome is returned as it came. Decided by the driver of a session.
    BudgetExhausted,
    /// The request body can't be sent again. Decided by the driver of a session.
    BodyNotReplayable,
    /// The caller cancelled. Decided by the driver of a session.
    Cancelled,
}

impl StopReason {
    /// A stable, low-cardinality label, without the numbers that `Display` shows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Permanent => "permanent",
            Self::NotIdempotent => "not_idempotent",
            Self::AttemptsExhausted => "attempts_exhausted",
            Self::ServerDelayTooLong { .. } => "server_delay_too_long",
            Self::ServerRefused => "server_refused",
            Self::DeadlineWouldPass => "deadline_would_pass",
            Self::DeadlinePassed => "deadline_passed",
            Self::BudgetExhausted => "budget_exhausted",
            Self::BodyNotReplayable => "body_not_replayable",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether a transient failure was given up: every reason but [`Completed`](Self::Completed) and
    /// [`Permanent`](Self::Permanent). A success or a 404 has nothing to give up.
    #[must_use]
    pub const fn is_giving_up(self) -> bool {
        !matches!(self, Self::Completed | Self::Permanent)
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServerDelayTooLong { asked, allowed } => {
                write!(f, "server_delay_too_long (asked {asked:?}, allowed {allowed:?})")
            }
            Self::BudgetExhausted => {
                f.write_str("budget_exhausted (the client's own retry budget is empty)")
            }
            other => f.write_str(other.as_str()),
        }
    }
}
