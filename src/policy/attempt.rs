//! What a decision looks at.

use std::error::Error;
use std::fmt;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, Method, StatusCode};

use super::{Fault, RetryableMethod};

/// How an attempt ended. Its `Debug` shows the status or the fault, the names of the fields and the length
/// of the body: no value, and not the error, which may show the whole URL.
///
/// ```
/// use std::io::{Error, ErrorKind};
/// use http::{HeaderMap, StatusCode};
/// use reqwest_typed_retry::{Fault, FaultKind, Outcome, fault_source};
///
/// fn shown(outcome: Outcome<'_>) -> String {
///     match outcome {
///         Outcome::Response { status, body: None, .. } => format!("{}", status.as_u16()),
///         Outcome::Response { status, body: Some(body), .. } => {
///             format!("{}, {} bytes", status.as_u16(), body.len())
///         }
///         Outcome::Fault { fault, .. } => format!("{fault}"),
///         _ => "something new".to_owned(),
///     }
/// }
/// let headers = HeaderMap::new();
/// assert_eq!(shown(Outcome::response(StatusCode::BAD_GATEWAY, &headers)), "502");
/// assert_eq!(shown(Outcome::response_with_body(StatusCode::OK, &headers, b"busy")), "200, 4 bytes");
///
/// let timeout = Outcome::fault(Fault::unknown(FaultKind::Timeout));
/// assert_eq!(shown(timeout), "timeout (delivery unknown)");
/// assert_eq!(timeout.status(), None);
///
/// // Another client's error: classifiers see it too.
/// let error = Error::from(ErrorKind::ConnectionReset);
/// let reset = Outcome::error(fault_source::classify(&error), &error);
/// assert_eq!(shown(reset), "connection_lost (delivery unknown)");
/// ```
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
        /// The error itself, for classifiers. In the middleware it is there, and it is always a
        /// [`reqwest_middleware::Error`], whoever made it; in the loop of a
        /// [`SharedSession`](crate::SharedSession) it is the one that the session was told. See
        /// [`Classifier`](crate::Classifier#by-the-error).
        error: Option<&'a (dyn Error + 'static)>,
    },
}

impl<'a> Outcome<'a> {
    /// A response whose body has not been read, or not whole.
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

    /// A fault without the error that it was read from.
    #[must_use]
    pub const fn fault(fault: Fault) -> Self {
        Self::Fault { fault, error: None }
    }

    /// A fault and the error that it was read from, such as by
    /// [`fault_source::classify`](crate::fault_source::classify). The middleware gives a
    /// [`reqwest_middleware::Error`] here, so what tests a classifier for it does the same.
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
/// use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};
/// use http::{Method, StatusCode};
/// use reqwest_typed_retry::{Attempt, Outcome, RetryPolicy, RetryableMethod};
///
/// let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("7"))]);
/// let outcome = Outcome::response(StatusCode::SERVICE_UNAVAILABLE, &headers);
/// let attempt =
///     Attempt::new(1, RetryableMethod::Idempotent, &Method::GET, outcome, SystemTime::now());
/// let decision = RetryPolicy::default().decide(&attempt, &mut rand::rng());
/// assert!(decision.delay() >= Some(Duration::from_secs(7)));
/// ```
///
/// What else is known of it is added. A [`Classifier`](crate::Classifier) can read all of it:
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use http::Method;
/// use reqwest_typed_retry::{Attempt, Fault, FaultKind, Outcome, RetryPolicy, RetryableMethod};
///
/// let secs = Duration::from_secs;
/// let (class, now) = (RetryableMethod::NonIdempotent, SystemTime::now());
/// let outcome = Outcome::fault(Fault::not_processed(FaultKind::Connect));
/// let attempt = Attempt::new(2, class, &Method::POST, outcome, now)
///     .with_target("api.test", "/orders")
///     .with_sole_exchange(true)
///     .with_elapsed(secs(3))
///     .with_previous_delay(Some(secs(1)))
///     .with_deadline(Some(secs(10)));
///
/// assert_eq!((attempt.number(), attempt.class(), attempt.now()), (2, class, now));
/// assert_eq!((attempt.host(), attempt.path()), ("api.test", "/orders"));
/// assert_eq!((attempt.elapsed(), attempt.previous_delay()), (secs(3), Some(secs(1))));
/// assert_eq!(attempt.deadline(), Some(secs(10)));
/// assert_eq!((attempt.method(), attempt.is_sole_exchange()), (&Method::POST, true));
/// assert_eq!(attempt.outcome().status(), None);
///
/// // No connection came about, which is proven: this POST may be sent again.
/// assert!(RetryPolicy::default().decide(&attempt, &mut rand::rng()).delay().is_some());
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
    is_sole_exchange: bool,
    elapsed: Duration,
    previous_delay: Option<Duration>,
    deadline: Option<Duration>,
}

