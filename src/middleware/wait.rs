//! What lies between two attempts.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use reqwest::Response;
use reqwest_middleware::{Error, Result};

use super::drain::{Discarded, DrainLimits};
use super::retry_scope::RetryScope;
use super::time;

/// A wait, and the outcome that calls for it.
pub(super) struct Wait {
    pub(super) delay: Duration,
    pub(super) outcome: Result<Response>,
}

/// A zero wait gives way so often at most while a response is being read that may be there already.
const GIVE_WAYS: usize = 32;

/// How a wait ended.
pub(super) enum Woken {
    InTime,
    /// With the outcome, as far as it is whole.
    Cancelled(Option<Result<Response>>),
}

/// What is left of the outcome.
enum Held {
    Nothing,
    Error(Error),
    Response(Discarded),
}

impl Held {
    /// What a cancellation could ask for is kept; without one an error is dropped, and a response read
    /// only so that its connection can be used again.
    fn new(wait: Wait, limits: DrainLimits, can_cancel: bool) -> Self {
        match wait.outcome {
            Ok(response) => Discarded::new(response, limits, wait.delay, can_cancel)
                .map_or(Self::Nothing, Self::Response),
            Err(error) if can_cancel => Self::Error(error),
            Err(_) => Self::Nothing,
        }
    }

    fn is_being_read(&self) -> bool {
        matches!(self, Self::Response(discarded) if discarded.is_being_read())
    }

    fn into_outcome(self) -> Option<Result<Response>> {
        match self {
            Self::Nothing => None,
            Self::Error(error) => Some(Err(error)),
            Self::Response(discarded) => discarded.into_response().map(Ok),
        }
    }
}

impl Wait {
    pub(super) async fn run(self, limits: DrainLimits, scope: Option<&RetryScope>) -> Woken {
        let scope = scope.filter(|scope| scope.can_cancel());
        let mut patience = if self.delay.is_zero() { GIVE_WAYS } else { 0 };
        let mut wait = pin!(time::sleep(self.delay));
        let mut held = Held::new(self, limits, scope.is_some());
        let mut cancelled = pin!(async {
            match scope {
                Some(scope) => scope.cancelled().await,
                None => pending().await,
            }
        });
        let is_cancelled = poll_fn(|cx| {
            // In this order: whoever cancels at the instant of waking wins.
            if cancelled.as_mut().poll(cx).is_ready() {
                return Poll::Ready(true);
            }
            if wait.as_mut().poll(cx).is_ready() {
                if patience == 0 || !held.is_being_read() {
                    return Poll::Ready(false);
                }
                patience -= 1;
                wait.set(time::sleep(Duration::ZERO));
                // Pending, and woken soon.
                let _ = wait.as_mut().poll(cx);
            }
            if let Held::Response(discarded) = &mut held {
                if discarded.poll(cx).is_ready() {
                    held = Held::Nothing;
                }
            }
            Poll::Pending
        });
        if is_cancelled.await { Woken::Cancelled(held.into_outcome()) } else { Woken::InTime }
    }
}
