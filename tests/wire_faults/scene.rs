//! What a request meets: the other end, and the client that is set up for it.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use futures_util::stream;
use reqwest::{Body, Client, ClientBuilder};
use reqwest_middleware::{ClientWithMiddleware, RequestBuilder};
use reqwest_typed_retry::{Backoff, DeliveryProof, Jitter, RetryMiddleware, RetryPolicy};
use tokio::net::TcpSocket;

use crate::certificates::{self, Authority, Tls};
use crate::rewriting::AsStream;
use crate::servers::{self, Act, FullListener, Protocol, Seen, Server};

/// The four requests of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Get,
    Post,
    /// With a key that the policy honours.
    KeyedPost,
    /// With a body that can't be cloned.
    StreamPost,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Get, Self::Post, Self::KeyedPost, Self::StreamPost];

    /// Whether a second time does no harm.
    pub(crate) fn is_safe_to_repeat(self) -> bool {
        matches!(self, Self::Get | Self::KeyedPost)
    }
}

/// What a POST carries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Upload {
    Small,
    /// More than the buffers of both ends hold, so that it is under way when the answer comes.
    Large,
    /// As a stream, it fails at the first poll.
    FailsAtOnce,
    /// As a stream, it fails after its first chunk.
    FailsOnTheWay,
}

enum Peer {
    Server(Protocol, Vec<Act>),
    Nobody,
    FullListener,
}

type ClientSetUp = fn(ClientBuilder, SocketAddr) -> ClientBuilder;
type RequestSetUp = fn(RequestBuilder, Kind) -> RequestBuilder;

pub(crate) struct Scene {
    peer: Peer,
    scheme: &'static str,
    url: Option<&'static str>,
    trusts: &'static LazyLock<Authority>,
    client: ClientSetUp,
    request: RequestSetUp,
    upload: Upload,
    /// Whether an inner middleware turns every body into a stream.
    streamed: bool,
    attempt_timeout: Option<Duration>,
}

/// The other end, as long as it lives.
pub(crate) enum Stage {
    Server(Server),
    Nobody,
    FullListener(FullListener),
}

impl Scene {
    fn new(peer: Peer, scheme: &'static str) -> Self {
        Self {
            peer,
            scheme,
            url: None,
            trusts: &certificates::OURS,
            client: |client, _| client,
            request: |request, _| request,
            upload: Upload::Small,
            streamed: false,
            attempt_timeout: None,
        }
    }

    pub(crate) fn nobody() -> Self {
        Self::new(Peer::Nobody, "http")
    }

    pub(crate) fn full_listener() -> Self {
        Self::new(Peer::FullListener, "http")
    }

    pub(crate) fn http1(acts: impl IntoIterator<Item = Act>) -> Self {
        Self::new(Peer::Server(Protocol::Http1, acts.into_iter().collect()), "http")
    }

    /// A client that speaks TLS to a server that follows its script below that.
    pub(crate) fn below_tls(acts: impl IntoIterator<Item = Act>) -> Self {
        Self::new(Peer::Server(Protocol::Http1, acts.into_iter().collect()), "https")
    }

    pub(crate) fn tls(tls: Tls, acts: impl IntoIterator<Item = Act>) -> Self {
        Self::new(Peer::Server(tls.protocol(), acts.into_iter().collect()), "https")
    }

    pub(crate) fn http2(acts: impl IntoIterator<Item = Act>) -> Self {
        Self::new(Peer::Server(Protocol::Http2, acts.into_iter().collect()), "http")
    }

    /// Where the request goes, if not to the server itself.
    pub(crate) fn url(self, url: &'static str) -> Self {
        Self { url: Some(url), ..self }
    }

    /// The authority whose certificates the client accepts.
    pub(crate) fn trusting(self, authority: &'static LazyLock<Authority>) -> Self {
        Self { trusts: authority, ..self }
    }

    /// The address is that of the other end.
    pub(crate) fn client(self, client: ClientSetUp) -> Self {
        Self { client, ..self }
    }

    pub(crate) fn request(self, request: RequestSetUp) -> Self {
        Self { request, ..self }
    }

    pub(crate) fn upload(self, upload: Upload) -> Self {
        Self { upload, ..self }
    }

    /// For connections that end before their first use. Rarely, in 1 of some 10,000 calls, the
    /// request is handed over just as hyper's end of the connection goes, stays in between and is
    /// never answered (hyperium/hyper#4122): a fault of its own, which only a time limit ends.
    pub(crate) fn may_hang(self) -> Self {
        self.attempt_timeout(Duration::from_secs(5))
    }

