//! HTTP/2: streams reset, connections that go away, broken frames.

use h2::Reason;
use reqwest_typed_retry::FaultKind::{Connect, ConnectionLost, Invalid, Other, Protocol, Refused};

use crate::answers::answer;
use crate::expect::{
    ONCE, PROVEN, SAFE, completes, not_processed, permanent, proven, status, transient, unknown,
    unused,
};
use crate::frames::{Frame, Last};
use crate::scene::{Scene, Upload};
use crate::servers::Act::{Close, Linger, ReadBytes, ReadHead, ReadRequest, Reset, Send};
use crate::table::{Row, row};

/// The server reads each request whole, and resets its stream.
fn reset(reason: Reason) -> Scene {
    Scene::http2([ReadRequest, Send(Frame::Reset(reason))])
}

/// The server reads a request whole, and goes.
fn goes_away(last: Last, reason: Reason) -> Scene {
    Scene::http2([ReadRequest, Send(Frame::GoAway(last, reason)), Linger])
}

pub(crate) fn resets() -> Vec<Row> {
    let broken = || transient([unknown(Protocol)]).read(SAFE).errors(["request"]);
    vec![
        row(
            "stream refused",
            reset(Reason::REFUSED_STREAM),
            not_processed([proven(Refused)]).read(PROVEN).errors(["request"]),
        ),
        row("reset: CANCEL", reset(Reason::CANCEL), broken()),
        row("reset: INTERNAL_ERROR", reset(Reason::INTERNAL_ERROR), broken()),
        row("reset: NO_ERROR", reset(Reason::NO_ERROR), broken()),
        row("reset: ENHANCE_YOUR_CALM", reset(Reason::ENHANCE_YOUR_CALM), broken()),
        row(
            "reset: HTTP_1_1_REQUIRED",
            reset(Reason::HTTP_1_1_REQUIRED),
            permanent([unknown(Other)]).read(ONCE).errors(["request"]),
        ),
        row(
            "an early 503, then reset: NO_ERROR",
            Scene::http2([
                ReadHead,
                Send(Frame::Head { status: 503, end: true }),
                Send(Frame::Reset(Reason::NO_ERROR)),
            ])
            .upload(Upload::Large),
            transient([status(503)]).heads(SAFE).whole([2, 0, 0, 0]),
        ),
        row(
            "the caller's stream fails on the way, HTTP/2",
            Scene::http2([ReadRequest, Send(Frame::Head { status: 200, end: true })])
                .upload(Upload::FailsOnTheWay),
            completes([status(200)]).read(ONCE),
        )
        .stream(permanent([unknown(Invalid)]).heads_unproven_at_most().errors(["request"])),
    ]
}

/// No proof, whatever the last stream is: hyper ends streams with it that the server handles.
pub(crate) fn going_away() -> Vec<Row> {
    let refused = || transient([unknown(Refused)]).first_read_at_least(SAFE).errors(["request"]);
    let lost =
        || transient([unknown(ConnectionLost)]).first_read_at_least(SAFE).errors(["request"]);
    vec![
        row("goes away, nothing processed", goes_away(Last::None, Reason::NO_ERROR), refused()),
        row(
            "goes away, nothing processed: ENHANCE_YOUR_CALM",
            goes_away(Last::None, Reason::ENHANCE_YOUR_CALM),
            refused(),
        ),
        row(
            "goes away, nothing processed: INTERNAL_ERROR",
            goes_away(Last::None, Reason::INTERNAL_ERROR),
            refused(),
        ),
        row("goes away, this stream included", goes_away(Last::This, Reason::NO_ERROR), lost()),
        row("goes away gracefully", goes_away(Last::Any, Reason::NO_ERROR), lost()),
        row(
            "goes away, this stream included: ENHANCE_YOUR_CALM",
            goes_away(Last::This, Reason::ENHANCE_YOUR_CALM),
            lost(),
        ),
        row("read, then closed, HTTP/2", Scene::http2([ReadRequest, Close]), lost()),
        row("read, then reset, HTTP/2", Scene::http2([ReadRequest, Reset]), lost()),
    ]
}

pub(crate) fn broken() -> Vec<Row> {
    let broken = || transient([unknown(Protocol)]).first_read_at_least(SAFE).errors(["request"]);
    let unread = || {
        unused([proven(Connect), proven(ConnectionLost), unknown(ConnectionLost), unknown(Refused)])
    };
    let text = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n";
    vec![
        row(
            "headers on no stream",
            Scene::http2([ReadRequest, Send(Frame::HeadOfNoStream), Linger]),
            broken(),
        ),
        row(
            "headers that can't be decoded",
            Scene::http2([ReadRequest, Send(Frame::BadHead), Linger]),
            broken(),
        ),
        row(
            "headers without a status",
            Scene::http2([ReadRequest, Send(Frame::HeadWithoutStatus), Linger]),
            broken(),
        ),
        row(
            "an answer in HTTP/1.1",
            Scene::http2([ReadBytes, answer(text), Linger]).may_hang(),
            unused([unknown(Protocol), proven(ConnectionLost)]),
        ),
        row("accepted, closed at once, HTTP/2", Scene::http2([Close]).may_hang(), unread()),
        row("accepted, reset at once, HTTP/2", Scene::http2([Reset]).may_hang(), unread()),
        row(
            "goes away before it reads",
            Scene::http2([Send(Frame::GoAway(Last::None, Reason::NO_ERROR)), Linger]).may_hang(),
            unread(),
        ),
    ]
}
