//! What an attempt knows of itself while it is being polled.
//!
//! A task-local would be one map for the whole task, hiding the caller's own. This is a cell of the
//! thread, set for each poll of an attempt and put back by a guard, also when the poll panics.

use std::cell::Cell;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll};

use http::Extensions;
use reqwest::Response;
use reqwest_middleware::Result;

use super::BoxFuture;

thread_local! {
    static CURRENT: Cell<Option<AttemptScope>> = const { Cell::new(None) };
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct AttemptScope {
    /// Where the map lives that the attempt's chain passes on. The attempt borrows it, so nothing
    /// else can live there meanwhile: the same address means the same chain.
    extensions: usize,
}

impl AttemptScope {
    fn of(extensions: &Extensions) -> Self {
        Self {
            extensions: ptr::from_ref(extensions).addr(),
        }
    }

    fn enter(self) -> Entered {
        Entered {
            outer: CURRENT.replace(Some(self)),
        }
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

/// Whether the caller runs inside an attempt of another retry middleware of the same chain. A
/// client of its own inside an inner middleware has another map, and keeps its retries.
pub(super) fn is_nested(extensions: &Extensions) -> bool {
    CURRENT.get() == Some(AttemptScope::of(extensions))
}

/// An attempt that runs in its scope.
pub(super) struct InScope<'a> {
    scope: AttemptScope,
    attempt: BoxFuture<'a, Result<Response>>,
}

impl<'a> InScope<'a> {
    /// `start` itself runs in the scope too: it calls the next middleware.
    pub(super) fn start(
        extensions: &'a mut Extensions,
        start: impl FnOnce(&'a mut Extensions) -> BoxFuture<'a, Result<Response>>,
    ) -> Self {
        let scope = AttemptScope::of(extensions);
        let _entered = scope.enter();
        Self {
            scope,
            attempt: start(extensions),
        }
    }
}

impl Future for InScope<'_> {
    type Output = Result<Response>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let _entered = self.scope.enter();
        self.attempt.as_mut().poll(cx)
    }
}
