//! Any chain of errors: `classify` ends, never panics, proves nothing about what is not reqwest's own, and names
//! the kind that the slow reading names where that one knows it.

#![no_main]

use std::cell::RefCell;
use std::error::Error;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use std::{fmt, io};

use futures_util::{FutureExt as _, stream};
use fuzz::source::Source;
use libfuzzer_sys::fuzz_target;
use reqwest::dns::{Name, Resolve, Resolving};
use reqwest_typed_retry::fault_source::classify;
use reqwest_typed_retry::{Delivery, Fault, FaultKind};
use tokio::io::AsyncWriteExt as _;
use tokio::runtime::Runtime;

type Boxed = Box<dyn Error + Send + Sync>;

/// How deep the crate looks.
const DEPTH: usize = 64;

const KINDS: [io::ErrorKind; 20] = [
    io::ErrorKind::NotFound,
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::ConnectionRefused,
    io::ErrorKind::ConnectionReset,
    io::ErrorKind::HostUnreachable,
    io::ErrorKind::NetworkUnreachable,
    io::ErrorKind::ConnectionAborted,
    io::ErrorKind::NotConnected,
    io::ErrorKind::AddrInUse,
    io::ErrorKind::AddrNotAvailable,
    io::ErrorKind::BrokenPipe,
    io::ErrorKind::WouldBlock,
    io::ErrorKind::InvalidInput,
    io::ErrorKind::InvalidData,
    io::ErrorKind::TimedOut,
    io::ErrorKind::WriteZero,
    io::ErrorKind::Interrupted,
    io::ErrorKind::UnexpectedEof,
    io::ErrorKind::OutOfMemory,
    io::ErrorKind::Other,
];

/// An error of an application, with or without a source.
#[derive(Debug)]
struct Plain(Option<Boxed>);

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain")
    }
}

impl Error for Plain {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.as_ref().map(|source| source.as_ref() as _)
    }
}

/// One whose sources come back to it, after so many others.
#[derive(Debug)]
struct Ring(usize, usize);

static RINGS: [[Ring; 3]; 3] = [
    [Ring(0, 0), Ring(0, 0), Ring(0, 0)],
    [Ring(1, 1), Ring(1, 0), Ring(1, 0)],
    [Ring(2, 1), Ring(2, 2), Ring(2, 0)],
];

impl fmt::Display for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ring")
    }
}

impl Error for Ring {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&RINGS[self.0][self.1])
    }
}

/// An error of this catalogue, which lives as long as the target does.
#[derive(Debug)]
struct Kept(&'static (dyn Error + Send + Sync + 'static));

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("kept")
    }
}

impl Error for Kept {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.0)
    }
}

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());

/// hyper's errors, from connections in memory that go wrong.
static HYPER: LazyLock<Vec<hyper::Error>> = LazyLock::new(|| {
    let answers: [&[u8]; 4] =
        [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b"HTTP/1.1 2"];
    let mut errors = Vec::new();
    for answer in answers {
        let error = RUNTIME.block_on(async {
            let (ours, mut theirs) = tokio::io::duplex(1024);
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(Io(ours)).await.unwrap();
            let request = http::Request::get("/").body(String::new()).unwrap();
            let answered = sender.send_request(request);
            theirs.write_all(answer).await.unwrap();
            theirs.shutdown().await.unwrap();
            let (answered, connected) = futures_util::future::join(answered, connection).await;
            [answered.err(), connected.err()]
        });
        errors.extend(error.into_iter().flatten());
    }
    // One that was never sent: its connection has gone.
    let canceled = RUNTIME.block_on(async {
        let (ours, _) = tokio::io::duplex(1024);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(Io(ours)).await.unwrap();
        drop(connection);
        sender.send_request(http::Request::get("/").body(String::new()).unwrap()).await.err()
    });
    errors.extend(canceled);
    errors
});

/// The streams of tokio as those of hyper.
struct Io(tokio::io::DuplexStream);

