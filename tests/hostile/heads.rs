//! Heads of HTTP/1.1 that are too large, and heads that never end.

use std::io;

use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::Client;
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::FaultKind::{Protocol, Timeout};
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{RetryPolicyBuilder, RetryTracker, StopReason};

use crate::clock::Clock;
use crate::server::{Connection, Seen, Server};
use crate::world::{
    A_CLIENT, Back, End, KIB, WAIT, assert_bounded, client, end, ms, policy, retrying, run,
};

const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\n";
const LIMIT: u64 = 5_000;

fn call<F>(
    policy: RetryPolicyBuilder,
    serve: impl Fn(Connection) -> F + Copy + Send + 'static,
) -> (End, Seen, u64)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let clock = Clock::default();
    let server = Server::start(&clock, serve);
    let (end, memory) = run(&clock, async { end(client(policy, &clock).get(server.url())).await });
    let seen = server.finish();
    println!("{end:?}, {seen:?}, {} KiB", memory.bytes_max / KIB);
    assert_bounded("a head", memory, A_CLIENT);
    (end, seen, memory.bytes_max)
}

fn three(back: Back) -> End {
    End { back, attempts: 3, stop: StopReason::AttemptsExhausted, after: 2 * WAIT }
}

#[test]
fn a_head_of_100_000_bytes_is_an_answer() {
    let (end, seen, _) = call(policy(), async |mut it: Connection| {
        loop {
            it.read_request().await?;
            it.write(format!("{BUSY}x: {}\r\ncontent-length: 0\r\n\r\n", "a".repeat(100_000)))
                .await?;
        }
    });
    assert_eq!(end, three(Back::Status(503)));
    assert_eq!((seen.connections, seen.requests), (1, 3));
}

#[test]
fn a_delay_of_100_000_digits_ends_the_call() {
    let (end, seen, _) = call(policy(), async |mut it: Connection| {
        it.read_request().await?;
        let forever = "9".repeat(100_000);
        it.write(format!("{BUSY}retry-after: {forever}\r\ncontent-length: 0\r\n\r\n")).await?;
        it.linger().await
    });
    assert_eq!((end.back, end.attempts, end.after), (Back::Status(503), 1, ms(0)));
    assert_eq!(end.stop.as_str(), "server_delay_too_long");
    assert_eq!(seen.requests, 1);
}

#[test]
fn what_hyper_takes_for_too_large_is_a_fault() {
    fn check<F>(label: &str, serve: impl Fn(Connection) -> F + Copy + Send + 'static)
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        println!("{label}");
        let (end, seen, _) = call(policy(), serve);
        assert_eq!(end, three(Back::Fault(Protocol)), "{label}");
        assert_eq!((seen.connections, seen.requests), (3, 3), "{label}");
    }
    check("5,000 fields", async |mut it: Connection| {
        it.read_request().await?;
        it.write(BUSY).await?;
        it.write((0..5_000).map(|number| format!("x-{number}: a\r\n")).collect::<String>()).await?;
        it.write("content-length: 0\r\n\r\n").await?;
        it.linger().await
    });
    check("a field of 1,000,000 bytes", async |mut it: Connection| {
        it.read_request().await?;
        it.write(format!("{BUSY}x: {}\r\n\r\n", "a".repeat(1_000_000))).await?;
        it.linger().await
    });
    check("a field without an end", async |mut it: Connection| {
        it.read_request().await?;
        it.write(format!("{BUSY}x: ")).await?;
        it.flood([b'a'; 1_000]).await
    });
    check("a name without an end", async |mut it: Connection| {
        it.read_request().await?;
        it.write(BUSY).await?;
        it.flood([b'a'; 1_000]).await
    });
    check("fields without an end", async |mut it: Connection| {
        it.read_request().await?;
        it.write(BUSY).await?;
        it.flood("x: a\r\n".repeat(100)).await
    });
    check("a reason without an end", async |mut it: Connection| {
        it.read_request().await?;
        it.write("HTTP/1.1 503 ").await?;
        it.flood([b'a'; 1_000]).await
    });
}

