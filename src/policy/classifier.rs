//! Rules that only the application knows.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Attempt;

/// What a [`Classifier`] says of an attempt.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use http::{HeaderMap, Method, StatusCode};
/// use reqwest_typed_retry::{
///     Attempt, DelaySource, Jitter, Outcome, RetryPolicy, RetryableMethod, StopReason, Verdict,
/// };
///
/// let secs = Duration::from_secs;
/// # let headers = HeaderMap::new();
/// let outcome = Outcome::response(StatusCode::SERVICE_UNAVAILABLE, &headers);
/// let (class, now) = (RetryableMethod::Idempotent, SystemTime::now());
/// let attempt = Attempt::new(1, class, &Method::GET, outcome, now);
/// let decide = |verdict| {
///     let builder = RetryPolicy::builder().jitter(Jitter::None);
///     let policy = builder.classifier(move |_: &Attempt<'_>| Some(verdict)).build()?;
///     Ok::<_, reqwest_typed_retry::PolicyError>(policy.decide(&attempt, &mut rand::rng()))
/// };
/// let decision = decide(Verdict::Transient { delay: Some(secs(8)) })?;
/// assert_eq!(decision.delay(), Some(secs(8)));
/// assert_eq!(decision.delay_source(), Some(DelaySource::Classifier));
/// assert_eq!(decide(Verdict::Permanent)?.stop_reason(), Some(StopReason::Permanent));
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Worth another send, if method safety and the limits allow it.
    Transient {
        /// The wait, treated like a delay that the server asked for: it takes precedence over the
        /// server's own fields, is never undercut, is stretched by the same [`Jitter`](crate::Jitter), and is
        /// bound by the same limit, if [`ServerDelays`](crate::ServerDelays) sets one. `None` or zero
        /// leaves it to those fields and the backoff.
        delay: Option<Duration>,
    },
    /// Not worth another send: the call ends with this outcome, as
    /// [`StopReason::Permanent`](crate::StopReason::Permanent).
    Permanent,
}