impl hyper::rt::Read for Io {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        mut into: hyper::rt::ReadBufCursor<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        let mut bytes = [0; 256];
        let room = into.remaining().min(bytes.len());
        let mut buffer = tokio::io::ReadBuf::new(&mut bytes[..room]);
        let stream = std::pin::Pin::new(&mut self.0);
        std::task::ready!(tokio::io::AsyncRead::poll_read(stream, context, &mut buffer))?;
        into.put_slice(buffer.filled());
        std::task::Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Io {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<io::Result<usize>> {
        tokio::io::AsyncWrite::poll_write(std::pin::Pin::new(&mut self.0), context, bytes)
    }

    fn poll_flush(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        tokio::io::AsyncWrite::poll_flush(std::pin::Pin::new(&mut self.0), context)
    }

    fn poll_shutdown(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        tokio::io::AsyncWrite::poll_shutdown(std::pin::Pin::new(&mut self.0), context)
    }
}

thread_local! {
    /// What the resolver of `CLIENT` fails with next. With nothing it takes for ever.
    static UNRESOLVED: RefCell<Option<Boxed>> = const { RefCell::new(None) };
}

struct Fails;

impl Resolve for Fails {
    fn resolve(&self, _: Name) -> Resolving {
        match UNRESOLVED.take() {
            Some(error) => Box::pin(std::future::ready(Err(error))),
            None => Box::pin(std::future::pending()),
        }
    }
}

static CLIENT: LazyLock<reqwest::Client> = LazyLock::new(|| {
    let client = reqwest::Client::builder().dns_resolver(Arc::new(Fails)).no_proxy();
    client.retry(reqwest::retry::never()).build().unwrap()
});

/// reqwest's own error of a name that is not resolved, with this source.
fn unresolved(source: Boxed) -> reqwest::Error {
    UNRESOLVED.set(Some(source));
    RUNTIME.block_on(async { CLIENT.get("http://no.test/").send().await }).unwrap_err()
}

/// reqwest's own error of a body that failed with this source.
fn cut(source: Boxed) -> reqwest::Error {
    let body = reqwest::Body::wrap_stream(stream::iter([Err::<bytes::Bytes, _>(source)]));
    let response = reqwest::Response::from(http::Response::new(body));
    response.bytes().now_or_never().unwrap().unwrap_err()
}

/// The same of a request that can't be built, or whose response somebody refused.
fn other(kind: u8) -> (reqwest::Error, FaultKind) {
    let client = &*CLIENT;
    match kind % 5 {
        0 => (client.get("http://[broken").build().unwrap_err(), FaultKind::Invalid),
        1 => (client.get("/relative").build().unwrap_err(), FaultKind::Invalid),
        2 => (
            client.get("http://a.test/").header("a\n", "b").build().unwrap_err(),
            FaultKind::Invalid,
        ),
        3 => {
            let response = http::Response::builder().status(500).body("").unwrap();
            let error = reqwest::Response::from(response).error_for_status().unwrap_err();
            (error, FaultKind::Other)
        }
        _ => {
            let late = RUNTIME.block_on(async {
                client.get("http://no.test/").timeout(Duration::ZERO).send().await
            });
            (late.unwrap_err(), FaultKind::Timeout)
        }
    }
}

fn tls(kind: u8) -> (rustls::Error, bool) {
    use rustls::{AlertDescription as Alert, CertificateError, Error, InvalidMessage};
    match kind % 8 {
        0 => (Error::InvalidCertificate(CertificateError::Expired), true),
        1 => (Error::NoCertificatesPresented, true),
        2 => (Error::AlertReceived(Alert::HandshakeFailure), true),
        3 => (Error::AlertReceived(Alert::InternalError), false),
        4 => (Error::NoApplicationProtocol, true),
        5 => (Error::InvalidMessage(InvalidMessage::InvalidContentType), true),
        6 => (Error::DecryptError, false),
        _ => (Error::General("general".into()), false),
    }
}

/// What the slow reading knows of a chain, each with how many errors stand before it.
#[derive(Default)]
struct Known {
    /// The verdicts of TLS.
    tls: Vec<usize>,
    http2: Vec<usize>,
    /// The kinds of those io errors that have one.
    io: Vec<(usize, FaultKind)>,
    /// The first of reqwest's own, and its kind, if it is known.
    own: Option<(usize, Option<FaultKind>)>,
    /// An error of hyper's, or of a middleware, of which it knows nothing.
    has_more: bool,
    /// Some of it is not to be seen.
    is_hidden: bool,
    length: usize,
}

impl Known {
    /// One more around all that is known.
    fn wrapped(mut self) -> Self {
        self.length += 1;
        let places = self.tls.iter_mut().chain(&mut self.http2);
        let places = places.chain(self.io.iter_mut().map(|(at, _)| at));
        places.chain(self.own.iter_mut().map(|(at, _)| at)).for_each(|at| *at += 1);
        self
    }

    /// The kind, below something that is not reqwest's.
    fn kind(&self) -> Option<FaultKind> {
        let is_seen = |at: &usize| *at < DEPTH;
        match self.own.filter(|(at, _)| is_seen(at)) {
            _ if self.is_hidden => None,
            Some((_, kind)) => kind,
            None if self.has_more => None,
            None if self.tls.iter().any(is_seen) => Some(FaultKind::Tls),
            None if self.http2.iter().any(is_seen) => Some(FaultKind::Protocol),
            None => {
                let first = self.io.iter().filter(|(at, _)| is_seen(at)).min_by_key(|(at, _)| *at);
                Some(first.map_or(FaultKind::Other, |(_, kind)| *kind))
            }
        }
    }

