//! Connections that do not come about, and those that end before a request is read.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Version;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest_typed_retry::FaultKind::{Connect, ConnectionLost, Dns, Invalid, Protocol};

use crate::expect::{not_processed, permanent, proven, status, transient, unknown, unused};
use crate::scene::Scene;
use crate::servers::Act::{AwaitBytes, Close, EndWriting, Linger, ReadRequest, Reset, Write};
use crate::table::{Row, row};

struct Failing;

impl Resolve for Failing {
    fn resolve(&self, _name: Name) -> Resolving {
        Box::pin(async { Err(io::Error::from(io::ErrorKind::NotFound).into()) })
    }
}

struct WithoutAddresses;

impl Resolve for WithoutAddresses {
    fn resolve(&self, _name: Name) -> Resolving {
        Box::pin(async { Ok(Box::new(std::iter::empty::<SocketAddr>()) as Addrs) })
    }
}

pub(crate) fn rows() -> Vec<Row> {
    let named = || Scene::nobody().url("http://service.test/");
    let answer = |head: &str| Write(head.as_bytes().to_vec());
    vec![
        row(
            "connection refused",
            Scene::nobody(),
            not_processed([proven(Connect)]).errors(["request+connect"]),
        ),
        row(
            "the resolver fails",
            named().client(|client, _| client.dns_resolver(Arc::new(Failing))),
            not_processed([proven(Dns)]).errors(["request+connect+dns"]),
        ),
        row(
            "the resolver knows no address",
            named().client(|client, _| client.dns_resolver(Arc::new(WithoutAddresses))),
            not_processed([proven(Connect)]).errors(["request+connect"]),
        ),
        row(
            "accepted, closed at once",
            Scene::http1([Close]).may_hang(),
            unused([proven(Connect), proven(ConnectionLost), unknown(ConnectionLost)]),
        ),
        row(
            "accepted, reset at once",
            Scene::http1([Reset]).may_hang(),
            unused([proven(Connect), proven(ConnectionLost), unknown(ConnectionLost)]),
        ),
        row(
            "accepted, half closed, all read",
            Scene::http1([EndWriting, ReadRequest]).may_hang(),
            unused([proven(ConnectionLost), unknown(ConnectionLost)]).read_unproven_at_most(),
        ),
        row(
            "closed with the request unread",
            Scene::http1([AwaitBytes, Close]),
            transient([unknown(ConnectionLost)]).errors(["request"]),
        ),
        row(
            "the server talks first: a 408",
            Scene::http1([
                answer("HTTP/1.1 408 Late\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"),
                Linger,
            ])
            .may_hang(),
            unused([proven(ConnectionLost), unknown(ConnectionLost), status(408)]),
        ),
        row(
            "the server talks first: no HTTP",
            Scene::http1([answer("220 mail.test ESMTP\r\n"), Linger]).may_hang(),
            unused([proven(ConnectionLost), unknown(Protocol)]),
        ),
        row(
            "a version that the client does not speak",
            Scene::http1([ReadRequest, Close])
                .request(|request, _| request.version(Version::HTTP_09)),
            permanent([unknown(Invalid)]).errors(["request"]),
        ),
        row(
            "HTTP/2 asked of a connection that speaks HTTP/1.1",
            Scene::http1([ReadRequest, Close])
                .request(|request, _| request.version(Version::HTTP_2)),
            permanent([unknown(Invalid)]).errors(["request"]),
        ),
        row(
            "a scheme that the client does not speak",
            Scene::nobody().url("gopher://service.test/"),
            permanent([unknown(Invalid)]).errors(["builder"]),
        ),
        row(
            "a scheme that the caller ruled out",
            Scene::nobody().client(|client, _| client.https_only(true)),
            permanent([unknown(Invalid)]).errors(["builder"]),
        ),
    ]
}

/// Linux leaves it unanswered to connect where the queue is full; elsewhere it is refused.
#[cfg(target_os = "linux")]
pub(crate) fn connect_timeout_rows() -> Vec<Row> {
    vec![row(
        "connect timeout",
        Scene::full_listener()
            .client(|client, _| client.connect_timeout(Duration::from_millis(50))),
        not_processed([proven(Connect)]).errors(["timeout+request+connect"]),
    )]
}
