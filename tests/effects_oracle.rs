//! The effects oracle: thousands of operations of mixed methods against servers that act, and fail in
//! every way they can, by seeded chance. The servers record each effect by operation; they are the
//! only witness.
//!
//! - An unmarked POST or PATCH takes effect **at most once, always**.
//! - An operation that may be repeated ends well, or has used all of its attempts.
//!
//! `cargo test --release --test effects_oracle -- --ignored --nocapture` runs a million operations.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Method, StatusCode};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::Client;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_typed_retry::{
    Backoff, DeliveryProof, RetryMiddleware, RetryPolicy, RetryTracker, StatusSet, StopReason,
};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::{TcpListener, TcpStream};

const MAX_ATTEMPTS: u32 = 8;
/// Ends the attempts that hang; whoever is cut off by it on a slow machine is an ordinary timeout.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
/// Resolves to the server, or, by chance, to an address where nobody listens.
const HOST: &str = "server.test";
const NOBODY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

// What the operations did

/// One operation as the servers saw it.
#[derive(Default)]
struct Operation {
    arrivals: AtomicU32,
    effects: AtomicU32,
}

/// The record of one run, and its chance.
struct Record {
    seed: u64,
    operations: Vec<Operation>,
    connections: AtomicUsize,
}

impl Record {
    fn new(seed: u64, operations: usize) -> Arc<Self> {
        let operations = (0..operations).map(|_| Operation::default()).collect();
        Arc::new(Self { seed, operations, connections: AtomicUsize::new(0) })
    }

    fn act(&self, operation: usize) {
        self.operations[operation].effects.fetch_add(1, Ordering::SeqCst);
    }

    /// What becomes of this arrival of the operation: the same in each run of the seed.
    fn fate(&self, operation: usize, fates: &[Fate]) -> Fate {
        let arrival = self.operations[operation].arrivals.fetch_add(1, Ordering::SeqCst);
        let chance = (u64::try_from(operation).unwrap() << 8) | u64::from(arrival);
        let mut rng =
            SmallRng::seed_from_u64(self.seed ^ chance.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        if rng.random_bool(0.6) { Fate::Served } else { fates[rng.random_range(0..fates.len())] }
    }

    /// Whether the next connection meets this, with a chance of one in `odds`.
    fn connection_meets(&self, odds: usize) -> bool {
        let connection = self.connections.fetch_add(1, Ordering::SeqCst);
        SmallRng::seed_from_u64(self.seed.wrapping_add(u64::try_from(connection).unwrap()))
            .random_range(0..odds)
            == 0
    }
}

/// What a server does with a request that it has begun to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Served,
    // Over HTTP/1.1
    CutWhileReading,
    CutAfterReading,
    CutAfterActing,
    ResetAfterActing,
    HalfAResponse,
    BusyBeforeActing,
    BusyAfterActing,
    Rejected,
    Silent,
    RedirectedToNobody,
    RedirectedToRejection,
    // Over HTTP/2
    Refused,
    CancelledAfterActing,
    FailedAfterActing,
    ShutDownGracefully,
    DroppedAfterActing,
}

const HTTP1: &[Fate] = &[
    Fate::CutWhileReading,
    Fate::CutAfterReading,
    Fate::CutAfterActing,
    Fate::ResetAfterActing,
    Fate::HalfAResponse,
    Fate::BusyBeforeActing,
    Fate::BusyAfterActing,
    Fate::Rejected,
    Fate::Silent,
    Fate::RedirectedToNobody,
    Fate::RedirectedToRejection,
];

const HTTP2: &[Fate] = &[
    Fate::Refused,
    Fate::Refused,
    Fate::Rejected,
    Fate::BusyAfterActing,
    Fate::CancelledAfterActing,
    Fate::FailedAfterActing,
    Fate::ShutDownGracefully,
    Fate::ShutDownGracefully,
    Fate::DroppedAfterActing,
];

// The servers

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

