//! `buffer_body`: what happens to a body is what happens to its attempt.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::io::Write as _;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{Extensions, HeaderMap, Method, StatusCode, Version};
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use reqwest::{Body, Client, Request, Response, ResponseBuilderExt as _};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_typed_retry::{
    Attempt, AttemptOutcome, Backoff, DrainLimits, Fault, FaultKind, Jitter, Outcome,
    RetryErrorExt as _, RetryHistory, RetryMiddleware, RetryPolicy, RetryPolicyBuilder,
    RetryRequestExt as _, RetryScope, RetryTracker, StopReason, Verdict,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

// Servers and clients

/// Answers each request on a connection of its own with the next of these bytes, and the last one
/// again and again; then closes.
struct Server {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Clone)]
enum Then {
    Close,
    Hang,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start(answers: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::with(answers.into_iter().map(|answer| (answer, Then::Close))).await
    }

    async fn with(answers: impl IntoIterator<Item = (Vec<u8>, Then)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let (answers, counted) = (answers.into_iter().collect::<Vec<_>>(), requests.clone());
        let task = tokio::spawn(async move {
            let mut hanging = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.windows(4).any(|window| window == b"\r\n\r\n") {
                    if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                        break;
                    }
                }
                let at = counted.fetch_add(1, Ordering::SeqCst);
                let (answer, then) = &answers[at.min(answers.len() - 1)];
                // The client may be gone: its own business.
                let _ = stream.write_all(answer).await;
                if matches!(then, Then::Hang) {
                    hanging.push(stream);
                }
            }
        });
        Self { address, requests, task }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn policy() -> RetryPolicyBuilder {
    RetryPolicy::builder().backoff(Backoff::constant(Duration::ZERO)).jitter(Jitter::None)
}

const LIMIT: u64 = 1000;

fn client(policy: RetryPolicyBuilder, limit: u64) -> ClientWithMiddleware {
    chain(policy, limit).build()
}

fn chain(policy: RetryPolicyBuilder, limit: u64) -> ClientBuilder {
    let retry = RetryMiddleware::builder(policy.build().unwrap()).buffer_body(limit);
    let http = Client::builder().no_proxy().build().unwrap();
    ClientBuilder::new(http).with(retry.build().unwrap())
}

fn history(response: &Response) -> &RetryHistory {
    response.extensions().get().unwrap()
}

