//! HTTP/1.1: the request was read, and the answer is broken, cut or early.

use reqwest_typed_retry::FaultKind::{ConnectionLost, Protocol};

use crate::expect::{ONCE, SAFE, by_timing, permanent, status, transient, unknown};
use crate::frames::{Frame, Last};
use crate::scene::{Scene, Upload};
use crate::servers::Act::{self, Close, Linger, ReadHead, ReadRequest, Reset, Write};
use crate::table::{Row, row};

pub(crate) fn answer(bytes: impl AsRef<[u8]>) -> Act {
    Write(bytes.as_ref().to_vec())
}

const TOO_LARGE: &str =
    "HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 4\r\n\r\nnope";
const UNAVAILABLE: &str =
    "HTTP/1.1 503 Unavailable\r\nconnection: close\r\ncontent-length: 4\r\n\r\nnope";

/// The server reads the request whole, writes this and closes.
fn answered_with(bytes: impl AsRef<[u8]>) -> Scene {
    Scene::http1([ReadRequest, answer(bytes), Close])
}

pub(crate) fn lost() -> Vec<Row> {
    let lost = || transient([unknown(ConnectionLost)]).read(SAFE).errors(["request"]);
    vec![
        row("read, then closed", Scene::http1([ReadRequest, Close]), lost()),
        row("read, then reset", Scene::http1([ReadRequest, Reset]), lost()),
        row(
            "head read, the body left unread",
            Scene::http1([ReadHead, Close]).upload(Upload::Large),
            lost().whole([2, 0, 0, 0]),
        ),
        row("half a status line", answered_with("HTTP/1.1 20"), lost()),
        row("half a head", answered_with("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-ha"), lost()),
        row(
            "half a head, then reset",
            Scene::http1([ReadRequest, answer("HTTP/1.1 200 OK\r\nx-ha"), Reset]),
            lost(),
        ),
        row("100 Continue, then closed", answered_with("HTTP/1.1 100 Continue\r\n\r\n"), lost()),
        row(
            "103 Early Hints, then closed",
            answered_with("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"),
            lost(),
        ),
    ]
}

pub(crate) fn broken() -> Vec<Row> {
    let broken = || transient([unknown(Protocol)]).read(SAFE).errors(["request"]);
    let fields = |count: usize, length: usize| {
        let mut head = String::from("HTTP/1.1 200 OK\r\n");
        for number in 0..count {
            head += &format!("x-{number}: {}\r\n", "a".repeat(length));
        }
        head + "content-length: 0\r\n\r\n"
    };
    let http2 = [Frame::GoAway(Last::None, h2::Reason::PROTOCOL_ERROR).encode(0)].concat();
    vec![
        row("an answer that is no HTTP", answered_with("\0\x01\x02 garbage\r\n\r\n"), broken()),
        row(
            "an answer with a bad field",
            answered_with("HTTP/1.1 200 OK\r\nbad\0: x\r\n\r\n"),
            broken(),
        ),
        row("an answer with a bad status", answered_with("HTTP/1.1 9x9 OK\r\n\r\n"), broken()),
        row("an answer with a bad version", answered_with("HTTP/9.9 200 OK\r\n\r\n"), broken()),
        row(
            "an answer with a bad content length",
            answered_with("HTTP/1.1 200 OK\r\ncontent-length: zz\r\n\r\n"),
            broken(),
        ),
        row("an answer with a head of 1 MiB", answered_with(fields(64, 0x4000)), broken()),
        row("an answer with 200 fields", answered_with(fields(200, 1)), broken()),
        row("an answer in HTTP/2", answered_with(http2), broken()),
    ]
}

/// The answer comes while the body is still on its way.
pub(crate) fn early() -> Vec<Row> {
    let early = |bytes, end| Scene::http1([ReadHead, answer(bytes), end]).upload(Upload::Large);
    vec![
        row(
            "an early 413, lingering",
            early(TOO_LARGE, Linger),
            permanent([status(413)]).heads(ONCE).whole([1, 0, 0, 0]),
        ),
        row(
            "an early 503, lingering",
            early(UNAVAILABLE, Linger),
            transient([status(503)]).heads(SAFE).whole([2, 0, 0, 0]),
        ),
        // The reset that follows can destroy the answer.
        row(
            "an early 413, closed at once",
            early(TOO_LARGE, Close),
            by_timing([status(413), unknown(ConnectionLost)])
                .heads_each_attempt()
                .whole([1, 0, 0, 0])
                .errors(["request"]),
        ),
        row(
            "an early 503, closed at once",
            early(UNAVAILABLE, Close),
            transient([status(503), unknown(ConnectionLost)])
                .heads(SAFE)
                .whole([2, 0, 0, 0])
                .errors(["request"]),
        ),
    ]
}
