//! A paused clock for tests with real sockets.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use bytes::Bytes;
use http::Extensions;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use reqwest::{Body, Request, Response};
use reqwest_middleware::{Middleware, Next, Result};

use super::held_clock::HeldClock;

/// The clock stands still while bytes are on their way through a socket, so that every duration is
/// exact, however slow the machine is. As an inner middleware it sees what the client sends and gets;
/// the server tells it the rest. One attempt at a time.
#[derive(Clone, Default)]
pub(crate) struct Transit(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    clock: Option<HeldClock>,
    attempts: usize,
    /// The attempt that the client has not given up.
    live: Option<usize>,
}

impl Transit {
    fn begin(&self) {
        self.0.lock().unwrap().clock.get_or_insert_with(HeldClock::hold);
    }

    /// What was on its way has arrived.
    pub(crate) fn end(&self) {
        self.0.lock().unwrap().clock = None;
    }

    pub(crate) fn live(&self) -> Option<usize> {
        self.0.lock().unwrap().live
    }

    /// Whether the client still waits for what the server is about to write; if so, that is on its way.
    pub(crate) fn begin_answer(&self, attempt: Option<usize>) -> bool {
        let is_live = attempt.is_some() && self.live() == attempt;
        if is_live {
            self.begin();
        }
        is_live
    }
}

/// Until it is dropped the client waits for this attempt.
struct Live(Transit);

impl Live {
    fn new(transit: Transit) -> Self {
        let mut state = transit.0.lock().unwrap();
        state.attempts += 1;
        state.live = Some(state.attempts);
        drop(state);
        Self(transit)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().live = None;
        self.0.end();
    }
}

#[async_trait]
impl Middleware for Transit {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let live = Live::new(self.clone());
        self.begin();
        let response = http::Response::<Body>::from(next.run(request, extensions).await?);
        self.end();
        Ok(response.map(|body| Body::wrap(Arriving { body, live })).into())
    }
}

/// A body whose frames, once they are there, are no longer on their way.
struct Arriving {
    body: Body,
    live: Live,
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<reqwest::Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.live.0.end();
        Poll::Ready(frame)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}
