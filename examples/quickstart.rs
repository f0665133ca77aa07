//! A flaky server, and a client that copes with it.
//!
//! What it shows: six requests through a client with the retry middleware. Each one prints what the server will do
//! and what the client should make of it; then the timeline: every attempt, what came back, why it was sent again or
//! not, the wait, the end; then `ok` or `FAILED`. There is nothing to set up: the server is at the end of this file
//! and listens on a loopback port that the system picks.
//!
//! Run it: `cargo run --example quickstart`. It ends by itself in 4 seconds; the exit code is 0 only if all went as
//! described. Some of what it prints:
//!
//! ```text
//! 503 with Retry-After in seconds
//!   The server asks for 1 s, then answers. The client waits, sends again, succeeds.
//!   attempt 1  503 Service Unavailable      -> retry in 1.07s (set by the server): status 503
//!   attempt 2  200 OK                       -> stop: completed
//!   end: 200 with the body "a report"; 1.07s in all; requests that the server saw: 2
//!   ok
//! ```

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use reqwest_middleware::{ClientBuilder, RequestBuilder};
use reqwest_typed_retry::StopReason::{self, AttemptsExhausted, Completed, NotIdempotent};
use reqwest_typed_retry::{
    AttemptOutcome, RetryHistory, RetryMiddleware, RetryPolicy, RetryTracker,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

#[tokio::main]
async fn main() -> ExitCode {
    let limit = Duration::from_secs(30); // whatever goes wrong, this does not hang
    match tokio::time::timeout(limit, run()).await {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(error)) => eprintln!("{error:#}"),
        Err(_) => eprintln!("not finished after {limit:?}"),
    }
    ExitCode::FAILURE
}

async fn run() -> anyhow::Result<()> {
    // This is all that an application needs: a policy, and a client that applies it. The rest of
    // the policy is the default: three attempts, and as long between them as the server asks.
    let policy = RetryPolicy::builder()
        .attempt_timeout(Duration::from_secs(5)) // there is none by default: always set one
        .honour_idempotency_keys(true) // only where the server knows the field, as this one does
        .build()?;
    let http = reqwest::Client::builder().no_proxy().build()?; // loopback needs no proxy
    let client = ClientBuilder::new(http).with(RetryMiddleware::new(policy)).build();

    let server = FlakyServer::start().await?;
    let url = |path| format!("http://{}{path}", server.address);
    let mut failed = 0;

    println!("503 with Retry-After in seconds");
    println!("  The server asks for 1 s, then answers. The client waits, sends again, succeeds.");
    let report = client.get(url("/report"));
    failed += play(&server, "/report", report, 2, Completed).await?;

    println!("429 with an HTTP-date");
    println!("  The server names a date 2 s ahead, by a clock that is an hour slow, then answers.");
    println!("  The client counts from the Date in the response, waits, sends again, succeeds.");
    let search = client.get(url("/search"));
    failed += play(&server, "/search", search, 2, Completed).await?;

    println!("A connection that dies");
    println!("  The server hangs up once. The client backs off, sends the GET again, succeeds.");
    let profile = client.get(url("/profile"));
    failed += play(&server, "/profile", profile, 2, Completed).await?;

    println!("A POST that is not sent again");
    println!("  The server answers 503. It may have taken the order all the same, so the client");
    println!("  does not send it again and returns the 503 as it is.");
    let order = client.post(url("/orders")).body("a teapot");
    failed += play(&server, "/orders", order, 1, NotIdempotent).await?;

    println!("A POST with an idempotency key");
    println!("  The server answers 503 once. By the key it could tell the same order from another");
    println!("  one, so the client sends it again, succeeds.");
    let order = client.post(url("/keyed-orders")).body("a teapot");
    let order = order.header("Idempotency-Key", "\"8e03978e\"");
    failed += play(&server, "/keyed-orders", order, 2, Completed).await?;

    println!("Giving up");
    println!("  The server answers 503 each time. The client returns the third, body and all.");
    let closed = client.get(url("/closed"));
    failed += play(&server, "/closed", closed, 3, AttemptsExhausted).await?;

    anyhow::ensure!(failed == 0, "{failed} of 6 did not go as described");
    println!("All 6 went as described.");
    Ok(())
}

/// What the server does with the first request for a path, with the second, and so on.
fn script(path: &str) -> &'static [Reply] {
    use Reply::{Answer, BusyFor, HangUp, LimitedFor};
    match path {
        "/report" => &[BusyFor(1), Answer(200, "a report")],
        "/search" => &[LimitedFor(2), Answer(200, "a result")],
        "/profile" => &[HangUp, Answer(200, "a profile")],
        "/orders" | "/keyed-orders" => &[Answer(503, "try later"), Answer(201, "ordered")],
        "/closed" => &[Answer(503, "one"), Answer(503, "two"), Answer(503, "three")],
        _ => &[],
    }
}

