//! One count of attempts for several requests.

use std::error::Error;
use std::fmt;
use std::mem;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Method;
use reqwest::{Request, Url};

use super::call::target;
use super::generator::Generator;
use super::history::{AttemptOutcome, AttemptRecord};
use super::identity::Identity;
use super::observe::{self, ObservedCall, Observers};
use super::wait::{Wait, Woken};
use super::{Endpoint, RetryError, RetryHistory, RetryMiddleware, RetryScope};
use crate::origin::{Account, RetryBudget};
use crate::policy::{
    IdempotencyKey, Outcome, RetryDecision, RetryPolicy, RetrySession, RetryableMethod, StopReason,
};
use crate::time::{Instant, WallClock};

/// A [`RetrySession`] that a loop of the application's own shares with the middleware, so that both
/// count the same attempts: for those who read a body as a stream. When it is cut, the response has
/// long been handed out, so only the reader can ask for the rest.
///
/// - Its **policy** takes the place of the client's for the requests that
///   [carry](crate::RetryRequestExt::retry_session) it, and its deadline runs from its making. That policy
///   should have no attempt timeout, which would cut a long body: a head timeout, and the client's own
///   `read_timeout` for a body that stalls, take its place. A [`RetryScope`] limits it, too.
/// - It serves **one request at a time**; clones share the count. What it sends again by the same method, to the
///   same URL and with the same bytes is one logical request: an idempotency key that is
///   [made](crate::RetryPolicyBuilder::generate_idempotency_keys) for it stays. A streamed body is like no
///   other: bring the key.
/// - After the last attempt each further request is still sent once. A **stop** is final until the next
///   request: of a 503 that asked for too long a wait nothing is sent again, even if its body is cut.
/// - The loop's resends draw on the [`RetryBudget`] of the client, too. A good answer counts there once nobody
///   has the session any more, or its next request is sent.
/// - The cuts that the loop decides on are in no [`RetryHistory`](crate::RetryHistory): ask
///   [`attempts`](Self::attempts), or [`decide_after`](Self::decide_after) for the decision.
/// - A failure that is no error, such as a body that is too short, can be told as an
///   [`io::Error`](std::io::Error) of the kind `UnexpectedEof`.
/// - An error that was made of a status (`error_for_status`) ends the loop: the middleware has judged
///   it, and by its fields.
/// - A client without a retry middleware tells it nothing. If no other has told of a request before, its class is
///   not known, and nothing is sent again; else a cut would be judged as one of that earlier request.
///
/// ```
/// # use reqwest::StatusCode;
/// # use reqwest_middleware::ClientBuilder;
/// # use reqwest_typed_retry::test_util::{Reply, Script};
/// use reqwest_typed_retry::{RetryMiddleware, RetryPolicy, RetryRequestExt as _, SharedSession};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Script::new([
/// #     Reply::status(StatusCode::SERVICE_UNAVAILABLE),
/// #     Reply::status(StatusCode::OK).body("one, tw").cut(),
/// #     Reply::status(StatusCode::OK).body("one, two, three"),
/// # ]);
/// # let client = ClientBuilder::new(reqwest::Client::new())
/// #     .with(RetryMiddleware::default())
/// #     .with(network.clone())
/// #     .build();
/// // The server answers with a 503, then with a body that is cut, then well.
/// let session = SharedSession::new(RetryPolicy::default());
/// let text = loop {
///     let request = client.get("http://api.test/").retry_session(&session);
///     match request.send().await?.error_for_status()?.text().await {
///         Ok(text) => break text,
///         // Waits if the policy allows another attempt; else gives the error back.
///         Err(cut) => session.resend_after(cut).await?,
///     }
/// };
/// assert_eq!(text, "one, two, three");
/// assert_eq!(session.attempts(), 3);
/// # Ok(()) }
/// ```
///
/// The example `download` in the repository resumes with `Range` and `If-Range`.
#[derive(Clone)]
pub struct SharedSession {
    state: Arc<Mutex<State>>,
    started: Instant,
}

