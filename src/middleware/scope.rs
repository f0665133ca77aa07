//! What an attempt knows of itself while it is being polled.
//!
//! A task-local would be one map for the whole task, hiding the caller's own. This is a cell of the
//! thread, set for each poll of an attempt and put back by a guard, also when the poll panics.

use std::cell::Cell;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, ready};

use http::Extensions;
use reqwest::Response;
use reqwest_middleware::Result;

use super::BoxFuture;
use super::proof::{End, Exchanges};

thread_local! {
    static CURRENT: Cell<Option<AttemptScope>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct AttemptScope {
    /// Where the map lives that the attempt's chain passes on. The attempt borrows it, so nothing
    /// else can live there meanwhile: the same address means the same chain.
    extensions: usize,
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

/// Notes how an exchange of the current attempt ended; outside of an attempt nobody asks.
pub(super) fn saw(end: End) {
    CURRENT.set(
        CURRENT.get().map(|scope| AttemptScope { exchanges: scope.exchanges.and(end), ..scope }),
    );
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
        extensions: &'a mut Extensions,
        start: impl FnOnce(&'a mut Extensions) -> BoxFuture<'a, Result<Response>>,
    ) -> Self {
        let mut scope =
            AttemptScope { extensions: address(extensions), exchanges: Exchanges::default() };
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
