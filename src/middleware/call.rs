//! The loop: one logical request from its first send to its final outcome.

use std::time::Duration;

use http::{Extensions, HeaderMap, Method};
use reqwest::{Request, Response, Url};
use reqwest_middleware::{Next, Result};

use super::body_factory::BodyFactory;
use super::history::{AttemptOutcome, AttemptRecord, RetryHistory, RetryTracker};
use super::proof::Target;
use super::replay::Replay;
use super::request_ext::RequestOptions;
use super::resend_count::ResendCount;
use super::scope::{Ended, InScope};
use super::shared_session::SharedSession;
use super::time::Instant;
use super::{BoxFuture, RetryError, RetryMiddleware, buffer, drain, observe, proof};
use crate::fault_source;
use crate::policy::{
    Outcome, RetryDecision, RetryPolicy, RetrySession, RetryableMethod, StopReason,
};

/// One logical request. It is part of the future of every call, so it stays small: what only a
/// failed attempt needs is in [`Progress`].
pub(super) struct Call<'a> {
    retry: &'a RetryMiddleware,
    policy: RetryPolicy,
    /// What the request itself asks for, if it does.
    options: Option<Box<RequestOptions>>,
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

/// What lies between two attempts.
struct Wait {
    delay: Duration,
    discarded: Option<Response>,
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
        mut request: Request,
        extensions: &'a mut Extensions,
        next: Next<'a>,
    ) -> Self {
        let options = RequestOptions::of(extensions);
        let session = options.as_ref().and_then(|options| options.session.as_ref());
        let policy = session.map_or_else(|| retry.policy.clone(), SharedSession::policy);
        let makes_body = options.as_ref().is_some_and(|options| options.body_factory.is_some());
        if makes_body {
            BodyFactory::make_room(&mut request);
        }
        let class = policy.method_class(request.method(), request.headers());
        if let Some(session) = session {
            session.begin(class, request.method(), request.url());
        }
        Self {
            class,
            method: request.method().clone(),
            provable: retry.observed && !makes_body && proof::is_observable(&request),
            target: policy.has_classifiers().then(|| Box::new(request.url().clone())),
            started: (policy.deadline().is_some() || policy.has_classifiers()).then(Instant::now),
            tracker: extensions.get().cloned(),
            replay: Replay::new(request),
            retry,
            policy,
            options,
            next,
            extensions,
        }
    }

    /// The session of this call: its own, or the rest of one that other requests share.
    fn session(&self) -> RetrySession {
        match self.shared_session() {
            Some(shared) => shared.session(),
            None => RetrySession::new(self.policy.clone(), self.class),
        }
    }

    fn shared_session(&self) -> Option<&SharedSession> {
        self.options.as_ref()?.session.as_ref()
    }

    fn elapsed(&self) -> Duration {
        match self.shared_session() {
            Some(shared) => shared.elapsed(),
            None => self.started.map_or(Duration::ZERO, |started| started.elapsed()),
        }
    }

    /// The first attempt of this call sends the caller's own request.
    pub(super) fn send_first(&mut self) -> InScope<'_> {
        let number = self.shared_session().map_or(1, SharedSession::attempts);
        let keep = self.policy.may_resend(self.class, number, self.provable);
        let request = self.replay.first(self.extensions, keep);
        ResendCount::of_attempt(number).put_into(self.extensions);
        self.send(request)
    }

    fn send_again(&mut self, session: &RetrySession) -> InScope<'_> {
        let request = self.replay.again(self.extensions, session.may_resend(self.provable));
        ResendCount::of_attempt(session.attempts()).put_into(self.extensions);
        self.send(request)
    }

    fn send(&mut self, mut request: Request) -> InScope<'_> {
        if let Some(ours) = self.policy.attempt_timeout() {
            let timeout = request.timeout_mut();
            *timeout = Some(timeout.map_or(ours, |callers| callers.min(ours)));
        }
        let next = self.next.clone();
        let options = self.options.as_deref();
        let body_factory = options.and_then(|options| options.body_factory.clone());
        let buffer_body = options
            .and_then(|options| options.buffer_body)
            .map_or(self.retry.buffer_body, |limit| (limit > 0).then_some(limit));
        let for_classifiers = self.policy.has_classifiers();
        let target = self.provable.then(|| Target::of_request(&request));
        InScope::start(target, self.extensions, |extensions| match (body_factory, buffer_body) {
            (None, None) => next.run(request, extensions),
            (body_factory, buffer_body) => Box::pin(async move {
                if let Some(factory) = body_factory {
                    factory.fill(&mut request).await?;
                }
                let response = next.run(request, extensions).await?;
                match buffer_body {
                    Some(limit) => buffer::read(response, limit, for_classifiers).await,
                    None => Ok(response),
                }
            }),
        })
    }

    /// Goes on with the resends, if there are to be any.
    pub(super) fn after_first(&mut self, ended: Ended) -> Step<BoxFuture<'_, Result<Response>>> {
        match ended.result {
            Ok(response) if self.tracker.is_none() && self.policy.completes(response.status()) => {
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
        let mut progress = Progress { session: self.session(), attempts: Vec::new() };
        match self.judge(&mut progress, ended) {
            Step::Return(result) => Step::Return(result),
            Step::Go(wait) => Step::Go(Box::pin(self.resend(progress, wait))),
        }
    }

    async fn resend(&mut self, mut progress: Progress, mut wait: Wait) -> Result<Response> {
        loop {
            drain::during(wait.delay, wait.discarded, self.retry.drain).await;
            let ended = self.send_again(&progress.session).await;
            match self.judge(&mut progress, ended) {
                Step::Return(result) => return result,
                Step::Go(next) => wait = next,
            }
        }
    }

    /// Decides what follows an attempt: a wait and a resend, or the result as it is.
    fn judge(&self, progress: &mut Progress, ended: Ended) -> Step<Wait> {
        let record = self.decide(&mut progress.session, &ended);
        progress.attempts.push(record);
        observe::decided(&self.method, self.replay.request().map(Request::url), &record);
        match record.decision() {
            RetryDecision::RetryAfter { delay, .. } => {
                Step::Go(Wait { delay, discarded: ended.result.ok() })
            }
            RetryDecision::DoNotRetry { reason } => {
                let attempts = std::mem::take(&mut progress.attempts);
                Step::Return(self.finish(attempts, reason, ended.result))
            }
        }
    }

    fn decide(&self, session: &mut RetrySession, ended: &Ended) -> AttemptRecord {
        let number = session.attempts();
        let no_headers = HeaderMap::new();
        let (outcome, recorded) = match &ended.result {
            Ok(response) => {
                let (status, headers) = (response.status(), response.headers());
                let outcome = match buffer::bytes(response) {
                    Some(body) => Outcome::response_with_body(status, headers, body),
                    None => Outcome::response(status, headers),
                };
                (outcome, AttemptOutcome::Status(status))
            }
            Err(error) => match error.status() {
                // An inner middleware called `error_for_status`: the server did answer.
                Some(status) => {
                    (Outcome::response(status, &no_headers), AttemptOutcome::Status(status))
                }
                None => {
                    let fault = RetryError::of(error)
                        .map_or_else(|| fault_source::classify(error), RetryError::fault);
                    (Outcome::error(fault, error), AttemptOutcome::Fault(fault))
                }
            },
        };
        let now = self.retry.wall_clock.now();
        let (host, path) = target(self.target.as_deref());
        let attempt = session
            .attempt_ended(&self.method, outcome, now)
            .with_target(host, path)
            .with_not_processed(self.provable && ended.exchanges.vouch_for(&outcome))
            .with_elapsed(self.elapsed());
        let not_processed = session.policy().proves_not_processed(&attempt);
        let mut decision = session.decide(&attempt, &mut self.retry.generator.draws());
        if decision.delay().is_some() && !self.replay.is_possible() {
            decision = RetryDecision::DoNotRetry { reason: StopReason::BodyNotReplayable };
        }
        if let (Some(shared), Some(_)) = (self.shared_session(), decision.delay()) {
            shared.moved_on(session);
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
        if let Ok(response) = &mut result {
            buffer::forget(response);
        }
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

/// The host and path that classifiers are told.
pub(super) fn target(url: Option<&Url>) -> (&str, &str) {
    url.map_or(("", ""), |url| (url.host_str().unwrap_or(""), url.path()))
}