async fn start(
    protocol: Protocol,
    record: Arc<Record>,
) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let record = record.clone();
            // Closed or reset before a byte is read.
            if record.connection_meets(12) {
                continue;
            }
            if record.connection_meets(12) {
                stream.set_zero_linger().unwrap();
                continue;
            }
            tokio::spawn(async move {
                // The client may be gone: that is its business.
                match protocol {
                    Protocol::Http1 => drop(serve_http1(stream, address, &record).await),
                    Protocol::Http2 => drop(serve_http2(stream, record).await),
                }
            });
        }
    });
    (address, task)
}

/// The operation that a path names: `/op/17`.
fn operation(path: &str) -> Option<usize> {
    path.strip_prefix("/op/")?.parse().ok()
}

async fn serve_http1(stream: TcpStream, own: SocketAddr, record: &Record) -> io::Result<()> {
    let mut stream = BufStream::new(stream);
    loop {
        let (mut request_line, mut length) = (String::new(), 0);
        if stream.read_line(&mut request_line).await? == 0 {
            return Ok(());
        }
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            match line.to_ascii_lowercase().split_once(':') {
                Some(("content-length", value)) => length = value.trim().parse().unwrap(),
                Some(_) => {}
                None => break,
            }
        }
        let answer = |status: &str, more: &str| {
            format!("HTTP/1.1 {status}\r\n{more}content-length: 2\r\n\r\nok")
        };
        let path = request_line.split(' ').nth(1).unwrap_or_default();
        let Some(operation) = operation(path) else {
            let rejected = answer("429 Too Many Requests", "");
            stream.write_all(rejected.as_bytes()).await?;
            stream.flush().await?;
            continue;
        };
        let fate = record.fate(operation, HTTP1);
        if fate == Fate::CutWhileReading {
            return Ok(());
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        if fate == Fate::CutAfterReading {
            return Ok(());
        }
        if !matches!(fate, Fate::BusyBeforeActing | Fate::Rejected) {
            record.act(operation);
        }
        let response = match fate {
            Fate::CutAfterActing => return Ok(()),
            Fate::ResetAfterActing => return stream.get_ref().set_zero_linger(),
            Fate::Silent => return std::future::pending().await,
            Fate::HalfAResponse => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-le").await?;
                return stream.flush().await;
            }
            Fate::BusyBeforeActing | Fate::BusyAfterActing => answer("503 Busy", ""),
            Fate::Rejected => answer("429 Too Many Requests", ""),
            Fate::RedirectedToNobody => {
                let location = format!("location: http://{NOBODY}:{}{path}\r\n", own.port());
                answer("307 Temporary Redirect", &location)
            }
            Fate::RedirectedToRejection => answer("303 See Other", "location: /rejected\r\n"),
            _ => answer("200 OK", ""),
        };
        stream.write_all(response.as_bytes()).await?;
        stream.flush().await?;
    }
}

async fn serve_http2(stream: TcpStream, record: Arc<Record>) -> Result<(), h2::Error> {
    let mut connection = h2::server::handshake(stream).await?;
    while let Some(request) = connection.accept().await {
        let (request, mut respond) = request?;
        let operation = operation(request.uri().path()).unwrap();
        let fate = record.fate(operation, HTTP2);
        match fate {
            Fate::Refused => {
                respond.send_reset(h2::Reason::REFUSED_STREAM);
                continue;
            }
            Fate::DroppedAfterActing => {
                record.act(operation);
                return Ok(());
            }
            Fate::ShutDownGracefully => connection.graceful_shutdown(),
            _ => {}
        }
        let record = record.clone();
        tokio::spawn(async move {
            // A head is enough to act on.
            if fate != Fate::Rejected {
                record.act(operation);
            }
            let mut body = request.into_body();
            while let Some(Ok(chunk)) = body.data().await {
                let _ = body.flow_control().release_capacity(chunk.len());
            }
            let status = match fate {
                Fate::CancelledAfterActing => return respond.send_reset(h2::Reason::CANCEL),
                Fate::FailedAfterActing => return respond.send_reset(h2::Reason::INTERNAL_ERROR),
                Fate::Rejected => StatusCode::TOO_MANY_REQUESTS,
                Fate::BusyAfterActing => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::OK,
            };
            let response = http::Response::builder().status(status).body(()).unwrap();
            let _ = respond.send_response(response, true);
        });
    }
    Ok(())
}

