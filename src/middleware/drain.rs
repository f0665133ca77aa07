//! What becomes of a response that is not handed out.
//!
//! Dropped unread, an HTTP/1.1 response takes its connection with it. So it is read during the wait,
//! within bounds; beyond them it is dropped, so that no socket is held through the wait.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::HeaderMap;
use http::response::Parts;
use hyper::body::{Body as _, Bytes, Frame};
use reqwest::{Body, Response, Url};

use super::buffer::Rebuilt;
use super::{BoxFuture, buffer, time};

/// How much of a discarded response is read, so that its connection can be used again.
///
/// It is read while the middleware waits anyway: the next attempt never waits for it, and no failure
/// of it is one of the call. Without a wait only what has arrived is read. What is beyond a bound is dropped at once; over HTTP/1.1 its connection
/// is closed then, over HTTP/2 the stream is reset.
///
/// ```
/// use std::time::Duration;
/// use reqwest_typed_retry::{DrainLimits, RetryMiddleware, RetryPolicy};
///
/// let drain = DrainLimits::new(256 * 1024, Duration::from_secs(2));
/// let retry = RetryMiddleware::builder(RetryPolicy::default()).drain(drain).build()?;
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainLimits {
    bytes: u64,
    time: Duration,
}

impl DrainLimits {
    /// At most so many bytes of a body, during at most so much of the wait.
    #[must_use]
    pub const fn new(bytes: u64, time: Duration) -> Self {
        Self { bytes, time }
    }

    /// Every response that is not handed out is dropped unread.
    #[must_use]
    pub const fn none() -> Self {
        Self::new(0, Duration::ZERO)
    }
}

/// 64 KiB and one second: error pages fit in it, downloads do not.
impl Default for DrainLimits {
    fn default() -> Self {
        Self::new(64 * 1024, Duration::from_secs(1))
    }
}

/// A body that is always ready gives way after so many, so that time passes: the wait's and its own.
const FRAMES_AT_ONCE: usize = 32;

/// A response that is not handed out, unless the wait is cancelled.
pub(super) struct Discarded {
    /// What there is to read yet.
    body: Option<Body>,
    bytes_left: u64,
    time_is_up: Option<BoxFuture<'static, ()>>,
    /// What has been read, if a cancellation could ask for it.
    kept: Option<Box<Kept>>,
}

struct Kept {
    parts: Parts,
    url: Url,
    chunks: Vec<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Discarded {
    /// `None` if there is nothing to read and nothing to keep, or more than the limit. `delay` is the
    /// wait during which it is read.
    pub(super) fn new(
        response: Response,
        limits: DrainLimits,
        delay: Duration,
        keep: bool,
    ) -> Option<Self> {
        let url = keep.then(|| response.url().clone());
        let (parts, body) = http::Response::<Body>::from(response).into_parts();
        let body = (!body.is_end_stream()).then_some(body);
        if let Some(body) = &body {
            if limits.bytes == 0 || body.size_hint().lower() > limits.bytes {
                return None;
            }
        }
        let kept = url.map(|url| Box::new(Kept { parts, url, chunks: Vec::new(), trailers: None }));
        let time_is_up: Option<BoxFuture<'static, ()>> = match &body {
            Some(_) if limits.time < delay => Some(Box::pin(time::sleep(limits.time))),
            _ => None,
        };
        let is_of_use = body.is_some() || kept.is_some();
        is_of_use.then_some(Self { body, bytes_left: limits.bytes, time_is_up, kept })
    }

    /// Reads on. Ready once there is nothing left that anybody could ask for: it can be dropped.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(body) = &mut self.body else { return Poll::Pending };
        if let Some(time_is_up) = &mut self.time_is_up {
            if time_is_up.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
        }
        for _ in 0..FRAMES_AT_ONCE {
            let frame = match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(Some(Err(_))) => return Poll::Ready(()),
                Poll::Ready(None) => {
                    (self.body, self.time_is_up) = (None, None);
                    return if self.kept.is_some() { Poll::Pending } else { Poll::Ready(()) };
                }
                Poll::Pending => return Poll::Pending,
            };
            // An empty frame counts too, so that a body of nothing else ends.
            let length = frame.data_ref().map_or(0, |data| data.len() as u64).max(1);
            match self.bytes_left.checked_sub(length) {
                Some(left) => self.bytes_left = left,
                None => return Poll::Ready(()),
            }
            if let Some(kept) = &mut self.kept {
                kept.add(frame);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    pub(super) fn is_being_read(&self) -> bool {
        self.body.is_some()
    }

    /// The response as it was, if it was kept: what was read, and what was not.
    pub(super) fn into_response(self) -> Option<Response> {
        let Self { body, kept, .. } = self;
        let Kept { parts, url, chunks, trailers } = *kept?;
        Some(buffer::rebuild(parts, url, Rebuilt { chunks: chunks.into(), trailers, rest: body }))
    }
}

impl Kept {
    fn add(&mut self, frame: Frame<Bytes>) {
        match frame.into_data() {
            Ok(data) => self.chunks.push(data),
            Err(frame) => self.trailers = frame.into_trailers().ok(),
        }
    }
}
