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
use super::exchange::{End, Exchanges, Target};

thread_local! {
    static CURRENT: Cell<Option<AttemptScope>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
pub(super) struct AttemptScope {
    /// Where the map lives that the attempt's chain passes on. The attempt borrows it, so nothing
    /// else can live there meanwhile: the same address means the same chain.
    extensions: usize,
    /// The attempt's own request, if anything can be proven of it.
    target: Option<Target>,
    exchanges: Exchanges,
}

impl AttemptScope {
    #[inline]
    pub(super) fn new(target: Option<Target>, extensions: &Extensions) -> Self {
        Self { extensions: address(extensions), target, exchanges: Exchanges::default() }
    }

    /// Makes it the current one, until what this returns is dropped. The call of the next middleware runs in
    /// it, and so does each poll of what that returns.
    #[inline]
    pub(super) fn enter(&mut self) -> Entered<'_> {
        Entered { outer: CURRENT.replace(Some(*self)), ours: self }
    }
}

/// Notes what became of the scope, and puts the outer one back.
#[must_use]
pub(super) struct Entered<'a> {
    outer: Option<AttemptScope>,
    ours: &'a mut AttemptScope,
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(scope @ AttemptScope { target: Some(_), .. }) = CURRENT.replace(self.outer) {
            *self.ours = scope;
        }
    }
}

fn address(extensions: &Extensions) -> usize {
    ptr::from_ref(extensions).addr()
}

/// Notes how an exchange of the current attempt ended, for the request that `end` is told; outside of
/// an attempt nobody asks.
#[cfg_attr(target_arch = "wasm32", expect(dead_code, reason = "no observer sees one"))]
pub(super) fn saw(end: impl FnOnce(Target) -> End) {
    if let Some(scope @ AttemptScope { target: Some(target), .. }) = CURRENT.get() {
        let exchanges = scope.exchanges.and(end(target));
        CURRENT.set(Some(AttemptScope { exchanges, ..scope }));
    }
}

/// Whether the caller runs inside an attempt of another retry middleware of the same chain. A
/// client of its own inside an inner middleware has another map, unless it is lent this one, and so
/// keeps its retries.
#[inline]
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
    pub(super) fn new(scope: AttemptScope, attempt: BoxFuture<'a, Result<Response>>) -> Self {
        Self { scope, attempt }
    }

    #[inline]
    pub(super) fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response>> {
        let _entered = self.scope.enter();
        self.attempt.as_mut().poll(cx)
    }
}

impl Future for InScope<'_> {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let result = ready!(self.poll_result(cx));
        Poll::Ready(Ended { result, exchanges: self.scope.exchanges })
    }
}
