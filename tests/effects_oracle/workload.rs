//! The workload: operations of mixed methods against servers that act, and fail in every way they can,
//! by seeded chance; and the record of what the servers did.
//!
//! It knows nothing of the crate, so that it judges any client alike.

#[path = "../support/faulty_server.rs"]
mod faulty_server;

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

pub(crate) use faulty_server::Protocol;
use faulty_server::{Arrival, Fate, NOBODY, Witness};

/// Resolves to the server, or, by chance, to an address where nobody listens.
const HOST: &str = "server.test";

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
}

impl Witness for Record {
    fn act(&self, arrival: &Arrival) {
        self.operations[arrival.operation].effects.fetch_add(1, Ordering::SeqCst);
    }

    /// The same for each arrival of an operation in each run of the seed.
    fn fate(&self, arrival: &Arrival) -> Fate {
        let fates = match arrival.protocol {
            Protocol::Http1 => HTTP1,
            Protocol::Http2 => HTTP2,
        };
        let operation = arrival.operation;
        let arrival = self.operations[operation].arrivals.fetch_add(1, Ordering::SeqCst);
        let chance = (u64::try_from(operation).unwrap() << 8) | u64::from(arrival);
        let mut rng =
            SmallRng::seed_from_u64(self.seed ^ chance.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        if rng.random_bool(0.6) { Fate::Served } else { fates[rng.random_range(0..fates.len())] }
    }

    fn connection_meets(&self, odds: usize) -> bool {
        let connection = self.connections.fetch_add(1, Ordering::SeqCst);
        SmallRng::seed_from_u64(self.seed.wrapping_add(u64::try_from(connection).unwrap()))
            .random_range(0..odds)
            == 0
    }
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
        let (address, server) = faulty_server::start(protocol, record.clone()).await;
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
