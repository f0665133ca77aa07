//! The errors of the middleware's own.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use http::Method;

use crate::fault_source;
use crate::policy::{Fault, FaultKind, StopReason};

type BoxError = Box<dyn Error + Send + Sync>;

/// An error that the retry layer itself makes; those of the network and of other middlewares are
/// passed on as they are, unless the client asked for
/// [`wrap_errors`](crate::RetryMiddlewareBuilder::wrap_errors).
///
/// Neither its `Display` nor its `Debug` shows any part of the URL but the origin, nor the error inside:
/// reqwest's own errors show the whole URL. What prints the chain of sources shows that too, as `{:?}` of a
/// [`reqwest_middleware::Error`] does: there `{}` or `{:#?}` shows ours alone.
///
/// It comes inside [`reqwest_middleware::Error::Middleware`]; [`RetryErrorExt::retry_error`] finds it there.
///
/// ```
/// # use std::time::Duration;
/// use http::Method;
/// # use reqwest_middleware::ClientBuilder;
/// # use reqwest_typed_retry::test_util::{Reply, Script};
/// # use reqwest_typed_retry::{RetryMiddleware, RetryPolicy};
/// use reqwest_typed_retry::{RetryErrorExt as _, StopReason};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let policy = RetryPolicy::builder().deadline(Duration::from_secs(10)).build()?;
/// # let client = ClientBuilder::new(reqwest::Client::new())
/// #     .with(RetryMiddleware::new(policy))
/// #     .with(Script::always(Reply::hang()))
/// #     .build();
/// // Of a client with a deadline of 10 s, whose server never answers.
/// let error = client.get("http://api.test/orders?token=secret").send().await.unwrap_err();
/// let ours = error.retry_error().ok_or("an error of the retry layer's own")?;
/// assert!(ours.is_deadline() && ours.is_timeout());
/// assert_eq!((ours.attempts(), ours.elapsed().as_secs()), (1, 10));
/// assert_eq!(ours.stop_reason(), Some(StopReason::DeadlinePassed));
/// assert_eq!((ours.method(), ours.origin()), (Some(&Method::GET), Some("http://api.test")));
/// assert_eq!(
///     ours.to_string(),
///     "the deadline passed (GET http://api.test, attempts: 1, stop: deadline_passed)"
/// );
/// # Ok(()) }
/// ```
///
/// What it can be:
///
/// ```
/// # use std::time::Duration;
/// # use reqwest::StatusCode;
/// # use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
/// # use reqwest_typed_retry::test_util::{Reply, Script};
/// # use reqwest_typed_retry::{
/// #     Cooldown, RetryErrorExt as _, RetryMiddleware, RetryPolicy, RetryRequestExt as _, RetryScope,
/// # };
/// # use tokio_util::sync::CancellationToken;
/// use reqwest_typed_retry::RetryError;
///
/// fn what(error: &RetryError) -> &'static str {
///     match error {
///         error if error.is_body() => "the body factory failed",
///         error if error.is_held_back() => "the server asked for quiet, and a cooldown kept to it",
///         error if error.is_cancelled() => "cancelled",
///         error if error.is_deadline() => "too slow: the deadline passed",
///         error if error.is_timeout() => "too slow: an attempt took too long",
///         _ => "the last error, wrapped", // by `wrap_errors`
///     }
/// }
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Script::answering(|request| match request.url.path() {
/// #     "/busy" => Reply::status(StatusCode::TOO_MANY_REQUESTS).header("retry-after", 50),
/// #     "/down" => Reply::connect_error(),
/// #     _ => Reply::hang(),
/// # });
/// # let policy = RetryPolicy::builder()
/// #     .head_timeout(Duration::from_secs(2))
/// #     .deadline(Duration::from_secs(5))
/// #     .build()?;
/// # let retry = RetryMiddleware::builder(policy).cooldown(Cooldown::by_origin()).wrap_errors();
/// # let client: ClientWithMiddleware = ClientBuilder::new(reqwest::Client::new())
/// #     .with(retry.build()?)
/// #     .with(network)
/// #     .build();
/// # let said = |result: reqwest_middleware::Result<reqwest::Response>| {
/// #     result.unwrap_err().retry_error().map(what)
/// # };
/// # let made = client.put("http://a.test/").body_factory(|| async { Err("no such file".into()) });
/// # assert_eq!(said(made.send().await), Some("the body factory failed"));
/// # assert_eq!(client.get("http://busy.test/busy").send().await?.status(), 429);
/// # let closed = client.get("http://busy.test/busy").send().await;
/// # assert_eq!(said(closed), Some("the server asked for quiet, and a cooldown kept to it"));
/// # let token = CancellationToken::new();
/// # token.cancel();
/// # let gone = RetryScope::new().cancel_on(token).run(client.get("http://a.test/").send()).await;
/// # assert_eq!(said(gone), Some("cancelled"));
/// # assert_eq!(said(client.get("http://a.test/").send().await), Some("too slow: the deadline passed"));
/// # let once = client.get("http://a.test/").no_retry().send().await;
/// # assert_eq!(said(once), Some("too slow: an attempt took too long"));
/// let down = client.get("http://api.test/down").send().await.unwrap_err();
/// assert_eq!(down.retry_error().map(what), Some("the last error, wrapped"));
/// # Ok(()) }
/// ```
pub struct RetryError {
    cause: Cause,
    call: Option<FailedCall>,
}

/// The call that an error ended.
#[derive(Debug)]
pub(super) struct FailedCall {
    pub(super) method: Method,
    /// No other part of the URL.
    pub(super) origin: Option<String>,
    pub(super) attempts: u32,
    pub(super) elapsed: Duration,
    pub(super) stop_reason: StopReason,
}

enum Cause {
    Body(BoxError),
    HeadTimeout,
    Deadline,
    Cancelled,
    HeldBack,
    /// The last error, for those who want all in one type.
    Last(reqwest_middleware::Error),
}

impl RetryError {
    fn new(cause: Cause) -> Self {
        Self { cause, call: None }
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

    pub(super) fn held_back() -> Self {
        Self::new(Cause::HeldBack)
    }

    pub(super) fn wrap(error: reqwest_middleware::Error) -> Self {
        Self::new(Cause::Last(error))
    }

    /// Takes note of the call that it ends.
    pub(super) fn of(self, call: FailedCall) -> Self {
        Self { call: Some(call), ..self }
    }

    /// Whether it was made in this call: one of another, which an inner middleware made and passes on,
    /// tells of that.
    pub(super) fn is_new(&self) -> bool {
        self.call.is_none()
    }

    /// What happened, as the policy sees it. What is inside the error of a factory is not asked: the
    /// call by which it gets its bytes is none of the request's attempts.
    fn fault(&self) -> Fault {
        Fault::unknown(match &self.cause {
            Cause::Body(_) => FaultKind::Invalid,
            Cause::HeadTimeout | Cause::Deadline => FaultKind::Timeout,
            Cause::Cancelled | Cause::HeldBack => FaultKind::Other,
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
            Cause::Body(_) | Cause::Cancelled | Cause::HeldBack => false,
        }
    }

    /// Whether it was the deadline that passed. Where it only kept a wait from starting, the outcome in
    /// hand came back instead: see [`StopReason::DeadlineWouldPass`].
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        matches!(self.cause, Cause::Deadline)
    }

    /// Whether a [`Cooldown`](crate::Cooldown) keeps the origin closed for longer than the deadline allows, and
    /// there is no outcome to give back: before the first attempt, or because it was not read whole. No
    /// time limit has passed then.
    #[must_use]
    pub fn is_held_back(&self) -> bool {
        matches!(self.cause, Cause::HeldBack)
    }

    /// Whether the call was cancelled, and there is no outcome to give back.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.cause, Cause::Cancelled)
    }

    /// How many times the request was sent, or was about to be; 0 if the call ended before its first attempt. Of
    /// a [`SharedSession`](crate::SharedSession), over all of its requests.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.call.as_ref().map_or(0, |call| call.attempts)
    }

    /// How long the call took. With a [`SharedSession`](crate::SharedSession), since that was made.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.call.as_ref().map_or(Duration::ZERO, |call| call.elapsed)
    }

    /// Which rule ended the call. `None` only as long as it goes on.
    #[must_use]
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.call.as_ref().map(|call| call.stop_reason)
    }

    /// The method of the request. `None` only as long as the call goes on.
    #[must_use]
    pub fn method(&self) -> Option<&Method> {
        self.call.as_ref().map(|call| &call.method)
    }

    /// Scheme, host and port of the request as the caller made it. `None` for a scheme that has no origin, and as
    /// long as the call goes on.
    #[must_use]
    pub fn origin(&self) -> Option<&str> {
        self.call.as_ref()?.origin.as_deref()
    }

    fn what(&self) -> &'static str {
        match self.cause {
            Cause::Body(_) => "the request body could not be made",
            Cause::HeadTimeout => "no response head came within the time limit",
            Cause::Deadline => "the deadline passed",
            Cause::Cancelled => "the request was cancelled",
            Cause::HeldBack => "the server asked for quiet for longer than the deadline allows",
            Cause::Last(_) => "the request failed",
        }
    }
}

