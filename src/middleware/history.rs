//! What happened before the final outcome.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;

use crate::policy::{Fault, RetryDecision, StopReason};

/// How one attempt of a [`RetryHistory`] ended.
///
/// ```
/// use http::StatusCode;
/// use reqwest_typed_retry::{AttemptOutcome, Fault, FaultKind};
///
/// let answered = AttemptOutcome::Status(StatusCode::BAD_GATEWAY);
/// assert_eq!(answered.status(), Some(StatusCode::BAD_GATEWAY));
/// assert_eq!(answered.fault(), None);
///
/// let lost = AttemptOutcome::Fault(Fault::unknown(FaultKind::ConnectionLost));
/// assert_eq!(lost.fault().map(Fault::kind), Some(FaultKind::ConnectionLost));
/// assert_eq!(lost.status(), None);
/// assert_eq!(format!("{answered}, {lost}"), "status 502, fault connection_lost (delivery unknown)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttemptOutcome {
    /// With a response.
    Status(StatusCode),
    /// With a fault.
    Fault(Fault),
}

impl AttemptOutcome {
    /// The status, if a response arrived.
    #[must_use]
    pub const fn status(self) -> Option<StatusCode> {
        match self {
            Self::Status(status) => Some(status),
            Self::Fault(_) => None,
        }
    }

    /// The fault, if no response arrived.
    #[must_use]
    pub const fn fault(self) -> Option<Fault> {
        match self {
            Self::Status(_) => None,
            Self::Fault(fault) => Some(fault),
        }
    }
}

impl fmt::Display for AttemptOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {}", status.as_u16()),
            Self::Fault(fault) => write!(f, "fault {fault}"),
        }
    }
}

/// One attempt of a [`RetryHistory`], also told to a [`RetryObserver`](crate::RetryObserver).
///
/// ```
/// # use std::time::Duration;
/// # use reqwest::StatusCode;
/// # use reqwest_middleware::ClientBuilder;
/// # use reqwest_typed_retry::test_util::{Reply, Script};
/// use reqwest_typed_retry::{DelaySource, FaultKind, RetryTracker, StopReason};
/// # use reqwest_typed_retry::{Fault, RetryMiddleware};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Script::new([
/// #     Reply::status(StatusCode::SERVICE_UNAVAILABLE).header("retry-after", 2),
/// #     Reply::connect_error().after(Duration::from_secs(1)),
/// #     Reply::status(StatusCode::OK),
/// # ]);
/// # let client = ClientBuilder::new(reqwest::Client::new())
/// #     .with(RetryMiddleware::default())
/// #     .with(network.clone())
/// #     .build();
/// // A 503 with `Retry-After: 2`, then a connection that does not come about, then a 200.
/// let tracker = RetryTracker::new();
/// client.get("http://api.test/").with_extension(tracker.clone()).send().await?;
/// let history = tracker.history().ok_or("the call has ended")?;
/// let [first, second, third] = history.attempts() else { return Err("three attempts".into()) };
///
/// assert_eq!((first.number(), first.started()), (1, Duration::ZERO));
/// assert_eq!(first.outcome().status(), Some(StatusCode::SERVICE_UNAVAILABLE));
/// assert_eq!(first.server_delay(), Some(Duration::from_secs(2)));
/// assert_eq!(first.decision().delay_source(), Some(DelaySource::Server));
///
/// assert!(second.started() >= Duration::from_secs(2));
/// assert_eq!(second.outcome().fault().map(Fault::kind), Some(FaultKind::Connect));
/// assert!(!second.proven_not_processed()); // the fault only seems so: proof takes a `DeliveryProof`
///
/// assert_eq!(third.decision().stop_reason(), Some(StopReason::Completed));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    number: u32,
    started: Duration,
    outcome: AttemptOutcome,
    proven_not_processed: bool,
    server_delay: Option<Duration>,
    decision: RetryDecision,
}

impl AttemptRecord {
    pub(super) fn new(
        number: u32,
        started: Duration,
        outcome: AttemptOutcome,
        proven_not_processed: bool,
        server_delay: Option<Duration>,
        decision: RetryDecision,
    ) -> Self {
        Self { number, started, outcome, proven_not_processed, server_delay, decision }
    }

