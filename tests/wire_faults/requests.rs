//! Requests that go wrong by themselves, by a redirect, or at a proxy.

use reqwest::Proxy;
use reqwest_typed_retry::FaultKind::{Connect, Invalid};

use crate::answers::answer;
use crate::expect::{
    Expect, NEVER, ONCE, PROVEN, SAFE, completes, not_processed, permanent, proven, status,
    transient, unknown,
};
use crate::scene::{Kind, Scene, Upload, refusing_address};
use crate::servers::Act::{self, Close, ReadHead, ReadRequest};
use crate::table::{Row, row};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// Uploads that fail by themselves. Only the stream does: the others are what a row without a fault
/// looks like.
pub(crate) fn uploads() -> Vec<Row> {
    let answered = || Scene::http1([ReadRequest, answer(OK)]);
    let completed = || completes([status(200)]).read(ONCE);
    let failed = || permanent([unknown(Invalid)]).errors(["request"]);
    vec![
        row("no fault", answered(), completed()),
        row(
            "the caller's stream fails at once",
            answered().upload(Upload::FailsAtOnce),
            completed(),
        )
        .stream(failed().heads_unproven_at_most()),
        row(
            "the caller's stream fails on the way",
            answered().upload(Upload::FailsOnTheWay),
            completed(),
        )
        .stream(failed().heads_unproven_at_most()),
        row(
            "the caller announces more than the stream has",
            answered().request(|request, kind| match kind {
                Kind::StreamPost => request.header("content-length", "100"),
                _ => request,
            }),
            completed(),
        )
        .stream(failed().heads_unproven_at_most()),
    ]
}

fn redirects_to(status: &str, location: &str) -> Vec<Act> {
    let head = format!("HTTP/1.1 {status}\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
    vec![ReadRequest, answer(head)]
}

fn refusing() -> String {
    format!("http://{}/", refusing_address())
}

/// The error says what that of a refused first exchange says, after a server has read the request.
fn refused_after_a_redirect() -> Expect {
    transient([proven(Connect)]).read(SAFE).errors(["request+connect"])
}

pub(crate) fn redirects() -> Vec<Row> {
    vec![
        row(
            "a redirect loop",
            Scene::http1(redirects_to("302 Found", "/")),
            permanent([unknown(Invalid)]).read([11; 4]).errors(["redirect"]),
        ),
        row(
            "a redirect that the caller ruled out",
            Scene::http1(redirects_to("302 Found", "/elsewhere")).client(|client, _| {
                client.redirect(reqwest::redirect::Policy::custom(|to| to.error("ruled out")))
            }),
            permanent([unknown(Invalid)]).read(ONCE).errors(["redirect"]),
        ),
        row(
            "a redirect to what is no URL",
            Scene::http1(redirects_to("302 Found", "http://[::1")),
            completes([status(302)]).read(ONCE),
        ),
        row(
            "a redirect to another scheme",
            Scene::http1(redirects_to("302 Found", "ftp://service.test/")),
            permanent([unknown(Invalid)]).read(ONCE).errors(["builder"]),
        ),
        row(
            "307 to where the connection is refused",
            Scene::http1(redirects_to("307 Temporary Redirect", &refusing())),
            refused_after_a_redirect(),
        )
        .stream(completes([status(307)]).read(ONCE)),
    ]
}

/// reqwest shows the observer no exchange whose body it can't clone. Of a POST that a redirect makes
/// a GET it shows the GET that follows, alone.
pub(crate) fn unseen_exchanges() -> Vec<Row> {
    let see_other = || Scene::http1(redirects_to("303 See Other", &refusing()));
    vec![
        row("303 to where the connection is refused", see_other(), refused_after_a_redirect()),
        row(
            "303 to where the connection is refused, the body made a stream on the way",
            see_other().streamed(),
            refused_after_a_redirect(),
        ),
        row(
            "connection refused, the body made a stream on the way",
            Scene::nobody().streamed(),
            transient([proven(Connect)]).errors(["request+connect"]),
        ),
    ]
}

/// A proxy sees a CONNECT, which is no request of the caller's: only its head is counted.
pub(crate) fn proxies() -> Vec<Row> {
    let tunnel = |reply: &str| {
        Scene::http1([ReadHead, answer(reply), Close])
            .url("https://service.test/")
            .client(|client, proxy| client.proxy(Proxy::all(format!("http://{proxy}")).unwrap()))
    };
    let declined = || not_processed([proven(Connect)]).errors(["request+connect"]);
    let at_a_dead_proxy = |url| {
        Scene::nobody()
            .url(url)
            .client(|client, proxy| client.proxy(Proxy::all(format!("http://{proxy}")).unwrap()))
    };
    vec![
        row(
            "the proxy asks for credentials",
            tunnel(
                "HTTP/1.1 407 Who\r\nproxy-authenticate: Basic realm=x\r\ncontent-length: 0\r\n\r\n",
            ),
            declined().heads(PROVEN),
        ),
        row(
            "the proxy has no way",
            tunnel("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n"),
            declined().heads(PROVEN),
        ),
        row(
            "the proxy speaks no HTTP",
            tunnel("\x01\x02 garbage\r\n\r\n"),
            declined().heads(PROVEN),
        ),
        row("the proxy closes", tunnel(""), declined().heads(PROVEN)),
        row(
            "the proxy refuses, for a tunnel",
            at_a_dead_proxy("https://service.test/"),
            declined().read(NEVER),
        ),
        row("the proxy refuses", at_a_dead_proxy("http://service.test/"), declined().read(NEVER)),
        row(
            "a forwarding proxy has no way",
            Scene::http1([
                ReadRequest,
                answer(
                    "HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
                ),
                Close,
            ])
            .url("http://service.test/")
            .client(|client, proxy| client.proxy(Proxy::all(format!("http://{proxy}")).unwrap())),
            transient([status(502)]).read(SAFE),
        ),
    ]
}
