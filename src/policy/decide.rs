//! The decision, in the order of its steps.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use rand::Rng;

use super::jitter::draw;
use super::retry_policy::is_completed;
use super::{
    Attempt, DelaySource, Delivery, Outcome, RetryDecision, RetryPolicy, RetryReason,
    RetryableMethod, ServerDelays, StopReason, Verdict,
};

/// A failure that is worth another send.
pub(super) struct Transient {
    reason: RetryReason,
    /// What a classifier asked for.
    delay: Option<Duration>,
}

struct Wait {
    delay: Duration,
    source: DelaySource,
}

impl RetryPolicy {
    /// Send again, after how long, or stop, and why. Pure: the same arguments give the same answer.
    ///
    /// The steps, each with its [`StopReason`]; the first that stops wins:
    ///
    /// 1. **Verdict**, by the first that has one: a custom classifier; the server's directive on a
    ///    4xx or 5xx, where a "no" to a listed status is
    ///    [`ServerRefused`](StopReason::ServerRefused); the sets of statuses and faults, and
    ///    the statuses of the profile. A response below 400 is [`Completed`](StopReason::Completed), what is
    ///    not listed is [`Permanent`](StopReason::Permanent).
    /// 2. **Method safety**: a request that might take effect twice is sent again only if it is
    ///    proven that this attempt did not ([`NotIdempotent`](StopReason::NotIdempotent);
    ///    RFC 9110 9.2.2).
    /// 3. **Attempts** ([`AttemptsExhausted`](StopReason::AttemptsExhausted)).
    /// 4. **Delay**: a classifier's, or else the server's, if it is above zero, stretched but never undercut;
    ///    else the backoff with its jitter.
    /// 5. **A delay that was asked for over the limit**
    ///    ([`ServerDelayTooLong`](StopReason::ServerDelayTooLong)), or clamped to it.
    /// 6. **Deadline**, if the wait would not end before it
    ///    ([`DeadlineWouldPass`](StopReason::DeadlineWouldPass)).
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use http::{HeaderMap, Method, StatusCode};
    /// use rand::{SeedableRng, rngs::SmallRng};
    /// use reqwest_typed_retry::{Attempt, Outcome, RetryPolicy, StopReason};
    ///
    /// let policy = RetryPolicy::default();
    /// let headers = HeaderMap::new();
    /// let decide = |number, method: Method, status| {
    ///     let class = policy.method_class(&method, &headers);
    ///     let outcome = Outcome::response(status, &headers);
    ///     let attempt = Attempt::new(number, class, &method, outcome, SystemTime::UNIX_EPOCH);
    ///     policy.decide(&attempt, &mut SmallRng::seed_from_u64(7))
    /// };
    /// let busy = StatusCode::SERVICE_UNAVAILABLE;
    /// assert!(decide(1, Method::GET, busy).delay().is_some());
    /// assert_eq!(decide(1, Method::GET, busy), decide(1, Method::GET, busy));
    ///
    /// let stop = |number, method, status| decide(number, method, status).stop_reason();
    /// assert_eq!(stop(1, Method::GET, StatusCode::OK), Some(StopReason::Completed));
    /// assert_eq!(stop(1, Method::GET, StatusCode::NOT_FOUND), Some(StopReason::Permanent));
    /// assert_eq!(stop(1, Method::POST, busy), Some(StopReason::NotIdempotent));
    /// assert_eq!(stop(3, Method::GET, busy), Some(StopReason::AttemptsExhausted));
    /// ```
    pub fn decide<R: Rng + ?Sized>(&self, attempt: &Attempt<'_>, rng: &mut R) -> RetryDecision {
        match self.steps(attempt, rng) {
            Ok((reason, Wait { delay, source })) => {
                RetryDecision::RetryAfter { delay, reason, source }
            }
            Err(reason) => RetryDecision::DoNotRetry { reason },
        }
    }

    fn steps<R: Rng + ?Sized>(
        &self,
        attempt: &Attempt<'_>,
        rng: &mut R,
    ) -> Result<(RetryReason, Wait), StopReason> {
        let transient = self.judge(attempt)?;
        if !self.attempts_left(attempt.number()) {
            return Err(StopReason::AttemptsExhausted);
        }
        let wait = self.wait(attempt, transient.delay, rng)?;
        self.check_deadline(attempt, wait.delay)?;
        Ok((transient.reason, wait))
    }

    /// Steps 1 and 2: whether the attempt calls for another send and may have one. What is left are limits.
    pub(super) fn judge(&self, attempt: &Attempt<'_>) -> Result<Transient, StopReason> {
        let transient = self.verdict(attempt)?;
        self.check_method(attempt)?;
        Ok(transient)
    }

    fn verdict(&self, attempt: &Attempt<'_>) -> Result<Transient, StopReason> {
        let transient = |reason| Ok(Transient { reason, delay: None });
        match self.rules().classifiers.classify(attempt) {
            Some(Verdict::Transient { delay }) => {
                return Ok(Transient { reason: RetryReason::Classifier, delay });
            }
            Some(Verdict::Permanent) => return Err(StopReason::Permanent),
            None => {}
        }
        match attempt.outcome() {
            Outcome::Response { status, .. } if is_completed(status) => Err(StopReason::Completed),
            Outcome::Response { status, headers, .. } => {
                let speaks = status.is_client_error() || status.is_server_error();
                let directive = speaks.then(|| self.rules().profile.verdict(headers)).flatten();
                match (directive, self.retries(attempt, status, headers)) {
                    (Some(true), _) => transient(RetryReason::ServerDirective),
                    (Some(false), true) => Err(StopReason::ServerRefused),
                    (None, true) => transient(RetryReason::Status(status)),
                    // A veto of what is permanent anyway gives nothing up.
                    (Some(false) | None, false) => Err(StopReason::Permanent),
                }
            }
            Outcome::Fault { fault, .. } if self.rules().retry_faults.contains(fault.kind()) => {
                transient(RetryReason::Fault(fault.kind()))
            }
            Outcome::Fault { .. } => Err(StopReason::Permanent),
        }
    }