impl fmt::Display for RetryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what())?;
        if let Some(FailedCall { method, origin, attempts, stop_reason, .. }) = &self.call {
            let origin = origin.as_deref().unwrap_or("");
            let separator = if origin.is_empty() { "" } else { " " };
            write!(f, " ({method}{separator}{origin}, attempts: {attempts}, stop: {stop_reason})")?;
        }
        Ok(())
    }
}

/// Not of the source: it may show the whole URL. [`Error::source`] has it.
impl fmt::Debug for RetryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryError").field("what", &self.what()).field("call", &self.call).finish()
    }
}

impl Error for RetryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.cause {
            Cause::Body(cause) => Some(cause.as_ref()),
            Cause::Last(error) => Some(error),
            Cause::HeadTimeout | Cause::Deadline | Cause::Cancelled | Cause::HeldBack => None,
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
/// # use std::time::Duration;
/// # use reqwest_middleware::ClientBuilder;
/// use reqwest_middleware::Error;
/// # use reqwest_typed_retry::test_util::{Reply, Script};
/// # use reqwest_typed_retry::{RetryMiddleware, RetryPolicy};
/// use reqwest_typed_retry::RetryErrorExt as _;
///
/// fn explain(error: &Error) -> &'static str {
///     match error.retry_error() {
///         Some(ours) if ours.is_cancelled() => "cancelled",
///         _ if error.timed_out() => "too slow",
///         _ if error.reqwest_error().is_some_and(reqwest::Error::is_connect) => "not reached",
///         _ => "failed",
///     }
/// }
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Script::answering(|request| match request.url.path() {
/// #     "/slow" => Reply::hang(),
/// #     "/down" => Reply::connect_error(),
/// #     _ => Reply::error(|| Error::middleware(std::io::Error::other("no token"))),
/// # });
/// # let policy = RetryPolicy::builder().attempt_timeout(Duration::from_secs(10)).build()?;
/// # let client = ClientBuilder::new(reqwest::Client::new())
/// #     .with(RetryMiddleware::new(policy))
/// #     .with(network)
/// #     .build();
/// let paths = ["/slow", "/down", "/unauthorised"];
/// let mut explained = Vec::new();
/// for path in paths {
///     let error = client.get(format!("http://api.test{path}")).send().await.unwrap_err();
///     explained.push(explain(&error));
///     // Out of a box, or out of an `anyhow::Error`:
///     let boxed: Box<dyn std::error::Error> = error.into();
///     assert!(boxed.downcast_ref::<Error>().is_some());
/// }
/// assert_eq!(explained, ["too slow", "not reached", "failed"]);
/// # Ok(()) }
/// ```
pub trait RetryErrorExt: sealed::Sealed {
    /// The error of the retry layer's own, if it is one, or one that it
    /// [wrapped](crate::RetryMiddlewareBuilder::wrap_errors).
    #[must_use]
    fn retry_error(&self) -> Option<&RetryError>;

    /// Whether a time limit passed: one of the retry layer's, or one of reqwest's, a connect timeout
    /// too. Not where a deadline only kept an attempt from starting.
    #[must_use]
    fn timed_out(&self) -> bool;

    /// The error of reqwest's inside, if there is one, also below the retry layer's own.
    #[must_use]
    fn reqwest_error(&self) -> Option<&reqwest::Error>;
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
            None => self.reqwest_error().is_some_and(fault_source::timed_out),
        }
    }

    fn reqwest_error(&self) -> Option<&reqwest::Error> {
        fault_source::reqwest_error(self)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for reqwest_middleware::Error {}
}
