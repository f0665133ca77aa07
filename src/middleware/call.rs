//! The loop: one logical request from its first send to its final outcome.

use std::time::Duration;

use http::{Extensions, HeaderMap, Method};
use reqwest::{Request, Response, Url};
use reqwest_middleware::{Next, Result};

use super::history::{AttemptOutcome, AttemptRecord, RetryHistory, RetryTracker};
use super::replay::Replay;
use super::resend_count::ResendCount;
use super::scope::{Ended, InScope};
use super::time::{self, Instant};
use super::{BoxFuture, RetryMiddleware, observe, proof};
use crate::fault_source;
use crate::policy::{Outcome, RetryDecision, RetrySession, RetryableMethod, StopReason};

/// One logical request. It is part of the future of every call, so it stays small: what only a
/// failed attempt needs is in [`Progress`].
pub(super) struct Call<'a> {
    retry: &'a RetryMiddleware,
    next: Next<'a>,
    extensions: &'a mut Extensions,
    replay: Replay,
    method: Method,
    class: RetryableMethod,
    /// Whether an attempt can be proven not to have been processed.
    provable: bool,
    /// Where the request goes, if classifiers may ask.
    target: Option<Box<Url>>,
    /// When the call began, if a deadline or a classifier may ask.
    started: Option<Instant>,
    tracker: Option<RetryTracker>,
}

/// What is known once an attempt has failed.
struct Progress {
    session: RetrySession,
    attempts: Vec<AttemptRecord>,
}

/// What follows an attempt.
pub(super) enum Step<T> {
    /// The call ends with this result.
    Return(Result<Response>),
    /// There is more to do.
    Go(T),
}

impl<'a> Call<'a> {
    pub(super) fn new(
        retry: &'a RetryMiddleware,
        request: Request,
        extensions: &'a mut Extensions,
        next: Next<'a>,
    ) -> Self {
        let policy = &retry.policy;
        Self {
            class: policy.method_class(request.method(), request.headers()),
            method: request.method().clone(),
            provable: retry.observed && proof::is_observable(&request),
            target: policy.has_classifiers().then(|| Box::new(request.url().clone())),
            started: (policy.deadline().is_some() || policy.has_classifiers()).then(Instant::now),
            tracker: extensions.get().cloned(),
            replay: Replay::new(request),
            retry,
            next,
            extensions,
        }
    }