    /// The attempt's number, counted from 1; of a [`SharedSession`](crate::SharedSession), over all of its
    /// requests.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// When it was sent, counted from the beginning of the call; of a
    /// [`SharedSession`](crate::SharedSession), from its making.
    #[must_use]
    pub fn started(&self) -> Duration {
        self.started
    }

    /// How it ended.
    #[must_use]
    pub fn outcome(&self) -> AttemptOutcome {
        self.outcome
    }

    /// Whether it is proven that the server did not act on it. The delivery of a fault alone is no
    /// such proof: see [`DeliveryProof`](crate::DeliveryProof).
    #[must_use]
    pub fn proven_not_processed(&self) -> bool {
        self.proven_not_processed
    }

    /// What the server asked the client to wait, whether or not it did. `None` too where the policy
    /// ignores what servers ask.
    #[must_use]
    pub fn server_delay(&self) -> Option<Duration> {
        self.server_delay
    }

    /// What followed: a wait and its reason, or the stop.
    pub fn decision(&self) -> RetryDecision {
        self.decision
    }
}

impl fmt::Display for AttemptRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {}", self.number)?;
        if self.started >= Duration::from_millis(1) {
            write!(f, " after {:.2?}", self.started)?;
        }
        write!(f, ": {}; {}", self.outcome, self.decision)
    }
}

