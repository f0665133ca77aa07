//! TLS: verdicts, which a resend would meet again, and connections that are lost on the way.

use reqwest_typed_retry::FaultKind::{Connect, ConnectionLost, Tls as Verdict};

use crate::answers::answer;
use crate::certificates::{STRANGER, Tls};
use crate::expect::{SAFE, not_processed, permanent, proven, transient, unknown, unused};
use crate::scene::Scene;
use crate::servers::Act::{self, Close, Linger, ReadBytes, ReadRequest, Reset};
use crate::table::{Row, row};

const HANDSHAKE_FAILURE: u8 = 40;
const INTERNAL_ERROR: u8 = 80;

/// A fatal alert as a TLS record (RFC 8446, 6).
fn alert(description: u8) -> Act {
    answer([21, 3, 3, 0, 2, 2, description])
}

fn served(tls: Tls) -> Scene {
    Scene::tls(tls, [ReadRequest, Close])
}

pub(crate) fn verdicts() -> Vec<Row> {
    let verdict = || permanent([unknown(Verdict)]).errors(["request+connect"]);
    vec![
        row("an issuer that nobody knows", served(Tls::default()).trusting(&STRANGER), verdict()),
        row("an expired certificate", served(Tls::default().expired()), verdict()),
        row(
            "a certificate for another name",
            served(Tls::default().for_name("other.test")),
            verdict(),
        ),
        row(
            "a server without TLS",
            Scene::below_tls([
                ReadBytes,
                answer("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"),
                Linger,
            ]),
            verdict(),
        ),
        row(
            "TLS alert: handshake failure",
            Scene::below_tls([ReadBytes, alert(HANDSHAKE_FAILURE), Linger]),
            verdict(),
        ),
        row(
            "TLS 1.2 asks for a client's certificate",
            served(Tls::default().only_1_2().asking_for_a_certificate()),
            verdict(),
        ),
        row(
            "no common version",
            served(Tls::default().only_1_2())
                .client(|client, _| client.tls_version_min(reqwest::tls::Version::TLS_1_3)),
            verdict(),
        ),
    ]
}

/// With TLS 1.3 the client is through with its handshake before the server has judged, so that the
/// verdict comes later: as such, as a cancelled request, or destroyed by a reset.
pub(crate) fn late_verdicts() -> Vec<Row> {
    let asking = || Tls::default().only_1_3().asking_for_a_certificate();
    vec![
        row(
            "TLS 1.3 asks for a client's certificate",
            served(asking()).may_hang(),
            unused([unknown(Verdict), proven(ConnectionLost), unknown(ConnectionLost)]),
        ),
        row(
            "TLS 1.3 asks for a client's certificate, HTTP/2",
            served(asking().for_http2()).may_hang(),
            unused([unknown(Verdict), proven(ConnectionLost), unknown(ConnectionLost)]),
        ),
    ]
}

pub(crate) fn losses() -> Vec<Row> {
    let no_connection = || not_processed([proven(Connect)]).errors(["request+connect"]);
    vec![
        row("closed in the handshake", Scene::below_tls([ReadBytes, Close]), no_connection()),
        row("reset in the handshake", Scene::below_tls([ReadBytes, Reset]), no_connection()),
        row(
            "TLS alert: internal error",
            Scene::below_tls([ReadBytes, alert(INTERNAL_ERROR), Linger]),
            no_connection(),
        ),
        row(
            "read, then cut without a close_notify",
            served(Tls::default()),
            transient([unknown(ConnectionLost)]).read(SAFE).errors(["request"]),
        ),
    ]
}