/// Sends a request, tells what happened, and counts 1 if that is not what should have: so many
/// sends, waits as long as asked, this reason to stop, and the last answer of the script intact.
async fn play(
    server: &FlakyServer,
    path: &str,
    request: RequestBuilder,
    sends: usize,
    stop: StopReason,
) -> anyhow::Result<u32> {
    let tracker = RetryTracker::new(); // has the history, even if the request ends in an error
    let started = Instant::now();
    let end = read(request.with_extension(tracker.clone())).await;
    let end = end.unwrap_or_else(|error| format!("{error:#}"));
    let elapsed = started.elapsed();
    let history = tracker.history().context("there is no history")?;
    print_timeline(&history);
    let requests = server.requests.lock().await.remove(path);
    let mut requests = requests.unwrap_or_default();
    let seen = requests.len();
    println!("  end: {end}; {elapsed:.2?} in all; requests that the server saw: {seen}");

    let mut wrong = Vec::new();
    let mut check = |what, holds: bool| wrong.extend((!holds).then_some(what));
    check("requests that the server saw", seen == sends);
    requests.dedup();
    check("the same request each time", requests.len() == 1);
    let attempts = history.attempts();
    check("attempts in the timeline", attempts.len() == sends);
    let mut waited = Duration::ZERO;
    for (attempt, reply) in attempts.iter().zip(script(path)) {
        let wait = attempt.decision().delay().unwrap_or_default();
        check("no wait shorter than asked", wait >= reply.asked());
        let failed = matches!(attempt.outcome(), AttemptOutcome::Fault(_));
        check("what came back", failed == reply.answer().is_none());
        waited += wait;
    }
    check("time for the waits", elapsed >= waited);
    check("reason to stop", history.stop_reason() == stop);
    let last = script(path).get(sends - 1).and_then(Reply::answer);
    let last = last.map(|(status, body)| describe(status, body));
    check("last answer intact", last == Some(end));
    if wrong.is_empty() {
        println!("  ok\n");
        return Ok(0);
    }
    println!("  FAILED: {}\n", wrong.join(", "));
    Ok(1)
}

/// The whole answer, whatever its status.
async fn read(request: RequestBuilder) -> anyhow::Result<String> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    Ok(describe(status, &response.text().await?))
}

fn describe(status: u16, body: &str) -> String {
    format!("{status} with the body {body:?}")
}

fn print_timeline(history: &RetryHistory) {
    for attempt in history.attempts() {
        let came_back = match attempt.outcome() {
            AttemptOutcome::Status(status) => status.to_string(),
            AttemptOutcome::Fault(fault) => format!("no response: {}", fault.kind()),
            other => other.to_string(),
        };
        let then = attempt.decision();
        println!("  attempt {}  {came_back:<28} -> {then}", attempt.number());
    }
}

/// What the server does with one request.
enum Reply {
    /// A status and a body.
    Answer(u16, &'static str),
    /// 503 with `Retry-After` in seconds.
    BusyFor(u64),
    /// 429 with `Retry-After` as a date so many seconds ahead.
    LimitedFor(u64),
    /// Nothing: the connection dies.
    HangUp,
}

impl Reply {
    fn answer(&self) -> Option<(u16, &'static str)> {
        match *self {
            Self::Answer(status, body) => Some((status, body)),
            Self::BusyFor(_) => Some((503, "busy")),
            Self::LimitedFor(_) => Some((429, "too fast")),
            Self::HangUp => None,
        }
    }

    fn asked(&self) -> Duration {
        match *self {
            Self::BusyFor(secs) | Self::LimitedFor(secs) => Duration::from_secs(secs),
            Self::Answer(..) | Self::HangUp => Duration::ZERO,
        }
    }

    /// What goes over the wire, if anything does. The clock of this server is an hour slow.
    fn response(&self) -> Option<String> {
        let (status, body) = self.answer()?;
        let now = SystemTime::now() - Duration::from_secs(3600);
        let date = httpdate::fmt_http_date;
        let retry_after = match self {
            Self::BusyFor(seconds) => format!("Retry-After: {seconds}\r\n"),
            Self::LimitedFor(_) => format!("Retry-After: {}\r\n", date(now + self.asked())),
            Self::Answer(..) | Self::HangUp => String::new(),
        };
        let (date, length) = (date(now), body.len());
        let head = format!("HTTP/1.1 {status} \r\nDate: {date}\r\nContent-Length: {length}\r\n");
        Some(head + &retry_after + "Connection: close\r\n\r\n" + body)
    }
}

/// An HTTP/1.1 server that follows the script, and remembers for each path what it was sent.
#[derive(Clone)]
struct FlakyServer {
    address: SocketAddr,
    requests: Arc<Mutex<HashMap<String, Vec<String>>>>,
}

impl FlakyServer {
    async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?; // the system picks the port
        let (address, requests) = (listener.local_addr()?, Arc::default());
        let server = Self { address, requests };
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(accepting.clone().serve(stream));
            }
        });
        Ok(server)
    }

    /// One connection: one request, then one response or none.
    async fn serve(self, mut stream: TcpStream) -> io::Result<()> {
        let request = read_request(&mut stream).await?;
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut requests = self.requests.lock().await;
        let earlier = requests.entry(path.clone()).or_default();
        let reply = script(&path).get(earlier.len());
        earlier.push(request);
        drop(requests);
        if let Some(response) = reply.and_then(Reply::response) {
            stream.write_all(response.as_bytes()).await?;
        }
        stream.shutdown().await
    }
}

/// A whole request, head and body.
async fn read_request(stream: &mut TcpStream) -> io::Result<String> {
    let (mut reader, mut request) = (BufReader::new(stream), String::new());
    while !request.ends_with("\r\n\r\n") {
        if reader.read_line(&mut request).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let field = "content-length: ";
    let length = request.lines().find_map(|line| line.strip_prefix(field));
    let length = length.and_then(|digits| digits.parse().ok()).unwrap_or(0);
    reader.take(length).read_to_string(&mut request).await?;
    Ok(request)
}
