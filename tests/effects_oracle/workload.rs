//! The workload: servers that act, and fail in every way they can, by seeded chance; operations of
//! mixed methods against them; and the record of what the servers did.
//!
//! It knows nothing of the crate, so that it judges any client alike.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Method, StatusCode};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest_middleware::{ClientWithMiddleware, RequestBuilder};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::{TcpListener, TcpStream};

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
pub(crate) enum Protocol {
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
            Fate::Silent => {
                // Until the client has had enough.
                while stream.read(&mut [0; 64]).await? > 0 {}
                return Ok(());
            }
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

// The operations

/// Sends one connection in ten to nobody.
struct SometimesNobody(Arc<Record>);

impl Resolve for SometimesNobody {
    fn resolve(&self, _: Name) -> Resolving {
        let ip = if self.0.connection_meets(10) { NOBODY } else { Ipv4Addr::LOCALHOST };
        let address: Addrs = Box::new([SocketAddr::new(IpAddr::V4(ip), 0)].into_iter());
        Box::pin(std::future::ready(Ok(address)))
    }
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

pub(crate) fn may_be_repeated(operation: usize) -> bool {
    operation % METHODS.len() < 4
}

/// A server, and the record of what it does to the operations of one run.
pub(crate) struct Workload {
    protocol: Protocol,
    record: Arc<Record>,
    address: SocketAddr,
    server: tokio::task::JoinHandle<()>,
}

/// One operation, when its call has ended.
pub(crate) struct Ended<T> {
    pub(crate) operation: usize,
    pub(crate) result: reqwest_middleware::Result<StatusCode>,
    pub(crate) note: T,
}

impl Drop for Workload {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Workload {
    pub(crate) async fn start(protocol: Protocol, seed: u64, operations: usize) -> Self {
        let record = Record::new(seed, operations);
        let (address, server) = start(protocol, record.clone()).await;
        Self { protocol, record, address, server }
    }

    /// A client for this server, yet without a middleware.
    pub(crate) fn http(&self) -> reqwest::ClientBuilder {
        let resolver = SometimesNobody(self.record.clone());
        let http = reqwest::Client::builder().no_proxy().dns_resolver(resolver);
        match self.protocol {
            Protocol::Http1 => http,
            Protocol::Http2 => http.http2_prior_knowledge(),
        }
    }

    /// Sends every operation; `prepare` may add to its request, and gets its note back.
    pub(crate) async fn run<T>(
        &self,
        client: &ClientWithMiddleware,
        prepare: impl Fn(RequestBuilder) -> (RequestBuilder, T),
    ) -> Vec<Ended<T>> {
        let call = |operation: usize| {
            let (method, keyed) = METHODS[operation % METHODS.len()];
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let url = format!("http://{HOST}:{}/op/{operation}", self.address.port());
            let mut request = client.request(method.clone(), url);
            if keyed {
                request = request.header("idempotency-key", operation.to_string());
            }
            if !matches!(method, Method::GET | Method::DELETE) && operation % 5 != 0 {
                request = request.body(Bytes::from_static(&[b'x'; 64]));
            }
            let (request, note) = prepare(request);
            async move {
                let result = request.send().await.map(|response| response.status());
                Ended { operation, result, note }
            }
        };
        // Over HTTP/2 they share a connection, and with it its fate.
        let at_once = if self.protocol == Protocol::Http2 { 8 } else { 64 };
        let operations = 0..self.record.operations.len();
        futures_util::stream::iter(operations).map(call).buffer_unordered(at_once).collect().await
    }

    /// How often each operation took effect.
    pub(crate) fn effects(&self) -> Vec<u32> {
        let operations = self.record.operations.iter();
        operations.map(|operation| operation.effects.load(Ordering::SeqCst)).collect()
    }

    /// How many requests reached the server.
    pub(crate) fn arrivals(&self) -> u32 {
        let operations = self.record.operations.iter();
        operations.map(|operation| operation.arrivals.load(Ordering::SeqCst)).sum()
    }
}