/// The attempts of one logical request, in order.
///
/// It is in the extensions of a response that came after a resend, or that gave up a transient
/// failure; a first-try success or a plain 404 carries none. For errors, for every call, and in a browser, attach
/// a [`RetryTracker`]. Under a [`SharedSession`](crate::SharedSession) each request has a history of
/// its own: what its loop decides is in none.
///
/// `Display` gives one line an attempt, without any part of the URL.
///
/// ```
/// # use std::time::Duration;
/// # use reqwest::StatusCode;
/// # use reqwest_middleware::ClientBuilder;
/// # use reqwest_typed_retry::test_util::{Reply, Script};
/// # use reqwest_typed_retry::{Jitter, RetryMiddleware, RetryPolicy};
/// use reqwest_typed_retry::{RetryHistory, StopReason};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Script::new([
/// #     Reply::status(StatusCode::SERVICE_UNAVAILABLE).header("retry-after", 2),
/// #     Reply::connect_error(),
/// #     Reply::status(StatusCode::NOT_FOUND),
/// # ]);
/// # let policy = RetryPolicy::builder().jitter(Jitter::None).build()?;
/// # let client = ClientBuilder::new(reqwest::Client::new())
/// #     .with(RetryMiddleware::new(policy))
/// #     .with(network)
/// #     .build();
/// let response = client.delete("http://api.test/orders/17").send().await?;
/// assert_eq!(response.status(), StatusCode::NOT_FOUND);
///
/// let history = response.extensions().get::<RetryHistory>().ok_or("it came after a resend")?;
/// assert_eq!((history.attempts().len(), history.resends()), (3, 2));
/// assert_eq!(history.stop_reason(), StopReason::Permanent);
/// assert_eq!(history.server_delay(), Some(Duration::from_secs(2)));
/// // It may be gone because an earlier attempt of this very call has deleted it.
/// assert!(history.earlier_may_have_taken_effect());
/// assert_eq!(
///     history.to_string(),
///     "attempt 1: status 503; retry in 2.00s (set by the server): status 503\n\
///      attempt 2 after 2.00s: fault connect (seems not processed); \
///      retry in 200.00ms (set by the backoff): connect\n\
///      attempt 3 after 2.20s: status 404; stop: permanent"
/// );
/// # Ok(()) }
/// ```
///
/// # As JSON
///
/// With the feature `serde` it is `Serialize`, and so is each [`AttemptRecord`]. Times are in seconds.
///
/// | field | what |
/// |---|---|
/// | `attempts` | one object an attempt; empty, if the call ended before its first |
/// | `stop_reason` | [`stop_reason`](Self::stop_reason), by [`StopReason::as_str`] |
/// | `earlier_may_have_taken_effect` | [`earlier_may_have_taken_effect`](Self::earlier_may_have_taken_effect) |
///
/// | field of an attempt | what |
/// |---|---|
/// | `number` | counted from 1 |
/// | `started_seconds` | [`AttemptRecord::started`] |
/// | `status`, or `fault` | the status as a number, or [`FaultKind::as_str`](crate::FaultKind::as_str) |
/// | `delivery` | of a fault: [`Delivery::as_str`](crate::Delivery::as_str), which alone is no proof |
/// | `proven_not_processed` | [`AttemptRecord::proven_not_processed`]: proven, by a [`DeliveryProof`](crate::DeliveryProof) |
/// | `server_delay_seconds` | [`AttemptRecord::server_delay`]; not there without one |
/// | `retry`, or `stop` | what followed |
/// | `retry.delay_seconds` | the wait |
/// | `retry.reason` | [`RetryReason::as_str`](crate::RetryReason::as_str): `status`, `server_directive`, `classifier`, or the kind of the fault |
/// | `retry.delay_source` | [`DelaySource::as_str`](crate::DelaySource::as_str) |
/// | `stop.reason` | [`StopReason::as_str`], as the decision on this attempt has it |
///
/// ```
/// # use reqwest::StatusCode;
/// # use reqwest_middleware::ClientBuilder;
/// # use reqwest_typed_retry::test_util::{Reply, Script};
/// # use reqwest_typed_retry::{Jitter, RetryMiddleware, RetryPolicy, RetryTracker};
/// use serde_json::json;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?
/// # .block_on(async {
/// # let busy = Reply::status(StatusCode::SERVICE_UNAVAILABLE).header("retry-after", 2);
/// # let network = Script::new([busy, Reply::connect_error()]);
/// # let policy = RetryPolicy::builder().max_attempts(2).jitter(Jitter::None).build()?;
/// # let retry = RetryMiddleware::new(policy);
/// # let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(network).build();
/// let tracker = RetryTracker::new();
/// let request = client.get("http://service.test/").with_extension(tracker.clone());
/// assert!(request.send().await.is_err()); // 503 with Retry-After: 2, then no connection
/// assert_eq!(
///     serde_json::to_value(tracker.history())?,
///     json!({
///         "attempts": [
///             {
///                 "number": 1,
///                 "started_seconds": 0.0,
///                 "status": 503,
///                 "proven_not_processed": false,
///                 "server_delay_seconds": 2.0,
///                 "retry": { "delay_seconds": 2.0, "reason": "status", "delay_source": "server" },
///             },
///             {
///                 "number": 2,
///                 "started_seconds": 2.0,
///                 "fault": "connect",
///                 "delivery": "not_processed",
///                 "proven_not_processed": false,
///                 "stop": { "reason": "attempts_exhausted" },
///             },
///         ],
///         "stop_reason": "attempts_exhausted",
///         "earlier_may_have_taken_effect": true,
///     })
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryHistory {
    attempts: Arc<[AttemptRecord]>,
    stop_reason: StopReason,
}

impl RetryHistory {
    pub(super) fn new(attempts: Vec<AttemptRecord>, stop_reason: StopReason) -> Self {
        Self { attempts: attempts.into(), stop_reason }
    }

    /// Every attempt, the last one included. None, if the call ended before its first.
    #[must_use]
    pub fn attempts(&self) -> &[AttemptRecord] {
        &self.attempts
    }

    /// How many resends there were: one less than attempts, and 0 if there was none.
    #[must_use]
    pub fn resends(&self) -> usize {
        self.attempts.len().saturating_sub(1)
    }

    /// Why no further attempt was made. It differs from the decision on the last one where something
    /// came between: a cancellation, or the deadline.
    #[must_use]
    pub fn stop_reason(&self) -> StopReason {
        self.stop_reason
    }

    /// What a server asked the client to wait, by the last attempt of which one did.
    #[must_use]
    pub fn server_delay(&self) -> Option<Duration> {
        self.attempts.iter().rev().find_map(|attempt| attempt.server_delay)
    }

