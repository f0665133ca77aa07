//! Answers that are not what they say, and answers in no protocol that anybody asked for.

use std::io;

use reqwest_typed_retry::FaultKind::{Body, Protocol};
use reqwest_typed_retry::StopReason;

use crate::clock::Clock;
use crate::server::{Connection, Server};
use crate::world::{
    A_CLIENT, Back, End, MIB, WAIT, assert_bounded, chain, http, ms, policy, retrying, run, send,
};

/// What became of a GET whose body is read inside the attempt, and the body, if there is one.
fn check<F>(
    label: &str,
    serve: impl Fn(Connection) -> F + Copy + Send + 'static,
    expected: (End, Option<&str>),
    requests: usize,
) where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let clock = Clock::default();
    let server = Server::start(&clock, serve);
    let ((got, body), memory) = run(&clock, async {
        let client = chain(http(), retrying(policy()).buffer_body(MIB), &clock);
        let (end, response, _) = send(client.get(server.url())).await;
        let body = match response {
            Ok(response) => response.text().await.ok(),
            Err(_) => None,
        };
        (end, body)
    });
    let seen = server.finish();
    println!("{label}: {got:?}, {body:?}, {seen:?}");
    assert_eq!((got, body.as_deref()), expected, "{label}");
    assert_eq!(seen.requests, requests, "{label}");
    assert_bounded(label, memory, A_CLIENT);
}

const EXHAUSTED: StopReason = StopReason::AttemptsExhausted;

fn three(back: Back) -> (End, Option<&'static str>) {
    (End { back, attempts: 3, stop: EXHAUSTED, after: 2 * WAIT }, None)
}

fn fine(body: &'static str) -> (End, Option<&'static str>) {
    let stop = StopReason::Completed;
    (End { back: Back::Status(200), attempts: 1, stop, after: ms(0) }, Some(body))
}

/// It answers with these bytes and closes.
macro_rules! says {
    ($bytes:expr) => {
        async |mut it: Connection| {
            it.read_request().await?;
            it.write($bytes).await?;
            it.end_writing().await?;
            it.linger().await
        }
    };
}

#[test]
fn lengths_that_are_not_so() {
    let cut = three(Back::Fault(Body));
    let broken = three(Back::Fault(Protocol));
    check(
        "longer than the body",
        says!("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc"),
        cut,
        3,
    );
    check(
        "a chunk longer than its data",
        says!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\na\r\nabc"),
        cut,
        3,
    );
    check(
        "shorter than the body",
        says!("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabcdef"),
        fine("abc"),
        1,
    );
    check(
        "two lengths",
        says!("HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 6\r\n\r\nabcdef"),
        broken,
        3,
    );
    check(
        "a negative length",
        says!("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nabc"),
        broken,
        3,
    );
    check(
        "one length twice, as a list",
        says!("HTTP/1.1 200 OK\r\ncontent-length: 3, 3\r\n\r\nabc"),
        fine("abc"),
        1,
    );
    // The coding holds (RFC 9112 6.3).
    check(
        "a length and a coding",
        says!(
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n6\r\nabcdef\r\n0\r\n\r\n"
        ),
        fine("abcdef"),
        1,
    );
    check(
        "a coding that nobody knows",
        says!("HTTP/1.1 200 OK\r\ntransfer-encoding: evil\r\n\r\nabc"),
        fine("abc"),
        1,
    );
}

#[test]
fn what_is_no_http() {
    let broken = three(Back::Fault(Protocol));
    check("HTTP/0.9", says!("<html>hello</html>"), broken, 3);
    check("the alert of a TLS server", says!([0x15, 3, 1, 0, 2, 2, 0x46]), broken, 3);
    check("zeros", says!([0; 100_000]), broken, 3);
    check(
        "bytes of all kinds",
        says!((0..=255).cycle().take(100_000).collect::<Vec<u8>>()),
        broken,
        3,
    );
    check("HTTP/2", says!(b"\0\0\0\x04\0\0\0\0\0"), broken, 3);
    check("a preface", says!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), broken, 3);
    check("SSH", says!("SSH-2.0-OpenSSH_9.9\r\n"), broken, 3);
    check("a version to come", says!("HTTP/9.9 200 OK\r\ncontent-length: 0\r\n\r\n"), broken, 3);
    check("no status", says!("HTTP/1.1\r\n\r\n"), broken, 3);
    check("status 0", says!("HTTP/1.1 000 a\r\ncontent-length: 0\r\n\r\n"), broken, 3);
    check("status 99", says!("HTTP/1.1 099 a\r\ncontent-length: 0\r\n\r\n"), broken, 3);
    check("status 1000", says!("HTTP/1.1 1000 a\r\ncontent-length: 0\r\n\r\n"), broken, 3);
    check("a status below zero", says!("HTTP/1.1 -50 a\r\ncontent-length: 0\r\n\r\n"), broken, 3);
    check("a field without a name", says!("HTTP/1.1 200 OK\r\n: a\r\n\r\n"), broken, 3);
    check("a control character", says!("HTTP/1.1 200 OK\r\nx: \x1b[2J\r\n\r\n"), broken, 3);
    check(
        "a folded field",
        says!("HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 0\r\n\r\n"),
        broken,
        3,
    );
}

/// Statuses that nobody has heard of.
#[test]
fn statuses_from_the_edge() {
    let answer = |status, stop| {
        (End { back: Back::Status(status), attempts: 1, stop, after: ms(0) }, Some(""))
    };
    check(
        "999",
        says!("HTTP/1.1 999 a\r\ncontent-length: 0\r\n\r\n"),
        answer(999, StopReason::Permanent),
        1,
    );
    check(
        "600",
        says!("HTTP/1.1 600 a\r\ncontent-length: 0\r\n\r\n"),
        answer(600, StopReason::Permanent),
        1,
    );
    check(
        "a switch that nobody asked for",
        says!("HTTP/1.1 101 a\r\n\r\n"),
        answer(101, StopReason::Completed),
        1,
    );
}

/// What follows an answer is no answer to the next request, nor to a resend.
#[test]
fn an_answer_that_nobody_asked_for_is_nobodys() {
    for wait in [0, 100] {
        let clock = Clock::default();
        let server = Server::start(&clock, async |mut it: Connection| {
            it.read_request().await?;
            let evil = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";
            it.write(format!("HTTP/1.1 503 a\r\ncontent-length: 1\r\n\r\na{evil}")).await?;
            it.linger().await
        });
        let (got, _) = run(&clock, async {
            let policy = policy().backoff(reqwest_typed_retry::Backoff::constant(ms(wait)));
            send(chain(http(), retrying(policy), &clock).get(server.url())).await.0
        });
        assert_eq!((got.back, got.attempts), (Back::Status(503), 3), "after {wait} ms");
        let seen = server.finish();
        assert_eq!((seen.requests, seen.connections), (3, 3), "after {wait} ms");
    }
}
