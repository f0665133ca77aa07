//! Cancellation: when it comes, what is sent after it, and what comes back.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::join;
use http::{Extensions, HeaderMap, StatusCode, Version};
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use reqwest::{Body, Client, Request, Response, ResponseBuilderExt as _};
use reqwest_middleware::{ClientBuilder, Middleware, Next, Result};
use reqwest_typed_retry::StopReason::{AttemptsExhausted, Cancelled, Completed};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Attempt, DrainLimits, ReplayBody, RetryErrorExt as _, RetryHistory, RetryMiddleware,
    RetryRequestExt as _, RetryScope, RetryTracker, StopReason, Verdict,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Back, End, URL, busy, fine, ms, waiting};

/// Two attempts, 100 ms apart, each of which takes 50 ms; cancelled after so many ms.
async fn cancelled_after(millis: u64, replies: Vec<Reply>) -> End {
    let script = Script::new(replies);
    let client = super::client(waiting(ms(100)).max_attempts(2), &script);
    let (token, tracker) = (CancellationToken::new(), RetryTracker::new());
    let started = Instant::now();
    // In this order: of two timers of the same instant, that of the cancellation is seen first.
    let cancel = async {
        if millis > 0 {
            tokio::time::sleep(ms(millis)).await;
        }
        token.cancel();
    };
    let request = client.get(URL).with_extension(tracker.clone());
    let call = RetryScope::new().cancel_on(token.clone()).run(async {
        let result = request.send().await;
        (started.elapsed(), result)
    });
    let ((), (after, result)) = join(cancel, call).await;
    let stop = tracker.history().unwrap().stop_reason();
    End { sent: script.received().len(), after, back: Back::of(&result), stop }
}

// F097, F098
#[tokio::test(start_paused = true)]
async fn no_attempt_starts_after_it_and_what_there_is_comes_back() {
    type Row = (&'static str, u64, fn() -> Reply, (usize, u64, Back, StopReason));
    let slow = |reply: Reply| reply.after(ms(50));
    let rows: [Row; 9] = [
        ("before the first send", 0, busy, (0, 0, Back::Cancelled, Cancelled)),
        ("during the first attempt", 20, busy, (1, 50, Back::Status(503), Cancelled)),
        (
            "during the first attempt, which succeeds",
            20,
            fine,
            (1, 50, Back::Status(200), Completed),
        ),
        (
            "during the first attempt, which fails",
            20,
            Reply::connect_error,
            (1, 50, Back::Reqwest, Cancelled),
        ),
        ("during the wait", 90, busy, (1, 90, Back::Status(503), Cancelled)),
        (
            "during the wait after an error",
            90,
            Reply::connect_error,
            (1, 90, Back::Reqwest, Cancelled),
        ),
        ("at the instant of waking", 150, busy, (1, 150, Back::Status(503), Cancelled)),
        ("during the last attempt", 170, busy, (2, 200, Back::Status(503), AttemptsExhausted)),
        ("after the last attempt", 300, busy, (2, 200, Back::Status(503), AttemptsExhausted)),
    ];
    for (label, millis, reply, (sent, after, back, stop)) in rows {
        let end = cancelled_after(millis, vec![slow(reply()), slow(reply())]).await;
        assert_eq!(end, End { sent, after: ms(after), back, stop }, "{label}");
    }
}

/// What was seen before is told, too.
#[tokio::test(start_paused = true)]
async fn the_history_tells_the_attempt_and_the_cancellation() {
    let script = Script::always(busy());
    let client = super::client(waiting(ms(100)), &script);
    let token = CancellationToken::new();
    let call = RetryScope::new().cancel_on(token.clone()).run(client.get(URL).send());
    let (response, ()) = join(call, async {
        tokio::time::sleep(ms(30)).await;
        token.cancel();
    })
    .await;
    let response = response.unwrap();
    let history = response.extensions().get::<RetryHistory>().unwrap();
    assert_eq!(
        history.to_string(),
        "attempt 1: status 503; retry in 100.00ms (set by the backoff): status 503\nstop: cancelled"
    );
    assert_eq!(history.stop_reason(), Cancelled);
}

// A response that was being drained

/// A body of these frames; after the last it ends, fails or stays silent.
struct Frames {
    frames: std::vec::IntoIter<Frame<Bytes>>,
    then: Then,
    read: Arc<AtomicUsize>,
    is_cancelled: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug)]
enum Then {
    End,
    Fail,
    Silence,
    /// Silent until the call is cancelled, and goes on with this piece.
    GoesOn(&'static str),
}

impl HttpBody for Frames {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(frame) = self.frames.next() {
            self.read.fetch_add(1, Ordering::SeqCst);
            return Poll::Ready(Some(Ok(frame)));
        }
        match self.then {
            Then::End => Poll::Ready(None),
            Then::Fail => Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into()))),
            Then::Silence => Poll::Pending,
            Then::GoesOn(_) if !self.is_cancelled.load(Ordering::SeqCst) => Poll::Pending,
            Then::GoesOn(piece) => {
                self.then = Then::End;
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(piece.as_bytes())))))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// A final middleware: 503, and a body.
struct Busy {
    pieces: Vec<Bytes>,
    trailers: bool,
    then: Then,
    read: Arc<AtomicUsize>,
    is_cancelled: Arc<AtomicBool>,
}

