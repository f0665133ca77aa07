//! The errors of the middleware's own.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::fault_source;
use crate::policy::{Fault, FaultKind, StopReason};

type BoxError = Box<dyn Error + Send + Sync>;

/// An error that the retry layer itself makes; those of the network and of other middlewares are
/// passed on as they are, unless the client asked for
/// [`wrap_errors`](crate::RetryMiddlewareBuilder::wrap_errors).
///
/// It comes inside [`reqwest_middleware::Error::Middleware`]; [`RetryErrorExt::retry_error`] finds it there.
#[derive(Debug)]
pub struct RetryError {
    cause: Cause,
    attempts: u32,
    elapsed: Option<Duration>,
    stop_reason: Option<StopReason>,
}

#[derive(Debug)]
enum Cause {
    Body(BoxError),
    HeadTimeout,
    Deadline,
    Cancelled,
    /// The last error, for those who want all in one type.
    Last(reqwest_middleware::Error),
}

impl RetryError {
    fn new(cause: Cause) -> Self {
        Self { cause, attempts: 0, elapsed: None, stop_reason: None }
    }

    pub(super) fn body(cause: BoxError) -> Self {
        Self::new(Cause::Body(cause))
    }

    pub(super) fn head_timeout() -> Self {
        Self::new(Cause::HeadTimeout)
    }

    pub(super) fn deadline() -> Self {
        Self::new(Cause::Deadline)
    }

    pub(super) fn cancelled() -> Self {
        Self::new(Cause::Cancelled)
    }

    pub(super) fn wrap(error: reqwest_middleware::Error) -> Self {
        Self::new(Cause::Last(error))
    }

    /// Takes note of the call that it ends.
    pub(super) fn after(
        self,
        attempts: u32,
        elapsed: Option<Duration>,
        stop_reason: StopReason,
    ) -> Self {
        Self { attempts, elapsed, stop_reason: Some(stop_reason), ..self }
    }

    /// Whether it was made in this call: one of another, which an inner middleware made and passes on,
    /// tells of that.
    pub(super) fn is_new(&self) -> bool {
        self.stop_reason.is_none()
    }

    /// What happened, as the policy sees it. What is inside the error of a factory is not asked: the
    /// call by which it gets its bytes is none of the request's attempts.
    fn fault(&self) -> Fault {
        Fault::unknown(match &self.cause {
            Cause::Body(_) => FaultKind::Invalid,
            Cause::HeadTimeout | Cause::Deadline => FaultKind::Timeout,
            Cause::Cancelled => FaultKind::Other,
            Cause::Last(error) => fault_source::classify(error).kind(),
        })
    }

    /// What `error` is for the policy, whoever made it.
    pub(super) fn fault_of(error: &(dyn Error + 'static)) -> Fault {
        let ours = match error.downcast_ref::<reqwest_middleware::Error>() {
            Some(error) => error.retry_error(),
            None => error.downcast_ref(),
        };
        ours.map_or_else(|| fault_source::classify(error), Self::fault)
    }

    /// Whether a [body factory](crate::RetryRequestExt::body_factory) failed: its attempt was not
    /// sent. The factory's own error is the [`source`](Error::source).
    #[must_use]
    pub fn is_body(&self) -> bool {
        matches!(self.cause, Cause::Body(_))
    }

    /// Whether a head timeout or a deadline passed, or the error inside says so of itself.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        match &self.cause {
            Cause::HeadTimeout | Cause::Deadline => true,
            Cause::Last(error) => error.timed_out(),
            Cause::Body(_) | Cause::Cancelled => false,
        }
    }

    /// Whether it was the deadline that passed. Where it only kept a wait from starting, the outcome in
    /// hand came back instead: see [`StopReason::DeadlineWouldPass`].
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        matches!(self.cause, Cause::Deadline)
    }

    /// Whether the call was cancelled, and there is no outcome to give back.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.cause, Cause::Cancelled)
    }

    /// How many times the request was sent, or was about to be.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How long the call took, if anything asked for a clock: a deadline, a scope, a classifier,
    /// `wrap_errors`. With a [`SharedSession`](crate::SharedSession), since that was made.
    #[must_use]
    pub fn elapsed(&self) -> Option<Duration> {
        self.elapsed
    }

    /// Which rule ended the call.
    #[must_use]
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.stop_reason
    }
}

impl fmt::Display for RetryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.cause {
            Cause::Body(_) => "the request body could not be made",
            Cause::HeadTimeout => "no response head came within the time limit",
            Cause::Deadline => "the deadline passed",
            Cause::Cancelled => "the request was cancelled",
            Cause::Last(_) => "the request failed",
        })?;
        if let Some(reason) = self.stop_reason {
            write!(f, " (attempts: {}, stop: {reason})", self.attempts)?;
        }
        Ok(())
    }
}

impl Error for RetryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.cause {
            Cause::Body(cause) => Some(cause.as_ref()),
            Cause::Last(error) => Some(error),
            Cause::HeadTimeout | Cause::Deadline | Cause::Cancelled => None,
        }
    }
}

impl From<RetryError> for reqwest_middleware::Error {
    fn from(error: RetryError) -> Self {
        Self::middleware(error)
    }
}

/// Questions to an error of a client chain, whoever made it. In an `anyhow::Error` or a box find the
/// [`reqwest_middleware::Error`] first, by `downcast_ref`.
///
/// ```
/// use reqwest_middleware::Error;
/// use reqwest_typed_retry::RetryErrorExt as _;
///
/// fn explain(error: &Error) -> &'static str {
///     match error.retry_error() {
///         Some(ours) if ours.is_cancelled() => "cancelled",
///         _ if error.timed_out() => "too slow",
///         _ => "failed",
///     }
/// }
/// ```
pub trait RetryErrorExt: sealed::Sealed {
    /// The error of the retry layer's own, if it is one.
    fn retry_error(&self) -> Option<&RetryError>;

    /// Whether a time limit passed: one of the retry layer's, or one of reqwest's, a connect timeout
    /// too. Not where a deadline only kept a resend from starting.
    fn timed_out(&self) -> bool;

    /// The error of reqwest's inside, if there is one, also below the retry layer's own.
    fn reqwest(&self) -> Option<&reqwest::Error>;
}

impl RetryErrorExt for reqwest_middleware::Error {
    fn retry_error(&self) -> Option<&RetryError> {
        match self {
            Self::Middleware(error) => error.downcast_ref(),
            Self::Reqwest(_) => None,
        }
    }

    fn timed_out(&self) -> bool {
        match self.retry_error() {
            Some(ours) => ours.is_timeout(),
            None => self.reqwest().is_some_and(reqwest::Error::is_timeout),
        }
    }

    fn reqwest(&self) -> Option<&reqwest::Error> {
        fault_source::reqwest_error(self)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for reqwest_middleware::Error {}
}