    /// The first attempt sends the caller's own request.
    pub(super) fn send_first(&mut self) -> InScope<'_> {
        if self.extensions.get::<ResendCount>().is_some() {
            self.extensions.remove::<ResendCount>(); // left by an earlier call with the same map
        }
        let keep = self.retry.policy.may_resend(self.class, 1, self.provable);
        let request = self.replay.first(self.extensions, keep);
        self.send(request)
    }

    fn send_again(&mut self, session: &RetrySession) -> InScope<'_> {
        let request = self.replay.again(self.extensions, session.may_resend(self.provable));
        self.extensions.insert(ResendCount::of_attempt(session.attempts()));
        self.send(request)
    }

    fn send(&mut self, mut request: Request) -> InScope<'_> {
        if let Some(ours) = self.retry.policy.attempt_timeout() {
            let timeout = request.timeout_mut();
            *timeout = Some(timeout.map_or(ours, |callers| callers.min(ours)));
        }
        let next = self.next.clone();
        InScope::start(self.extensions, |extensions| next.run(request, extensions))
    }

    /// Goes on with the resends, if there are to be any.
    pub(super) fn after_first(&mut self, ended: Ended) -> Step<BoxFuture<'_, Result<Response>>> {
        match ended.result {
            Ok(response)
                if self.tracker.is_none() && self.retry.policy.completes(response.status()) =>
            {
                Step::Return(Ok(response))
            }
            _ => self.after_failure(ended),
        }
    }

    /// A final failure costs no box; and the box of the resends is made out of line, so that the
    /// future of the first attempt does not hold them.
    #[cold]
    #[inline(never)]
    fn after_failure(&mut self, ended: Ended) -> Step<BoxFuture<'_, Result<Response>>> {
        let session = RetrySession::new(self.retry.policy.clone(), self.class);
        let mut progress = Progress { session, attempts: Vec::new() };
        match self.judge(&mut progress, ended) {
            Step::Return(result) => Step::Return(result),
            Step::Go(delay) => Step::Go(Box::pin(self.resend(progress, delay))),
        }
    }

    async fn resend(&mut self, mut progress: Progress, mut delay: Duration) -> Result<Response> {
        loop {
            time::sleep(delay).await;
            let ended = self.send_again(&progress.session).await;
            match self.judge(&mut progress, ended) {
                Step::Return(result) => return result,
                Step::Go(next) => delay = next,
            }
        }
    }

    /// Decides what follows an attempt: a resend after the delay that is returned, for which the
    /// result is dropped now, so that its connection is not held through the wait; or the result as
    /// it is.
    fn judge(&self, progress: &mut Progress, ended: Ended) -> Step<Duration> {
        let record = self.decide(&mut progress.session, &ended);
        progress.attempts.push(record);
        match record.decision() {
            RetryDecision::RetryAfter { delay, reason, source } => {
                observe::resend(self.replay.request(), record.number(), delay, reason, source);
                Step::Go(delay)
            }
            RetryDecision::DoNotRetry { reason } => {
                observe::stop(&self.method, &record, reason);
                Step::Return(self.finish(
                    std::mem::take(&mut progress.attempts),
                    reason,
                    ended.result,
                ))
            }
        }
    }

    fn decide(&self, session: &mut RetrySession, ended: &Ended) -> AttemptRecord {
        let number = session.attempts();
        let no_headers = HeaderMap::new();
        let (outcome, recorded) = match &ended.result {
            Ok(response) => (
                Outcome::response(response.status(), response.headers()),
                AttemptOutcome::Status(response.status()),
            ),
            Err(error) => match error.status() {
                // An inner middleware called `error_for_status`: the server did answer.
                Some(status) => {
                    (Outcome::response(status, &no_headers), AttemptOutcome::Status(status))
                }
                None => {
                    let fault = fault_source::classify(error);
                    (Outcome::error(fault, error), AttemptOutcome::Fault(fault))
                }
            },
        };
        let now = self.retry.wall_clock.now();
        let (host, path) = self
            .target
            .as_deref()
            .map_or(("", ""), |url| (url.host_str().unwrap_or(""), url.path()));
        let attempt = session
            .attempt_ended(&self.method, outcome, now)
            .with_target(host, path)
            .with_not_processed(self.provable && ended.exchanges.vouch_for(&outcome))
            .with_elapsed(self.started.map_or(Duration::ZERO, |started| started.elapsed()));
        let not_processed = session.policy().proves_not_processed(&attempt);
        let mut decision = session.decide(&attempt, &mut self.retry.generator.draws());
        if decision.delay().is_some() && !self.replay.is_possible() {
            decision = RetryDecision::DoNotRetry { reason: StopReason::BodyNotReplayable };
        }
        let server_delay = match outcome {
            Outcome::Response { headers, .. } => session.policy().server_delay(headers, now),
            Outcome::Fault { .. } => None,
        };
        AttemptRecord::new(number, recorded, not_processed, server_delay, decision)
    }

    /// Leaves the history where the caller can find it.
    fn finish(
        &self,
        attempts: Vec<AttemptRecord>,
        reason: StopReason,
        mut result: Result<Response>,
    ) -> Result<Response> {
        let worth_telling = attempts.len() > 1 || reason.is_giving_up();
        if worth_telling || self.tracker.is_some() {
            let history = RetryHistory::new(attempts);
            if let Some(tracker) = &self.tracker {
                tracker.record(history.clone());
            }
            if let (true, Ok(response)) = (worth_telling, &mut result) {
                response.extensions_mut().insert(history);
            }
        }
        result
    }
}
