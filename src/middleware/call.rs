//! One logical request: what holds for it from its first send to its final outcome.

mod choice;
mod ending;
mod judgement;
mod plain;
mod sending;
mod waiting;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http::{Extensions, Method};
use reqwest::{Request, Response, Url};
use reqwest_middleware::Result;

use self::choice::Choice;
pub(super) use self::plain::Plain;
pub(super) use self::sending::Sending;
use super::attempt::Around;
use super::body_factory::BodyFactory;
use super::endpoint::EndpointId;
use super::exchange::Target;
use super::history::{AttemptRecord, RetryTracker};
use super::observe::ObservedCall;
use super::request_ext::RequestOptions;
use super::retry_scope::RetryScope;
use super::shared_session::SharedSession;
use super::{Endpoint, RetryError, RetryMiddleware, replay};
use crate::origin::{Account, Key};
use crate::policy::{RetryPolicy, RetrySession, RetryableMethod, StopReason};
use crate::time::{self, Instant};

/// One logical request, without the request itself. It is part of the future of every call, so it stays
/// small: what only a failed attempt needs is in [`Progress`].
pub(super) struct Call<'a> {
    retry: &'a RetryMiddleware,
    policy: Cow<'a, RetryPolicy>,
    /// The limits of the task, if it has any.
    scope: Option<Arc<RetryScope>>,
    /// What the request itself asks for, if it does.
    options: Option<Box<RequestOptions>>,
    method: Method,
    class: RetryableMethod,
    endpoint: Option<EndpointId>,
    /// Whether an attempt can be proven not to have been processed.
    provable: bool,
    /// Where the request goes, if anybody may ask when it is not kept any longer.
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
    /// With the budget, if there is one and the URL is known.
    account: Option<Account>,
    /// When the current attempt was sent, counted from the beginning of the call.
    attempt_started: Duration,
}

impl<'a> Call<'a> {
    /// Decides what holds for `request`, and makes it ready to be sent.
    #[inline]
    pub(super) fn new(
        retry: &'a RetryMiddleware,
        request: &mut Request,
        extensions: &mut Extensions,
    ) -> Self {
        let started = Instant::now();
        let mut options = RequestOptions::take(request, extensions);
        let scope = RetryScope::open();
        let Choice { policy, endpoint, class } =
            Choice::make(retry, request, scope.as_deref(), &mut options);
        let makes_body = options.as_ref().is_some_and(|options| options.body_factory.is_some());
        if makes_body {
            BodyFactory::make_room(request);
        }
        let session = options.as_ref().and_then(|options| options.session.as_ref());
        if let Some(session) = session {
            let endpoint = endpoint.and_then(|id| retry.endpoints.get(id));
            session.begin(class, request, endpoint, retry);
        }
        let may_be_asked = policy.has_classifiers() || retry.cooldown.is_some();
        // reqwest shows the observer of a proof only what it could resend itself.
        let provable = retry.has_proof && !makes_body && replay::can_copy(request);
        let destination = may_be_asked.then(|| Box::new(Destination::of(request, retry)));
        // Not before: what is asked of the request is asked of it as the caller made it.
        if let Some(ours) = policy.attempt_timeout() {
            let ours = time::reqwest_timeout(ours);
            let timeout = request.timeout_mut();
            *timeout = Some(timeout.map_or(ours, |callers| callers.min(ours)));
        }
        Self {
            class,
            endpoint,
            method: request.method().clone(),
            provable,
            destination,
            started,
            retry,
            policy,
            scope,
            options,
        }
    }

    /// Whether there is nothing to the call but to send `request` once, as it is: nobody limits it or asks for
    /// more, and no resend can follow.
    #[inline]
    pub(super) fn is_plain(&self, request: &Request) -> bool {
        self.options.is_none()
            && self.scope.is_none()
            && self.destination.is_none()
            && !self.provable
            && self.retry.attempt_header.is_none()
            && !self.goes_round()
            && !self.keeps(request, 1)
    }

    /// Whether `request` has to be kept while the attempt with this number is sent: a resend may follow.
    #[inline]
    pub(super) fn keeps(&self, request: &Request, number: u32) -> bool {
        self.policy.may_resend(self.class, number, self.provable) && replay::can_copy(request)
    }

