//! The loop: one logical request from its first send to its final outcome.

mod choice;
mod ending;
mod judgement;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http::{Extensions, Method};
use reqwest::{Request, Response, Url};
use reqwest_middleware::{Next, Result};

use self::choice::Choice;
use super::attempt::Around;
use super::attempt_scope::{Ended, InScope};
use super::body_factory::BodyFactory;
use super::endpoint::EndpointId;
use super::history::{AttemptRecord, RetryTracker};
use super::observe::ObservedCall;
use super::proof::Target;
use super::replay::Replay;
use super::request_ext::RequestOptions;
use super::resend_count::ResendCount;
use super::retry_scope::RetryScope;
use super::shared_session::SharedSession;
use super::wait::Wait;
use super::{BoxFuture, Endpoint, RetryError, RetryMiddleware, proof};
use crate::origin::{Account, Key};
use crate::policy::{RetryDecision, RetryPolicy, RetrySession, RetryableMethod, StopReason};
use crate::time::Instant;

/// One logical request. It is part of the future of every call, so it stays small: what only a
/// failed attempt needs is in [`Progress`].
pub(super) struct Call<'a> {
    retry: &'a RetryMiddleware,
    policy: RetryPolicy,
    /// The limits of the task, if it has any.
    scope: Option<Arc<RetryScope>>,
    /// What the request itself asks for, if it does.
    options: Option<Box<RequestOptions>>,
    next: Next<'a>,
    extensions: &'a mut Extensions,
    replay: Replay,
    method: Method,
    class: RetryableMethod,
    endpoint: Option<EndpointId>,
    /// Whether an attempt can be proven not to have been processed.
    provable: bool,
    /// Where the request goes, if anybody may ask although it is not kept.
    destination: Option<Box<Destination>>,
    started: Instant,
}

struct Destination {
    url: Url,
    cooldown_key: Option<Key>,
    /// How long the cooldown held back the first attempt.
    held_back: Duration,
}

