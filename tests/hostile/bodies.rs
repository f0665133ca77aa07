//! Bodies without an end, and bodies that are longer than anybody wants.

use std::io;
use std::time::{Duration, Instant};

use futures_util::future::join;
use reqwest_middleware::ClientWithMiddleware;
use reqwest_typed_retry::FaultKind::{Protocol, Timeout};
use reqwest_typed_retry::{RetryErrorExt as _, RetryPolicyBuilder, RetryScope, StopReason};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::server::{Connection, Server};
use crate::world::{
    A_CLIENT, Back, End, MIB, WAIT, assert_bounded, chain, client, end, http, ms, policy, retrying,
    run, send,
};

const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\n";
const CHUNKED: &str = "transfer-encoding: chunked\r\n\r\n";
const BUSY_CHUNKED: &str = "HTTP/1.1 503 Service Unavailable\r\ntransfer-encoding: chunked\r\n\r\n";

/// Longer than a drain takes.
const LONG_WAIT: Duration = Duration::from_secs(5);

/// What all buffers of a connection hold, with room.
pub(crate) const A_CONNECTION: u64 = 16 * MIB;

pub(crate) fn patient() -> RetryPolicyBuilder {
    policy().backoff(reqwest_typed_retry::Backoff::constant(LONG_WAIT))
}

/// A good answer to whatever comes.
pub(crate) async fn well(mut it: Connection) -> io::Result<()> {
    loop {
        it.read_request().await?;
        it.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await?;
    }
}

/// The first answer is a 503 that is written without an end, and the resend, on a connection of its own, is answered.
pub(crate) fn is_let_go_and_resent<F>(
    label: &str,
    serve: impl Fn(Connection) -> F + Copy + Send + 'static,
) where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    for can_cancel in [false, true] {
        // Time passes once the server has seen that the client is gone.
        let clock = Clock::until_the_server_says();
        let server = Server::start(&clock, move |mut it: Connection| async move {
            if it.number > 1 {
                return well(it).await;
            }
            it.read_request().await?;
            let clock = it.clock();
            let written = serve(it).await;
            clock.pass();
            written
        });
        let (got, memory) = run(&clock, async {
            let call = end(client(patient(), &clock).get(server.url()));
            if can_cancel {
                // What was read is kept then.
                RetryScope::new().cancel_on(CancellationToken::new()).run(call).await
            } else {
                call.await
            }
        });
        let seen = server.finish();
        println!("{label}: {seen:?}");
        let stop = StopReason::Completed;
        assert_eq!(
            got,
            End { back: Back::Status(200), attempts: 2, stop, after: LONG_WAIT },
            "{label}"
        );
        assert_eq!((seen.connections, seen.requests), (2, 2), "{label}");
        assert!(seen.written < A_CONNECTION, "{label}: {seen:?}");
        assert_bounded(label, memory, A_CLIENT);
    }
}

#[test]
fn a_fast_body_without_an_end_is_let_go_at_the_limit() {
    is_let_go_and_resent("in chunks", async |mut it: Connection| {
        it.write(format!("{BUSY}{CHUNKED}")).await?;
        it.flood([b"1000\r\n", &[b'x'; 0x1000][..], b"\r\n"].concat()).await
    });
    is_let_go_and_resent("in chunks of one byte", async |mut it: Connection| {
        it.write(format!("{BUSY}{CHUNKED}")).await?;
        it.flood("1\r\nx\r\n".repeat(500)).await
    });
    is_let_go_and_resent("until the end of the connection", async |mut it: Connection| {
        it.write(format!("{BUSY}\r\n")).await?;
        it.flood([b'x'; 0x1000]).await
    });
    is_let_go_and_resent("of 10^18 bytes", async |mut it: Connection| {
        it.write(format!("{BUSY}content-length: 1000000000000000000\r\n\r\n")).await?;
        it.flood([b'x'; 0x1000]).await
    });
    is_let_go_and_resent("of 2^64 - 2 bytes", async |mut it: Connection| {
        it.write(format!("{BUSY}content-length: 18446744073709551613\r\n\r\n")).await?;
        it.flood([b'x'; 0x1000]).await
    });
}