    /// The session of this call: its own, or the rest of one that other requests share.
    fn session(&self) -> RetrySession {
        match self.shared_session() {
            Some(shared) => shared.session(self.class),
            None => RetrySession::new(RetryPolicy::clone(&self.policy), self.class),
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

    fn makes_body(&self) -> bool {
        self.options.as_ref().is_some_and(|options| options.body_factory.is_some())
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
    #[inline]
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
    #[inline]
    fn refusal(&self) -> Option<(StopReason, RetryError)> {
        if self.is_cancelled() {
            Some((StopReason::Cancelled, RetryError::cancelled()))
        } else if self.time_left() == Some(Duration::ZERO) {
            Some((StopReason::DeadlinePassed, RetryError::deadline()))
        } else {
            None
        }
    }

    /// What goes round an attempt, if anything does. `has_left` becomes true once the request is sent, where
    /// its body has to be made first.
    #[inline]
    fn around(&self, has_left: Option<Arc<AtomicBool>>) -> Option<Around> {
        if !self.goes_round() {
            return None;
        }
        let options = self.options.as_deref();
        Some(Around {
            body_factory: options.and_then(|options| options.body_factory.clone()),
            head_timeout: self.policy.head_timeout(),
            time_left: self.time_left(),
            buffer_body: self.buffer_body(),
            keep_body: self.policy.has_classifiers() || self.can_cancel(),
            scope: self.scope.clone(),
            has_left,
        })
    }

    /// Whether anything but the send is part of an attempt.
    #[inline]
    fn goes_round(&self) -> bool {
        self.may_make_error() || self.buffer_body().is_some()
    }

    /// Whether the attempt may end with an error of ours, which says where it went.
    #[inline]
    fn may_make_error(&self) -> bool {
        self.makes_body()
            || self.policy.head_timeout().is_some()
            || self.policy.deadline().is_some()
            || self.scope.as_ref().is_some_and(|scope| scope.has_deadline())
    }

    /// Puts into the request what tells this attempt from others, and says what an exchange of it would look
    /// like to the observer of a proof.
    #[inline]
    fn mark(&self, request: &mut Request, number: u32) -> Option<Target> {
        // A policy that was brought may take the field for one of keys; no build has checked that.
        let header = self.retry.attempt_header.as_ref();
        if let Some(name) = header.filter(|name| !self.policy.is_key_field(name)) {
            request.headers_mut().insert(name, number.into());
        }
        self.provable.then(|| Target::of_request(request))
    }

    /// The request is not kept any longer: notes where it goes, if anybody may ask. Of a resend somebody may.
    #[inline]
    pub(super) fn let_go(&mut self, request: &Request, number: u32) {
        if self.destination.is_none()
            && (number > 1 || self.retry.wants_url() || self.may_make_error())
        {
            self.note_destination(request);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_destination(&mut self, request: &Request) {
        self.destination = Some(Box::new(Destination::of(request, self.retry)));
    }

    /// Whether this outcome needs no decision.
    #[inline]
    fn is_done(&self, result: &Result<Response>) -> bool {
        result.as_ref().is_ok_and(|response| self.policy.completes(response.status()))
            && !self.retry.observers.want_every_attempt()
    }

    /// Whether somebody wants to know of any outcome.
    fn is_watched(&self) -> bool {
        self.tracker().is_some() || self.shared_session().is_some() || self.can_cancel()
    }

    /// A server answered at once.
    #[inline]
    fn answered(&self, url: Option<&Url>) {
        if self.retry.budget_is_touched() {
            self.fill_budget(url);
        }
    }

    #[cold]
    #[inline(never)]
    fn fill_budget(&self, url: Option<&Url>) {
        if let Some(mut account) = self.account(url) {
            account.answered();
        }
    }

    /// Where a request goes that is not kept, if anybody may ask.
    fn destination(&self) -> Option<&Url> {
        self.destination.as_ref().map(|destination| &destination.url)
    }

    /// The budget's account for this call, if its URL is known.
    fn account(&self, url: Option<&Url>) -> Option<Account> {
        match self.shared_session() {
            Some(shared) => shared.take_account(),
            None => self.retry.budget.as_ref().zip(url).map(|(budget, url)| budget.account(url)),
        }
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

    fn progress(&self, url: Option<&Url>) -> Progress {
        let attempt_started = match (self.shared_session(), &self.destination) {
            (Some(shared), _) => shared.sent_after(),
            (None, Some(destination)) => destination.held_back,
            (None, None) => Duration::ZERO,
        };
        Progress {
            session: self.session(),
            attempts: Vec::with_capacity(1), // most calls that wait do so once
            account: self.account(url),
            attempt_started,
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