fn trailers() -> HeaderMap {
    HeaderMap::from_iter([("x-checksum".parse().unwrap(), "7".parse().unwrap())])
}

#[async_trait::async_trait]
impl Middleware for Busy {
    async fn handle(&self, request: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let frames = self.pieces.iter().cloned().map(Frame::data);
        let trailers = self.trailers.then(|| Frame::trailers(trailers()));
        let frames = frames.chain(trailers).collect::<Vec<_>>().into_iter();
        let body = Body::wrap(Frames {
            frames,
            then: self.then,
            read: self.read.clone(),
            is_cancelled: self.is_cancelled.clone(),
        });
        let response = http::Response::builder()
            .status(503)
            .version(Version::HTTP_2)
            .header("x-a", "1")
            .extension(7_u8)
            .url(format!("{}/there", request.url()).parse().unwrap());
        Ok(response.body(body).unwrap().into())
    }
}

/// The outcome of a call that is cancelled in its wait, and how many frames the drain had read.
async fn cancelled_in_the_wait(
    pieces: &[&'static [u8]],
    trailers: bool,
    then: Then,
    drain: DrainLimits,
) -> (Result<Response>, usize) {
    let read = Arc::new(AtomicUsize::new(0));
    let is_cancelled = Arc::new(AtomicBool::new(false));
    let pieces = pieces.iter().map(|piece| Bytes::from_static(piece)).collect();
    let busy =
        Busy { pieces, trailers, then, read: read.clone(), is_cancelled: is_cancelled.clone() };
    let policy = waiting(ms(5_000)).build().unwrap();
    let retry = RetryMiddleware::builder(policy).drain(drain).build().unwrap();
    let client = ClientBuilder::new(Client::new()).with(retry).with(busy).build();
    let token = CancellationToken::new();
    let call = RetryScope::new().cancel_on(token.clone()).run(client.get(URL).send());
    // First, so that the call is not polled once more before it is cancelled.
    let (drained, result) = join(
        async {
            tokio::time::sleep(ms(4_000)).await;
            token.cancel();
            is_cancelled.store(true, Ordering::SeqCst);
            read.load(Ordering::SeqCst)
        },
        call,
    )
    .await;
    (result, drained)
}

#[tokio::test(start_paused = true)]
async fn a_response_that_was_being_drained_comes_back_whole() {
    let all_day = DrainLimits::new(100, ms(10_000));
    for (label, trailers, then, body) in [
        ("read to its end", false, Then::End, Some("abcdef")),
        ("read to its trailers", true, Then::End, Some("abcdef")),
        ("half read", false, Then::GoesOn("ghi"), Some("abcdefghi")),
        ("failed", false, Then::Fail, None),
    ] {
        let pieces: [&[u8]; 2] = [b"abc", b"def"];
        let (result, drained) = cancelled_in_the_wait(&pieces, trailers, then, all_day).await;
        assert_eq!(drained, 2 + usize::from(trailers), "{label}");
        let Some(body) = body else {
            assert!(result.unwrap_err().retry_error().unwrap().is_cancelled(), "{label}");
            continue;
        };
        let response = result.unwrap();
        assert_eq!(response.url().as_str(), format!("{URL}/there"), "{label}");
        assert_eq!(response.version(), Version::HTTP_2, "{label}");
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE, "{label}");
        assert_eq!(response.headers()["x-a"], "1", "{label}");
        assert_eq!(response.extensions().get(), Some(&7_u8), "{label}");
        assert!(response.extensions().get::<RetryHistory>().is_some(), "{label}");
        let collected = http::Response::<Body>::from(response).into_body().collect().await.unwrap();
        assert_eq!(collected.trailers().is_some(), trailers, "{label}");
        assert_eq!(collected.to_bytes(), body, "{label}");
    }
}

/// Beyond the bounds of the drain it was dropped, so that its socket is not held through the wait.
#[tokio::test(start_paused = true)]
async fn a_response_beyond_the_bounds_is_gone() {
    let silent = Then::Silence;
    let row = |label, limits, then, whole| (label, limits, then, whole);
    for (label, drain, then, is_whole) in [
        row("of the limit", DrainLimits::new(6, ms(10_000)), Then::End, true),
        row("too long", DrainLimits::new(5, ms(10_000)), Then::End, false),
        row("too slow", DrainLimits::new(100, ms(3_999)), silent, false),
        row("slow, in time", DrainLimits::new(100, ms(4_001)), silent, true),
        row("never read", DrainLimits::none(), Then::End, false),
    ] {
        let (result, _) = cancelled_in_the_wait(&[b"abc", b"def"], false, then, drain).await;
        match result {
            Ok(response) => assert!(is_whole && response.status() == 503, "{label}"),
            Err(error) => {
                assert!(
                    !is_whole && error.retry_error().unwrap().is_cancelled(),
                    "{label}: {error:?}"
                );
            }
        }
    }
}