    pub(crate) fn streamed(self) -> Self {
        Self { streamed: true, ..self }
    }

    pub(crate) fn attempt_timeout(self, timeout: Duration) -> Self {
        Self { attempt_timeout: Some(timeout), ..self }
    }

    pub(crate) async fn start(&self) -> Stage {
        match &self.peer {
            Peer::Server(protocol, acts) => {
                Stage::Server(Server::start(protocol.clone(), acts.clone()).await)
            }
            Peer::Nobody => Stage::Nobody,
            Peer::FullListener => Stage::FullListener(FullListener::start().await),
        }
    }

    /// Two attempts, no waits, and the proof.
    pub(crate) fn build_client(&self, stage: &Stage) -> ClientWithMiddleware {
        let policy = RetryPolicy::builder()
            .max_attempts(2)
            .backoff(Backoff::constant(Duration::ZERO))
            .throttle_backoff(Backoff::constant(Duration::ZERO))
            .jitter(Jitter::None)
            .honour_idempotency_keys(true)
            .attempt_timeout(self.attempt_timeout)
            .build()
            .unwrap();
        let builder = Client::builder().no_proxy().tls_certs_only([self.trusts.trusted()]);
        let builder = match &self.peer {
            Peer::Server(Protocol::Http2, _) => builder.http2_prior_knowledge(),
            _ => builder,
        };
        let client = (self.client)(builder, stage.address());
        let (http, proof) = DeliveryProof::build(client).unwrap();
        let retry = RetryMiddleware::builder(policy).delivery_proof(proof).build().unwrap();
        let chain = reqwest_middleware::ClientBuilder::new(http).with(retry);
        if self.streamed { chain.with(AsStream).build() } else { chain.build() }
    }

    pub(crate) fn build_request(
        &self,
        kind: Kind,
        client: &ClientWithMiddleware,
        stage: &Stage,
    ) -> RequestBuilder {
        let url = match self.url {
            Some(url) => url.to_owned(),
            None => stage.url(self.scheme),
        };
        let request = match kind {
            Kind::Get => client.get(url),
            Kind::Post => client.post(url).body(self.upload.bytes()),
            Kind::KeyedPost => {
                client.post(url).header("idempotency-key", "once").body(self.upload.bytes())
            }
            Kind::StreamPost => client.post(url).body(self.upload.stream()),
        };
        (self.request)(request, kind)
    }
}

impl Upload {
    const CHUNK: usize = 0x10000;
    const LARGE: usize = 64 * Self::CHUNK;

    fn bytes(self) -> Vec<u8> {
        vec![b'x'; if matches!(self, Self::Large) { Self::LARGE } else { 64 }]
    }

    fn stream(self) -> Body {
        let failure = || Err(io::Error::from(io::ErrorKind::NotFound));
        match self {
            Self::Small | Self::Large => {
                let chunks: Vec<_> = self.bytes().chunks(Self::CHUNK).map(<[u8]>::to_vec).collect();
                Body::wrap_stream(stream::iter(chunks.into_iter().map(Ok::<_, Infallible>)))
            }
            Self::FailsAtOnce => {
                Body::wrap_stream(stream::iter([failure() as io::Result<Vec<u8>>]))
            }
            Self::FailsOnTheWay => {
                Body::wrap_stream(stream::iter([Ok(vec![b'x'; Self::CHUNK]), failure()]))
            }
        }
    }
}

impl Stage {
    fn address(&self) -> SocketAddr {
        match self {
            Self::Server(server) => server.address(),
            Self::Nobody => refusing_address(),
            Self::FullListener(listener) => listener.address(),
        }
    }

    pub(crate) fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}/", self.address())
    }

    pub(crate) fn call_returned(&self) {
        if let Self::Server(server) = self {
            server.call_returned();
        }
    }

    pub(crate) async fn finish(self) -> Seen {
        match self {
            Self::Server(server) => server.finish().await,
            Self::Nobody | Self::FullListener(_) => Seen::default(),
        }
    }
}

/// An address that refuses connections: it is taken, and nobody listens.
pub(crate) fn refusing_address() -> SocketAddr {
    static TAKEN: LazyLock<TcpSocket> = LazyLock::new(servers::bound_socket);
    TAKEN.local_addr().unwrap()
}
