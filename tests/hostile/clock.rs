//! The client's clock, paused.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};
use reqwest_typed_retry::ResendCount;

use crate::held_clock::HeldClock;

/// Stands still from the beginning of each attempt until the server, on whatever thread, lets time pass. As an
/// inner middleware it sees where attempts begin.
#[derive(Clone, Default)]
pub(crate) struct Clock {
    held: Arc<Mutex<Option<HeldClock>>>,
    /// Whether a head lets time pass, too.
    until_head: bool,
    /// Whether it stands still for a first attempt alone.
    first_only: bool,
}

impl Clock {
    /// Time passes once a head has come, at the latest.
    pub(crate) fn until_head() -> Self {
        Self { until_head: true, ..Self::default() }
    }

    /// For attempts that share a connection: the server has done its worst to the first.
    pub(crate) fn for_the_first() -> Self {
        Self { until_head: true, first_only: true, ..Self::default() }
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
        if !self.first_only || ResendCount::of(extensions) == 0 {
            self.hold();
        }
        let result = next.run(request, extensions).await;
        if self.until_head || result.is_err() {
            self.pass();
        }
        result
    }
}
