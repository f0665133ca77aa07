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
use super::drain::Progress;
use super::{BoxFuture, DrainLimits, buffer};
use crate::time;

/// A body that is always ready gives way after so many, so that time passes: the wait's and its own.
const FRAMES_AT_ONCE: usize = 32;

/// A response that is not handed out, unless the wait is cancelled.
pub(super) struct Discarded {
    body: Body,
    has_ended: bool,
    bytes_left: u64,
    time_is_up: Option<BoxFuture<'static, ()>>,
    /// What has been read, if a cancellation could ask for it.
    kept: Option<Box<Kept>>,
}

struct Kept {
    parts: Parts,
    url: Url,
    read: Vec<u8>,
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
        let has_ended = body.is_end_stream();
        let is_too_long = limits.bytes == 0 || body.size_hint().lower() > limits.bytes;
        if (has_ended && !keep) || (!has_ended && is_too_long) {
            return None;
        }
        let is_bound = !has_ended && limits.time < delay;
        let time_is_up =
            is_bound.then(|| -> BoxFuture<'static, ()> { Box::pin(time::sleep(limits.time)) });
        let kept = url.map(|url| Box::new(Kept { parts, url, read: Vec::new(), trailers: None }));
        Some(Self { body, has_ended, bytes_left: limits.bytes, time_is_up, kept })
    }

    /// Reads on.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Progress {
        if self.has_ended {
            return Progress::None;
        }
        if let Some(time_is_up) = &mut self.time_is_up {
            if time_is_up.as_mut().poll(cx).is_ready() {
                return Progress::Done;
            }
        }
        for number in 0..FRAMES_AT_ONCE {
            let frame = match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(Some(Err(_))) => return Progress::Done,
                Poll::Ready(None) => {
                    (self.has_ended, self.time_is_up) = (true, None);
                    return if self.kept.is_some() { Progress::None } else { Progress::Done };
                }
                Poll::Pending if number > 0 => return Progress::Some,
                Poll::Pending => return Progress::None,
            };
            // An empty frame counts too, so that a body of nothing else ends.
            let length = frame.data_ref().map_or(0, |data| (data.len() as u64).max(1));
            match self.bytes_left.checked_sub(length) {
                Some(left) => self.bytes_left = left,
                None => return Progress::Done,
            }
            if let Some(kept) = &mut self.kept {
                kept.add(frame);
            }
        }
        cx.waker().wake_by_ref();
        Progress::Some
    }

    /// The response as it was, if it was kept: what was read, and what was not.
    pub(super) fn into_response(self) -> Option<Response> {
        let Self { body, has_ended, kept, .. } = self;
        let Kept { parts, url, read, trailers } = *kept?;
        let body = if has_ended {
            Rebuilt::whole(read.into(), trailers, &body)
        } else {
            Rebuilt::part(read.into(), trailers, body)
        };
        Some(buffer::rebuild(parts, url, body))
    }
}

impl Kept {
    fn add(&mut self, frame: Frame<Bytes>) {
        match frame.into_data() {
            Ok(data) => self.read.extend_from_slice(&data),
            Err(frame) => self.trailers = frame.into_trailers().ok(),
        }
    }
}
