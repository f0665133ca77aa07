//! What the drain is for: connections, counted at the server.

use std::time::Duration;

use futures_util::future::join;
use http::StatusCode;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_typed_retry::{DrainLimits, RetryMiddleware};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::held_clock::{HeldClock, in_time};
use crate::server::{Answer, Bodies, Server};
use crate::support::{plain, waits};
use crate::watch::{Gone, Watch};

const ATTEMPTS: u32 = 5;
const KIB_64: usize = 64 * 1024;
/// The default.
const DRAIN_TIME: Duration = Duration::from_secs(1);
/// Within it.
const WAIT: Duration = Duration::from_millis(500);
const LONG_WAIT: Duration = Duration::from_secs(10);
/// The least that timers tell apart.
const MOMENT: Duration = Duration::from_millis(1);

/// The drain is outside of the watch, so that it is the drain which is watched.
fn client(wait: Duration, drain: DrainLimits, watch: &Watch) -> ClientWithMiddleware {
    let policy = waits(wait).max_attempts(ATTEMPTS).build().unwrap();
    let retry = RetryMiddleware::builder(policy).drain(drain).build().unwrap();
    ClientBuilder::new(plain().build().unwrap()).with(retry).with(watch.clone()).build()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Framed {
    Length,
    Chunks,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Sent {
    WithTheHead,
    Later,
}

/// The connections of a call whose every attempt is busy, with this body.
async fn connections(
    size: usize,
    framed: Framed,
    sent: Sent,
    wait: Duration,
    drain: DrainLimits,
) -> (usize, Vec<Gone>) {
    let body = vec![b'x'; size];
    let answer = match framed {
        Framed::Length => Answer::busy_with_length(&body),
        Framed::Chunks => Answer::busy_in_chunks(&body),
    };
    let watch = Watch::new();
    let bodies = match sent {
        Sent::WithTheHead => Bodies::AtOnce,
        Sent::Later => Bodies::AfterTheHead(watch.heads()),
    };
    let server = Server::start_with([answer], bodies).await;
    let clock = HeldClock::hold();
    let client = client(wait, drain, &watch);
    let response = tokio::select! {
        response = in_time(client.get(server.url()).send()) => response.unwrap(),
        () = clock.advance_with(watch.gone(), wait) => unreachable!(),
    };
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    let discarded = watch.bodies();
    assert_eq!(response.bytes().await.unwrap(), body, "the last one is handed out whole");
    drop(clock);
    let seen = server.finish().await;
    assert_eq!(seen.requests.len(), ATTEMPTS as usize);
    (seen.connections, discarded)
}

/// Every size, framing and timing.
fn shapes() -> impl Iterator<Item = (usize, Framed, Sent)> {
    [100, KIB_64].into_iter().flat_map(|size| {
        [Framed::Length, Framed::Chunks].into_iter().flat_map(move |framed| {
            [Sent::WithTheHead, Sent::Later].map(|sent| (size, framed, sent))
        })
    })
}

// F084
#[tokio::test(start_paused = true)]
async fn one_connection_serves_every_attempt_of_a_call_that_waits() {
    for (size, framed, sent) in shapes() {
        let found = connections(size, framed, sent, WAIT, DrainLimits::default()).await;
        let (connections, discarded) = found;
        let label = format!("{size} bytes, {framed:?}, {sent:?}");
        assert_eq!(connections, 1, "{label}: {discarded:?}");
        let waits = (0..ATTEMPTS - 1).map(|number| Gone { ended: true, at: number * WAIT });
        assert_eq!(discarded, waits.collect::<Vec<_>>(), "{label}");
    }
}

/// The control: what is dropped unread takes its connection with it.
#[tokio::test(start_paused = true)]
async fn without_a_drain_a_large_body_costs_a_connection_each() {
    for (size, framed, sent) in shapes().filter(|(size, ..)| *size == KIB_64) {
        let found = connections(size, framed, sent, WAIT, DrainLimits::none()).await;
        let (connections, discarded) = found;
        assert!(connections > 2, "{framed:?}, {sent:?}: {connections}");
        assert!(discarded.iter().all(|body| !body.ended), "{discarded:?}");
    }
}

/// Without a wait there is no time to read: only what has come with the head is read. A body that is
/// still on its way costs its connection, as without a drain.
#[tokio::test(start_paused = true)]
async fn without_a_wait_a_body_that_came_with_its_head_is_still_read() {
    for (size, framed, sent) in shapes() {
        let found = connections(size, framed, sent, Duration::ZERO, DrainLimits::default()).await;
        if matches!(sent, Sent::WithTheHead) {
            assert!(found.0 <= 2, "{size} bytes, {framed:?}: {found:?}");
        }
        let at_once = found.1.iter().all(|body| body.at == Duration::ZERO);
        assert!(at_once, "{size} bytes, {framed:?}, {sent:?}: {found:?}");
    }
}

/// A call of two attempts, the first of which gets `answer`; `between` happens while it waits.
async fn closed_in_the_wait(
    answer: Answer,
    wait: Duration,
    between: impl AsyncFnOnce(&HeldClock, Watch, watch::Receiver<usize>),
) -> Vec<Gone> {
    let watch = Watch::new();
    let server = Server::start([answer, Answer::status("200 OK")]).await;
    let broken = server.broken();
    let (client, url) = (client(wait, DrainLimits::default(), &watch), server.url());
    let clock = HeldClock::hold();
    let began = Instant::now();
    let call = async {
        let response = client.get(url).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(began.elapsed(), wait, "the resend came with the end of the wait");
    };
    in_time(join(call, between(&clock, watch.clone(), broken))).await;
    drop(clock);
    let seen = server.finish().await;
    assert_eq!((seen.connections, seen.requests.len()), (2, 2));
    watch.bodies()
}

/// Whether the server has seen the connection closed, once it has.
async fn is_closed(mut broken: watch::Receiver<usize>) -> bool {
    let closed = broken.wait_for(|broken| *broken == 1);
    closed.await.is_ok()
}

// F084
#[tokio::test(start_paused = true)]
async fn the_connection_of_an_endless_body_is_closed_at_the_byte_bound_and_not_held_for_the_wait() {
    let began = Instant::now();
    let answer = Answer::busy_without_end();
    let bodies = closed_in_the_wait(answer, LONG_WAIT, async |clock, _, broken| {
        assert!(is_closed(broken).await);
        assert_eq!(began.elapsed(), Duration::ZERO, "closed before the clock moved");
        clock.advance(LONG_WAIT).await;
    });
    assert_eq!(bodies.await[0], Gone { ended: false, at: Duration::ZERO });
}

// F087
#[tokio::test(start_paused = true)]
async fn the_connection_of_a_body_that_never_comes_is_closed_after_the_drains_own_time() {
    let began = Instant::now();
    let answer = Answer::busy_and_silent();
    let bodies = closed_in_the_wait(answer, LONG_WAIT, async |clock, watch, broken| {
        watch.heads().wait_for(|heads| *heads == 1).await.unwrap();
        clock.advance(DRAIN_TIME - MOMENT).await;
        assert_eq!((watch.bodies(), *broken.borrow()), (vec![], 0), "not before its time");
        clock.advance(MOMENT).await;
        assert!(is_closed(broken).await);
        assert_eq!(began.elapsed(), DRAIN_TIME, "before the wait was over");
        clock.advance(LONG_WAIT - DRAIN_TIME).await;
    });
    assert_eq!(bodies.await[0], Gone { ended: false, at: DRAIN_TIME });
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_shorter_than_the_drains_own_time_ends_with_a_body_that_never_comes() {
    let answer = Answer::busy_and_silent();
    let bodies = closed_in_the_wait(answer, WAIT, async |clock, watch, broken| {
        watch.heads().wait_for(|heads| *heads == 1).await.unwrap();
        clock.advance(WAIT).await;
        assert!(is_closed(broken).await);
    });
    assert_eq!(bodies.await[0], Gone { ended: false, at: WAIT });
}