impl<'a> Attempt<'a> {
    /// The attempt with this `number`, counted from 1 (0 is taken for 1), of a request whose `class` is
    /// that of [`RetryPolicy::method_class`](crate::RetryPolicy::method_class). `now` is the wall clock
    /// when the outcome arrived; only the dates in response fields are read against it.
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
            is_sole_exchange: false,
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

    /// Where the request went, for [classifiers](crate::Classifier): no rule of the policy's own looks at it.
    /// **Default**: both empty.
    #[must_use]
    #[inline]
    pub const fn with_target(mut self, host: &'a str, path: &'a str) -> Self {
        self.host = host;
        self.path = path;
        self
    }

    /// Whether there is positive evidence that the outcome is that of the only exchange of this attempt: no
    /// redirect has carried the request on after another server acted on it. An outcome that says
    /// "not processed", by its [`Delivery`](crate::Delivery) or by a
    /// [status](crate::RetryPolicyBuilder::not_processed_statuses), lifts method safety only together with
    /// this. The middleware has it from a [`DeliveryProof`](crate::DeliveryProof). **Default**: `false`.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use http::Method;
    /// use reqwest_typed_retry::{
    ///     Attempt, Fault, FaultKind, Outcome, RetryPolicy, RetryableMethod, StopReason,
    /// };
    ///
    /// let decide = |fault, proven| {
    ///     let (class, outcome) = (RetryableMethod::NonIdempotent, Outcome::fault(fault));
    ///     let attempt = Attempt::new(1, class, &Method::POST, outcome, SystemTime::now());
    ///     RetryPolicy::default().decide(&attempt.with_sole_exchange(proven), &mut rand::rng())
    /// };
    /// let refused = Fault::not_processed(FaultKind::Connect);
    /// assert_eq!(decide(refused, false).stop_reason(), Some(StopReason::NotIdempotent));
    /// assert_eq!(decide(refused, true).stop_reason(), None);
    ///
    /// let lost = Fault::unknown(FaultKind::ConnectionLost);
    /// assert_eq!(decide(lost, true).stop_reason(), Some(StopReason::NotIdempotent));
    /// ```
    #[must_use]
    #[inline]
    pub const fn with_sole_exchange(mut self, is_sole: bool) -> Self {
        self.is_sole_exchange = is_sole;
        self
    }

    /// The time since the logical request began: what deadlines are compared with. **Default**: zero.
    #[must_use]
    #[inline]
    pub const fn with_elapsed(mut self, elapsed: Duration) -> Self {
        self.elapsed = elapsed;
        self
    }

    /// The wait before this attempt, if there was one. Only a
    /// [decorrelated](crate::Backoff::decorrelated) backoff looks at it. **Default**: none.
    #[must_use]
    #[inline]
    pub const fn with_previous_delay(mut self, delay: Option<Duration>) -> Self {
        self.previous_delay = delay;
        self
    }

    /// A limit on the whole logical request besides the policy's own
    /// [deadline](crate::RetryPolicyBuilder::deadline), measured like [`elapsed`](Self::elapsed); the
    /// tighter one holds. **Default**: none.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::Method;
    /// use reqwest_typed_retry::{
    ///     Attempt, Fault, FaultKind, Outcome, RetryPolicy, RetryableMethod, StopReason,
    /// };
    ///
    /// let outcome = Outcome::fault(Fault::unknown(FaultKind::Timeout));
    /// let attempt =
    ///     Attempt::new(1, RetryableMethod::Idempotent, &Method::GET, outcome, SystemTime::now())
    ///         .with_elapsed(Duration::from_secs(5))
    ///         .with_deadline(Some(Duration::from_secs(5)));
    /// let decision = RetryPolicy::default().decide(&attempt, &mut rand::rng());
    /// assert_eq!(decision.stop_reason(), Some(StopReason::DeadlineWouldPass));
    /// ```
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

    /// The host of the request; empty if it was not told.
    #[must_use]
    pub const fn host(&self) -> &'a str {
        self.host
    }

    /// The path of the request, without its query; empty if it was not told.
    #[must_use]
    pub const fn path(&self) -> &'a str {
        self.path
    }

    /// Whether its outcome is known to be that of its only exchange: see
    /// [`with_sole_exchange`](Self::with_sole_exchange).
    #[must_use]
    pub const fn is_sole_exchange(&self) -> bool {
        self.is_sole_exchange
    }

    /// The time since the logical request began.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// The wait before this attempt, if there was one.
    #[must_use]
    pub const fn previous_delay(&self) -> Option<Duration> {
        self.previous_delay
    }

    /// The limit on the whole logical request besides the policy's own, if there is one.
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
            .field("is_sole_exchange", &self.is_sole_exchange)
            .field("elapsed", &self.elapsed)
            .field("previous_delay", &self.previous_delay)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