fn with_length(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

/// In two chunks.
fn chunked(body: &[u8]) -> Vec<u8> {
    let mut wire = CHUNKED.as_bytes().to_vec();
    let (first, second) = body.split_at(body.len() / 2);
    for chunk in [first, second].into_iter().filter(|chunk| !chunk.is_empty()) {
        write!(wire, "{:x}\r\n", chunk.len()).unwrap();
        wire.extend([chunk, b"\r\n"].concat());
    }
    wire.extend(b"0\r\n\r\n");
    wire
}

fn head_length(answer: &[u8]) -> usize {
    answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4
}

// Faults

// F078
#[tokio::test]
async fn a_body_that_is_cut_at_any_byte_is_asked_for_again() {
    let body = b"a small body";
    for (label, whole) in [("length", with_length(body)), ("chunked", chunked(body))] {
        for cut in head_length(&whole)..whole.len() {
            let server = Server::start([whole[..cut].to_vec(), whole.clone()]).await;
            let response = client(policy(), LIMIT).get(server.url()).send().await.unwrap();
            let outcomes = history(&response)
                .attempts()
                .iter()
                .map(|attempt| attempt.outcome())
                .collect::<Vec<_>>();
            let expected = [
                AttemptOutcome::Fault(Fault::unknown(FaultKind::Body)),
                AttemptOutcome::Status(StatusCode::OK),
            ];
            assert_eq!(outcomes, expected, "{label}, cut at {cut}");
            assert_eq!(response.bytes().await.unwrap(), body[..], "{label}, cut at {cut}");
            assert_eq!(server.requests(), 2, "{label}, cut at {cut}");
        }
    }
}

// F078
#[tokio::test]
async fn without_it_the_cut_is_the_callers() {
    let whole = with_length(b"a small body");
    let server = Server::start([whole[..whole.len() - 1].to_vec(), whole]).await;
    let response = client(policy(), 0).get(server.url()).send().await.unwrap();
    assert!(response.bytes().await.is_err());
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn a_cut_proves_nothing_so_a_post_is_not_sent_again() {
    let whole = with_length(b"a small body");
    let server = Server::start([whole[..whole.len() - 1].to_vec(), whole]).await;
    let tracker = RetryTracker::new();
    let request = client(policy(), LIMIT).post(server.url()).with_extension(tracker.clone());
    let error = request.send().await.unwrap_err();
    assert!(matches!(error, reqwest_middleware::Error::Reqwest(_)), "{error:?}");
    assert_eq!(server.requests(), 1);
    let history = tracker.history().unwrap();
    assert_eq!(history.stop_reason(), StopReason::NotIdempotent);
    assert_eq!(history.attempts()[0].outcome().fault(), Some(Fault::unknown(FaultKind::Body)));
}

#[tokio::test]
async fn a_body_that_stalls_ends_with_its_attempt() {
    let whole = with_length(b"a small body");
    let half = (whole[..whole.len() - 4].to_vec(), Then::Hang);
    let server = Server::with([half, (whole, Then::Close)]).await;
    // Long enough for the second attempt on a busy machine.
    let policy = policy().attempt_timeout(Duration::from_secs(3));
    let response = client(policy, LIMIT).get(server.url()).send().await.unwrap();
    let first = history(&response).attempts()[0].outcome();
    assert_eq!(first.fault(), Some(Fault::unknown(FaultKind::Timeout)));
    assert_eq!(response.text().await.unwrap(), "a small body");
    assert_eq!(server.requests(), 2);
}

// F082
#[tokio::test]
async fn compressed_data_that_end_early_are_cut_and_bad_ones_are_bad() {
    let text = "a text that is long enough to be worth it, ".repeat(20);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).unwrap();
    let good = encoder.finish().unwrap();
    let gzip = |data: &[u8]| {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
            data.len()
        );
        [head.as_bytes(), data].concat()
    };
    let wrong_at = |at: usize| {
        let mut bad = good.clone();
        bad[at] ^= 0x55;
        bad
    };
    let whole = gzip(&good);
    let rows = [
        ("the wire cut", whole[..whole.len() - 9].to_vec(), FaultKind::Body),
        ("half the data, all that was announced", gzip(&good[..good.len() / 2]), FaultKind::Body),
        ("no checksum", gzip(&good[..good.len() - 8]), FaultKind::Body),
        ("a wrong checksum", gzip(&wrong_at(good.len() - 8)), FaultKind::Decode),
        ("no gzip", gzip(&wrong_at(0)), FaultKind::Decode),
        ("bad data", gzip(&wrong_at(12)), FaultKind::Decode),
    ];
    for (label, answer, kind) in rows {
        let server = Server::start([answer, whole.clone()]).await;
        let tracker = RetryTracker::new();
        let request = client(policy(), LIMIT).get(server.url()).with_extension(tracker.clone());
        let result = request.send().await;
        let first = tracker.history().unwrap().attempts()[0].outcome();
        assert_eq!(first, AttemptOutcome::Fault(Fault::unknown(kind)), "{label}");
        match kind {
            FaultKind::Body => assert_eq!(result.unwrap().text().await.unwrap(), text, "{label}"),
            _ => assert!(result.is_err(), "{label}"),
        }
        assert_eq!(server.requests(), if kind == FaultKind::Body { 2 } else { 1 }, "{label}");
    }
}

// Bodies beyond the limit, and none at all

#[tokio::test]
async fn a_body_of_the_limit_is_read_and_a_longer_one_streams_on() {
    for length in [0, 1, 999, 1000, 1001, 5000] {
        let body: Vec<u8> = (0..length).map(|at: usize| at.to_le_bytes()[0]).collect();
        for (label, answer) in [("length", with_length(&body)), ("chunked", chunked(&body))] {
            let server = Server::start([answer]).await;
            let response = client(policy(), LIMIT).get(server.url()).send().await.unwrap();
            // Of a chunked body the length is known only once it has been read.
            let is_known = label == "length" || (1..=1000).contains(&length);
            let expected = is_known.then_some(length as u64);
            assert_eq!(response.content_length(), expected, "{label} {length}");
            assert_eq!(response.bytes().await.unwrap(), body, "{label} {length}");
            assert_eq!(server.requests(), 1, "{label} {length}");
        }
    }
}

