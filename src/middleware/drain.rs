//! What becomes of a response that is not handed out.
//!
//! Dropped unread, an HTTP/1.1 response takes its connection with it. So it is read during the wait,
//! within bounds; beyond them it is dropped, so that no socket is held through the wait.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::Body as _;
use reqwest::{Body, Response};

use super::time;

/// How much of a discarded response is read, so that its connection can be used again.
///
/// It is read while the middleware waits anyway: the next attempt never waits for it, and no failure
/// of it is one of the call. What is beyond a bound is dropped at once; over HTTP/1.1 its connection
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

/// Waits for `delay`, and meanwhile reads what is left of `response`.
pub(super) async fn during(delay: Duration, response: Option<Response>, limits: DrainLimits) {
    let mut discarded = response.and_then(|response| Discarded::new(response, limits.bytes));
    let mut wait = pin!(time::sleep(delay));
    // Boxed, since most waits are shorter.
    let mut time_is_up =
        (discarded.is_some() && limits.time < delay).then(|| Box::pin(time::sleep(limits.time)));
    poll_fn(|cx| {
        if wait.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if let Some(response) = &mut discarded {
            let mut is_over = response.poll_drained(cx).is_ready();
            if let Some(time) = &mut time_is_up {
                is_over |= time.as_mut().poll(cx).is_ready();
            }
            if is_over {
                discarded = None;
                time_is_up = None;
            }
        }
        Poll::Pending
    })
    .await;
}

/// A body that is always ready gives way after so many, so that time passes: the wait's and its own.
const FRAMES_AT_ONCE: usize = 32;

struct Discarded {
    body: Body,
    bytes_left: u64,
}

impl Discarded {
    /// `None` if there is nothing to read, or more than the limit.
    fn new(response: Response, limit: u64) -> Option<Self> {
        let body = Body::from(response);
        let is_worth_it = !body.is_end_stream() && limit > 0 && body.size_hint().lower() <= limit;
        is_worth_it.then_some(Self { body, bytes_left: limit })
    }

    /// Ready once there is nothing more to read: at its end, beyond the limit, or by an error.
    fn poll_drained(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..FRAMES_AT_ONCE {
            let Some(Ok(frame)) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else {
                return Poll::Ready(());
            };
            // An empty frame counts too, so that a body of nothing else ends.
            let length = frame.data_ref().map_or(0, |data| data.len() as u64).max(1);
            match self.bytes_left.checked_sub(length) {
                Some(left) => self.bytes_left = left,
                None => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