/// Where it came during the attempt there is no wait, and so nothing is read or dropped.
#[tokio::test(start_paused = true)]
async fn the_response_of_an_attempt_that_was_cancelled_is_handed_out_as_it_is() {
    let policy = waiting(ms(100)).build().unwrap();
    let retry = RetryMiddleware::builder(policy).drain(DrainLimits::none()).build().unwrap();
    let script = Script::always(busy().after(ms(50)));
    let client = ClientBuilder::new(Client::new()).with(retry).with(script).build();
    let token = CancellationToken::new();
    let call = RetryScope::new().cancel_on(token.clone()).run(client.get(URL).send());
    let (response, ()) = join(call, async {
        tokio::time::sleep(ms(20)).await;
        token.cancel();
    })
    .await;
    let response = response.unwrap();
    let history = response.extensions().get::<RetryHistory>().unwrap();
    assert_eq!(history.to_string(), "attempt 1: status 503; stop: cancelled");
    assert_eq!(response.text().await.unwrap(), "busy");
}

/// An error that tells whether somebody still holds it.
#[derive(Debug)]
struct Held(#[expect(dead_code, reason = "only its life counts")] Arc<()>);

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("held")
    }
}

impl std::error::Error for Held {}

#[tokio::test(start_paused = true)]
async fn an_outcome_is_kept_only_while_a_token_could_ask_for_it() {
    for with_token in [false, true] {
        let alive = Arc::new(());
        let script = Script::always(Reply::error({
            let alive = alive.clone();
            move || reqwest_middleware::Error::middleware(Held(alive.clone()))
        }));
        let policy = waiting(ms(1_000)).max_attempts(2).classifier(|attempt: &Attempt<'_>| {
            attempt.outcome().status().is_none().then_some(Verdict::Transient { delay: None })
        });
        let client = super::client(policy, &script);
        let scope = RetryScope::new();
        let scope = if with_token { scope.cancel_on(CancellationToken::new()) } else { scope };
        let (_, held) = join(scope.run(client.get(URL).send()), async {
            tokio::time::sleep(ms(500)).await;
            // One here, one in the script.
            Arc::strong_count(&alive) - 2
        })
        .await;
        assert_eq!(held, usize::from(with_token));
    }
}

/// An outer middleware that sets the call up, and waits for a permit before it runs.
struct Permits;

#[async_trait::async_trait]
impl Middleware for Permits {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let call = next.run(request, extensions);
        tokio::time::sleep(ms(100)).await;
        call.await
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_not_been_sent_is_not_sent_any_more() {
    for (label, outer, factory) in [("a permit", true, false), ("a body factory", false, true)] {
        for by_token in [true, false] {
            let script = Script::always(fine());
            let retry = RetryMiddleware::new(waiting(ms(0)).build().unwrap());
            let chain = ClientBuilder::new(Client::new());
            let chain = if outer { chain.with(Permits) } else { chain };
            let client = chain.with(retry).with(script.clone()).build();
            let request = client.put(URL);
            let request = if factory {
                request.body_factory(|| async {
                    tokio::time::sleep(ms(100)).await;
                    Ok(ReplayBody::new("body"))
                })
            } else {
                request
            };
            let token = CancellationToken::new();
            let scope = RetryScope::new();
            let scope =
                if by_token { scope.cancel_on(token.clone()) } else { scope.deadline_in(ms(50)) };
            let cancel = async {
                tokio::time::sleep(ms(50)).await;
                token.cancel();
            };
            let (result, ()) = join(scope.run(request.send()), cancel).await;
            let back = if by_token { Back::Cancelled } else { Back::Deadline };
            assert_eq!(Back::of(&result), back, "{label}");
            assert_eq!(script.received().len(), 0, "{label}");
        }
    }
}

/// Real time: what holds the thread holds virtual time, too.
#[tokio::test]
async fn a_body_that_was_made_too_late_is_not_sent() {
    for policy in [waiting(ms(0)).deadline(ms(10)), waiting(ms(0)).head_timeout(ms(10))] {
        let script = Script::always(fine());
        let request = super::client(policy.max_attempts(1), &script).put(URL);
        let request = request.body_factory(|| async {
            std::thread::sleep(ms(30)); // it holds the thread
            Ok(ReplayBody::new("body"))
        });
        assert!(request.send().await.unwrap_err().timed_out());
        assert_eq!(script.received().len(), 0);
    }
}
