//! What becomes of the responses of a client, and a clock that moves by it.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::Extensions;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use reqwest::{Body, Request, Response};
use reqwest_middleware::{Middleware, Next, Result};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::held_clock::HeldClock;

/// An inner middleware that watches the bodies of the responses.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    started: Instant,
    heads: watch::Sender<usize>,
    gone: watch::Sender<usize>,
    bodies: Arc<Mutex<Vec<Gone>>>,
}

/// How a body has left the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    /// Whether it was read to its end.
    pub(crate) ended: bool,
    /// In tokio's time since the watch began.
    pub(crate) at: Duration,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            heads: watch::Sender::new(0),
            gone: watch::Sender::new(0),
            bodies: Arc::default(),
        }
    }

    /// How many heads the client has had.
    pub(crate) fn heads(&self) -> watch::Receiver<usize> {
        self.heads.subscribe()
    }

    /// How many bodies it has let go.
    pub(crate) fn gone(&self) -> watch::Receiver<usize> {
        self.gone.subscribe()
    }

    /// The bodies that it has let go, in order.
    pub(crate) fn bodies(&self) -> Vec<Gone> {
        self.bodies.lock().unwrap().clone()
    }
}

#[async_trait]
impl Middleware for Watch {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let response = http::Response::<Body>::from(next.run(request, extensions).await?);
        self.heads.send_modify(|heads| *heads += 1);
        let watch = self.clone();
        Ok(response.map(|body| Body::wrap(Watched { body, ended: false, watch })).into())
    }
}

struct Watched {
    body: Body,
    ended: bool,
    watch: Watch,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<reqwest::Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.ended |= frame.is_none();
        Poll::Ready(frame)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let gone = Gone { ended: self.ended, at: self.watch.started.elapsed() };
        self.watch.bodies.lock().unwrap().push(gone);
        self.watch.gone.send_modify(|gone| *gone += 1);
    }
}

impl HeldClock {
    /// Moves the clock once everything that can run has run. All tasks share one thread, so that a
    /// few turns are enough for what needs no socket.
    pub(crate) async fn advance(&self, time: Duration) {
        for _ in 0..16 {
            yield_now().await;
        }
        tokio::time::advance(time).await;
    }

    /// Moves the clock by `wait` whenever a further body is gone, without an end.
    pub(crate) async fn advance_with(&self, mut gone: watch::Receiver<usize>, wait: Duration) {
        for number in 1.. {
            if gone.wait_for(|gone| *gone >= number).await.is_err() {
                break;
            }
            self.advance(wait).await;
        }
    }
}