struct State {
    session: RetrySession,
    /// Of the last request that had one.
    key: Option<(Identity, IdempotencyKey)>,
    /// How many requests it has had.
    begun: u64,
    current: Current,
    /// When the current attempt was sent, counted from the making of the session.
    sent: Duration,
    /// Why nothing follows the current attempt: final, until the next request.
    stopped: Option<StopReason>,
    /// Whether the current request was given up, and so its end has been told.
    gave_up: bool,
    budget: Option<RetryBudget>,
    /// With the budget. A good answer counts only once its body has been read: when nobody has the session
    /// any more, or the next request is sent, and nobody has told of a cut.
    account: Option<Account>,
}

/// What is known of the last request, once there was one, and who is told.
#[derive(Clone, Default)]
struct Current {
    method: Method,
    url: Option<Url>,
    /// The name of the endpoint that it belongs to.
    endpoint: Option<Arc<str>>,
    /// These are the client's that sends it.
    observers: Observers,
    wall_clock: WallClock,
    generator: Generator,
}

impl State {
    fn take_account(&mut self) -> Option<Account> {
        let url = self.current.url.as_ref();
        let new = || self.budget.as_ref().zip(url).map(|(budget, url)| budget.account(url));
        self.account.take().or_else(new)
    }
}

impl Current {
    fn observed<'a>(&'a self, policy: &'a RetryPolicy, elapsed: Duration) -> ObservedCall<'a> {
        ObservedCall {
            method: &self.method,
            url: self.url.as_ref(),
            endpoint: self.endpoint.as_deref(),
            policy,
            elapsed,
        }
    }
}

impl SharedSession {
    /// A session whose first attempt is yet to be sent.
    #[must_use]
    pub fn new(policy: RetryPolicy) -> Self {
        // Nothing is known of a request yet: the strictest class.
        let session = RetrySession::new(policy, RetryableMethod::NonIdempotent);
        let state = State {
            session,
            key: None,
            begun: 0,
            current: Current::default(),
            sent: Duration::ZERO,
            stopped: None,
            gave_up: false,
            budget: None,
            account: None,
        };
        Self { state: Arc::new(Mutex::new(state)), started: Instant::now() }
    }

