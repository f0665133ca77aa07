//! What an attempt knows of itself while it is being polled.
//!
//! A cell of the thread, set for each poll of an attempt and put back by a guard, also when the poll
//! panics. By polls and not by tasks: several attempts can share a task (`join!`), and an attempt can
//! move from thread to thread.

use std::cell::Cell;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, ready};

use http::Extensions;
use reqwest::Response;
use reqwest_middleware::Result;

use super::BoxFuture;
use super::proof::{End, Exchanges, Target};

thread_local! {
    static CURRENT: Cell<Option<AttemptScope>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct AttemptScope {
    /// Where the map lives that the attempt's chain passes on. The attempt borrows it, so nothing
    /// else can live there meanwhile: the same address means the same chain.
    extensions: usize,
    /// The attempt's own request, if anything can be proven of it.
    target: Option<Target>,
    exchanges: Exchanges,
}

impl AttemptScope {
    /// Runs `poll` with this scope as the current one.
    fn enter<T>(&mut self, poll: impl FnOnce() -> T) -> T {
        let entered = Entered { outer: CURRENT.replace(Some(*self)) };
        let result = poll();
        if let Some(scope) = CURRENT.get() {
            *self = scope;
        }
        drop(entered);
        result
    }
}

/// Puts the outer scope back.
struct Entered {
    outer: Option<AttemptScope>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.outer);
    }
}

fn address(extensions: &Extensions) -> usize {
    ptr::from_ref(extensions).addr()
}

/// Notes how an exchange of the current attempt ended, for the request that `end` is told; outside of
/// an attempt nobody asks.
pub(super) fn saw(end: impl FnOnce(Target) -> End) {
    if let Some(scope @ AttemptScope { target: Some(target), .. }) = CURRENT.get() {
        let exchanges = scope.exchanges.and(end(target));
        CURRENT.set(Some(AttemptScope { exchanges, ..scope }));
    }
}

/// Whether the caller runs inside an attempt of another retry middleware of the same chain. A
/// client of its own inside an inner middleware has another map, unless it is lent this one, and so
/// keeps its retries.
pub(super) fn is_nested(extensions: &Extensions) -> bool {
    CURRENT.get().is_some_and(|scope| scope.extensions == address(extensions))
}

/// An attempt that runs in its scope.
pub(super) struct InScope<'a> {
    scope: AttemptScope,
    attempt: BoxFuture<'a, Result<Response>>,
}

/// An attempt that has ended.
pub(super) struct Ended {
    pub(super) result: Result<Response>,
    pub(super) exchanges: Exchanges,
}

impl<'a> InScope<'a> {
    /// `start` itself runs in the scope too: it calls the next middleware.
    pub(super) fn start(
        target: Option<Target>,
        extensions: &'a mut Extensions,
        start: impl FnOnce(&'a mut Extensions) -> BoxFuture<'a, Result<Response>>,
    ) -> Self {
        let exchanges = Exchanges::default();
        let mut scope = AttemptScope { extensions: address(extensions), target, exchanges };
        let attempt = scope.enter(|| start(extensions));
        Self { scope, attempt }
    }
}

impl Future for InScope<'_> {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { scope, attempt } = &mut *self;
        let result = ready!(scope.enter(|| attempt.as_mut().poll(cx)));
        Poll::Ready(Ended { result, exchanges: scope.exchanges })
    }
}
