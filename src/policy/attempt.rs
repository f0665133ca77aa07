//! What a decision looks at.

use std::error::Error;
use std::fmt;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, Method, StatusCode};

use super::{Fault, RetryableMethod};

/// How an attempt ended. Its `Debug` shows the status or the fault, the names of the fields and the length
/// of the body: no value, and not the error, which may show the whole URL.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Outcome<'a> {
    /// A response head arrived.
    #[non_exhaustive]
    Response {
        /// Its status.
        status: StatusCode,
        /// Its fields.
        headers: &'a HeaderMap,
        /// Its body, where it has been read whole.
        body: Option<&'a [u8]>,
    },
    /// No response came back whole.
    #[non_exhaustive]
    Fault {
        /// What happened, and what that proves.
        fault: Fault,
        /// The error itself, for classifiers.
        error: Option<&'a (dyn Error + 'static)>,
    },
}

impl<'a> Outcome<'a> {
    /// A response whose body has not been read.
    #[must_use]
    #[inline]
    pub const fn response(status: StatusCode, headers: &'a HeaderMap) -> Self {
        Self::Response { status, headers, body: None }
    }

    /// A response whose body has been read whole.
    #[must_use]
    pub const fn response_with_body(
        status: StatusCode,
        headers: &'a HeaderMap,
        body: &'a [u8],
    ) -> Self {
        Self::Response { status, headers, body: Some(body) }
    }

    /// A fault known by its kind alone.
    #[must_use]
    pub const fn fault(fault: Fault) -> Self {
        Self::Fault { fault, error: None }
    }

    /// A fault and the error that it was read from.
    #[must_use]
    pub const fn error(fault: Fault, error: &'a (dyn Error + 'static)) -> Self {
        Self::Fault { fault, error: Some(error) }
    }

    /// The status, if a response arrived.
    #[must_use]
    pub const fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Response { status, .. } => Some(*status),
            Self::Fault { .. } => None,
        }
    }
}

impl fmt::Debug for Outcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Response { status, headers, body } => f
                .debug_struct("Response")
                .field("status", &status.as_u16())
                .field("fields", &headers.keys().map(HeaderName::as_str).collect::<Vec<_>>())
                .field("body_bytes", &body.map(<[u8]>::len))
                .finish(),
            Self::Fault { fault, error } => f
                .debug_struct("Fault")
                .field("fault", fault)
                .field("has_error", &error.is_some())
                .finish(),
        }
    }
}

/// One attempt that has ended: all that a decision depends on, and nothing else. Its `Debug` leaves out the
/// path, where secrets may be.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use http::{HeaderMap, Method, StatusCode};
/// use reqwest_typed_retry::{Attempt, Outcome, RetryDecision, RetryPolicy, RetryableMethod};
///
/// let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, "7".parse().unwrap())]);
/// let outcome = Outcome::response(StatusCode::SERVICE_UNAVAILABLE, &headers);
/// let attempt =
///     Attempt::new(1, RetryableMethod::Idempotent, &Method::GET, outcome, SystemTime::UNIX_EPOCH);
/// let decision = RetryPolicy::default().decide(&attempt, &mut rand::rng());
/// assert!(decision.delay() >= Some(Duration::from_secs(7)));
/// ```
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    number: u32,
    class: RetryableMethod,
    method: &'a Method,
    outcome: Outcome<'a>,
    now: SystemTime,
    host: &'a str,
    path: &'a str,
    not_processed: bool,
    elapsed: Duration,
    previous_delay: Option<Duration>,
    deadline: Option<Duration>,
}

impl<'a> Attempt<'a> {
    /// The attempt with this `number`, counted from 1 (0 is taken for 1). `now` is the wall clock
    /// when the outcome arrived; only HTTP dates are read against it.
    #[must_use]
    #[inline]
    pub fn new(
        number: u32,
        class: RetryableMethod,
        method: &'a Method,
        outcome: Outcome<'a>,
        now: SystemTime,
    ) -> Self {
        Self {
            number: number.max(1),
            class,
            method,
            outcome,
            now,
            host: "",
            path: "",
            not_processed: false,
            elapsed: Duration::ZERO,
            previous_delay: None,
            deadline: None,
        }
    }

    /// As its session counts it.
    #[inline]
    pub(super) const fn counted(
        mut self,
        number: u32,
        class: RetryableMethod,
        previous_delay: Option<Duration>,
    ) -> Self {
        self.number = number;
        self.class = class;
        self.previous_delay = previous_delay;
        self
    }

    /// Where the request went, for classifiers. **Default**: both empty.
    #[must_use]
    #[inline]
    pub const fn with_target(mut self, host: &'a str, path: &'a str) -> Self {
        self.host = host;
        self.path = path;
        self
    }

    /// Whether there is positive evidence that the server did not act on this attempt. An outcome
    /// that says so lifts method safety only together with this. **Default**: `false`.
    #[must_use]
    #[inline]
    pub const fn with_not_processed(mut self, not_processed: bool) -> Self {
        self.not_processed = not_processed;
        self
    }

    /// The time since the logical request began. **Default**: zero.
    #[must_use]
    #[inline]
    pub const fn with_elapsed(mut self, elapsed: Duration) -> Self {
        self.elapsed = elapsed;
        self
    }

    /// The wait before this attempt, if there was one. **Default**: none.
    #[must_use]
    #[inline]
    pub const fn with_previous_delay(mut self, delay: Option<Duration>) -> Self {
        self.previous_delay = delay;
        self
    }

    /// A limit on the whole logical request besides the policy's own, measured like
    /// [`elapsed`](Self::elapsed); the tighter one holds. **Default**: none.
    #[must_use]
    #[inline]
    pub const fn with_deadline(mut self, deadline: Option<Duration>) -> Self {
        self.deadline = deadline;
        self
    }

    /// The number of this attempt: 1 for the first send.
    #[must_use]
    #[inline]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// The class of the request's method.
    #[must_use]
    #[inline]
    pub const fn class(&self) -> RetryableMethod {
        self.class
    }

    /// The request's method.
    #[must_use]
    pub const fn method(&self) -> &'a Method {
        self.method
    }

    /// How the attempt ended.
    #[must_use]
    #[inline]
    pub const fn outcome(&self) -> Outcome<'a> {
        self.outcome
    }

    /// The wall clock when the outcome arrived.
    #[must_use]
    #[inline]
    pub const fn now(&self) -> SystemTime {
        self.now
    }

    /// The host of the request.
    #[must_use]
    pub const fn host(&self) -> &'a str {
        self.host
    }

    /// The path of the request.
    #[must_use]
    pub const fn path(&self) -> &'a str {
        self.path
    }

    /// Whether it is proven that the server did not act on this attempt.
    #[must_use]
    pub const fn not_processed(&self) -> bool {
        self.not_processed
    }

    /// The time since the logical request began.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// The wait before this attempt.
    #[must_use]
    pub const fn previous_delay(&self) -> Option<Duration> {
        self.previous_delay
    }

    /// The limit on the whole logical request besides the policy's own.
    #[must_use]
    pub const fn deadline(&self) -> Option<Duration> {
        self.deadline
    }
}

impl fmt::Debug for Attempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("number", &self.number)
            .field("class", &self.class)
            .field("method", self.method)
            .field("outcome", &self.outcome)
            .field("now", &self.now)
            .field("host", &self.host)
            .field("not_processed", &self.not_processed)
            .field("elapsed", &self.elapsed)
            .field("previous_delay", &self.previous_delay)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
