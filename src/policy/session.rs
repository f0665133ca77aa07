//! The attempts of one logical request.

use std::time::{Duration, SystemTime};

use http::Method;
use rand::Rng;

use super::{Attempt, Outcome, RetryDecision, RetryPolicy, RetryableMethod, StopReason};

/// Counts the attempts of one logical request and asks the policy after each, without any I/O: the
/// driver sends, waits and reads the clocks. So the same policy serves any client. A deadline counts
/// only what the driver tells it, by [`Attempt::with_elapsed`].
///
/// A stop is final: whatever it is asked about afterwards, the session gives the same reason. All but
/// [`Completed`](StopReason::Completed), which is known once the head of a response is there: its body may still be
/// cut, and the driver asks about that as another end of the same attempt.
///
/// ```
/// use std::time::{Instant, SystemTime};
/// use http::{HeaderMap, Method, StatusCode};
/// use reqwest_typed_retry::{Outcome, RetryDecision, RetryPolicy, RetrySession};
///
/// let mut answers = [503, 503, 200].into_iter(); // stands for any client
/// let policy = RetryPolicy::default();
/// let class = policy.method_class(&Method::GET, &HeaderMap::new());
/// let mut session = RetrySession::new(policy, class);
/// let started = Instant::now();
/// let mut waited = Vec::new();
/// let status = loop {
///     let status = StatusCode::from_u16(answers.next().unwrap()).unwrap();
///     let headers = HeaderMap::new();
///     let outcome = Outcome::response(status, &headers);
///     let attempt = session
///         .attempt_ended(&Method::GET, outcome, SystemTime::now())
///         .with_elapsed(started.elapsed());
///     match session.decide(&attempt, &mut rand::rng()) {
///         RetryDecision::RetryAfter { delay, .. } => waited.push(delay), // and sleep
///         _ => break status,
///     }
/// };
/// assert_eq!((status, session.attempts(), waited.len()), (StatusCode::OK, 3, 2));
/// ```
///
/// A stop, and what can be known before:
///
/// ```
/// use std::time::SystemTime;
/// use http::{HeaderMap, Method};
/// use reqwest_typed_retry::{
///     Fault, FaultKind, Outcome, RetryPolicy, RetrySession, RetryableMethod, StopReason,
/// };
///
/// let policy = RetryPolicy::default();
/// let class = policy.method_class(&Method::POST, &HeaderMap::new());
/// let mut session = RetrySession::new(policy, class);
/// assert_eq!((session.class(), session.attempts()), (RetryableMethod::NonIdempotent, 1));
/// assert_eq!(session.policy().max_attempts().map(|max| max.get()), Some(3));
/// // Only a proof could allow a resend, so without one the body need not be kept.
/// assert!(session.may_resend(true) && !session.may_resend(false));
///
/// let outcome = Outcome::fault(Fault::unknown(FaultKind::Timeout));
/// let attempt = session.attempt_ended(&Method::POST, outcome, SystemTime::now());
/// let decision = session.decide(&attempt, &mut rand::rng());
/// assert_eq!(decision.stop_reason(), Some(StopReason::NotIdempotent));
/// assert!(!session.may_resend(true)); // it is final
/// ```
#[derive(Clone, Debug)]
pub struct RetrySession {
    policy: RetryPolicy,
    class: RetryableMethod,
    attempts: u32,
    previous_delay: Option<Duration>,
    stopped: Option<StopReason>,
}

impl RetrySession {
    /// A session whose first attempt is about to be sent, or is on its way. `class` is that of
    /// [`RetryPolicy::method_class`].
    #[must_use]
    pub fn new(policy: RetryPolicy, class: RetryableMethod) -> Self {
        Self { policy, class, attempts: 1, previous_delay: None, stopped: None }
    }

    /// The number of the current attempt, counted from 1.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The class of the request.
    #[must_use]
    pub fn class(&self) -> RetryableMethod {
        self.class
    }

    /// For a driver whose next request is another one.
    pub(crate) fn set_class(&mut self, class: RetryableMethod) {
        self.class = class;
    }

    /// The policy that is asked.
    #[must_use]
    pub fn policy(&self) -> &RetryPolicy {
        &self.policy
    }

    /// Whether a resend could follow the current attempt at all. Where it could not, the request need not be kept.
    /// `provable`: whether the transport can prove that a request was not processed
    /// ([`Attempt::with_sole_exchange`]); `false` unless it is known to.
    #[must_use]
    pub fn may_resend(&self, provable: bool) -> bool {
        self.stopped.is_none() && self.policy.may_resend(self.class, self.attempts, provable)
    }

    /// The current attempt, now that it has ended; `now` is the wall clock. What else the driver knows it
    /// adds: the time that has [passed](Attempt::with_elapsed) above all, if there is a deadline.
    #[must_use]
    pub fn attempt_ended<'a>(
        &self,
        method: &'a Method,
        outcome: Outcome<'a>,
        now: SystemTime,
    ) -> Attempt<'a> {
        Attempt::new(self.attempts, self.class, method, outcome, now)
            .with_previous_delay(self.previous_delay)
    }

    /// Asks the policy about `attempt`, unless an earlier stop stands. If a resend is to follow, the session moves
    /// on to that attempt. The number, the class and the previous wait are the session's own, whatever `attempt` says.
    pub fn decide<R: Rng + ?Sized>(&mut self, attempt: &Attempt<'_>, rng: &mut R) -> RetryDecision {
        if let Some(reason) = self.stopped {
            return RetryDecision::DoNotRetry { reason };
        }
        let attempt = attempt.counted(self.attempts, self.class, self.previous_delay);
        let decision = self.policy.decide(&attempt, rng);
        match decision {
            RetryDecision::RetryAfter { delay, .. } => {
                self.attempts = self.attempts.saturating_add(1);
                self.previous_delay = Some(delay);
            }
            RetryDecision::DoNotRetry { reason: StopReason::Completed } => {}
            RetryDecision::DoNotRetry { reason } => self.stopped = Some(reason),
        }
        decision
    }
}