    /// The number of the current attempt, counted from 1.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.lock().session.attempts()
    }

    /// Asks the policy, and the budget of the client, whether another request may follow the current one, whose
    /// response failed with `error` while it was read. If one may, the session moves on to that attempt: wait
    /// for the delay, then send. For a loop that waits by itself; else take
    /// [`resend_after`](Self::resend_after).
    ///
    /// ```
    /// # use reqwest::StatusCode;
    /// # use reqwest_middleware::ClientBuilder;
    /// # use reqwest_typed_retry::test_util::{Reply, Script};
    /// use reqwest_typed_retry::{
    ///     FaultKind, RetryMiddleware, RetryPolicy, RetryReason, RetryRequestExt as _, SharedSession,
    ///     StopReason,
    /// };
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Script::always(Reply::status(StatusCode::OK).body("one, tw").cut());
    /// # let client = ClientBuilder::new(reqwest::Client::new())
    /// #     .with(RetryMiddleware::default())
    /// #     .with(network.clone())
    /// #     .build();
    /// let session = SharedSession::new(RetryPolicy::builder().max_attempts(2).build()?);
    /// let response = client.get("http://api.test/").retry_session(&session).send().await?;
    /// let cut = response.text().await.unwrap_err();
    /// let decision = session.decide_after(&cut);
    /// assert_eq!(decision.retry_reason(), Some(RetryReason::Fault(FaultKind::Body)));
    /// tokio::time::sleep(decision.delay().unwrap_or_default()).await;
    ///
    /// let response = client.get("http://api.test/").retry_session(&session).send().await?;
    /// let cut = response.text().await.unwrap_err();
    /// assert_eq!(session.decide_after(&cut).stop_reason(), Some(StopReason::AttemptsExhausted));
    /// # Ok(()) }
    /// ```
    pub fn decide_after(&self, error: &(dyn Error + 'static)) -> RetryDecision {
        self.judge(error).decision()
    }

    fn judge(&self, error: &(dyn Error + 'static)) -> AttemptRecord {
        let fault = RetryError::fault_of(error);
        let record = |number, sent, decision| {
            AttemptRecord::new(number, sent, AttemptOutcome::Fault(fault), false, None, decision)
        };
        // Not locked while classifiers run.
        let (mut session, mut account, current, sent, begun, gave_up) = {
            let state = &mut *self.lock();
            if let Some(reason) = state.stopped {
                let stop = RetryDecision::DoNotRetry { reason };
                return record(state.session.attempts(), state.sent, stop);
            }
            let (session, account) = (state.session.clone(), state.take_account());
            (session, account, state.current.clone(), state.sent, state.begun, state.gave_up)
        };
        if let Some(account) = &mut account {
            account.failed(); // also if a classifier panics
        }
        let number = session.attempts();
        let (scope, elapsed) = (RetryScope::open(), self.elapsed());
        let left = scope.as_ref().and_then(|scope| scope.time_left());
        let (host, path) = target(current.url.as_ref());
        let attempt = session
            .attempt_ended(&current.method, Outcome::error(fault, error), current.wall_clock.now())
            .with_target(host, path)
            .with_elapsed(elapsed)
            .with_deadline(left.map(|left| elapsed.saturating_add(left)));
        let mut decision = session.decide(&attempt, &mut current.generator.draws());
        if decision.delay().is_some() && scope.is_some_and(|scope| scope.is_cancelled()) {
            decision = RetryDecision::DoNotRetry { reason: StopReason::Cancelled };
        }
        let needs_token = decision.delay().is_some();
        if needs_token && !account.as_mut().is_none_or(Account::take) {
            decision = RetryDecision::DoNotRetry { reason: StopReason::BudgetExhausted };
        }
        let record = record(number, sent, decision);
        let call = current.observed(session.policy(), elapsed);
        // Without a request there is nothing to tell, and an end is told once.
        let is_told = current.url.is_some() && (decision.delay().is_some() || !gave_up);
        if is_told {
            current.observers.attempt_ended(&call, &record);
        }
        if let RetryDecision::DoNotRetry { reason } = decision {
            if is_told {
                current.observers.call_ended(&call, &RetryHistory::new(vec![record], reason));
            }
            self.stop(begun, reason);
        }
        // Not before: if an observer panics, the token goes back, and the session stays where it is.
        self.keep_account(account);
        if decision.delay().is_some() {
            self.moved_on(&session);
        }
        record
    }

    /// Of the request that was the last when `begun` had begun: a later one is none of its business.
    fn stop(&self, begun: u64, reason: StopReason) {
        let state = &mut *self.lock();
        if state.begun == begun {
            state.stopped = Some(reason);
        }
    }

    /// The wait after `last` was cancelled.
    fn tell_cancelled(&self, last: AttemptRecord, begun: u64) {
        let (policy, current) = {
            let state = &*self.lock();
            if state.begun != begun {
                return;
            }
            (state.session.policy().clone(), state.current.clone())
        };
        let call = current.observed(&policy, self.elapsed());
        current.observers.call_ended(&call, &RetryHistory::new(vec![last], StopReason::Cancelled));
        self.stop(begun, StopReason::Cancelled);
    }

    /// [`decide_after`](Self::decide_after), and the wait.
    ///
    /// # Errors
    /// `error` itself, if the policy or the budget allows no further attempt, or a [`RetryScope`] ends the wait.
    pub async fn resend_after<E: Error + 'static>(&self, error: E) -> Result<(), E> {
        let (before, begun) = {
            let state = self.lock();
            (state.session.clone(), state.begun)
        };
        let record = self.judge(&error);
        let RetryDecision::RetryAfter { delay, .. } = record.decision() else {
            return Err(error);
        };
        let mut undo = Undo { shared: self, before: Some(before), begun };
        let scope = RetryScope::open();
        if Wait::new(delay, scope.as_ref()).await == Woken::Cancelled {
            self.tell_cancelled(record, begun);
            return Err(error);
        }
        undo.before = None;
        Ok(())
    }

    pub(super) fn policy(&self) -> RetryPolicy {
        self.lock().session.policy().clone()
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The key of this request: a new one, if it has not come by before.
    pub(super) fn new_key(
        &self,
        request: &Request,
        make: impl FnOnce() -> IdempotencyKey,
    ) -> IdempotencyKey {
        let kept = &mut self.lock().key;
        if let Some((_, key)) = kept.as_ref().filter(|(of, _)| of.is_of(request)) {
            return key.clone();
        }
        kept.insert((Identity::of(request), make())).1.clone()
    }

    pub(super) fn keep_key(&self, request: &Request, key: IdempotencyKey) {
        self.lock().key = Some((Identity::of(request), key));
    }

    /// A request of this class is about to be sent, by the client that `retry` is of.
    pub(super) fn begin(
        &self,
        class: RetryableMethod,
        request: &Request,
        endpoint: Option<&Endpoint>,
        retry: &RetryMiddleware,
    ) {
        let mut budget = retry.budget.clone();
        let mut current = Current {
            method: request.method().clone(),
            url: Some(request.url().clone()),
            endpoint: endpoint.map(|endpoint| endpoint.name.clone()),
            observers: retry.observers.clone(),
            wall_clock: retry.wall_clock.clone(),
            generator: retry.generator.clone(),
        };
        let state = &mut *self.lock();
        state.account = state.account.take().filter(|account| {
            budget.as_ref().is_some_and(|budget| account.is_with(budget, request.url()))
        });
        // What was there is dropped once the lock is free: an observer may have this session.
        mem::swap(&mut state.budget, &mut budget);
        mem::swap(&mut state.current, &mut current);
        state.begun += 1;
        state.stopped = None;
        state.gave_up = false;
        state.session.set_class(class);
    }

    /// The number of the attempt that is on its way now, or will be once `has_left` is true.
    pub(super) fn sent(&self, has_left: Option<Arc<AtomicBool>>) -> u32 {
        let state = &mut *self.lock();
        state.sent = self.started.elapsed();
        // What an earlier request left there, of which nobody told a cut, is settled.
        state.account = state.account.take().filter(Account::is_waiting);
        if let Some(account) = &mut state.account {
            account.sent(has_left);
        }
        state.session.attempts()
    }

    /// The middleware sends again, so long after the making of the session.
    pub(super) fn resent(&self) -> Duration {
        let now = self.started.elapsed();
        self.lock().sent = now;
        now
    }

    /// A request has ended, by an error or not.
    pub(super) fn ended(&self, reason: StopReason, is_error: bool) {
        let state = &mut *self.lock();
        // The body of a good response may yet be cut, and a body that failed to arrive the loop can make anew; a
        // status has been judged.
        let is_open = reason == StopReason::Completed
            || (reason == StopReason::BodyNotReplayable && is_error);
        state.gave_up = reason != StopReason::Completed;
        state.stopped = (!is_open).then_some(reason);
    }

    pub(super) fn sent_after(&self) -> Duration {
        self.lock().sent
    }

    pub(super) fn take_account(&self) -> Option<Account> {
        self.lock().take_account()
    }

    pub(super) fn keep_account(&self, account: Option<Account>) {
        self.lock().account = account;
    }

    /// The session as it is, for a request of this class: another one may have begun meanwhile.
    pub(super) fn session(&self, class: RetryableMethod) -> RetrySession {
        let mut session = self.lock().session.clone();
        session.set_class(class);
        session
    }

    /// Takes over what has been counted.
    pub(super) fn moved_on(&self, session: &RetrySession) {
        let state = &mut *self.lock();
        let class = state.session.class();
        state.session.clone_from(session);
        state.session.set_class(class);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Undoes a decision to send again, if its wait is cancelled or dropped.
struct Undo<'a> {
    shared: &'a SharedSession,
    before: Option<RetrySession>,
    begun: u64,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            let state = &mut *self.shared.lock();
            if state.begun != self.begun {
                return; // another request counts on it
            }
            state.session = before;
            state.account = None; // which gives the token back
        }
    }
}

/// Nothing of the URL but its origin.
impl fmt::Debug for SharedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { session, current: Current { method, url, .. }, .. } = &*self.lock();
        f.debug_struct("SharedSession")
            .field("session", session)
            .field("method", method)
            .field("origin", &url.as_ref().and_then(observe::origin))
            .finish_non_exhaustive()
    }
}