// The clients

/// Sends one connection in ten to nobody.
struct SometimesNobody(Arc<Record>);

impl Resolve for SometimesNobody {
    fn resolve(&self, _: Name) -> Resolving {
        let ip = if self.0.connection_meets(10) { NOBODY } else { Ipv4Addr::LOCALHOST };
        let address: Addrs = Box::new([SocketAddr::new(IpAddr::V4(ip), 0)].into_iter());
        Box::pin(std::future::ready(Ok(address)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Built by `DeliveryProof::build`.
    Proven,
    /// With a proof that belongs to another client: it sees nothing, and so proves nothing.
    ForeignProof,
    /// Without a proof, and without resends below us.
    NoProof,
    /// Without a proof, and with the resends that reqwest makes by default, below us.
    NoProofDefaultRetry,
}

fn client(kind: Kind, protocol: Protocol, record: &Arc<Record>) -> ClientWithMiddleware {
    let http = || {
        let http = Client::builder().no_proxy().dns_resolver(SometimesNobody(record.clone()));
        if protocol == Protocol::Http2 { http.http2_prior_knowledge() } else { http }
    };
    let policy = RetryPolicy::builder()
        .max_attempts(MAX_ATTEMPTS)
        .backoff(Backoff::constant(Duration::ZERO))
        .throttle_backoff(Backoff::constant(Duration::ZERO))
        .honour_idempotency_keys(true)
        .attempt_timeout(ATTEMPT_TIMEOUT);
    // These servers reject before they act; but a redirect may lead to a 429, too.
    let rejections = StatusSet::empty().with(StatusCode::TOO_MANY_REQUESTS);
    let (http, retry) = match kind {
        Kind::Proven | Kind::ForeignProof => {
            let (observed, proof) = DeliveryProof::build(http()).unwrap();
            let blind = || http().retry(reqwest::retry::never()).build().unwrap();
            let http = if kind == Kind::Proven { observed } else { blind() };
            let policy = policy.not_processed_statuses(rejections).build().unwrap();
            let retry = RetryMiddleware::builder(policy).delivery_proof(proof).build().unwrap();
            (http, retry)
        }
        Kind::NoProof => {
            let http = http().retry(reqwest::retry::never()).build().unwrap();
            (http, RetryMiddleware::new(policy.build().unwrap()))
        }
        Kind::NoProofDefaultRetry => {
            (http().build().unwrap(), RetryMiddleware::new(policy.build().unwrap()))
        }
    };
    ClientBuilder::new(http).with(retry).build()
}

/// What kind of request the operation is; the last two may not be repeated.
const METHODS: [(&str, bool); 6] = [
    ("GET", false),
    ("PUT", false),
    ("DELETE", false),
    ("POST", true),
    ("POST", false),
    ("PATCH", false),
];

fn may_be_repeated(operation: usize) -> bool {
    operation % METHODS.len() < 4
}

// A run

#[derive(Default)]
struct Tally {
    operations: usize,
    effects: u32,
    resends: usize,
    /// Operations that may not be repeated, and were sent again by proof.
    proven: usize,
    /// Of those that may not be repeated.
    twice: usize,
    exhausted: usize,
    lost: Vec<String>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations, effects, resends, proven, twice, exhausted, lost } = self;
        write!(
            f,
            "{operations} operations, {effects} effects, {resends} resends; {proven} POST and PATCH \
             sent again by proof, {twice} took effect twice; {exhausted} used all attempts, {} lost",
            lost.len()
        )
    }
}

async fn run(kind: Kind, protocol: Protocol, seed: u64, operations: usize) -> Tally {
    let record = Record::new(seed, operations);
    let (address, server) = start(protocol, record.clone()).await;
    let client = client(kind, protocol, &record);
    let call = |operation: usize| {
        let (method, keyed) = METHODS[operation % METHODS.len()];
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let url = format!("http://{HOST}:{}/op/{operation}", address.port());
        let tracker = RetryTracker::new();
        let mut request = client.request(method.clone(), url).with_extension(tracker.clone());
        if keyed {
            request = request.header("idempotency-key", operation.to_string());
        }
        if !matches!(method, Method::GET | Method::DELETE) && operation % 5 != 0 {
            request = request.body(Bytes::from_static(&[b'x'; 64]));
        }
        async move {
            let result = request.send().await;
            (operation, result.map(|response| response.status()), tracker.history().unwrap())
        }
    };
    let mut tally = Tally { operations, ..Tally::default() };
    // Over HTTP/2 they share a connection, and with it its fate.
    let at_once = if protocol == Protocol::Http2 { 8 } else { 64 };
    let mut calls = futures_util::stream::iter(0..operations).map(call).buffer_unordered(at_once);
    while let Some((operation, result, history)) = calls.next().await {
        tally.resends += history.resends();
        let exhausted = history.stop_reason() == Some(StopReason::AttemptsExhausted);
        tally.exhausted += usize::from(exhausted);
        if may_be_repeated(operation) {
            let all = history.attempts().len() == usize::try_from(MAX_ATTEMPTS).unwrap();
            if result.as_ref().ok() != Some(&StatusCode::OK) && !(exhausted && all) {
                tally.lost.push(format!("operation {operation}: {result:?}\n{history}"));
            }
        } else {
            tally.proven += usize::from(history.resends() > 0);
        }
    }
    drop(calls);
    server.abort();
    for (operation, seen) in record.operations.iter().enumerate() {
        let effects = seen.effects.load(Ordering::SeqCst);
        tally.effects += effects;
        tally.twice += usize::from(!may_be_repeated(operation) && effects > 1);
    }
    println!("{kind:?}, {protocol:?}, seed {seed}: {tally}");
    tally
}

/// The two rules, and that the run was no idle one.
fn check(kind: Kind, tally: &Tally) {
    assert_eq!(tally.twice, 0, "took effect twice: {tally}");
    assert!(tally.lost.is_empty(), "{tally}; the first: {}", tally.lost[0]);
    assert!(tally.resends > tally.operations / 10, "{tally}");
    let proofs = kind == Kind::Proven;
    assert_eq!(tally.proven > 0, proofs, "{tally}");
    assert!(tally.exhausted * 20 < tally.operations, "{tally}");
}

async fn runs(operations: usize, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        // Side by side: most of the time somebody waits for a server that stays silent.
        let kinds = [Kind::Proven, Kind::ForeignProof, Kind::NoProof];
        let runs = kinds.into_iter().flat_map(|kind| {
            let run = move |protocol| async move {
                check(kind, &run(kind, protocol, seed, operations).await);
            };
            [run(Protocol::Http1), run(Protocol::Http2)]
        });
        futures_util::future::join_all(runs).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_unmarked_post_takes_effect_twice_and_no_repeatable_operation_is_lost() {
    runs(700, 1..4).await;
}

/// What reqwest resends by default, below any middleware, is its own: counted apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_reqwests_own_resends_below_nothing_repeatable_is_lost_either() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let tally = run(Kind::NoProofDefaultRetry, protocol, 1, 1_000).await;
        assert!(tally.lost.is_empty(), "{tally}; the first: {}", tally.lost[0]);
        if protocol == Protocol::Http1 {
            assert_eq!(tally.twice, 0, "over HTTP/1.1 it resends nothing: {tally}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a million operations: minutes, in release"]
async fn a_million_operations() {
    runs(17_000, 1..11).await;
}
