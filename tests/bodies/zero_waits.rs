//! How long a wait gives way to a response that is being read. No sockets, and time is paused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::unfold;
use http::{Extensions, StatusCode};
use reqwest::{Body, Request, Response, ResponseBuilderExt as _};
use reqwest_middleware::{ClientBuilder, Middleware, Next, Result};
use reqwest_typed_retry::{Backoff, Jitter, RetryMiddleware, RetryPolicy};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until};

/// When the next frame is there.
#[derive(Clone, Copy)]
enum Frames {
    /// Each at the next turn.
    EachTurn,
    /// The first then, the rest at the next turns.
    At(Instant),
    /// The first at the next turn, then none for an hour.
    One,
}

/// Says 503, with such a body, then 200.
struct Trickles {
    frames: Frames,
    sent: AtomicUsize,
    read: Arc<AtomicUsize>,
}

#[async_trait]
impl Middleware for Trickles {
    async fn handle(&self, request: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let response = http::Response::builder().url(request.url().clone());
        if self.sent.fetch_add(1, Ordering::SeqCst) > 0 {
            return Ok(response.body("").unwrap().into());
        }
        let (frames, read) = (self.frames, self.read.clone());
        let body = unfold(0, move |number| {
            let read = read.clone();
            async move {
                match (frames, number) {
                    (Frames::At(first), 0) => sleep_until(first).await,
                    (Frames::One, 1..) => sleep(Duration::from_secs(3_600)).await,
                    _ => yield_now().await,
                }
                read.fetch_add(1, Ordering::SeqCst);
                Some((Ok::<_, std::io::Error>("frame"), number + 1))
            }
        });
        let response = response.status(StatusCode::SERVICE_UNAVAILABLE);
        Ok(response.body(Body::wrap_stream(body)).unwrap().into())
    }
}

/// How many frames are read in a wait, and how long the call takes.
async fn read(wait: Duration, frames: Frames) -> (usize, Duration) {
    let policy =
        RetryPolicy::builder().backoff(Backoff::constant(wait)).jitter(Jitter::None).build();
    let read = Arc::new(AtomicUsize::new(0));
    let trickles = Trickles { frames, sent: AtomicUsize::new(0), read: read.clone() };
    let retry = RetryMiddleware::new(policy.unwrap());
    let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(trickles).build();
    let started = Instant::now();
    assert_eq!(client.get("http://service.test/").send().await.unwrap().status(), StatusCode::OK);
    (read.load(Ordering::SeqCst), started.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_zero_wait_gives_way_to_a_few_frames() {
    let (frames, time) = read(Duration::ZERO, Frames::EachTurn).await;
    assert!((2..=40).contains(&frames), "{frames}");
    assert_eq!(time, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_zero_wait_does_not_wait_for_a_frame() {
    assert_eq!(read(Duration::ZERO, Frames::One).await, (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_over_reads_nothing() {
    let second = Duration::from_secs(1);
    let frames = Frames::At(Instant::now() + second);
    assert_eq!(read(second, frames).await, (0, second));
}
