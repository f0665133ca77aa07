//! What lies between two attempts.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use reqwest::Response;
use reqwest_middleware::Result;

use super::discarded::Discarded;
use super::drain::Progress;
use super::retry_scope::RetryScope;
use super::{BoxFuture, DrainLimits, buffer};
use crate::time;

/// A wait, which holds the outcome that calls for it as far as somebody has a use for that. Small, because
/// there may be many that wait.
#[must_use]
pub(super) struct Wait {
    is_over: BoxFuture<'static, ()>,
    cancelled: Option<BoxFuture<'static, ()>>,
    held: Option<Box<Held>>,
    /// How often a zero wait may still give way.
    give_ways: u8,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    InTime,
    Cancelled,
}

/// What is left of the outcome.
pub(super) enum Held {
    Whole(Result<Response>),
    Part(Discarded),
}

/// A zero wait gives way so often at most, as long as there is something to read each time.
const GIVE_WAYS: u8 = 32;

fn give_ways(delay: Duration) -> u8 {
    if delay.is_zero() { GIVE_WAYS } else { 0 }
}

impl Held {
    /// What somebody could ask for is kept; else a response is read only so that its connection can be used
    /// again, during a wait of at most `longest`.
    pub(super) fn new(
        outcome: Result<Response>,
        drain: DrainLimits,
        longest: Duration,
        may_be_asked: bool,
    ) -> Option<Self> {
        match outcome {
            Ok(response) if buffer::bytes(&response).is_none() => {
                Discarded::new(response, drain, longest, may_be_asked).map(Self::Part)
            }
            whole => may_be_asked.then_some(Self::Whole(whole)),
        }
    }
}

impl Wait {
    /// Ends after `delay`, or once a token of `scope` is cancelled.
    pub(super) fn new(delay: Duration, scope: Option<&Arc<RetryScope>>) -> Self {
        let scope = scope.filter(|scope| scope.can_cancel()).cloned();
        let cancelled = scope.map(|scope| -> BoxFuture<'static, ()> {
            Box::pin(async move { scope.cancelled().await })
        });
        Self {
            is_over: Box::pin(time::sleep(delay)),
            cancelled,
            held: None,
            give_ways: give_ways(delay),
        }
    }

    pub(super) fn holding(mut self, held: Option<Held>) -> Self {
        self.held = held.map(Box::new);
        self
    }

    /// Another wait after this one.
    pub(super) fn go_on(&mut self, delay: Duration) {
        self.is_over = Box::pin(time::sleep(delay));
        self.give_ways = give_ways(delay);
    }

    /// The outcome, as far as it is whole.
    pub(super) fn into_outcome(self) -> Option<Result<Response>> {
        match *self.held? {
            Held::Whole(outcome) => Some(outcome),
            Held::Part(discarded) => discarded.into_response().map(Ok),
        }
    }

    fn read_on(&mut self, cx: &mut Context<'_>) -> Progress {
        let Some(Held::Part(discarded)) = self.held.as_deref_mut() else { return Progress::None };
        let progress = discarded.poll(cx);
        if progress == Progress::Done {
            self.held = None;
        }
        progress
    }
}

impl Future for Wait {
    type Output = Woken;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Woken> {
        // In this order: whoever cancels at the instant of waking wins.
        if let Some(cancelled) = &mut self.cancelled {
            if cancelled.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Woken::Cancelled);
            }
        }
        let is_over = self.is_over.as_mut().poll(cx).is_ready();
        if is_over && self.give_ways == 0 {
            return Poll::Ready(Woken::InTime);
        }
        let progress = self.read_on(cx);
        if is_over {
            if progress != Progress::Some {
                return Poll::Ready(Woken::InTime);
            }
            self.give_ways -= 1;
            self.is_over = Box::pin(time::sleep(Duration::ZERO));
            // Pending, and woken soon.
            let _ = self.is_over.as_mut().poll(cx);
        }
        Poll::Pending
    }
}
