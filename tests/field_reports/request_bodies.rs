//! Section F: what is sent again is what was sent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http::{Extensions, Method, StatusCode};
use reqwest::multipart::{Form, Part};
use reqwest::{Body, Request, Response};
use reqwest_middleware::{Middleware, Next, RequestBuilder, Result};
use reqwest_typed_retry::StopReason;
use reqwest_typed_retry::test_util::{Reply, Script};

use crate::support::{
    BeforeSend, SCRIPTED, chain, client, no_waits, reply, requests, scripted, server, stop_reason,
};

const PIECES: [&str; 2] = ["first piece, ", "second piece"];

fn with_stream(request: RequestBuilder) -> RequestBuilder {
    let pieces = PIECES.map(Ok::<_, std::io::Error>);
    request.body(Body::wrap_stream(stream::iter(pieces)))
}

fn with_multipart(request: RequestBuilder) -> RequestBuilder {
    let file = Part::bytes(PIECES.concat().into_bytes()).file_name("pieces.txt");
    request.multipart(Form::new().part("file", file))
}

type Attach = fn(RequestBuilder) -> RequestBuilder;

/// Bodies that can be sent once.
const ONCE: [(&str, Attach); 2] = [("stream", with_stream), ("multipart", with_multipart)];

// F073
#[tokio::test]
async fn a_body_that_can_be_sent_once_is_sent_once() {
    for (label, attach) in ONCE {
        for method in [Method::POST, Method::PUT] {
            let server = server([reply(200)]).await;
            let request = client(no_waits()).request(method.clone(), server.uri());
            let response = attach(request).send().await.unwrap();
            assert_eq!(response.status(), 200, "{label} {method}");
            let requests = requests(&server).await;
            assert_eq!(requests.len(), 1, "{label} {method}");
            let body = String::from_utf8_lossy(&requests[0].body).into_owned();
            assert!(body.contains(&PIECES.concat()), "{label} {method}: {body}");
        }
    }
}

// F073
#[tokio::test]
async fn a_body_that_can_be_sent_once_is_the_reason_if_its_request_fails() {
    for (label, attach) in ONCE {
        for (method, reason) in [
            (Method::PUT, StopReason::BodyNotReplayable),
            (Method::POST, StopReason::NotIdempotent),
        ] {
            let server = server([reply(503).set_body_string("busy"), reply(200)]).await;
            let request = client(no_waits()).request(method.clone(), server.uri());
            let response = attach(request).send().await.unwrap();
            assert_eq!(response.status(), 503, "{label} {method}");
            assert_eq!(requests(&server).await.len(), 1, "{label} {method}");
            assert_eq!(stop_reason(&response), Some(reason), "{label} {method}");
            assert_eq!(response.text().await.unwrap(), "busy", "{label} {method}");
        }
    }
}

// F074
#[tokio::test]
async fn every_attempt_sends_the_same_bytes_and_length() {
    let body: Vec<u8> = (0..1 << 20).map(|at: u32| at.to_le_bytes()[at as usize % 3]).collect();
    let length = body.len().to_string();
    let server = server([reply(503), reply(503), reply(200)]).await;
    let put = client(no_waits()).put(server.uri()).body(body.clone());
    assert_eq!(put.send().await.unwrap().status(), 200);
    let requests = requests(&server).await;
    assert_eq!(requests.len(), 3);
    for (at, request) in requests.iter().enumerate() {
        let lengths: Vec<_> = request.headers.get_all("content-length").iter().collect();
        assert_eq!(lengths, [length.as_str()], "{at}");
        assert!(request.body == body, "{at}: {} bytes, not the same", request.body.len());
    }
}

/// Bytes that tell when the last handle on them is gone.
struct Counted {
    bytes: &'static [u8],
    _alive: Arc<()>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        self.bytes
    }
}

