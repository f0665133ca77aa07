//! Real faults and what is read from them: `fault_source::classify`, one row a fault.
//!
//! One behaviour of a server can show in several ways, by timing: a row accepts a set. Where the
//! server has read a request, no answer may ever say that it was not processed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use reqwest::{Client, Version};
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::fault_source::classify;
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{Delivery, Fault, FaultKind};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};

/// What the server does with each connection.
#[derive(Clone, Copy)]
enum Act {
    CloseAtOnce,
    ReadThen(&'static str),
    ReadThenHang,
}

async fn server(act: Act) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                if matches!(act, Act::CloseAtOnce) {
                    return;
                }
                let mut head = Vec::new();
                while !head.windows(4).any(|window| window == b"\r\n\r\n") {
                    if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                if let Act::ReadThen(reply) = act {
                    // The client may be gone already: its own business.
                    let _ = stream.write_all(reply.as_bytes()).await;
                } else {
                    std::future::pending::<()>().await;
                }
            });
        }
    });
    address
}

/// A port where nobody listens: it stays bound as long as the process lives, so that nobody will.
fn refused() -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = socket.local_addr().unwrap();
    std::mem::forget(socket);
    address
}

async fn get(address: SocketAddr) -> reqwest::Error {
    Client::new().get(format!("http://{address}/")).send().await.unwrap_err()
}

async fn body_error(reply: &'static str) -> reqwest::Error {
    let url = format!("http://{}/", server(Act::ReadThen(reply)).await);
    Client::new().get(url).send().await.unwrap().json::<serde_json::Value>().await.unwrap_err()
}

