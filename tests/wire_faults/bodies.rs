//! Bodies that are cut after their head has arrived: the response is what comes back.

use h2::Reason;
use reqwest_typed_retry::FaultKind::{Body, Decode};

use crate::answers::answer;
use crate::certificates::Tls;
use crate::expect::{Expect, ONCE, completes, status};
use crate::frames::Frame;
use crate::scene::Scene;
use crate::servers::Act::{self, AwaitReturn, Close, ReadRequest, Reset, Send};
use crate::table::{Row, row};

const HALF: &str = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf";
const OPEN_END: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhalf";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

fn answered() -> Expect {
    completes([status(200)]).read(ONCE)
}

fn cut_row(label: &'static str, scene: Scene) -> Row {
    row(label, scene, answered()).cut(Body)
}

/// The server writes this, and closes.
fn cut_after(text: &str) -> Scene {
    Scene::http1([ReadRequest, answer(text), Close])
}

/// A stream of HTTP/2 whose body does not end as it should.
fn stream_ends_by(ends: impl IntoIterator<Item = Act>) -> Scene {
    let begin = [
        ReadRequest,
        Send(Frame::Head { status: 200, end: false }),
        Send(Frame::Data(b"half")),
        AwaitReturn,
    ];
    Scene::http2(begin.into_iter().chain(ends))
}

pub(crate) fn rows() -> Vec<Row> {
    let no_json = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhalf";
    vec![
        row("a whole body that is no JSON", cut_after(no_json), answered()).cut(Decode),
        cut_row("a body shorter than announced", cut_after(HALF)),
        // A reset takes what the client hasn't read with it, so it waits for the head to arrive.
        cut_row(
            "a body that is reset",
            Scene::http1([ReadRequest, answer(HALF), AwaitReturn, Reset]),
        ),
        cut_row("a body with a chunk cut", cut_after(&format!("{CHUNKED}4\r\nhalf\r\n9\r\nha"))),
        cut_row("a body without its last chunk", cut_after(&format!("{CHUNKED}4\r\nhalf\r\n"))),
        cut_row("a body with a bad chunk", cut_after(&format!("{CHUNKED}4\r\nhalf\r\nZZ\r\n"))),
        cut_row(
            "a body with an open end, reset",
            Scene::http1([ReadRequest, answer(OPEN_END), AwaitReturn, Reset]),
        ),
        cut_row(
            "a body without close_notify, shorter than announced",
            Scene::tls(Tls::default(), [ReadRequest, answer(HALF), Close]),
        ),
        cut_row(
            "a body without close_notify, with an open end",
            Scene::tls(Tls::default(), [ReadRequest, answer(OPEN_END), Close]),
        ),
        cut_row(
            "the stream of a body reset: INTERNAL_ERROR",
            stream_ends_by([Send(Frame::Reset(Reason::INTERNAL_ERROR))]),
        ),
        cut_row(
            "the stream of a body reset: CANCEL",
            stream_ends_by([Send(Frame::Reset(Reason::CANCEL))]),
        ),
        cut_row("a body cut with its connection, HTTP/2", stream_ends_by([Close])),
    ]
}