#[tokio::test]
async fn beyond_the_limit_a_cut_is_the_callers_again() {
    let body: Vec<u8> = (0..5000_usize).map(|at| at.to_le_bytes()[0]).collect();
    for (label, whole) in [("length", with_length(&body)), ("chunked", chunked(&body))] {
        let server = Server::start([whole[..whole.len() - 100].to_vec(), whole]).await;
        let mut response = client(policy(), LIMIT).get(server.url()).send().await.unwrap();
        let mut read = Vec::new();
        let error = loop {
            match response.chunk().await {
                Ok(Some(chunk)) => read.extend(chunk),
                Ok(None) => panic!("{label}: a whole body"),
                Err(error) => break error,
            }
        };
        assert_eq!(reqwest_typed_retry::fault_source::classify(&error).kind(), FaultKind::Body);
        assert!(read.len() > 1000 && body.starts_with(&read), "{label}: {} bytes", read.len());
        assert_eq!(server.requests(), 1, "{label}");
    }
}

#[tokio::test]
async fn a_response_without_a_body_is_what_it_is() {
    let no_content = "HTTP/1.1 204 No Content\r\n\r\n";
    let announced = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n";
    for (label, method, answer) in [
        ("204", Method::GET, no_content),
        ("HEAD", Method::HEAD, announced),
        ("empty", Method::GET, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    ] {
        let server = Server::start([answer.into()]).await;
        let plain = client(policy(), 0).request(method.clone(), server.url()).send().await.unwrap();
        let read = client(policy(), LIMIT).request(method, server.url()).send().await.unwrap();
        assert_eq!(read.status(), plain.status(), "{label}");
        assert_eq!(read.headers(), plain.headers(), "{label}");
        assert_eq!(read.content_length(), plain.content_length(), "{label}");
        assert_eq!(read.bytes().await.unwrap().len(), 0, "{label}");
        assert_eq!(server.requests(), 2, "{label}");
    }
}

// The response that is handed out

/// Marks each response, as a cache or a tracer would.
#[derive(Clone, Debug, PartialEq)]
struct Mark(&'static str);

struct Marking;

#[async_trait]
impl Middleware for Marking {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let mut response = next.run(request, extensions).await?;
        response.extensions_mut().insert(Mark("seen"));
        Ok(response)
    }
}

#[tokio::test]
async fn a_response_that_was_read_says_what_it_said_before() {
    let answer = "HTTP/1.1 203 Quite\r\nx-a: 1\r\nx-a: 2\r\ncontent-length: 4\r\n\r\nbody";
    let target = Server::start([answer.into()]).await;
    let location = format!("{}there?q=1", target.url());
    let moved = format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
    let server = Server::start([moved.into_bytes()]).await;
    let url = server.url();
    for limit in [0, LIMIT, 3] {
        let client = chain(policy(), limit).with(Marking).build();
        let response = client.get(&url).send().await.unwrap();
        assert_eq!(response.url().as_str(), location, "{limit}");
        assert_eq!(response.remote_addr(), Some(target.address), "{limit}");
        assert_eq!(response.version(), Version::HTTP_11, "{limit}");
        assert_eq!(response.status(), 203, "{limit}");
        assert_eq!(response.content_length(), Some(4), "{limit}");
        let fields: Vec<_> = response.headers().get_all("x-a").iter().collect();
        assert_eq!(fields, ["1", "2"], "{limit}");
        assert_eq!(response.extensions().get(), Some(&Mark("seen")), "{limit}");
        assert!(response.extensions().get::<RetryHistory>().is_none(), "{limit}");
        let reason = response.extensions().get::<hyper::ext::ReasonPhrase>().unwrap();
        assert_eq!(reason.as_bytes(), b"Quite", "{limit}");
        assert_eq!(response.text().await.unwrap(), "body", "{limit}");
    }
}

/// A body that counts how often it is asked for a frame.
struct Frames {
    frames: std::vec::IntoIter<Frame<Bytes>>,
    polls: Arc<AtomicUsize>,
}

impl HttpBody for Frames {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        self.polls.fetch_add(1, Ordering::SeqCst);
        Poll::Ready(self.frames.next().map(Ok))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// A final middleware that answers with these frames.
struct Answer {
    pieces: Vec<&'static str>,
    polls: Arc<AtomicUsize>,
}

fn trailers() -> HeaderMap {
    HeaderMap::from_iter([("x-checksum".parse().unwrap(), "7".parse().unwrap())])
}

#[async_trait]
impl Middleware for Answer {
    async fn handle(&self, request: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let frames =
            self.pieces.iter().map(|piece| Frame::data(Bytes::from_static(piece.as_bytes())));
        let frames: Vec<_> = frames.chain([Frame::trailers(trailers())]).collect();
        let body = Body::wrap(Frames { frames: frames.into_iter(), polls: self.polls.clone() });
        let response = http::Response::builder().url(request.url().clone()).body(body).unwrap();
        Ok(response.into())
    }
}

#[tokio::test]
async fn nothing_is_lost_and_nothing_is_read_twice() {
    for limit in [0, 1, 3, 4, 6, 7, 100] {
        let polls = Arc::new(AtomicUsize::new(0));
        let answer = Answer { pieces: vec!["abc", "", "def"], polls: polls.clone() };
        let response = chain(policy(), limit)
            .with(answer)
            .build()
            .get("http://service.test/")
            .send()
            .await
            .unwrap();
        // Up to the limit, and to the piece that shows that there is more.
        let read_ahead = match limit {
            0 => 0,
            1 => 1,
            3..6 => 3,
            _ => 5,
        };
        assert_eq!(polls.load(Ordering::SeqCst), read_ahead, "{limit}");
        let mut body = http::Response::<Body>::from(response).into_body();
        let mut read = Vec::new();
        // In this order: the trailers come last.
        let last = loop {
            match body.frame().await.unwrap().unwrap().into_data() {
                Ok(data) => read.extend(data),
                Err(frame) => break frame.into_trailers().unwrap(),
            }
        };
        assert_eq!(read, b"abcdef", "{limit}");
        assert_eq!(last, trailers(), "{limit}");
        assert!(body.frame().await.is_none(), "{limit}");
        assert_eq!(polls.load(Ordering::SeqCst), 5, "{limit}");
    }
}

// Classifiers

fn says_slow_down(attempt: &Attempt<'_>) -> Option<Verdict> {
    let Outcome::Response { body: Some(body), .. } = attempt.outcome() else { return None };
    (body == b"slow down").then_some(Verdict::Transient { delay: None })
}

#[tokio::test]
async fn a_classifier_sees_a_body_only_where_it_was_read_whole() {
    for (limit, answer, seen) in [
        (LIMIT, with_length(b"slow down"), true),
        (LIMIT, chunked(b"slow down"), true),
        (9, with_length(b"slow down"), true),
        (8, with_length(b"slow down"), false),
        (8, chunked(b"slow down"), false),
        (0, with_length(b"slow down"), false),
    ] {
        let server = Server::start([answer, with_length(b"fine")]).await;
        let client = client(policy().classifier(says_slow_down), limit);
        let response = client.get(server.url()).send().await.unwrap();
        let expected = if seen { (2, "fine") } else { (1, "slow down") };
        assert_eq!((server.requests(), &*response.text().await.unwrap()), expected, "{limit}");
    }
}

#[tokio::test]
async fn what_a_classifier_saw_is_handed_out_whole_and_kept_nowhere_else() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let seen = bodies.clone();
    let policy = policy().max_attempts(2).classifier(move |attempt: &Attempt<'_>| {
        if let Outcome::Response { body, .. } = attempt.outcome() {
            seen.lock().unwrap().push(body.map(<[u8]>::to_vec));
        }
        None
    });
    let busy = "HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy";
    let server = Server::start([busy.into()]).await;
    let response = client(policy, LIMIT).get(server.url()).send().await.unwrap();
    assert_eq!(*bodies.lock().unwrap(), [Some(b"busy".to_vec()), Some(b"busy".to_vec())]);
    // Nobody else holds the bytes.
    let body = response.bytes().await.unwrap();
    assert!(body.is_unique());
    assert_eq!(body, "busy");
}