async fn no_fields_end(mut it: Connection) -> io::Result<()> {
    it.read_request().await?;
    it.write(BUSY).await?;
    it.trickle("x: a\r\n").await
}

async fn no_line_ends(mut it: Connection) -> io::Result<()> {
    it.read_request().await?;
    it.write("HTTP/1.1 503 ").await?;
    it.trickle("a").await
}

async fn nothing_but_line_ends(mut it: Connection) -> io::Result<()> {
    it.read_request().await?;
    it.trickle("\r\n").await
}

/// What comes slowly and without an end meets the limits of the policy, to the millisecond.
#[test]
fn a_head_that_never_ends_ends_at_the_limit() {
    fn check<F>(label: &str, serve: impl Fn(Connection) -> F + Copy + Send + 'static)
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let limit = ms(LIMIT);
        let attempts = 3 * limit + 2 * WAIT;
        for (policy, back, attempts, after, stop) in [
            (
                policy().attempt_timeout(limit),
                Back::Fault(Timeout),
                3,
                attempts,
                StopReason::AttemptsExhausted,
            ),
            (
                policy().head_timeout(limit),
                Back::HeadTimeout,
                3,
                attempts,
                StopReason::AttemptsExhausted,
            ),
            (policy().deadline(limit), Back::Deadline, 1, limit, StopReason::DeadlinePassed),
        ] {
            println!("{label}");
            let (end, seen, _) = call(policy, serve);
            assert_eq!(end, End { back, attempts, stop, after }, "{label}");
            assert_eq!((seen.connections, seen.requests), (attempts, attempts), "{label}");
        }
    }
    check("fields", no_fields_end);
    check("a status line", no_line_ends);
    check("empty lines", nothing_but_line_ends);
}

/// A history is of a few numbers an attempt, whatever the server wrote.
#[test]
fn histories_do_not_hold_what_servers_write() {
    const CALLS: u64 = 500;
    let clock = Clock::default();
    let mut histories = Vec::new();
    let ((), memory) = run(&clock, async {
        let fields = (0..10).map(|_| HeaderValue::from_bytes(&[0xff; 10_000]).unwrap());
        let busy = Reply::status(StatusCode::SERVICE_UNAVAILABLE).body(vec![b'x'; 10_000]);
        let name = HeaderName::from_static("x-long");
        let busy = fields.fold(busy, |busy, value| busy.header(name.clone(), value));
        let retry = retrying(policy()).without_budget().build().unwrap();
        let client =
            ClientBuilder::new(Client::new()).with(retry).with(Script::always(busy)).build();
        for _ in 0..CALLS {
            let tracker = RetryTracker::new();
            let request = client.get("http://service.test/").with_extension(tracker.clone());
            drop(request.send().await.unwrap());
            histories.push((tracker.history().unwrap(), tracker));
        }
    });
    assert!(histories.iter().all(|(history, _)| history.attempts().len() == 3));
    // What the script has recorded is gone with it.
    let each = memory.bytes_current / i64::try_from(CALLS).unwrap();
    println!("{each} bytes each");
    assert!(each < 2_000, "{each} bytes each");
}

/// Nor do errors.
#[test]
fn errors_do_not_hold_what_servers_write() {
    const CALLS: i64 = 30;
    let clock = Clock::default();
    let server = Server::start(&clock, async |mut it: Connection| {
        it.read_request().await?;
        it.flood([&b"HTTP/1.1 503 "[..], &[b'a'; 1_000]].concat()).await
    });
    let mut errors = Vec::new();
    let ((), memory) = run(&clock, async {
        let client = client(policy().max_attempts(1), &clock);
        for _ in 0..CALLS {
            errors.push(client.get(server.url()).send().await.unwrap_err());
        }
    });
    server.finish();
    let each = memory.bytes_current / CALLS;
    println!("{each} bytes each");
    assert!(each < 8_000, "{each} bytes each");
}