/// A fault of reqwest's that needs no socket.
async fn scripted(reply: Reply) -> reqwest::Error {
    let client = ClientBuilder::new(Client::new()).with(Script::new([reply])).build();
    match client.get("http://service.test/").timeout(Duration::from_millis(1)).send().await {
        Err(reqwest_middleware::Error::Reqwest(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_fault_is_known_by_its_structure() {
    let unknown = |kind| vec![Fault::unknown(kind)];
    let proven = |kind| vec![Fault::not_processed(kind)];
    let loop_back = "HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n";
    let elsewhere = "HTTP/1.1 302 Found\r\nlocation: ftp://h/\r\ncontent-length: 0\r\n\r\n";
    let short_of = |bytes: &'static [u8]| {
        let chunks = futures_util::stream::iter([
            Ok::<_, io::Error>(bytes),
            Err(io::ErrorKind::ConnectionReset.into()),
        ]);
        reqwest::Body::wrap_stream(chunks)
    };
    let upload = |address: SocketAddr| {
        Client::new().post(format!("http://{address}/")).body(short_of(b"half")).send()
    };
    let hanging = server(Act::ReadThenHang).await;
    let timeout =
        Client::new().get(format!("http://{hanging}/")).timeout(Duration::from_millis(50));
    let stalled = server(Act::ReadThen("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")).await;
    let strange = Client::new().get(format!("http://{stalled}/")).version(Version::HTTP_09);
    let client = Client::new();
    let rows: Vec<(&str, reqwest::Error, Vec<Fault>)> = vec![
        ("refused", get(refused()).await, proven(FaultKind::Connect)),
        ("no address", scripted(Reply::connect_error()).await, proven(FaultKind::Connect)),
        ("name not resolved", scripted(Reply::dns_error()).await, proven(FaultKind::Dns)),
        (
            "accepted and closed",
            get(server(Act::CloseAtOnce).await).await,
            vec![
                Fault::not_processed(FaultKind::Connect),
                Fault::not_processed(FaultKind::ConnectionLost),
                Fault::unknown(FaultKind::ConnectionLost),
            ],
        ),
        (
            "read, then closed",
            get(server(Act::ReadThen("")).await).await,
            unknown(FaultKind::ConnectionLost),
        ),
        (
            "half a head",
            get(server(Act::ReadThen("HTTP/1.1 200 OK\r\nconte")).await).await,
            unknown(FaultKind::ConnectionLost),
        ),
        (
            "no HTTP",
            get(server(Act::ReadThen("SSH-2.0-OpenSSH_9.9\r\n\r\n")).await).await,
            unknown(FaultKind::Protocol),
        ),
        ("timeout", timeout.send().await.unwrap_err(), unknown(FaultKind::Timeout)),
        ("timeout while resolving", scripted(Reply::hang()).await, unknown(FaultKind::Timeout)),
        (
            "redirect loop",
            get(server(Act::ReadThen(loop_back)).await).await,
            unknown(FaultKind::Invalid),
        ),
        (
            "redirect to another scheme",
            get(server(Act::ReadThen(elsewhere)).await).await,
            unknown(FaultKind::Invalid),
        ),
        ("bad URL", client.get("http://[").build().unwrap_err(), unknown(FaultKind::Invalid)),
        (
            "bad name of a TLS server",
            Client::builder()
                .no_proxy()
                .resolve("foo..test", refused())
                .build()
                .unwrap()
                .get("https://foo..test/")
                .send()
                .await
                .unwrap_err(),
            unknown(FaultKind::Tls),
        ),
        (
            "bad scheme",
            client.get("foo://host/").send().await.unwrap_err(),
            unknown(FaultKind::Invalid),
        ),
        ("bad version", strange.send().await.unwrap_err(), unknown(FaultKind::Invalid)),
        (
            "request body failed",
            upload(server(Act::ReadThenHang).await).await.unwrap_err(),
            unknown(FaultKind::Invalid),
        ),
        (
            "body cut",
            body_error("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"a\"").await,
            unknown(FaultKind::Body),
        ),
        (
            "body is no JSON",
            body_error("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n{{{{").await,
            unknown(FaultKind::Decode),
        ),
    ];
    for (label, error, expected) in rows {
        let fault = classify(&error);
        assert!(expected.contains(&fault), "{label}: {fault} of {error:?}");

        let kind_alone = Fault::unknown(fault.kind());
        let through_the_chain = reqwest_middleware::Error::Reqwest(error);
        assert_eq!(classify(&through_the_chain), fault, "{label}: in the middleware's error");
        // Whoever wraps an error may have got it from a call of his own.
        let wrapped = reqwest_middleware::Error::Middleware(
            anyhow::Error::from(through_the_chain).context("an audit call"),
        );
        assert_eq!(classify(&wrapped), kind_alone, "{label}: in another middleware's error");
        let deep = io::Error::other(io::Error::other(Outer(io::Error::other(wrapped))));
        assert_eq!(classify(&deep), kind_alone, "{label}: deep");
    }
}

#[derive(Debug)]
struct Outer(io::Error);

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an outer error")
    }
}

impl Error for Outer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// The task of a connection lives in the runtime that opened it; hyper blames the user where that ends.
#[test]
fn a_connection_whose_runtime_ends_is_lost() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (has_read, read) = tokio::sync::oneshot::channel();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Over HTTP/2, where the second request is sure to go to the connection of the first.
    let server = std::thread::spawn(move || {
        runtime().block_on(async move {
            let (stream, _) = TcpListener::from_std(listener).unwrap().accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let (_, mut first) = connection.accept().await.unwrap().unwrap();
            first.send_response(http::Response::new(()), true).unwrap();
            let _second = connection.accept().await.unwrap().unwrap();
            has_read.send(()).unwrap();
            // Up to the client's end, which may well be an error.
            while let Some(Ok(_)) = connection.accept().await {}
        });
    });
    let owner = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let other = runtime();
    let client = Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    owner.block_on(client.get(&url).send()).unwrap();
    let error = other.block_on(async {
        let ends = async {
            read.await.unwrap();
            owner.shutdown_background();
        };
        tokio::join!(client.get(&url).send(), ends).0.unwrap_err()
    });
    assert_eq!(classify(&error), Fault::unknown(FaultKind::ConnectionLost), "{error:?}");
    server.join().unwrap();
}

#[tokio::test]
async fn an_answer_made_an_error_is_no_fault_of_the_network() {
    let busy = "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n";
    let url = format!("http://{}/", server(Act::ReadThen(busy)).await);
    let error = Client::new().get(url).send().await.unwrap().error_for_status().unwrap_err();
    assert_eq!(classify(&error), Fault::unknown(FaultKind::Other));
}

#[test]
fn errors_of_other_clients_are_known_by_their_io_error() {
    for (kind, expected) in [
        (io::ErrorKind::ConnectionReset, FaultKind::ConnectionLost),
        (io::ErrorKind::ConnectionAborted, FaultKind::ConnectionLost),
        (io::ErrorKind::BrokenPipe, FaultKind::ConnectionLost),
        (io::ErrorKind::UnexpectedEof, FaultKind::ConnectionLost),
        (io::ErrorKind::NotConnected, FaultKind::ConnectionLost),
        (io::ErrorKind::ConnectionRefused, FaultKind::Connect),
        (io::ErrorKind::HostUnreachable, FaultKind::Connect),
        (io::ErrorKind::NetworkUnreachable, FaultKind::Connect),
        (io::ErrorKind::TimedOut, FaultKind::Timeout),
        (io::ErrorKind::NotFound, FaultKind::Other),
        (io::ErrorKind::InvalidData, FaultKind::Other),
    ] {
        let fault = classify(&Outer(io::Error::from(kind)));
        assert_eq!(fault, Fault::unknown(expected), "{kind}");
        let nested = io::Error::other(io::Error::other(io::Error::from(kind)));
        assert_eq!(classify(&nested), Fault::unknown(expected), "{kind}, nested");
    }
    // … but not inside the error of a middleware, which may be about a file.
    let error = reqwest_middleware::Error::middleware(io::Error::from(io::ErrorKind::TimedOut));
    assert_eq!(classify(&error), Fault::unknown(FaultKind::Other));
}

