//! The loop: sends a call's request, and sends it again.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http::Extensions;
use reqwest::{Request, Response, Url};
use reqwest_middleware::{Next, Result};

use super::{Call, Progress};
use crate::middleware::BoxFuture;
use crate::middleware::attempt_scope::{AttemptScope, Ended, InScope};
use crate::middleware::replay::Replay;
use crate::middleware::resend_count::ResendCount;
use crate::middleware::wait::Wait;

/// A call, and what it takes to send its request again.
pub(in crate::middleware) struct Sending<'a> {
    pub(in crate::middleware) call: Call<'a>,
    pub(in crate::middleware) next: Next<'a>,
    pub(in crate::middleware) extensions: &'a mut Extensions,
    pub(in crate::middleware) replay: Replay,
}

impl Sending<'_> {
    fn url(&self) -> Option<&Url> {
        self.call.destination().or_else(|| self.replay.request().map(Request::url))
    }

    /// The end of a call that may not even begin.
    #[inline]
    pub(in crate::middleware) fn refused(&self) -> Option<Result<Response>> {
        let (reason, error) = self.call.refusal()?;
        Some(self.call.end(Vec::new(), self.url(), reason, Err(error.into()), false))
    }

    /// The wait for a cooldown before the first attempt, if there is one. It gives the end of the call, if
    /// that may not go on.
    #[inline]
    pub(in crate::middleware) fn held_back(
        &mut self,
    ) -> Option<BoxFuture<'_, Option<Result<Response>>>> {
        self.call.gate()?.closed_for()?;
        Some(Box::pin(async move {
            let mut wait = self.call.wait(Duration::ZERO, None);
            let interrupted = self.call.interrupted(&mut wait).await;
            if let Some((reason, result)) = self.call.stopped(interrupted, wait) {
                return Some(self.call.finish(Vec::new(), self.url(), reason, result));
            }
            let held_back = self.call.started.elapsed();
            if let Some(destination) = &mut self.call.destination {
                destination.held_back = held_back;
            }
            None
        }))
    }

    #[inline]
    pub(in crate::middleware) fn send_first(&mut self) -> InScope<'_> {
        let has_left = self.call.makes_body().then(Arc::default);
        let number = self.call.shared_session().map_or(1, |shared| shared.sent(has_left.clone()));
        let keep = self.keeps(number);
        if keep {
            self.replay.keep_extensions(self.extensions);
        }
        self.send(number, keep, has_left)
    }

    fn send_again<'b>(&'b mut self, progress: &mut Progress) -> InScope<'b> {
        progress.attempt_started = match self.call.shared_session() {
            Some(shared) => shared.resent(),
            None => self.call.started.elapsed(),
        };
        let has_left = self.call.makes_body().then(Arc::default);
        if let Some(account) = &mut progress.account {
            account.sent(has_left.clone());
        }
        let number = progress.session.attempts();
        let keep = self.keeps(number);
        self.replay.reset(self.extensions, keep);
        self.send(number, keep, has_left)
    }

    /// Whether the request stays here while the attempt with this number is sent.
    fn keeps(&self, number: u32) -> bool {
        self.replay.request().is_some_and(|request| self.call.keeps(request, number))
    }

    /// `has_left` becomes true once the request is sent, where its body has to be made first.
    #[inline]
    fn send(&mut self, number: u32, keep: bool, has_left: Option<Arc<AtomicBool>>) -> InScope<'_> {
        let Self { call, next, extensions, replay } = self;
        ResendCount::of_attempt(number).put_into(extensions);
        #[cfg(target_arch = "wasm32")]
        if let (true, Some(request)) = (number > 1, replay.request_mut()) {
            crate::middleware::browser::go_past_the_cache(request);
        }
        let target = replay.request_mut().and_then(|request| {
            if !keep {
                call.let_go(request, number);
            }
            call.mark(request, number)
        });
        let (around, next) = (call.around(has_left), next.clone());
        let mut scope = AttemptScope::new(target, extensions);
        let entered = scope.enter();
        let attempt = match around {
            None => next.run(replay.hand_out(keep), extensions),
            Some(around) => around.run(next, replay.hand_out(keep), extensions),
        };
        drop(entered);
        InScope::new(scope, attempt)
    }

    /// Goes on with the resends, if there are to be any.
    #[inline]
    pub(in crate::middleware) fn after_first(
        &mut self,
        ended: Ended,
    ) -> ControlFlow<Result<Response>, BoxFuture<'_, Result<Response>>> {
        if self.call.is_done(&ended.result) && !self.call.is_watched() {
            self.call.answered(self.url());
            return Break(ended.result);
        }
        self.after_failure(ended)
    }

    /// A final failure costs no box; and the box of the resends is made out of line, so that the future of the
    /// first attempt does not hold them.
    #[cold]
    #[inline(never)]
    fn after_failure(
        &mut self,
        ended: Ended,
    ) -> ControlFlow<Result<Response>, BoxFuture<'_, Result<Response>>> {
        let mut progress = self.call.progress(self.url());
        let wait = self.after(&mut progress, ended)?;
        Continue(self.resend(progress, wait))
    }

    fn after(&self, progress: &mut Progress, ended: Ended) -> ControlFlow<Result<Response>, Wait> {
        let can_resend = self.replay.request().is_some();
        let (delay, result) = self.call.judge(progress, ended, self.url(), can_resend)?;
        Continue(self.call.wait(delay, Some(result)))
    }

    fn resend(
        &mut self,
        mut progress: Progress,
        mut wait: Wait,
    ) -> BoxFuture<'_, Result<Response>> {
        Box::pin(async move {
            loop {
                let interrupted = self.call.interrupted(&mut wait).await;
                if let Some((reason, result)) = self.call.stopped(interrupted, wait) {
                    return self.call.finish(progress.attempts, self.url(), reason, result);
                }
                let ended = self.send_again(&mut progress).await;
                match self.after(&mut progress, ended) {
                    Break(result) => return result,
                    Continue(next) => wait = next,
                }
            }
        })
    }
}

/// An outer middleware may send the request once more.
impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if let Some(options) = self.call.options.take() {
            options.give_back(self.extensions);
        }
    }
}