    /// Whether an attempt **other than the last** may have taken effect: it was not proven otherwise, for
    /// which it takes a [`DeliveryProof`](crate::DeliveryProof). Then a 404 on DELETE, or a 409 on
    /// PUT, may be the echo of our own success.
    ///
    /// It says nothing of the last one: after a single POST that failed it is `false`, and that POST may
    /// well have taken effect. For that ask its [`AttemptRecord::proven_not_processed`].
    #[must_use]
    pub fn earlier_may_have_taken_effect(&self) -> bool {
        let (_, earlier) = self.attempts.split_last().unzip();
        earlier.unwrap_or_default().iter().any(|attempt| !attempt.proven_not_processed)
    }
}

impl fmt::Display for RetryHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, attempt) in self.attempts.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            attempt.fmt(f)?;
        }
        let told = self.attempts.last().and_then(|last| last.decision.stop_reason());
        if told.is_none() {
            let separator = if self.attempts.is_empty() { "" } else { "\n" };
            write!(f, "{separator}stop: {}", self.stop_reason)?;
        }
        Ok(())
    }
}

/// A handle on a request that receives its [`RetryHistory`], whatever the outcome: an error can't
/// carry one and stay what it is.
///
/// ```
/// # use reqwest_middleware::ClientBuilder;
/// # use reqwest_typed_retry::RetryMiddleware;
/// # use reqwest_typed_retry::test_util::{Reply, Script};
/// use reqwest_typed_retry::{RetryTracker, StopReason};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Script::always(Reply::dns_error());
/// # let client = ClientBuilder::new(reqwest::Client::new())
/// #     .with(RetryMiddleware::default())
/// #     .with(network.clone())
/// #     .build();
/// let tracker = RetryTracker::new();
/// assert!(tracker.history().is_none());
/// let result = client.get("http://api.test/").with_extension(tracker.clone()).send().await;
/// assert!(result.is_err());
/// let history = tracker.history().ok_or("the call has ended")?;
/// assert_eq!(history.resends(), 2);
/// assert_eq!(history.stop_reason(), StopReason::AttemptsExhausted);
/// # Ok(()) }
/// ```
///
/// # For every call
///
/// A middleware that is added before the retry layer attaches one to each call, with no change at the call
/// sites. One that a call site has attached is kept:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use http::Extensions;
/// use reqwest::{Request, Response, StatusCode};
/// use reqwest_middleware::{ClientBuilder, Middleware, Next};
/// # use reqwest_typed_retry::test_util::{Reply, Script};
/// use reqwest_typed_retry::{RetryMiddleware, RetryTracker};
///
/// struct CountsResends(Arc<AtomicUsize>);
///
/// #[async_trait::async_trait]
/// impl Middleware for CountsResends {
///     async fn handle(
///         &self,
///         request: Request,
///         extensions: &mut Extensions,
///         next: Next<'_>,
///     ) -> reqwest_middleware::Result<Response> {
///         let tracker = extensions.get_or_insert_with(RetryTracker::new).clone();
///         let result = next.run(request, extensions).await;
///         let resends = tracker.history().map_or(0, |history| history.resends());
///         self.0.fetch_add(resends, Ordering::Relaxed);
///         result
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Script::answering(|request| match request.url.path() {
/// #     "/down" => Reply::connect_error(),
/// #     _ => Reply::status(StatusCode::OK),
/// # });
/// let resends = Arc::new(AtomicUsize::new(0));
/// let client = ClientBuilder::new(reqwest::Client::new())
///     .with(CountsResends(resends.clone()))
///     .with(RetryMiddleware::default())
/// #     .with(network)
///     .build();
/// assert!(client.get("http://api.test/down").send().await.is_err()); // after three sends
/// assert!(client.get("http://api.test/up").send().await.is_ok()); // after one
/// assert_eq!(resends.load(Ordering::Relaxed), 2);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct RetryTracker {
    history: Arc<Mutex<Option<RetryHistory>>>,
}

impl RetryTracker {
    /// A tracker that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The history of the last request that ended with this tracker attached. `None` before that, for a call
    /// that was dropped before its end, and for a request that never reached the middleware: one that can't be
    /// built.
    #[must_use]
    pub fn history(&self) -> Option<RetryHistory> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn record(&self, history: RetryHistory) {
        *self.history.lock().unwrap_or_else(PoisonError::into_inner) = Some(history);
    }
}
