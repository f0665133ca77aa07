//! Rules that only the application knows.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Attempt;

/// What a [`Classifier`] says of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Worth another send, if method safety and the limits allow it.
    Transient {
        /// The wait, treated like a delay that the server asked for: it takes precedence over the
        /// server's own fields, is never undercut, and is bound by the same limit, if
        /// [`ServerDelays`](crate::ServerDelays) sets one. `None` or zero leaves it to those fields
        /// and the backoff.
        delay: Option<Duration>,
    },
    /// Not worth another send.
    Permanent,
}

/// A rule of the application's own: asked before all others, for every outcome, successes
/// included. It has no opinion (`None`), or the last word on whether an outcome is transient;
/// it can't lift method safety or a limit.
///
/// Closures are classifiers:
///
/// ```
/// use http::StatusCode;
/// use reqwest_typed_retry::{Attempt, RetryPolicy, Verdict};
///
/// // This scanner answers 403 until it has looked at the package.
/// let policy = RetryPolicy::builder()
///     .classifier(|attempt: &Attempt<'_>| {
///         (attempt.path().starts_with("/pkg/")
///             && attempt.outcome().status() == Some(StatusCode::FORBIDDEN))
///         .then_some(Verdict::Transient { delay: None })
///     })
///     .build()?;
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
///
/// With [`buffer_body`](crate::RetryMiddlewareBuilder::buffer_body) it sees the body of a response
/// that is not too long. A response that it calls transient comes back as it is, an `Ok(200)` too,
/// where no further attempt is allowed:
///
/// ```
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
/// let retry = RetryMiddleware::builder(policy).buffer_body(64 * 1024).build()?;
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
pub trait Classifier: Send + Sync {
    /// The verdict on `attempt`, or `None`.
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
