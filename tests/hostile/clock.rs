//! The client's clock, paused.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};
use reqwest_typed_retry::{AttemptRecord, ObservedCall, ResendCount, RetryObserver};

use crate::held_clock::HeldClock;

/// Stands still from the beginning of each attempt until its end, or until the server, on whatever thread, lets time
/// pass. For one call at a time.
///
/// As an inner middleware it sees where attempts begin, as an observer where they end.
#[derive(Clone, Default)]
pub(crate) struct Clock {
    held: Arc<Mutex<Option<HeldClock>>>,
    mode: Mode,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Mode {
    #[default]
    EachAttempt,
    /// Another attempt can share the connection of the first, to which the server has done its worst.
    FirstAttempt,
    /// What an attempt leaves behind is of interest.
    UntilTheServerSays,
}

impl Clock {
    pub(crate) fn for_the_first() -> Self {
        Self { mode: Mode::FirstAttempt, ..Self::default() }
    }

    pub(crate) fn until_the_server_says() -> Self {
        Self { mode: Mode::UntilTheServerSays, ..Self::default() }
    }

    pub(crate) fn hold(&self) {
        self.held.lock().unwrap().get_or_insert_with(HeldClock::hold);
    }

    pub(crate) fn pass(&self) {
        *self.held.lock().unwrap() = None;
    }
}

#[async_trait]
impl Middleware for Clock {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        if self.mode != Mode::FirstAttempt || ResendCount::of(extensions) == 0 {
            self.hold();
        }
        next.run(request, extensions).await
    }
}

impl RetryObserver for Clock {
    fn attempt_ended(&self, _: &ObservedCall<'_>, attempt: &AttemptRecord) {
        if self.mode != Mode::UntilTheServerSays || attempt.outcome().fault().is_some() {
            self.pass();
        }
    }
}