/// Chunks that are broken or never end: the body fails, or is let go.
#[test]
fn what_is_no_body_any_more_is_let_go() {
    is_let_go_and_resent("an extension", async |mut it: Connection| {
        it.write(format!("{BUSY}{CHUNKED}1;")).await?;
        it.flood([b'x'; 0x1000]).await
    });
    is_let_go_and_resent("a size beyond all numbers", async |mut it: Connection| {
        it.write(format!("{BUSY}{CHUNKED}ffffffffffffffffffff\r\n")).await?;
        it.flood([b'x'; 0x1000]).await
    });
    is_let_go_and_resent("trailers", async |mut it: Connection| {
        it.write(format!("{BUSY}{CHUNKED}0\r\n")).await?;
        it.flood("x: a\r\n".repeat(100)).await
    });
}

/// The drain gives up after one second of the five.
pub(crate) fn is_let_go_in_time<F>(
    label: &str,
    head: &'static str,
    serve: impl Fn(Connection) -> F + Copy + Send + 'static,
) where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let clock = Clock::default();
    let server = Server::start(&clock, move |mut it: Connection| async move {
        if it.number > 1 {
            return well(it).await;
        }
        it.read_request().await?;
        it.write(head).await?;
        serve(it).await
    });
    let ((got, ended), memory) = run(&clock, async {
        let probe = async {
            tokio::time::sleep(ms(3_000)).await;
            clock.hold();
            let began = Instant::now();
            while server.seen().ended == 0 && began.elapsed() < Duration::from_secs(30) {
                tokio::task::yield_now().await;
            }
            clock.pass();
            server.seen().ended
        };
        join(end(client(patient(), &clock).get(server.url())), probe).await
    });
    assert_eq!(ended, 1, "{label}: before the wait was over");
    let stop = StopReason::Completed;
    let expected = End { back: Back::Status(200), attempts: 2, stop, after: LONG_WAIT };
    assert_eq!(got, expected, "{label}");
    let seen = server.finish();
    assert_eq!((seen.connections, seen.requests), (2, 2), "{label}");
    assert_bounded(label, memory, A_CLIENT);
}

#[test]
fn a_slow_body_without_an_end_is_let_go_in_time() {
    is_let_go_in_time("a byte a second", BUSY_CHUNKED, async |mut it: Connection| {
        it.trickle("1\r\nx\r\n").await
    });
    // No byte of the body ever comes, so that only time bounds it.
    is_let_go_in_time("a size of a chunk", BUSY_CHUNKED, async |mut it: Connection| {
        it.in_bursts([b'0'; 1_000]).await
    });
    is_let_go_in_time("nothing", BUSY_CHUNKED, async |mut it: Connection| {
        it.pass();
        it.linger().await
    });
}

// Bodies of good answers

const LIMIT: u64 = 5_000;
const BUFFER: u64 = MIB;

fn buffering(policy: RetryPolicyBuilder, clock: &Clock) -> ClientWithMiddleware {
    chain(http(), retrying(policy).buffer_body(BUFFER), clock)
}