    /// Whether the status is listed, by the policy or by its profile.
    fn retries(&self, attempt: &Attempt<'_>, status: StatusCode, headers: &HeaderMap) -> bool {
        let has_server_delay = || self.server_delay(headers, attempt.now()).is_some();
        let has_honoured_key = attempt.class() == RetryableMethod::IdempotentWithToken
            && self.is_repeatable(attempt.class());
        self.rules().retry_statuses.contains(status)
            || self.rules().profile.retries(status, has_server_delay, has_honoured_key)
    }

    fn check_method(&self, attempt: &Attempt<'_>) -> Result<(), StopReason> {
        if self.is_repeatable(attempt.class()) || self.proves_not_processed(attempt) {
            Ok(())
        } else {
            Err(StopReason::NotIdempotent)
        }
    }

    /// Whether `attempt` proves that the server did not act on it.
    ///
    /// An outcome alone is no proof: a redirect may have carried the request on after the first
    /// server acted on it. So the outcome must say "not processed" *and* there must be positive
    /// evidence that this outcome is the end of the only exchange of the attempt.
    pub(crate) fn proves_not_processed(&self, attempt: &Attempt<'_>) -> bool {
        attempt.is_sole_exchange()
            && match attempt.outcome() {
                Outcome::Response { status, .. } => self.not_processed_statuses().contains(status),
                Outcome::Fault { fault, .. } => fault.delivery() == Delivery::NotProcessed,
            }
    }

    fn wait<R: Rng + ?Sized>(
        &self,
        attempt: &Attempt<'_>,
        classifier_delay: Option<Duration>,
        rng: &mut R,
    ) -> Result<Wait, StopReason> {
        let rules = self.rules();
        // Zero and a date in the past say "no minimum". That is no licence for a tight loop.
        let asked = |delay: &Duration| !delay.is_zero();
        let asked = classifier_delay
            .filter(asked)
            .map(|delay| (delay, DelaySource::Classifier))
            .or_else(|| {
                let Outcome::Response { headers, .. } = attempt.outcome() else {
                    return None;
                };
                let delay = self.server_delay(headers, attempt.now()).filter(asked)?;
                Some((delay, DelaySource::Server))
            });
        if let Some((asked, source)) = asked {
            let allowed = rules.server_delays.allow(asked)?;
            return Ok(Wait { delay: draw(rules.jitter.stretch(allowed), rng), source });
        }
        let (backoff, source) = if attempt.outcome().status() == Some(StatusCode::TOO_MANY_REQUESTS)
        {
            (&rules.throttle_backoff, DelaySource::ThrottleBackoff)
        } else {
            (&rules.backoff, DelaySource::Backoff)
        };
        let delay = backoff.draw(attempt.number(), attempt.previous_delay(), rules.jitter, rng);
        Ok(Wait { delay, source })
    }

    /// What the server asked the client to wait, by the fields of the response that the
    /// [profile](crate::ApiProfile::server_delay) knows, if it did and the policy
    /// [listens](crate::ServerDelays). `now` is the wall clock when the response arrived. No limit is
    /// applied yet, and no jitter. Zero says that there is no minimum.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};
    /// use reqwest_typed_retry::{RetryPolicy, ServerDelays};
    ///
    /// let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("3600"))]);
    /// let asked = RetryPolicy::default().server_delay(&headers, SystemTime::now());
    /// assert_eq!(asked, Some(Duration::from_secs(3_600)));
    ///
    /// let deaf = RetryPolicy::builder().server_delays(ServerDelays::Ignored).build()?;
    /// assert_eq!(deaf.server_delay(&headers, SystemTime::now()), None);
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    #[must_use]
    pub fn server_delay(&self, headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
        match self.rules().server_delays {
            ServerDelays::Ignored => None,
            _ => self.rules().profile.server_delay(headers, now),
        }
    }

    /// How much of a delay that a server `asked` for is waited for; none of one that is over the limit, or
    /// that the policy ignores.
    pub(crate) fn followed_delay(&self, asked: Duration) -> Option<Duration> {
        match self.rules().server_delays {
            ServerDelays::Ignored => None,
            delays => delays.allow(asked).ok(),
        }
    }

    /// What is waited beyond a delay that a server `asked` for.
    pub(crate) fn spread<R: Rng + ?Sized>(&self, asked: Duration, rng: &mut R) -> Duration {
        draw(self.rules().jitter.stretch(asked), rng).saturating_sub(asked)
    }

    fn check_deadline(&self, attempt: &Attempt<'_>, delay: Duration) -> Result<(), StopReason> {
        let wakes = attempt.elapsed().saturating_add(delay);
        let passed = |deadline: Option<Duration>| deadline.is_some_and(|at| wakes >= at);
        if passed(self.deadline()) || passed(attempt.deadline()) {
            Err(StopReason::DeadlineWouldPass)
        } else {
            Ok(())
        }
    }
}