/// What is known once an attempt has failed.
struct Progress {
    session: RetrySession,
    attempts: Vec<AttemptRecord>,
    /// With the budget. Where none is there, no resend can follow.
    account: Option<Account>,
    /// Where the request goes, if that is still known.
    url: Option<Url>,
    /// When the current attempt was sent, counted from the beginning of the call.
    attempt_started: Duration,
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
        let started = Instant::now();
        let mut options = RequestOptions::take(&request, extensions);
        let scope = RetryScope::open();
        let Choice { policy, endpoint, class } =
            Choice::make(retry, &mut request, scope.as_deref(), &mut options);
        let makes_body = options.as_ref().is_some_and(|options| options.body_factory.is_some());
        if makes_body {
            BodyFactory::make_room(&mut request);
        }
        let session = options.as_ref().and_then(|options| options.session.as_ref());
        if let Some(session) = session {
            let endpoint = endpoint.and_then(|id| retry.endpoints.get(id));
            session.begin(class, &request, endpoint, retry);
        }
        let may_be_asked = policy.has_classifiers() || retry.cooldown.is_some();
        Self {
            class,
            endpoint,
            method: request.method().clone(),
            provable: retry.observed && !makes_body && proof::is_observable(&request),
            destination: may_be_asked.then(|| Box::new(Destination::of(&request, retry))),
            started,
            replay: Replay::new(request),
            retry,
            policy,
            scope,
            options,
            next,
            extensions,
        }
    }

    /// The session of this call: its own, or the rest of one that other requests share.
    fn session(&self) -> RetrySession {
        match self.shared_session() {
            Some(shared) => shared.session(self.class),
            None => RetrySession::new(self.policy.clone(), self.class),
        }
    }

    fn endpoint(&self) -> Option<&'a Endpoint> {
        self.retry.endpoints.get(self.endpoint?)
    }

    /// How much of a body is read, if any is.
    fn buffer_body(&self) -> Option<u64> {
        let of_request = self.options.as_ref().and_then(|options| options.buffer_body);
        let of_endpoint = || self.endpoint()?.buffer_body;
        let limit = of_request.or_else(of_endpoint).or(self.retry.buffer_body)?;
        (limit > 0).then_some(limit)
    }

    fn shared_session(&self) -> Option<&SharedSession> {
        self.options.as_ref()?.session.as_ref()
    }

    fn tracker(&self) -> Option<&RetryTracker> {
        self.options.as_ref()?.tracker.as_ref()
    }

    fn elapsed(&self) -> Duration {
        match self.shared_session() {
            Some(shared) => shared.elapsed(),
            None => self.started.elapsed(),
        }
    }

    /// Up to the earlier deadline.
    fn time_left(&self) -> Option<Duration> {
        let own = self.policy.deadline().map(|deadline| deadline.saturating_sub(self.elapsed()));
        own.into_iter().chain(self.time_left_in_scope()).min()
    }

    fn time_left_in_scope(&self) -> Option<Duration> {
        self.scope.as_ref()?.time_left()
    }

    fn can_cancel(&self) -> bool {
        self.scope.as_ref().is_some_and(|scope| scope.can_cancel())
    }

    fn is_cancelled(&self) -> bool {
        self.scope.as_ref().is_some_and(|scope| scope.is_cancelled())
    }

    /// Why the next attempt may not start, if it may not.
    fn refusal(&self) -> Option<(StopReason, RetryError)> {
        if self.is_cancelled() {
            Some((StopReason::Cancelled, RetryError::cancelled()))
        } else if self.time_left() == Some(Duration::ZERO) {
            Some((StopReason::DeadlinePassed, RetryError::deadline()))
        } else {
            None
        }
    }

    /// The end of a call that may not even begin.
    pub(super) fn refused(&self) -> Option<reqwest_middleware::Error> {
        let (reason, error) = self.refusal()?;
        self.end(Vec::new(), self.url(), reason, Err(error.into()), false).err()
    }

    /// The budget's account for this call, if its URL is still known.
    fn account(&self) -> Option<Account> {
        match self.shared_session() {
            Some(shared) => shared.take_account(),
            None => {
                self.retry.budget.as_ref().zip(self.url()).map(|(budget, url)| budget.account(url))
            }
        }
    }

    fn url(&self) -> Option<&Url> {
        let destination = self.destination.as_ref().map(|destination| &destination.url);
        destination.or_else(|| self.replay.request().map(Request::url))
    }

    fn observed<'b>(&'b self, url: Option<&'b Url>) -> ObservedCall<'b> {
        ObservedCall {
            method: &self.method,
            url,
            endpoint: self.endpoint().map(Endpoint::name),
            policy: &self.policy,
            elapsed: self.elapsed(),
        }
    }

    /// The first attempt of this call sends the caller's own request.
    pub(super) fn send_first(&mut self) -> InScope<'_> {
        let has_left = self.makes_body().then(Arc::default);
        let number = self.shared_session().map_or(1, |shared| shared.sent(has_left.clone()));
        let keep = self.policy.may_resend(self.class, number, self.provable);
        let request = self.replay.first(self.extensions, keep);
        ResendCount::of_attempt(number).put_into(self.extensions);
        let wants_url = || self.retry.wants_url() || self.may_make_error();
        if self.destination.is_none() && !self.replay.is_possible() && wants_url() {
            self.destination = Some(Box::new(Destination::of(&request, self.retry)));
        }
        self.send(request, number, has_left)
    }

    /// `has_left` becomes true once the request is sent, where its body has to be made first.
    fn send_again(
        &mut self,
        session: &RetrySession,
        has_left: Option<Arc<AtomicBool>>,
    ) -> InScope<'_> {
        let request = self.replay.again(self.extensions, session.may_resend(self.provable));
        ResendCount::of_attempt(session.attempts()).put_into(self.extensions);
        self.send(request, session.attempts(), has_left)
    }

    /// Whether the attempt may end with an error of ours, which says where it went.
    fn may_make_error(&self) -> bool {
        self.makes_body()
            || self.policy.head_timeout().is_some()
            || self.policy.deadline().is_some()
            || self.time_left_in_scope().is_some()
    }

    fn makes_body(&self) -> bool {
        self.options.as_ref().is_some_and(|options| options.body_factory.is_some())
    }

    fn send(
        &mut self,
        mut request: Request,
        number: u32,
        has_left: Option<Arc<AtomicBool>>,
    ) -> InScope<'_> {
        // A policy that was brought may take the field for one of keys; no build has checked that.
        let header = self.retry.attempt_header.as_ref();
        if let Some(name) = header.filter(|name| !self.policy.is_key_field(name)) {
            request.headers_mut().insert(name, number.into());
        }
        if let Some(ours) = self.policy.attempt_timeout() {
            let timeout = request.timeout_mut();
            *timeout = Some(timeout.map_or(ours, |callers| callers.min(ours)));
        }
        let options = self.options.as_deref();
        let around = Around {
            body_factory: options.and_then(|options| options.body_factory.clone()),
            head_timeout: self.policy.head_timeout(),
            time_left: self.time_left(),
            buffer_body: self.buffer_body(),
            keep_body: self.policy.has_classifiers() || self.can_cancel(),
            scope: self.scope.clone(),
            has_left,
        };
        let next = self.next.clone();
        let target = self.provable.then(|| Target::of_request(&request));
        InScope::start(target, self.extensions, |extensions| around.run(next, request, extensions))
    }

    /// Goes on with the resends, if there are to be any.
    pub(super) fn after_first(&mut self, ended: Ended) -> Step<BoxFuture<'_, Result<Response>>> {
        match ended.result {
            Ok(response)
                if self.tracker().is_none()
                    && self.shared_session().is_none()
                    && !self.retry.observers.want_every_attempt()
                    && !self.can_cancel()
                    && self.policy.completes(response.status()) =>
            {
                if self.retry.budget_is_touched() {
                    self.answered_at_once();
                }
                Step::Return(Ok(response))
            }
            _ => self.after_failure(ended),
        }
    }

    #[cold]
    #[inline(never)]
    fn answered_at_once(&self) {
        if let Some(mut account) = self.account() {
            account.answered();
        }
    }

    /// A final failure costs no box; and the box of the resends is made out of line, so that the
    /// future of the first attempt does not hold them.
    #[cold]
    #[inline(never)]
    fn after_failure(&mut self, ended: Ended) -> Step<BoxFuture<'_, Result<Response>>> {
        let attempt_started = match (self.shared_session(), &self.destination) {
            (Some(shared), _) => shared.sent_after(),
            (None, Some(destination)) => destination.held_back,
            (None, None) => Duration::ZERO,
        };
        let mut progress = Progress {
            session: self.session(),
            attempts: Vec::with_capacity(1), // most calls that wait do so once
            account: self.account(),
            url: self.url().cloned(),
            attempt_started,
        };
        match self.judge(&mut progress, ended) {
            Step::Return(result) => Step::Return(result),
            Step::Go(wait) => Step::Go(Box::pin(self.resend(progress, wait))),
        }
    }

    async fn resend(&mut self, mut progress: Progress, mut wait: Wait) -> Result<Response> {
        loop {
            if let Some((reason, outcome)) = self.interrupted(wait, progress.url.as_ref()).await {
                return self.finish(progress.attempts, progress.url.as_ref(), reason, outcome);
            }
            progress.attempt_started = match self.shared_session() {
                Some(shared) => shared.resent(),
                None => self.started.elapsed(),
            };
            let has_left = self.makes_body().then(Arc::default);
            if let Some(account) = &mut progress.account {
                account.sent(has_left.clone());
            }
            let ended = self.send_again(&progress.session, has_left).await;
            match self.judge(&mut progress, ended) {
                Step::Return(result) => return result,
                Step::Go(next) => wait = next,
            }
        }
    }

    /// Decides what follows an attempt: a wait and a resend, or the result as it is.
    fn judge(&self, progress: &mut Progress, ended: Ended) -> Step<Wait> {
        let record = self.decide(progress, &ended);
        progress.attempts.push(record);
        self.retry.observers.attempt_ended(&self.observed(progress.url.as_ref()), &record);
        match record.decision() {
            RetryDecision::RetryAfter { delay, .. } => {
                Step::Go(Wait { delay, outcome: Some(ended.result) })
            }
            RetryDecision::DoNotRetry { reason } => {
                if let Some(shared) = self.shared_session() {
                    shared.ended(progress.account.take(), reason != StopReason::Completed);
                }
                let attempts = std::mem::take(&mut progress.attempts);
                Step::Return(self.finish(attempts, progress.url.as_ref(), reason, ended.result))
            }
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(options) = self.options.take() {
            options.give_back(self.extensions);
        }
    }
}

impl Destination {
    fn of(request: &Request, retry: &RetryMiddleware) -> Self {
        let cooldown_key = retry.cooldown.as_ref().and_then(|cooldown| cooldown.key(request));
        Self { url: request.url().clone(), cooldown_key, held_back: Duration::ZERO }
    }
}

/// The host and path that classifiers are told.
pub(super) fn target(url: Option<&Url>) -> (&str, &str) {
    url.map_or(("", ""), |url| (url.host_str().unwrap_or(""), url.path()))
}