/// The limit bounds what is held; from there the body streams on, for the caller to bound.
#[test]
fn a_body_without_an_end_is_held_up_to_the_limit_and_streams_on() {
    fn check<F>(label: &str, serve: impl Fn(Connection) -> F + Copy + Send + 'static)
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let clock = Clock::default();
        let server = Server::start(&clock, serve);
        let (got, memory) = run(&clock, async {
            let (end, response, _) = send(buffering(policy(), &clock).get(server.url())).await;
            clock.hold();
            let mut response = response.unwrap();
            let mut read = 0;
            while read < 5 * BUFFER {
                read += response.chunk().await.unwrap().unwrap().len() as u64;
            }
            end
        });
        let seen = server.finish();
        println!("{label}: {got:?}, {seen:?}");
        assert_eq!((got.back, got.attempts), (Back::Status(200), 1), "{label}");
        assert_eq!((seen.connections, seen.requests), (1, 1), "{label}");
        assert!(seen.written < 5 * BUFFER + A_CONNECTION, "{label}");
        assert_bounded(label, memory, A_CLIENT + 3 * BUFFER);
    }
    check("in chunks", async |mut it: Connection| {
        it.read_request().await?;
        it.write(format!("HTTP/1.1 200 OK\r\n{CHUNKED}")).await?;
        it.flood([b"1000\r\n", &[b'x'; 0x1000][..], b"\r\n"].concat()).await
    });
    check("until the end of the connection", async |mut it: Connection| {
        it.read_request().await?;
        it.write("HTTP/1.1 200 OK\r\n\r\n").await?;
        it.flood([b'x'; 0x1000]).await
    });
    check("of 10^18 bytes", async |mut it: Connection| {
        it.read_request().await?;
        it.write("HTTP/1.1 200 OK\r\ncontent-length: 1000000000000000000\r\n\r\n").await?;
        it.flood([b'x'; 0x1000]).await
    });
}

#[test]
fn a_slow_body_without_an_end_ends_at_the_limits() {
    let limit = ms(LIMIT);
    let attempts = 3 * limit + 2 * WAIT;
    let exhausted = StopReason::AttemptsExhausted;
    for (policy, back, attempts, after, stop) in [
        (policy().attempt_timeout(limit), Back::Fault(Timeout), 3, attempts, exhausted),
        (policy().deadline(limit), Back::Deadline, 1, limit, StopReason::DeadlinePassed),
    ] {
        let clock = Clock::default();
        let server = Server::start(&clock, slow);
        let (got, memory) =
            run(&clock, async { end(buffering(policy, &clock).get(server.url())).await });
        assert_eq!(got, End { back, attempts, stop, after });
        let seen = server.finish();
        assert_eq!((seen.connections, seen.requests), (attempts, attempts));
        assert_bounded("a slow body", memory, A_CLIENT);
    }
}

async fn slow(mut it: Connection) -> io::Result<()> {
    it.read_request().await?;
    it.write(format!("HTTP/1.1 200 OK\r\n{CHUNKED}")).await?;
    it.trickle("1\r\nx\r\n").await
}

/// Without a buffer it is handed out with its head, and the attempt timeout goes with it.
#[test]
fn a_slow_body_that_is_handed_out_is_cut_by_the_attempt_timeout() {
    let clock = Clock::default();
    let server = Server::start(&clock, slow);
    let (error, _) = run(&clock, async {
        let client = client(policy().attempt_timeout(ms(LIMIT)), &clock);
        let response = client.get(server.url()).send().await.unwrap();
        reqwest_middleware::Error::Reqwest(response.bytes().await.unwrap_err())
    });
    assert!(error.timed_out(), "{error:?}");
    assert_eq!(server.finish().requests, 1);
}

/// A length beyond all numbers is no length.
#[test]
fn a_length_of_2_to_the_64_is_a_fault() {
    let clock = Clock::default();
    let server = Server::start(&clock, async |mut it: Connection| {
        it.read_request().await?;
        it.write("HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551616\r\n\r\n").await?;
        it.flood([b'x'; 0x1000]).await
    });
    let (got, memory) =
        run(&clock, async { end(buffering(policy(), &clock).get(server.url())).await });
    let stop = StopReason::AttemptsExhausted;
    assert_eq!(got, End { back: Back::Fault(Protocol), attempts: 3, stop, after: 2 * WAIT });
    assert_eq!(server.finish().requests, 3);
    assert_bounded("no length", memory, A_CLIENT);
}
