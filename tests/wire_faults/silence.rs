//! Servers that fall silent. The clock is paused, and the servers move it once they have read what
//! was sent: so no load of the machine can make a time limit pass early.

use std::time::Duration;

use reqwest::Proxy;
use reqwest_typed_retry::FaultKind::{Connect, Timeout};

use crate::answers::answer;
use crate::expect::{
    ONCE, PROVEN, SAFE, completes, not_processed, proven, status, transient, unknown,
};
use crate::frames::Frame;
use crate::held_clock::{HeldClock, in_time};
use crate::scene::Scene;
use crate::servers::Act::{
    AwaitReturn, Linger, Pass, ReadBytes, ReadHead, ReadPing, ReadRequest, Send,
};
use crate::table::{Row, check_in_turn, row};

const LIMIT: Duration = Duration::from_secs(5);
/// Timers round up.
const PAST_THE_LIMIT: Duration = Duration::from_secs(6);

pub(crate) async fn check() {
    let clock = HeldClock::hold();
    in_time(check_in_turn(rows())).await;
    drop(clock);
}

pub(crate) fn rows() -> Vec<Row> {
    let silent = || transient([unknown(Timeout)]).read(SAFE).errors(["timeout+request"]);
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf";
    vec![
        row(
            "read, then silent",
            Scene::http1([ReadRequest, Pass(PAST_THE_LIMIT), Linger]).attempt_timeout(LIMIT),
            silent(),
        ),
        row(
            "a head byte by byte",
            Scene::http1([
                ReadRequest,
                answer("H"),
                Pass(LIMIT / 2),
                answer("T"),
                Pass(LIMIT / 2),
                answer("T"),
                Pass(LIMIT / 2),
                Linger,
            ])
            .attempt_timeout(LIMIT),
            silent(),
        ),
        row(
            "read, then silent, HTTP/2",
            Scene::http2([ReadRequest, Pass(PAST_THE_LIMIT)]).attempt_timeout(LIMIT),
            silent(),
        ),
        row(
            "a ping without an answer",
            Scene::http2([
                ReadRequest,
                Pass(PAST_THE_LIMIT),
                ReadPing,
                Pass(PAST_THE_LIMIT),
                Linger,
            ])
            .client(|client, _| {
                client.http2_keep_alive_interval(LIMIT).http2_keep_alive_timeout(LIMIT)
            }),
            silent(),
        ),
        row(
            "a body that stalls",
            Scene::http1([ReadRequest, answer(half), AwaitReturn, Pass(PAST_THE_LIMIT), Linger])
                .attempt_timeout(LIMIT),
            completes([status(200)]).read(ONCE),
        )
        .cut(Timeout),
        row(
            "a body that stalls, HTTP/2",
            Scene::http2([
                ReadRequest,
                Send(Frame::Head { status: 200, end: false }),
                Send(Frame::Data(b"half")),
                AwaitReturn,
                Pass(PAST_THE_LIMIT),
                Linger,
            ])
            .attempt_timeout(LIMIT),
            completes([status(200)]).read(ONCE),
        )
        .cut(Timeout),
        row(
            "a handshake that stalls",
            Scene::below_tls([ReadBytes, Pass(PAST_THE_LIMIT), Linger])
                .client(|client, _| client.connect_timeout(LIMIT)),
            not_processed([proven(Connect)]).errors(["timeout+request+connect"]),
        ),
        row(
            "a handshake that stalls, at the attempt's limit",
            Scene::below_tls([ReadBytes, Pass(PAST_THE_LIMIT), Linger]).attempt_timeout(LIMIT),
            transient([unknown(Timeout)]).errors(["timeout+request"]),
        ),
        row(
            "a proxy that stalls",
            Scene::http1([ReadHead, Pass(PAST_THE_LIMIT), Linger])
                .url("https://service.test/")
                .client(|client, proxy| {
                    client
                        .connect_timeout(LIMIT)
                        .proxy(Proxy::all(format!("http://{proxy}")).unwrap())
                }),
            not_processed([proven(Connect)]).heads(PROVEN).errors(["timeout+request+connect"]),
        ),
    ]
}