#[test]
fn errors_of_other_clients_are_known_by_their_tls_error() {
    use rustls::{AlertDescription as Alert, CertificateError, Error as Tls, InvalidMessage};

    let verdicts = [
        Tls::InvalidCertificate(CertificateError::Expired),
        Tls::InvalidCertRevocationList(rustls::CertRevocationListError::BadSignature),
        Tls::NoCertificatesPresented,
        Tls::PeerIncompatible(rustls::PeerIncompatible::NoCipherSuitesInCommon),
        Tls::NoApplicationProtocol,
        Tls::InvalidMessage(InvalidMessage::InvalidContentType),
    ];
    let alerts = [
        Alert::HandshakeFailure,
        Alert::NoCertificate,
        Alert::BadCertificate,
        Alert::UnsupportedCertificate,
        Alert::CertificateRevoked,
        Alert::CertificateExpired,
        Alert::CertificateUnknown,
        Alert::CertificateRequired,
        Alert::UnknownCA,
        Alert::AccessDenied,
        Alert::ProtocolVersion,
        Alert::InsufficientSecurity,
        Alert::UnrecognisedName,
        Alert::NoApplicationProtocol,
    ];
    for verdict in verdicts.into_iter().chain(alerts.map(Tls::AlertReceived)) {
        let fault = classify(&io::Error::other(verdict.clone()));
        assert_eq!(fault, Fault::unknown(FaultKind::Tls), "{verdict}");
    }
    for other in [
        Tls::AlertReceived(Alert::InternalError),
        Tls::AlertReceived(Alert::UserCanceled),
        Tls::InvalidMessage(InvalidMessage::UnknownProtocolVersion),
        Tls::DecryptError,
        Tls::FailedToGetCurrentTime,
    ] {
        let fault = classify(&io::Error::other(other.clone()));
        assert_eq!(fault, Fault::unknown(FaultKind::Other), "{other}");
    }
}

#[tokio::test]
async fn errors_of_other_clients_are_known_by_their_http_error() {
    // A connection that is gone, and one that speaks something else.
    let (gone, _) = tokio::io::duplex(64);
    let (strange, mut peer) = tokio::io::duplex(64);
    peer.write_all(b"SSH-2.0-OpenSSH_9.9\r\n\r\n").await.unwrap();
    for (label, stream, kind) in
        [("gone", gone, FaultKind::ConnectionLost), ("strange", strange, FaultKind::Protocol)]
    {
        let error = match h2::client::handshake(stream).await {
            Ok((_, connection)) => connection.await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(classify(&Outer(io::Error::other(error))), Fault::unknown(kind), "h2, {label}");
    }
    for (label, talks_first, kind) in
        [("given back", true, FaultKind::ConnectionLost), ("no HTTP", false, FaultKind::Protocol)]
    {
        let (stream, mut peer) = tokio::io::duplex(1024);
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.unwrap();
        let answer = async {
            if !talks_first {
                peer.read_u8().await.unwrap();
            }
            peer.write_all(b"SSH-2.0-OpenSSH_9.9\r\n\r\n").await.unwrap();
        };
        let request = http::Request::new(http_body_util::Empty::<bytes::Bytes>::new());
        // In this order the answer is there before, or after, the request is written.
        let result = if talks_first {
            tokio::join!(answer, connection, sender.send_request(request)).2
        } else {
            tokio::join!(sender.send_request(request), connection, answer).0
        };
        let error = result.unwrap_err();
        assert_eq!(classify(&error), Fault::unknown(kind), "hyper, {label}: {error:?}");
    }
}

#[test]
fn a_chain_without_end_ends() {
    #[derive(Debug)]
    struct Endless;
    impl fmt::Display for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("endless")
        }
    }
    impl Error for Endless {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&Self)
        }
    }
    let fault = classify(&Endless);
    assert_eq!((fault.kind(), fault.delivery()), (FaultKind::Other, Delivery::Unknown));
}
