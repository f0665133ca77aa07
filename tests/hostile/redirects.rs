//! Redirects that lead nowhere. reqwest follows ten of them, below the retry layer: they are no resends.

use std::io;
use std::time::Duration;

use http::header::AUTHORIZATION;
use reqwest_middleware::ClientWithMiddleware;
use reqwest_typed_retry::FaultKind::{Connect, Invalid};
use reqwest_typed_retry::{Cooldown, RetryBudget, StopReason};

use crate::clock::Clock;
use crate::server::{Connection, Seen, Server};
use crate::world::{
    A_CLIENT, Back, End, WAIT, assert_bounded, chain, end, http, ms, policy, retrying, run,
};

/// With all that is kept by origins.
fn careful(clock: &Clock, budget: &RetryBudget) -> ClientWithMiddleware {
    let retry = retrying(policy().deadline(Duration::MAX))
        .cooldown(Cooldown::by_origin())
        .budget(budget.clone());
    chain(http(), retry, clock)
}

fn call<F>(path: &str, serve: impl Fn(Connection) -> F + Copy + Send + 'static) -> (End, Seen)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let clock = Clock::default();
    let server = Server::start(&clock, serve);
    let budget = RetryBudget::default();
    let (end, memory) = run(&clock, async {
        let url = format!("{}{path}", server.url());
        end(careful(&clock, &budget).get(url)).await
    });
    let seen = server.finish();
    println!("{end:?}, {seen:?}");
    assert_bounded("redirects", memory, A_CLIENT);
    (end, seen)
}

const A_LOOP: End =
    End { back: Back::Fault(Invalid), attempts: 1, stop: StopReason::Permanent, after: ms(0) };

/// The first and ten more.
const HOPS: usize = 11;

#[test]
fn a_loop_ends_after_ten_and_is_not_asked_again() {
    let (end, seen) = call("", async |mut it: Connection| {
        loop {
            it.read_request().await?;
            it.write("HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n").await?;
        }
    });
    assert_eq!((end, seen.requests), (A_LOOP, HOPS));
}

/// What a redirect asks to wait is no server delay.
#[test]
fn a_loop_is_not_waited_for() {
    for (status, retry_after) in
        [("301", "5"), ("302", "99999999999999999999"), ("307", "0"), ("308", "-1")]
    {
        let clock = Clock::default();
        let server = Server::start(&clock, move |mut it: Connection| async move {
            loop {
                it.read_request().await?;
                let fields = format!("location: /\r\nretry-after: {retry_after}");
                it.write(format!("HTTP/1.1 {status} a\r\n{fields}\r\ncontent-length: 0\r\n\r\n"))
                    .await?;
            }
        });
        let budget = RetryBudget::default();
        let (got, _) = run(&clock, async { end(careful(&clock, &budget).get(server.url())).await });
        assert_eq!((got, server.finish().requests), (A_LOOP, HOPS), "{status} {retry_after}");
    }
}

/// Each attempt starts from the beginning, so the hops are the attempts' eleven at most.
#[test]
fn a_loop_with_a_503_in_it_ends_with_the_attempts() {
    let (end, seen) = call("0", async |mut it: Connection| {
        loop {
            let head = it.read_request().await?;
            let path = head.split(' ').nth(1).unwrap();
            let hop: usize = path.trim_start_matches('/').parse().unwrap();
            if hop + 1 == HOPS {
                it.write("HTTP/1.1 503 a\r\nlocation: /0\r\ncontent-length: 0\r\n\r\n").await?;
            } else {
                let next = hop + 1;
                it.write(format!(
                    "HTTP/1.1 307 a\r\nlocation: /{next}\r\ncontent-length: 0\r\n\r\n"
                ))
                .await?;
            }
        }
    });
    let stop = StopReason::AttemptsExhausted;
    assert_eq!(end, End { back: Back::Status(503), attempts: 3, stop, after: 2 * WAIT });
    assert_eq!(seen.requests, 3 * HOPS);
}