    fn io(mut self, kind: io::ErrorKind) -> Self {
        use io::ErrorKind as Io;
        let read = match kind {
            Io::TimedOut => FaultKind::Timeout,
            Io::ConnectionRefused | Io::HostUnreachable | Io::NetworkUnreachable => {
                FaultKind::Connect
            }
            Io::ConnectionReset
            | Io::ConnectionAborted
            | Io::BrokenPipe
            | Io::NotConnected
            | Io::UnexpectedEof => FaultKind::ConnectionLost,
            _ => return self,
        };
        self.io.push((0, read));
        self
    }

    fn own(self, kind: Option<FaultKind>) -> Self {
        Self { own: Some((0, kind)), ..self }
    }
}

/// The innermost error.
fn leaf(source: &mut Source) -> (Boxed, Known) {
    let (kind, which) = (source.byte(), source.byte());
    let known = Known { length: 1, ..Known::default() };
    match kind % 10 {
        0 => (Plain(None).into(), known),
        1 | 2 => {
            let kind = KINDS[usize::from(which) % KINDS.len()];
            (io::Error::from(kind).into(), known.io(kind))
        }
        3 => {
            let error = h2::Error::from(h2::Reason::from(u32::from(which)));
            (error.into(), Known { http2: vec![0], ..known })
        }
        4 => {
            let (error, is_verdict) = tls(which);
            let tls = if is_verdict { vec![0] } else { Vec::new() };
            (error.into(), Known { tls, ..known })
        }
        5 => {
            let error = &HYPER[usize::from(which) % HYPER.len()];
            (Kept(error).into(), Known { has_more: true, ..known }.wrapped())
        }
        6 => {
            let (error, kind) = other(which);
            (error.into(), known.own(Some(kind)))
        }
        7 => {
            let ring = &RINGS[usize::from(which) % 3][0];
            (Kept(ring).into(), known.wrapped())
        }
        8 => (fmt::Error.into(), known),
        _ => (String::from_utf8_lossy(source.text()).into(), known),
    }
}

/// One error more around it.
fn wrap(kind: u8, which: u8, inner: Boxed, known: Known) -> (Boxed, Known) {
    match kind % 8 {
        0 | 1 => (Plain(Some(inner)).into(), known.wrapped()),
        2 => {
            let kind = KINDS[usize::from(which) % KINDS.len()];
            (io::Error::new(kind, inner).into(), known.wrapped().io(kind))
        }
        3 => (Arc::<dyn Error + Send + Sync>::from(inner).into_box(), known.wrapped()),
        // What anyhow is given in a box it does not show as what it is.
        4 => {
            let error = anyhow::Error::from_boxed(inner).context("context");
            (error.into(), Known { is_hidden: true, ..known.wrapped() })
        }
        5 => {
            let error = reqwest_middleware::Error::Middleware(anyhow::Error::from_boxed(inner));
            (error.into(), Known { has_more: true, ..known.wrapped() })
        }
        6 => (cut(inner).into(), known.wrapped().own(None)),
        _ => (unresolved(inner).into(), known.wrapped().own(None)),
    }
}

trait IntoBox {
    fn into_box(self) -> Boxed;
}

impl IntoBox for Arc<dyn Error + Send + Sync> {
    fn into_box(self) -> Boxed {
        Box::new(self)
    }
}

fn unproven(fault: Fault, what: &str) {
    assert_eq!(fault.delivery(), Delivery::Unknown, "{what} proves something: {fault:?}");
}

fuzz_target!(|data: &[u8]| {
    let mut source = Source(data);
    let (mut error, mut known) = leaf(&mut source);
    let mut made = 1_usize;
    while !source.is_empty() && made < 2_000 {
        let (kind, which) = (source.byte(), source.byte());
        // The same one often.
        let times = if kind & 0x80 != 0 { 1 + usize::from(source.byte()) } else { 1 };
        for _ in 0..times {
            (error, known) = wrap(kind, which, error, known);
            made += 1;
        }
    }
    let fault = classify(error.as_ref());
    assert_eq!(classify(error.as_ref()), fault, "asked again");

    match error.downcast::<reqwest::Error>() {
        Ok(own) => {
            if own.is_builder() || own.is_status() || own.is_body() || own.is_decode() {
                unproven(fault, "what can't be built, or has come");
            }
            let kind = fault.kind();
            let own = reqwest_middleware::Error::Reqwest(*own);
            assert_eq!(classify(&own), fault, "reqwest-middleware's own");
            let wrapped = classify(&Plain(Some(own.into())));
            unproven(wrapped, "one of another call");
            assert_eq!(wrapped.kind(), kind, "the kind is that of reqwest's own");
        }
        Err(error) => {
            unproven(fault, "what is not reqwest's own");
            if let Some(kind) = known.kind() {
                assert_eq!(fault.kind(), kind, "{} errors: {:?}", known.length, known.io);
            }
            // Nothing that is wrapped around proves more.
            let wrapped = classify(&Plain(Some(error)));
            unproven(wrapped, "a wrapped one");
        }
    }
});