/// A rule of the application's own: asked before all others, for every outcome, successes
/// included. It has no opinion (`None`), or the last word on whether an outcome is transient;
/// it can't lift method safety or a limit.
///
/// Closures are classifiers:
///
/// ```
/// use std::time::SystemTime;
/// use http::{HeaderMap, Method, StatusCode};
/// use reqwest_typed_retry::{Attempt, Outcome, RetryPolicy, RetryableMethod, StopReason, Verdict};
///
/// // This scanner answers 403 until it has looked at the package.
/// let policy = RetryPolicy::builder()
///     .classifier(|attempt: &Attempt<'_>| {
///         (attempt.path().starts_with("/pkg/")
///             && attempt.outcome().status() == Some(StatusCode::FORBIDDEN))
///         .then_some(Verdict::Transient { delay: None })
///     })
///     .build()?;
///
/// # let headers = HeaderMap::new();
/// let forbidden = Outcome::response(StatusCode::FORBIDDEN, &headers);
/// let (class, now) = (RetryableMethod::Idempotent, SystemTime::now());
/// let attempt = Attempt::new(1, class, &Method::GET, forbidden, now);
/// let stop = |path| {
///     policy.decide(&attempt.with_target("scan.test", path), &mut rand::rng()).stop_reason()
/// };
/// assert_eq!(stop("/pkg/left-pad"), None);
/// assert_eq!(stop("/admin"), Some(StopReason::Permanent));
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
///
/// A type of its own can be named, and tested by itself:
///
/// ```
/// use std::time::SystemTime;
/// use http::Method;
/// use reqwest_typed_retry::{
///     Attempt, Classifier, Fault, FaultKind, Outcome, RetryPolicy, RetryableMethod, Verdict,
/// };
///
/// /// Hosts inside one cluster are there or they are not.
/// struct NoRetriesInside;
///
/// impl Classifier for NoRetriesInside {
///     fn classify(&self, attempt: &Attempt<'_>) -> Option<Verdict> {
///         attempt.host().ends_with(".cluster.local").then_some(Verdict::Permanent)
///     }
/// }
/// let outcome = Outcome::fault(Fault::unknown(FaultKind::Timeout));
/// let attempt =
///     Attempt::new(1, RetryableMethod::Idempotent, &Method::GET, outcome, SystemTime::now());
/// let inside = attempt.with_target("db.cluster.local", "/");
/// assert_eq!(NoRetriesInside.classify(&inside), Some(Verdict::Permanent));
/// assert_eq!(NoRetriesInside.classify(&attempt.with_target("api.test", "/")), None);
/// let policy = RetryPolicy::builder().classifier(NoRetriesInside).build()?;
/// assert_eq!(policy.decide(&inside, &mut rand::rng()).delay(), None);
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
///
/// With [`buffer_body`](crate::RetryMiddlewareBuilder::buffer_body) it sees the body of a response
/// that is not too long. A response that it calls transient comes back as it is, an `Ok(200)` too,
/// where no further attempt is allowed:
///
/// ```
/// # use std::time::SystemTime;
/// # use http::{HeaderMap, Method, StatusCode};
/// # use reqwest_typed_retry::{RetryReason, RetryableMethod};
/// use reqwest_typed_retry::{Attempt, Outcome, RetryMiddleware, RetryPolicy, Verdict};
///
/// // This API says "slow down" in a 200.
/// let policy = RetryPolicy::builder()
///     .classifier(|attempt: &Attempt<'_>| match attempt.outcome() {
///         Outcome::Response { body: Some(body), .. } if body.starts_with(b"slow down") => {
///             Some(Verdict::Transient { delay: None })
///         }
///         _ => None,
///     })
///     .build()?;
/// # let headers = HeaderMap::new();
/// let outcome = Outcome::response_with_body(StatusCode::OK, &headers, b"slow down, please");
/// # let class = RetryableMethod::Idempotent;
/// # let attempt = Attempt::new(1, class, &Method::GET, outcome, SystemTime::now());
/// let decision = policy.decide(&attempt, &mut rand::rng());
/// assert_eq!(decision.retry_reason(), Some(RetryReason::Classifier));
/// let retry = RetryMiddleware::builder(policy).buffer_body(64 * 1024).build()?;
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
///
/// # By the error
///
/// The error in an [`Outcome::Fault`](crate::Outcome::Fault) is a [`reqwest_middleware::Error`] in the middleware,
/// always: find that first, then what is inside. (In the loop of a [`SharedSession`](crate::SharedSession) it is
/// what the session was told. An error that has a status, by an inner `error_for_status`, is an
/// [`Outcome::Response`](crate::Outcome::Response) without fields.)
///
/// ```
/// use reqwest_middleware::{ClientBuilder, Error};
/// use reqwest_typed_retry::test_util::{Reply, Script};
/// use reqwest_typed_retry::{Attempt, Outcome, RetryMiddleware, RetryPolicy, Verdict};
///
/// /// What a middleware that signs requests says while its key is renewed.
/// #[derive(Debug)]
/// struct NoKeyYet;
/// # impl std::error::Error for NoKeyYet {}
/// # impl std::fmt::Display for NoKeyYet {
/// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("no key yet") }
/// # }
///
/// fn no_key_yet(attempt: &Attempt<'_>) -> Option<Verdict> {
///     let Outcome::Fault { error: Some(error), .. } = attempt.outcome() else { return None };
///     match error.downcast_ref::<Error>()? {
///         Error::Middleware(error) if error.is::<NoKeyYet>() => {
///             Some(Verdict::Transient { delay: None })
///         }
///         _ => None,
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let policy = RetryPolicy::builder().classifier(no_key_yet).build()?;
/// let script = Script::new([
///     Reply::error(|| Error::middleware(NoKeyYet)),
///     Reply::status(http::StatusCode::OK),
/// ]);
/// let client = ClientBuilder::new(reqwest::Client::new())
///     .with(RetryMiddleware::new(policy))
///     .with(script.clone())
///     .build();
/// assert_eq!(client.get("http://api.test/").send().await?.status(), 200);
/// assert_eq!(script.received().len(), 2);
/// # Ok(()) }
/// ```
pub trait Classifier: Send + Sync {
    /// The verdict on `attempt`, or `None` for no opinion: then the next classifier is asked, and after the
    /// last one the rules of the policy.
    fn classify(&self, attempt: &Attempt<'_>) -> Option<Verdict>;
}

impl<F> Classifier for F
where
    F: Fn(&Attempt<'_>) -> Option<Verdict> + Send + Sync,
{
    fn classify(&self, attempt: &Attempt<'_>) -> Option<Verdict> {
        self(attempt)
    }
}

/// The classifiers of a policy, in the order in which they are asked.
#[derive(Clone, Default)]
pub(super) struct Classifiers(Vec<Arc<dyn Classifier>>);

impl Classifiers {
    pub(super) fn push(&mut self, classifier: impl Classifier + 'static) {
        self.0.push(Arc::new(classifier));
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(super) fn classify(&self, attempt: &Attempt<'_>) -> Option<Verdict> {
        self.0.iter().find_map(|classifier| classifier.classify(attempt))
    }
}

impl fmt::Debug for Classifiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the application's own", self.0.len())
    }
}
