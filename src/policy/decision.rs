//! What a decision says.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

use super::FaultKind;

/// Send again after a delay, or stop; and why.
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

/// What calls for a resend.
///
/// ```
/// use reqwest_typed_retry::RetryReason;
///
/// fn label(reason: RetryReason) -> &'static str {
///     match reason {
///         RetryReason::Status(_) => "the server answered",
///         RetryReason::Fault(_) => "the network failed",
///         _ => "something else", // new reasons may come
///     }
/// }
/// assert_eq!(label(RetryReason::Classifier), "something else");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RetryReason {
    /// A status that the policy lists.
    Status(StatusCode),
    /// A fault that the policy lists.
    Fault(FaultKind),
    /// The server said so in a field that the profile knows.
    ServerDirective,
    /// A custom classifier said so.
    Classifier,
}

impl RetryReason {
    /// A stable, low-cardinality label. Statuses share one: the number is in the variant.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DelaySource {
    /// The policy's backoff.
    Backoff,
    /// The policy's backoff for a 429 without a server delay.
    ThrottleBackoff,
    /// The server, by `Retry-After` or another field that the profile knows.
    Server,
    /// A custom classifier.
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

/// Which rule ended a logical request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// There was nothing to retry: the response is below 400.
    Completed,
    /// A resend would meet the same status or fault again.
    Permanent,
    /// The failure is transient, but the request might take effect twice.
    NotIdempotent,
    /// The policy's last attempt has been sent.
    AttemptsExhausted,
    /// The server asked for a longer wait than the policy allows.
    #[non_exhaustive]
    ServerDelayTooLong {
        /// What the server asked for.
        asked: Duration,
        /// What the policy allows.
        allowed: Duration,
    },
    /// The server said that a resend is of no use.
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
    /// A stable, low-cardinality label.
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

    /// Whether a transient failure was given up. A success or a 404 has nothing to give up.
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