// Whose option it is

#[tokio::test]
async fn the_request_has_the_last_word() {
    let whole = with_length(b"a small body");
    let cut = whole[..whole.len() - 1].to_vec();
    for (of_client, of_request, is_read) in [
        (0, None, false),
        (0, Some(LIMIT), true),
        (LIMIT, None, true),
        (LIMIT, Some(0), false),
        (LIMIT, Some(5), false),
        (5, Some(LIMIT), true),
    ] {
        let server = Server::start([cut.clone(), whole.clone()]).await;
        let request = client(policy(), of_client).get(server.url());
        let request = match of_request {
            Some(limit) => request.buffer_body(limit),
            None => request,
        };
        let response = request.send().await.unwrap();
        assert_eq!(response.bytes().await.is_ok(), is_read, "{of_client} {of_request:?}");
        assert_eq!(server.requests(), if is_read { 2 } else { 1 }, "{of_client} {of_request:?}");
    }
}

/// A body without a frame that says a length all the same, as the answer to a HEAD over HTTP/2 does.
struct Announced;

impl HttpBody for Announced {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        Poll::Ready(None)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(100)
    }

    fn is_end_stream(&self) -> bool {
        true
    }
}

/// A final middleware that answers with that, or with pieces without end.
struct Says {
    endless: bool,
}

