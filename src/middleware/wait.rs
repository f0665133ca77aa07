//! What lies between two attempts.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use reqwest::Response;

use super::buffer;
use super::drain::{Discarded, DrainLimits, Progress};
use super::retry_scope::RetryScope;
use crate::policy::StopReason;
use crate::time;

/// A wait, and the outcome that calls for it: none before the first attempt.
pub(super) struct Wait {
    pub(super) delay: Duration,
    pub(super) outcome: Option<reqwest_middleware::Result<Response>>,
}

/// What bounds a wait, and what becomes of the outcome meanwhile.
pub(super) struct Limits<'a> {
    pub(super) drain: DrainLimits,
    pub(super) scope: Option<&'a RetryScope>,
    /// Whether another wait may follow.
    pub(super) may_be_longer: bool,
    /// Whether the outcome may be asked for, if the wait is interrupted.
    pub(super) may_be_asked: bool,
}

/// How a wait ended.
pub(super) enum Woken {
    InTime,
    /// With the outcome, as far as it is whole.
    Interrupted(StopReason, Option<reqwest_middleware::Result<Response>>),
}

/// What is left of the outcome.
enum Held {
    Nothing,
    Whole(reqwest_middleware::Result<Response>),
    Part(Discarded),
}

impl Held {
    /// What somebody could ask for is kept; else a response is read only so that its connection can be used
    /// again.
    fn new(wait: Wait, limits: Limits<'_>) -> Self {
        let Limits { drain, may_be_longer, may_be_asked, .. } = limits;
        let longest = if may_be_longer { Duration::MAX } else { wait.delay };
        match wait.outcome {
            Some(Ok(response)) if buffer::bytes(&response).is_none() => {
                Discarded::new(response, drain, longest, may_be_asked)
                    .map_or(Self::Nothing, Self::Part)
            }
            Some(whole) if may_be_asked => Self::Whole(whole),
            _ => Self::Nothing,
        }
    }

    fn read_on(&mut self, cx: &mut Context<'_>) -> Progress {
        let Self::Part(discarded) = self else { return Progress::None };
        let progress = discarded.poll(cx);
        if progress == Progress::Done {
            *self = Self::Nothing;
        }
        progress
    }

    fn into_outcome(self) -> Option<reqwest_middleware::Result<Response>> {
        match self {
            Self::Nothing => None,
            Self::Whole(outcome) => Some(outcome),
            Self::Part(discarded) => discarded.into_response().map(Ok),
        }
    }
}

impl Wait {
    /// `longer` says, at its end, whether another wait follows, or that it may not.
    pub(super) async fn run(
        self,
        limits: Limits<'_>,
        mut longer: impl FnMut() -> Result<Option<Duration>, StopReason>,
    ) -> Woken {
        let mut delay = self.delay;
        let scope = limits.scope;
        let mut held = Held::new(self, limits);
        let reason = loop {
            if is_cancelled_within(delay, scope, |cx| held.read_on(cx)).await {
                break StopReason::Cancelled;
            }
            match longer() {
                Ok(Some(more)) => delay = more,
                Ok(None) => return Woken::InTime,
                Err(reason) => break reason,
            }
        };
        Woken::Interrupted(reason, held.into_outcome())
    }
}

/// A zero wait gives way so often at most, as long as there is something to read each time.
const GIVE_WAYS: usize = 32;

/// Waits for `delay`, and reads on meanwhile. Whether a token of `scope` ended it.
pub(super) async fn is_cancelled_within(
    delay: Duration,
    scope: Option<&RetryScope>,
    mut read_on: impl FnMut(&mut Context<'_>) -> Progress,
) -> bool {
    let mut cancelled = pin!(async {
        match scope {
            Some(scope) => scope.cancelled().await,
            None => pending().await,
        }
    });
    let mut wait = pin!(time::sleep(delay));
    let mut give_ways = if delay.is_zero() { GIVE_WAYS } else { 0 };
    poll_fn(|cx| {
        // In this order: whoever cancels at the instant of waking wins.
        if cancelled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(true);
        }
        let is_over = wait.as_mut().poll(cx).is_ready();
        if is_over && give_ways == 0 {
            return Poll::Ready(false);
        }
        let progress = read_on(cx);
        if is_over {
            if progress != Progress::Some {
                return Poll::Ready(false);
            }
            give_ways -= 1;
            wait.set(time::sleep(Duration::ZERO));
            // Pending, and woken soon.
            let _ = wait.as_mut().poll(cx);
        }
        Poll::Pending
    })
    .await
}
