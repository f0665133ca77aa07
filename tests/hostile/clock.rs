//! The client's clock, paused.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};

use crate::held_clock::HeldClock;

/// Stands still from the beginning of each attempt until the server, on whatever thread, lets time pass. As an
/// inner middleware it sees where attempts begin.
#[derive(Clone, Default)]
pub(crate) struct Clock {
    held: Arc<Mutex<Option<HeldClock>>>,
    /// Whether a head lets time pass, too.
    until_head: bool,
}

impl Clock {
    /// Time passes once a head has come, at the latest.
    pub(crate) fn until_head() -> Self {
        Self { until_head: true, ..Self::default() }
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
        self.hold();
        let result = next.run(request, extensions).await;
        if self.until_head || result.is_err() {
            self.pass();
        }
        result
    }
}
