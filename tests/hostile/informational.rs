//! Informational responses without an end (RFC 9110 15.2: a client takes any number of them).

use std::io;

use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::FaultKind::Timeout;
use reqwest_typed_retry::{RetryPolicyBuilder, StopReason};

use crate::clock::Clock;
use crate::server::{Connection, Server};
use crate::world::{
    A_CLIENT, Back, End, WAIT, assert_bounded, client, end, http, ms, policy, retrying, run,
    run_in_real_time,
};

const LIMIT: u64 = 5_000;

/// One that hyper passes over.
const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n";
const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

async fn hints(mut it: Connection) -> io::Result<()> {
    it.read_request().await?;
    it.trickle(HINTS.repeat(100)).await
}

async fn continues(mut it: Connection) -> io::Result<()> {
    it.read_request().await?;
    it.trickle(CONTINUE.repeat(100)).await
}

#[test]
fn they_end_at_the_limit() {
    fn check<F>(serve: impl Fn(Connection) -> F + Copy + Send + 'static)
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let limit = ms(LIMIT);
        let attempts = 3 * limit + 2 * WAIT;
        let exhausted = StopReason::AttemptsExhausted;
        let rows: [(RetryPolicyBuilder, _, _, _, _); 3] = [
            (policy().attempt_timeout(limit), Back::Fault(Timeout), 3, attempts, exhausted),
            (policy().head_timeout(limit), Back::HeadTimeout, 3, attempts, exhausted),
            (policy().deadline(limit), Back::Deadline, 1, limit, StopReason::DeadlinePassed),
        ];
        for (policy, back, attempts, after, stop) in rows {
            let clock = Clock::default();
            let server = Server::start(&clock, serve);
            let (got, memory) =
                run(&clock, async { end(client(policy, &clock).get(server.url())).await });
            let seen = server.finish();
            assert_eq!(got, End { back, attempts, stop, after });
            assert_eq!((seen.connections, seen.requests), (attempts, attempts));
            assert_bounded("2,000 of them", memory, A_CLIENT);
        }
    }
    check(hints);
    check(continues);
}

/// In bursts, so that time passes by itself.
#[test]
fn a_flood_of_them_ends_at_the_limit() {
    flood(async |mut it: Connection| {
        it.read_request().await?;
        it.in_bursts(CONTINUE.repeat(100)).await
    });
}

/// As fast as they are read: hyper reads and parses on without giving way, 128 times up to 400 KiB, so that no timer
/// of the thread fires in time. The call ends all the same; in a debug build it takes 20 s.
#[test]
#[ignore = "takes 20 s"]
fn a_flood_without_a_pause_ends_some_time_after_the_limit() {
    flood(async |mut it: Connection| {
        it.read_request().await?;
        it.flood(CONTINUE.repeat(2_000)).await
    });
}

fn flood<F>(serve: impl Fn(Connection) -> F + Copy + Send + 'static)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let clock = Clock::default();
    let server = Server::start(&clock, serve);
    let (got, memory) = run_in_real_time(async {
        let retry = retrying(policy().attempt_timeout(ms(200))).build().unwrap();
        let client = ClientBuilder::new(http().build().unwrap()).with(retry).build();
        end(client.get(server.url())).await
    });
    let seen = server.finish();
    println!("{got:?}, {seen:?}");
    assert_eq!((got.back, got.attempts), (Back::Fault(Timeout), 3));
    assert!(seen.requests <= 3);
    assert_bounded("a flood", memory, A_CLIENT);
}