#[async_trait]
impl Middleware for Says {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let pieces = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>("x"));
        let body = if self.endless { Body::wrap_stream(pieces) } else { Body::wrap(Announced) };
        Ok(http::Response::builder().status(503).body(body).unwrap().into())
    }
}

#[tokio::test]
async fn a_length_without_a_body_stays() {
    for limit in [0, LIMIT, 50] {
        let client = chain(policy().max_attempts(1), limit).with(Says { endless: false }).build();
        let response = client.head("http://service.test/").send().await.unwrap();
        assert_eq!(response.content_length(), Some(100), "{limit}");
        assert_eq!(response.bytes().await.unwrap(), "", "{limit}");
    }
}

/// Real time: virtual time stands still while something is always ready.
#[tokio::test]
async fn a_body_that_is_always_ready_is_cut_by_the_deadline() {
    let policy = policy().max_attempts(1).deadline(Duration::from_millis(50));
    let client = chain(policy, u64::MAX).with(Says { endless: true }).build();
    let error = client.get("http://service.test/").send().await.unwrap_err();
    assert!(error.retry_error().unwrap().is_deadline(), "{error:?}");
}

/// Not even where the bounds of the drain are narrower: there is nothing to drain.
#[tokio::test(start_paused = true)]
async fn a_response_that_was_read_is_not_lost_to_a_cancelled_wait() {
    let policy = policy().backoff(Backoff::constant(Duration::from_secs(9))).build().unwrap();
    let retry = RetryMiddleware::builder(policy).buffer_body(LIMIT).drain(DrainLimits::none());
    let answer = Answer { pieces: vec!["abc", "def"], polls: Arc::default() };
    let client = ClientBuilder::new(Client::new())
        .with(retry.build().unwrap())
        .with(Unavailable)
        .with(answer)
        .build();
    let token = CancellationToken::new();
    let call = RetryScope::new()
        .cancel_on(token.clone())
        .run(async { client.get("http://service.test/").send().await });
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        token.cancel();
    };
    let response = futures_util::future::join(call, cancel).await.0.unwrap();
    assert_eq!(response.status(), 503);
    let body = response.bytes().await.unwrap();
    assert!(body.is_unique(), "nobody else holds it");
    assert_eq!(body, "abcdef");
}

/// Nor is one that needs no second attempt held by anybody but the caller.
#[tokio::test]
async fn what_a_cancellation_could_have_asked_for_is_kept_nowhere_else() {
    let server = Server::start([with_length(b"fine")]).await;
    let scope = RetryScope::new().cancel_on(CancellationToken::new());
    let response = scope.run(client(policy(), LIMIT).get(server.url()).send()).await.unwrap();
    let extensions = response.extensions().len();
    let plain = client(policy(), LIMIT).get(server.url()).send().await.unwrap();
    assert_eq!(extensions, plain.extensions().len());
    assert_eq!(response.bytes().await.unwrap(), "fine");
}

/// Makes every answer a 503.
struct Unavailable;

#[async_trait]
impl Middleware for Unavailable {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let mut response: http::Response<Body> = next.run(request, extensions).await?.into();
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        Ok(response.into())
    }
}

/// An answer that announces what nobody has the memory for.
#[tokio::test]
async fn an_announcement_alone_sets_no_memory_aside() {
    for announced in [9_999_999_999_999_999_999_u64, 1 << 46] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {announced}\r\n\r\nx");
        let server = Server::start([head.into_bytes()]).await;
        let tracker = RetryTracker::new();
        let request = client(policy().max_attempts(1), u64::MAX).get(server.url());
        request.with_extension(tracker.clone()).send().await.unwrap_err();
        let outcome = tracker.history().unwrap().attempts()[0].outcome();
        assert_eq!(outcome.fault(), Some(Fault::unknown(FaultKind::Body)), "{announced}");
    }
}

/// A stream that panics if it is asked after its end, as some do.
struct Empty;

#[async_trait]
impl Middleware for Empty {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let none = |()| async { None::<(std::io::Result<&'static str>, ())> };
        let body = Body::wrap_stream(futures_util::stream::unfold((), none));
        Ok(http::Response::new(body).into())
    }
}

#[tokio::test]
async fn an_empty_body_that_has_ended_is_not_asked_again() {
    let client = chain(policy(), LIMIT).with(Empty).build();
    let response = client.get("http://service.test/").send().await.unwrap();
    assert_eq!(response.bytes().await.unwrap(), "");
}
