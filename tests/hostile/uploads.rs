//! Servers that answer before they have read what is sent to them, and go on reading or do not.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream;
use reqwest::Body;
use reqwest_typed_retry::{ReplayBody, RetryRequestExt as _, StopReason};

use crate::clock::Clock;
use crate::server::{Connection, Server};
use crate::world::{A_CLIENT, Back, End, MIB, WAIT, assert_bounded, client, end, policy, run};

const EARLY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";

/// It answers as soon as it has the head, and reads no further.
async fn deaf(mut it: Connection) -> io::Result<()> {
    it.read_head().await?;
    it.write(EARLY).await?;
    it.read_nothing().await
}

/// It answers, and reads on as long as anything comes.
async fn eager(mut it: Connection) -> io::Result<()> {
    it.read_head().await?;
    it.write(EARLY).await?;
    it.linger().await
}

/// It answers, says that it is through, and closes.
async fn gone(mut it: Connection) -> io::Result<()> {
    it.read_head().await?;
    it.write("HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        .await?;
    it.end_writing().await?;
    it.linger().await
}

/// An upload without an end, and how many of them there are.
fn endless(alive: &Arc<()>, pieces: &Arc<AtomicUsize>) -> Body {
    let piece = Bytes::from_static(&[b'x'; 0x4000]);
    let (alive, pieces) = (alive.clone(), pieces.clone());
    Body::wrap_stream(stream::repeat_with(move || {
        let _alive = &alive;
        pieces.fetch_add(1, Ordering::SeqCst);
        Ok::<_, Infallible>(piece.clone())
    }))
}

/// Uploads that go on after the end of their attempt: hyper sends on what an answered request has left as long as
/// its server reads it.
#[derive(Clone, Copy, PartialEq)]
enum Left {
    Perhaps,
    None,
}

fn check<F>(label: &str, serve: impl Fn(Connection) -> F + Copy + Send + 'static, left: Left)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    for (makes_bodies, attempts, stop) in
        [(false, 1, StopReason::BodyNotReplayable), (true, 3, StopReason::AttemptsExhausted)]
    {
        let clock = Clock::default();
        let server = Server::start(&clock, serve);
        let (alive, pieces) = (Arc::new(()), Arc::default());
        let ((got, uploads), memory) = run(&clock, async {
            let request = client(policy(), &clock).put(server.url());
            let request = if makes_bodies {
                let (alive, pieces) = (alive.clone(), Arc::clone(&pieces));
                request.body_factory(move || {
                    let body = ReplayBody::new(endless(&alive, &pieces));
                    async { Ok(body) }
                })
            } else {
                request.body(endless(&alive, &pieces))
            };
            let end = end(request).await;
            // What has an end comes to it.
            let began = Instant::now();
            while left == Left::None
                && Arc::strong_count(&alive) > 1
                && began.elapsed() < Duration::from_secs(30)
            {
                tokio::task::yield_now().await;
            }
            (end, Arc::strong_count(&alive) - 1)
        });
        let expected = End { back: Back::Status(503), attempts, stop, after: wait(attempts) };
        assert_eq!(got, expected, "{label}");
        assert!(uploads <= if left == Left::None { 0 } else { attempts }, "{label}: {uploads}");
        assert_eq!(Arc::strong_count(&alive), 1, "{label}: gone with their connections");
        let seen = server.finish();
        println!("{label}: {pieces:?} pieces, {uploads} uploads left");
        assert_eq!((seen.connections, seen.requests), (attempts, attempts), "{label}");
        assert_bounded(label, memory, A_CLIENT);
    }
}

fn wait(attempts: usize) -> Duration {
    WAIT * u32::try_from(attempts - 1).unwrap()
}

#[test]
fn an_upload_without_an_end_that_is_answered_early_ends_with_the_answer() {
    check("reads no further", deaf, Left::Perhaps);
    check("reads on", eager, Left::Perhaps);
    check("closes", gone, Left::None);
}

/// The attempts share one body, however large it is.
#[test]
fn an_upload_that_is_answered_early_is_not_copied() {
    const LENGTH: u64 = 16 * MIB;
    let clock = Clock::default();
    let server = Server::start(&clock, deaf);
    let (got, memory) = run(&clock, async {
        let body = vec![b'x'; usize::try_from(LENGTH).unwrap()];
        end(client(policy(), &clock).put(server.url()).body(body)).await
    });
    let stop = StopReason::AttemptsExhausted;
    assert_eq!(got, End { back: Back::Status(503), attempts: 3, stop, after: 2 * WAIT });
    assert_eq!(server.finish().requests, 3);
    assert_bounded("a large upload", memory, LENGTH + A_CLIENT);
}