/// A final middleware that drops each request, answers 503, and notes where the body's bytes were
/// and whether somebody else still holds them.
struct Dropping {
    alive: Weak<()>,
    seen: Arc<Mutex<Vec<Copied>>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Copied {
    is_kept: bool,
    at: usize,
}

#[async_trait]
impl Middleware for Dropping {
    async fn handle(&self, request: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let bytes = request.body().and_then(Body::as_bytes).unwrap();
        let at = bytes.as_ptr().addr();
        assert_eq!(bytes, b"two gigabytes");
        drop(request);
        let is_kept = self.alive.strong_count() > 0;
        self.seen.lock().unwrap().push(Copied { is_kept, at });
        let response = http::Response::builder().status(StatusCode::SERVICE_UNAVAILABLE);
        Ok(response.body("").unwrap().into())
    }
}

/// Whether a copy of the body was kept during each attempt, and in how many places it ever was.
async fn copies(method: Method, attempts: u32, assume_idempotent: bool) -> (Vec<bool>, usize) {
    let alive = Arc::new(());
    let seen = Arc::default();
    let dropping = Dropping { alive: Arc::downgrade(&alive), seen: Arc::clone(&seen) };
    let body = Bytes::from_owner(Counted { bytes: b"two gigabytes", _alive: alive });
    let policy = no_waits().max_attempts(attempts).assume_idempotent(assume_idempotent);
    let client = chain(policy).with(dropping).build();
    client.request(method, SCRIPTED).body(body).send().await.unwrap();
    let seen = seen.lock().unwrap();
    let mut places: Vec<_> = seen.iter().map(|copied| copied.at).collect();
    places.dedup();
    (seen.iter().map(|copied| copied.is_kept).collect(), places.len())
}

// F076
#[tokio::test]
async fn a_body_is_kept_only_while_a_resend_can_follow_and_never_copied() {
    for (label, method, attempts, assume_idempotent, kept) in [
        ("one attempt", Method::PUT, 1, false, &[false][..]),
        ("three attempts", Method::PUT, 3, false, &[true, true, false]),
        ("not idempotent", Method::POST, 3, false, &[false]),
        ("assumed idempotent", Method::POST, 2, true, &[true, false]),
    ] {
        let (found, places) = copies(method, attempts, assume_idempotent).await;
        assert_eq!(found, kept, "{label}");
        assert_eq!(places, 1, "{label}: the bytes were copied");
    }
}

// F076
#[tokio::test]
async fn a_stream_is_not_read_ahead_by_the_retry() {
    let pulled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&pulled);
    let pieces = stream::iter(PIECES).map(move |piece| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok::<_, std::io::Error>(piece)
    });
    let script = Script::new([Reply::status(StatusCode::OK)]); // reads no body
    let put = scripted(no_waits(), &script).put(SCRIPTED);
    put.body(Body::wrap_stream(pieces)).send().await.unwrap();
    assert_eq!(script.received().len(), 1);
    assert_eq!(pulled.load(Ordering::SeqCst), 0);
}

// F077
#[tokio::test]
async fn a_change_that_an_inner_layer_makes_to_the_request_is_made_to_a_fresh_one() {
    let server = server([reply(503), reply(503), reply(200)]).await;
    let wrap = BeforeSend(|request: &mut Request, _: &mut Extensions| {
        let body = request.body().and_then(Body::as_bytes).unwrap();
        let wrapped = format!("<{}>", String::from_utf8_lossy(body));
        *request.body_mut() = Some(wrapped.into());
        request.headers_mut().append("content-encoding", "angle".parse().unwrap());
        request.url_mut().query_pairs_mut().append_pair("wrapped", "yes");
    });
    let client = chain(no_waits()).with(wrap).build();
    let put = client.put(server.uri()).body("json");
    assert_eq!(put.send().await.unwrap().status(), 200);
    let requests = requests(&server).await;
    assert_eq!(requests.len(), 3);
    for request in requests {
        assert_eq!(String::from_utf8_lossy(&request.body), "<json>");
        let encodings = request.headers.get_all("content-encoding").iter();
        assert_eq!(encodings.collect::<Vec<_>>(), ["angle"]);
        assert_eq!(request.url.query(), Some("wrapped=yes"));
    }
}