/// Each hop has a body without an end, which reqwest drops: so each has a connection of its own.
#[test]
fn the_bodies_of_hops_are_not_read() {
    let (end, seen) = call("", async |mut it: Connection| {
        it.read_request().await?;
        it.write("HTTP/1.1 302 Found\r\nlocation: /\r\ntransfer-encoding: chunked\r\n\r\n").await?;
        it.flood("1000\r\n".to_owned() + &"x".repeat(0x1000) + "\r\n").await
    });
    assert_eq!((end, seen.requests, seen.connections), (A_LOOP, HOPS, HOPS));
}

/// The other origin asks for quiet: that closes the origin of the request, for as long as the policy follows,
/// and no other; and none of the request's secrets went there.
#[test]
fn a_redirect_to_another_origin_is_a_matter_of_the_first() {
    let clock = Clock::default();
    let other = Server::start(&clock, async |mut it: Connection| {
        loop {
            let head = it.read_request().await?;
            assert!(!head.contains("secret"), "{head}");
            it.write("HTTP/1.1 503 a\r\nretry-after: 60\r\ncontent-length: 0\r\n\r\n").await?;
        }
    });
    // Where to goes by the path.
    let first = Server::start(&clock, async |mut it: Connection| {
        loop {
            let head = it.read_request().await?;
            let to = head.split(' ').nth(1).unwrap().trim_start_matches('/').to_owned();
            it.write(format!(
                "HTTP/1.1 307 a\r\nlocation: http://{to}/\r\ncontent-length: 0\r\n\r\n"
            ))
            .await?;
        }
    });
    let budget = RetryBudget::default();
    let ((one, two), _) = run(&clock, async {
        let client = careful(&clock, &budget);
        let to = other.url().replace("http://", "");
        let url = format!("{}{}", first.url(), to.trim_end_matches('/'));
        let one = end(client.get(url).header(AUTHORIZATION, "secret")).await;
        let started = tokio::time::Instant::now();
        // That of the other server is open: it is asked at once.
        let two = client.post(other.url()).send().await.unwrap().status();
        assert_eq!((two, started.elapsed()), (503.try_into().unwrap(), ms(0)));
        (one, two)
    });
    let stop = StopReason::AttemptsExhausted;
    assert_eq!(one, End { back: Back::Status(503), attempts: 3, stop, after: ms(120_000) });
    assert_eq!(two, 503);
    assert_eq!((first.finish().requests, other.finish().requests), (3, 4));
    assert_eq!(budget.sick_origins(), 1, "one, though two were asked");
}

/// What is no URL for us is handed out, or is an invalid request; only what might yet be reached is asked again.
#[test]
fn a_location_that_leads_nowhere_ends_the_call() {
    let found = End { back: Back::Status(302), stop: StopReason::Completed, ..A_LOOP };
    let stop = StopReason::AttemptsExhausted;
    let closed = End { back: Back::Fault(Connect), attempts: 3, stop, after: 2 * WAIT };
    let long: &'static str = format!("/{}", "a".repeat(70_000)).leak();
    for (location, expected, requests) in [
        ("http://[::1", found, 1),
        ("file:///etc/passwd", found, 1),
        (long, found, 1),
        ("ftp://127.0.0.1/", A_LOOP, 1),
        ("javascript:alert(1)", A_LOOP, 1),
        ("", A_LOOP, HOPS),
        ("http://127.0.0.1:0/", closed, 3),
    ] {
        let clock = Clock::default();
        let server = Server::start(&clock, move |mut it: Connection| async move {
            loop {
                it.read_request().await?;
                let location = format!("location: {location}\r\ncontent-length: 0\r\n\r\n");
                it.write(format!("HTTP/1.1 302 Found\r\n{location}")).await?;
            }
        });
        let budget = RetryBudget::default();
        let (got, memory) =
            run(&clock, async { end(careful(&clock, &budget).get(server.url())).await });
        let label = &location[..location.len().min(30)];
        assert_eq!((got, server.finish().requests), (expected, requests), "{label}");
        assert_bounded(label, memory, A_CLIENT);
    }
}
