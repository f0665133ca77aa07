//! One count of attempts for several requests.

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use http::Method;

use super::time::{self, Instant};
use crate::fault_source;
use crate::policy::{Outcome, RetryDecision, RetryPolicy, RetrySession, RetryableMethod};

/// A [`RetrySession`] that a loop of the application's own shares with the middleware, so that both
/// count the same attempts: for those who read a body as a stream. When it is cut, the response has
/// long been handed out, so only the reader can ask for the rest.
///
/// Its policy takes the place of the client's for the requests that
/// [carry](crate::RetryRequestExt::retry_session) it, and its deadline runs from its making. Clones
/// share the count; it serves one request at a time.
///
/// ```no_run
/// use reqwest_typed_retry::{RetryPolicy, RetryRequestExt as _, SharedSession};
///
/// # async fn read(response: reqwest_middleware::reqwest::Response) -> reqwest_middleware::reqwest::Result<()> { Ok(()) }
/// # async fn download(client: reqwest_middleware::ClientWithMiddleware) -> reqwest_middleware::Result<()> {
/// let session = SharedSession::new(RetryPolicy::default());
/// loop {
///     let response = client.get("http://localhost/").retry_session(&session).send().await?;
///     match read(response.error_for_status()?).await {
///         Ok(()) => break,
///         // Waits if the policy allows another attempt; else gives the error back.
///         Err(error) => session.resend_after(error).await?,
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct SharedSession {
    state: Arc<Mutex<State>>,
    started: Instant,
}

#[derive(Debug)]
struct State {
    session: RetrySession,
    method: Method,
}

impl SharedSession {
    /// A session whose first attempt is yet to be sent.
    #[must_use]
    pub fn new(policy: RetryPolicy) -> Self {
        // Nothing is known of a request yet: the strictest class.
        let session = RetrySession::new(policy, RetryableMethod::NonIdempotent);
        let state = State { session, method: Method::GET };
        Self { state: Arc::new(Mutex::new(state)), started: Instant::now() }
    }

    /// The number of the current attempt, counted from 1.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.lock().session.attempts()
    }

    /// Asks the policy whether another request may follow the current one, whose response failed
    /// with `error` while it was read. If one may, the session moves on to that attempt: wait for
    /// the delay, then send.
    pub fn decide_after(&self, error: &(dyn Error + 'static)) -> RetryDecision {
        let State { session, method } = &mut *self.lock();
        let outcome = Outcome::error(fault_source::classify(error), error);
        // No field is read, so no date is either.
        let attempt = session
            .attempt_ended(method, outcome, SystemTime::UNIX_EPOCH)
            .with_elapsed(self.elapsed());
        session.decide(&attempt, &mut rand::rng())
    }

    /// [`decide_after`](Self::decide_after), and the wait.
    ///
    /// # Errors
    /// `error` itself, if the policy allows no further attempt.
    pub async fn resend_after<E: Error + 'static>(&self, error: E) -> Result<(), E> {
        let RetryDecision::RetryAfter { delay, .. } = self.decide_after(&error) else {
            return Err(error);
        };
        drop(error); // not held through the wait
        time::sleep(delay).await;
        Ok(())
    }

    pub(super) fn policy(&self) -> RetryPolicy {
        self.lock().session.policy().clone()
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// A request of this class is about to be sent.
    pub(super) fn begin(&self, method: &Method, class: RetryableMethod) {
        let state = &mut *self.lock();
        state.session.set_class(class);
        state.method.clone_from(method);
    }

    pub(super) fn session(&self) -> RetrySession {
        self.lock().session.clone()
    }

    /// Takes over what the middleware has counted.
    pub(super) fn moved_on(&self, session: &RetrySession) {
        self.lock().session.clone_from(session);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
