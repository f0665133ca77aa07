//! Ways to a false proof: each of them could make a client believe that a POST was not processed.
//! The server counts effects; none of these POSTs may take effect twice.
//!
//! The tests at the end show that a true proof does lift method safety, so that those before can fail.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod other_calls;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::join;
use http::{Extensions, Method, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use reqwest::{Client, ClientBuilder as HttpBuilder, Request, Response, redirect, retry};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_typed_retry::{
    Backoff, DeliveryProof, Fault, FaultKind, RetryMiddleware, RetryPolicy, RetryTracker,
    StatusSet, StopReason,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};

// The server

/// What the server answers after it acted on `POST /act`.
#[derive(Clone)]
struct Answer {
    status: StatusCode,
    location: Option<String>,
}

impl Answer {
    fn status(status: StatusCode) -> Self {
        Self { status, location: None }
    }

    fn redirect(status: StatusCode, location: impl Into<String>) -> Self {
        Self { status, location: Some(location.into()) }
    }
}

/// Acts on each `POST /act` and counts it; a GET of `/act` or `/limited` is told 429.
struct Server {
    address: SocketAddr,
    effects: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let effects = Arc::new(AtomicUsize::new(0));
        let count = effects.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, count) = (answer.clone(), count.clone());
                let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    let (answer, count) = (answer.clone(), count.clone());
                    async move {
                        let acts =
                            request.method() == Method::POST && request.uri().path() == "/act";
                        // Only a request that is there whole has an effect.
                        let whole = request.into_body().collect().await.is_ok();
                        let mut response = hyper::Response::new(Full::<Bytes>::default());
                        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                        if acts && whole {
                            count.fetch_add(1, Ordering::SeqCst);
                            *response.status_mut() = answer.status;
                            if let Some(location) = &answer.location {
                                let location = location.parse().unwrap();
                                response.headers_mut().insert("location", location);
                            }
                        }
                        Ok::<_, Infallible>(response)
                    }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        Self { address, effects, task }
    }

    fn url(&self) -> String {
        format!("http://{}/act", self.address)
    }

    fn effects(&self) -> usize {
        self.effects.load(Ordering::SeqCst)
    }
}

/// An address where nobody listens, for as long as it is held.
struct Refused(TcpSocket);

impl Refused {
    fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        Self(socket)
    }

    fn url(&self) -> String {
        format!("http://{}/", self.0.local_addr().unwrap())
    }
}

// The client

/// A policy that takes 429 and 503 for a promise that nothing was done.
fn policy() -> RetryPolicy {
    let rejections =
        StatusSet::from_iter([StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE]);
    RetryPolicy::builder()
        .max_attempts(3)
        .backoff(Backoff::constant(Duration::ZERO))
        .throttle_backoff(Backoff::constant(Duration::ZERO))
        .not_processed_statuses(rejections)
        .build()
        .unwrap()
}

fn plain() -> HttpBuilder {
    Client::builder().no_proxy()
}

fn proven(builder: HttpBuilder) -> (Client, RetryMiddleware) {
    let (http, proof) = DeliveryProof::build(builder).unwrap();
    let retry = RetryMiddleware::builder(policy()).delivery_proof(proof).build().unwrap();
    (http, retry)
}

fn client(builder: HttpBuilder) -> ClientWithMiddleware {
    let (http, retry) = proven(builder);
    ClientBuilder::new(http).with(retry).build()
}

fn chain(inner: impl Middleware) -> ClientWithMiddleware {
    let (http, retry) = proven(plain());
    ClientBuilder::new(http).with(retry).with(inner).build()
}

/// Sends a POST, whatever becomes of it, and tells how many attempts there were and why no more.
async fn post(client: &ClientWithMiddleware, url: &str) -> (usize, Option<StopReason>) {
    let tracker = RetryTracker::new();
    let request = client.post(url).body("pay").with_extension(tracker.clone());
    let _ = request.send().await;
    let history = tracker.history().unwrap();
    (history.attempts().len(), Some(history.stop_reason()))
}

const ONCE: (usize, Option<StopReason>) = (1, Some(StopReason::NotIdempotent));

// Redirects

#[tokio::test]
async fn a_redirect_into_a_refused_host_is_no_proof() {
    for status in [StatusCode::SEE_OTHER, StatusCode::TEMPORARY_REDIRECT] {
        let refused = Refused::new();
        let server = Server::start(Answer::redirect(status, refused.url())).await;
        assert_eq!(post(&client(plain()), &server.url()).await, ONCE, "{status}");
        assert_eq!(server.effects(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_redirect_to_the_same_url_and_then_a_rejection_is_no_proof() {
    for location in ["/act", "/limited"] {
        let server = Server::start(Answer::redirect(StatusCode::SEE_OTHER, location)).await;
        assert_eq!(post(&client(plain()), &server.url()).await, ONCE, "{location}");
        assert_eq!(server.effects(), 1, "{location}");
    }
}

#[tokio::test]
async fn a_redirect_policy_of_the_callers_is_respected_and_hides_nothing() {
    let refused = Refused::new();
    let server =
        Server::start(Answer::redirect(StatusCode::TEMPORARY_REDIRECT, refused.url())).await;
    let followed = Arc::new(AtomicUsize::new(0));
    let count = followed.clone();
    let follows = redirect::Policy::custom(move |attempt| {
        count.fetch_add(1, Ordering::SeqCst);
        attempt.follow()
    });
    assert_eq!(post(&client(plain().redirect(follows)), &server.url()).await, ONCE);
    assert_eq!((server.effects(), followed.load(Ordering::SeqCst)), (1, 1));

    // Not followed, the redirect is the answer.
    let stays = client(plain().redirect(redirect::Policy::none()));
    let response = stays.post(server.url()).body("pay").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::TEMPORARY_REDIRECT);
    assert_eq!(server.effects(), 2);
}

// The observer

#[tokio::test]
async fn a_retry_of_the_callers_is_replaced_and_resends_nothing() {
    let server = Server::start(Answer::status(StatusCode::INTERNAL_SERVER_ERROR)).await;
    let resends = retry::for_host("127.0.0.1").no_budget().classify_fn(|answer| {
        if answer.status().is_some_and(|status| status.is_server_error()) {
            answer.retryable()
        } else {
            answer.success()
        }
    });
    assert_eq!(post(&client(plain().retry(resends)), &server.url()).await, ONCE);
    assert_eq!(server.effects(), 1);
}

#[tokio::test]
async fn a_client_without_the_observer_proves_nothing() {
    let (_observed, retry) = proven(plain());
    let other = ClientBuilder::new(plain().build().unwrap()).with(retry).build();
    let server = Server::start(Answer::status(StatusCode::TOO_MANY_REQUESTS)).await;
    assert_eq!(post(&other, &server.url()).await, ONCE);
    assert_eq!(server.effects(), 1);
    let refused = Refused::new();
    assert_eq!(post(&other, &refused.url()).await, ONCE);
}

#[tokio::test]
async fn an_observer_alone_lifts_nothing_for_a_middleware_that_was_given_no_proof() {
    let (http, _proof) = DeliveryProof::build(plain()).unwrap();
    let client = ClientBuilder::new(http).with(RetryMiddleware::new(policy())).build();
    let server = Server::start(Answer::status(StatusCode::TOO_MANY_REQUESTS)).await;
    assert_eq!(post(&client, &server.url()).await, ONCE);
    assert_eq!(server.effects(), 1);
    let refused = Refused::new();
    assert_eq!(post(&client, &refused.url()).await, ONCE);
}

// Inner middlewares

/// Sends in a task of its own.
struct Spawning;

#[async_trait::async_trait]
impl Middleware for Spawning {
    async fn handle(&self, request: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        // `Next` borrows the client, so that a task can't have it.
        let http = DeliveryProof::build(plain()).unwrap().0;
        Ok(tokio::spawn(async move { http.execute(request).await }).await.unwrap()?)
    }
}

#[tokio::test]
async fn a_send_in_a_spawned_task_is_no_proof() {
    for status in [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE] {
        let server = Server::start(Answer::status(status)).await;
        assert_eq!(post(&chain(Spawning), &server.url()).await, ONCE, "{status}");
        assert_eq!(server.effects(), 1, "{status}");
    }
}

/// Calls another service after each send.
struct Audit {
    http: Client,
    service: String,
}

#[async_trait::async_trait]
impl Middleware for Audit {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let response = next.run(request, extensions).await?;
        self.http.get(&self.service).send().await?.error_for_status()?;
        Ok(response)
    }
}

#[tokio::test]
async fn an_audit_call_that_fails_after_the_post_acted_is_no_proof() {
    let refused = Refused::new();
    let limiter = Server::start(Answer::status(StatusCode::OK)).await;
    let limited = format!("http://{}/limited", limiter.address);
    for (label, http) in [
        ("a plain client", plain().build().unwrap()),
        ("a client with an observer", DeliveryProof::build(plain()).unwrap().0),
    ] {
        for service in [refused.url(), limited.clone()] {
            let server = Server::start(Answer::status(StatusCode::OK)).await;
            let audit = Audit { http: http.clone(), service: service.clone() };
            assert_eq!(post(&chain(audit), &server.url()).await, ONCE, "{label}, {service}");
            assert_eq!(server.effects(), 1, "{label}, {service}");
        }
    }
}

/// Sends each request twice, and gives back the second answer.
struct Twice;

#[async_trait::async_trait]
impl Middleware for Twice {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let again = request.try_clone().unwrap();
        next.clone().run(request, extensions).await?;
        next.run(again, extensions).await
    }
}

#[tokio::test]
async fn two_exchanges_in_one_attempt_are_no_proof() {
    let server = Server::start(Answer::status(StatusCode::TOO_MANY_REQUESTS)).await;
    assert_eq!(post(&chain(Twice), &server.url()).await, ONCE);
    assert_eq!(server.effects(), 2, "the inner middleware's own");
}

/// Panics after the first send.
struct Panicking;

#[async_trait::async_trait]
impl Middleware for Panicking {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let _response = next.run(request, extensions).await?;
        panic!("in the middle of an attempt");
    }
}

#[tokio::test]
async fn what_was_seen_before_a_panic_is_no_proof_for_the_next_call_of_the_thread() {
    let server = Server::start(Answer::status(StatusCode::TOO_MANY_REQUESTS)).await;
    let panicking = chain(Panicking);
    let call = panicking.post(server.url()).body("pay").send();
    AssertUnwindSafe(call).catch_unwind().await.unwrap_err();
    assert_eq!(server.effects(), 1);
    // Outside of an attempt, with a client that reports to whoever is current.
    let observed = DeliveryProof::build(plain()).unwrap().0;
    observed.post(server.url()).body("pay").send().await.unwrap();
    // A client that is not observed must not live off what was seen before.
    let (_observed, retry) = proven(plain());
    let blind = ClientBuilder::new(plain().build().unwrap()).with(retry).build();
    assert_eq!(post(&blind, &server.url()).await, ONCE);
    assert_eq!(server.effects(), 3);
}

#[tokio::test]
async fn calls_joined_in_one_task_do_not_prove_for_each_other() {
    let refused = Refused::new();
    let acts = Server::start(Answer::redirect(StatusCode::TEMPORARY_REDIRECT, refused.url())).await;
    let client = client(plain());
    let (acted_url, refused_url) = (acts.url(), refused.url());
    let (acted, never_sent) = join(post(&client, &acted_url), post(&client, &refused_url)).await;
    assert_eq!(acted, ONCE);
    assert_eq!(acts.effects(), 1);
    assert_eq!(never_sent, (3, Some(StopReason::AttemptsExhausted)), "proven on its own");
}

// Bodies

#[tokio::test]
async fn a_body_that_can_not_be_cloned_is_sent_once_though_nothing_was_processed() {
    let refused = Refused::new();
    let tracker = RetryTracker::new();
    let request = client(plain()).post(refused.url()).body(stream(b"pay"));
    request.with_extension(tracker.clone()).send().await.unwrap_err();
    let history = tracker.history().unwrap();
    // reqwest shows such an exchange to no observer, so nothing is proven.
    assert_eq!(history.stop_reason(), StopReason::NotIdempotent, "{history}");
}

/// Gives each request a body that can't be cloned, so that its exchange is shown to no observer.
struct Streaming;

#[async_trait::async_trait]
impl Middleware for Streaming {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        *request.body_mut() = Some(stream(b"pay"));
        next.run(request, extensions).await
    }
}

fn stream(bytes: &'static [u8]) -> reqwest::Body {
    let chunks = futures_util::stream::iter([Ok::<_, io::Error>(Bytes::from_static(bytes))]);
    reqwest::Body::wrap_stream(chunks)
}

#[tokio::test]
async fn a_redirect_of_an_exchange_that_was_not_shown_is_no_proof() {
    let refused = Refused::new();
    for (label, client) in [("the caller's", client(plain())), ("an inner one", chain(Streaming))] {
        for location in [refused.url(), "/limited".to_owned()] {
            let server = Server::start(Answer::redirect(StatusCode::SEE_OTHER, &location)).await;
            let tracker = RetryTracker::new();
            let mut request = client.post(server.url()).body("pay");
            if label == "the caller's" {
                request = client.post(server.url()).body(stream(b"pay"));
            }
            let _ = request.with_extension(tracker.clone()).send().await;
            let history = tracker.history().unwrap();
            let ended = (history.attempts().len(), Some(history.stop_reason()));
            assert_eq!(ended, ONCE, "{label}, {location}: {history}");
            assert_eq!(server.effects(), 1, "{label}, {location}");
        }
    }
}

#[tokio::test]
async fn an_empty_body_that_can_not_be_cloned_is_no_way_round_that() {
    let refused = Refused::new();
    for status in [StatusCode::SEE_OTHER, StatusCode::TEMPORARY_REDIRECT] {
        let server = Server::start(Answer::redirect(status, refused.url())).await;
        let tracker = RetryTracker::new();
        let body = reqwest::Body::wrap(http_body_util::Empty::<Bytes>::new());
        let request = client(plain()).post(server.url()).body(body);
        let _ = request.with_extension(tracker.clone()).send().await;
        let history = tracker.history().unwrap();
        assert_eq!(history.stop_reason(), StopReason::NotIdempotent, "{status}: {history}");
        assert_eq!(server.effects(), 1, "{status}");
    }
}

// HTTP/2

/// Acts on the one request of each connection, and then says by `GOAWAY` that it never saw it. A real
/// server does not lie so, but hyper's client makes the same error of an honest one, by a race.
async fn forgetful_server() -> (SocketAddr, Arc<AtomicUsize>) {
    const HEADERS: u8 = 1;
    const END_STREAM: u8 = 1;
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const GOAWAY_NO_ERROR_LAST_0: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let effects = Arc::new(AtomicUsize::new(0));
    let count = effects.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let count = count.clone();
            tokio::spawn(async move {
                stream.read_exact(&mut [0; 24]).await?; // the preface
                stream.write_all(&SETTINGS).await?;
                let mut begun = false;
                loop {
                    let mut head = [0; 9];
                    stream.read_exact(&mut head).await?;
                    let [high, mid, low, kind, flags, ..] = head;
                    let length = u32::from_be_bytes([0, high, mid, low]);
                    let mut payload = vec![0; usize::try_from(length).unwrap()];
                    stream.read_exact(&mut payload).await?;
                    begun |= kind == HEADERS;
                    if begun && kind <= HEADERS && flags & END_STREAM != 0 {
                        break;
                    }
                }
                count.fetch_add(1, Ordering::SeqCst);
                stream.write_all(&GOAWAY_NO_ERROR_LAST_0).await
            });
        }
    });
    (address, effects)
}

#[tokio::test]
async fn a_goaway_is_no_proof_whatever_its_last_stream() {
    let client = client(plain().http2_prior_knowledge());
    for body in [None, Some("pay")] {
        let (address, effects) = forgetful_server().await;
        let tracker = RetryTracker::new();
        let mut request = client.post(format!("http://{address}/act"));
        if let Some(body) = body {
            request = request.body(body);
        }
        request.with_extension(tracker.clone()).send().await.unwrap_err();
        let history = tracker.history().unwrap();
        let fault = history.attempts()[0].outcome().fault();
        assert_eq!(fault, Some(Fault::unknown(FaultKind::Refused)), "{body:?}: {history}");
        assert_eq!(effects.load(Ordering::SeqCst), 1, "{body:?}");
    }
}

// True proofs

/// However the URL is written, its exchange is known for that of the request.
#[tokio::test]
async fn a_refused_connection_is_proof() {
    let refused = Refused::new();
    let (url, address) = (refused.url(), refused.0.local_addr().unwrap());
    for url in [
        url.clone(),
        format!("http://{address}"),
        format!("HTTP://{address}/../a//b"),
        format!("{url}a b/ä%20?q=1 2&r=\"<>|{{}}^`'ü&&#part"),
        format!("{url}?"),
        format!("{url}?#"),
        format!("http://user:p%40ss@{address}/"),
        format!("http://127.1:{}/", address.port()),
    ] {
        let exhausted = (3, Some(StopReason::AttemptsExhausted));
        assert_eq!(post(&client(plain()), &url).await, exhausted, "{url}");
    }
}

/// What is proven of each attempt is in the history, and nothing less counts there either.
#[tokio::test]
async fn only_with_a_proof_no_earlier_attempt_can_have_taken_effect() {
    let refused = Refused::new();
    let unproven =
        ClientBuilder::new(plain().build().unwrap()).with(RetryMiddleware::new(policy())).build();
    for (label, client, may) in [("proof", client(plain()), false), ("no proof", unproven, true)] {
        let tracker = RetryTracker::new();
        let request = client.delete(refused.url()).with_extension(tracker.clone());
        request.send().await.unwrap_err();
        let history = tracker.history().unwrap();
        assert_eq!(history.attempts().len(), 3, "{label}: {history}");
        assert_eq!(history.earlier_may_have_taken_effect(), may, "{label}: {history}");
    }
}

#[tokio::test]
async fn a_listed_status_that_ends_the_only_exchange_is_proof() {
    let listed = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
    for status in [listed[0], listed[1], StatusCode::BAD_GATEWAY] {
        let server = Server::start(Answer::status(status)).await;
        let (attempts, stop) = post(&client(plain()), &server.url()).await;
        let resent = listed.contains(&status);
        assert_eq!(server.effects(), if resent { 3 } else { 1 }, "{status}");
        assert_eq!(attempts, server.effects(), "{status}: {stop:?}");
    }
}

#[tokio::test]
async fn a_proof_needs_no_change_of_policy_to_lift_a_fault_but_one_to_lift_a_status() {
    let (http, proof) = DeliveryProof::build(plain()).unwrap();
    let policy = policy().to_builder().not_processed_statuses(StatusSet::empty()).build().unwrap();
    let retry = RetryMiddleware::builder(policy).delivery_proof(proof).build().unwrap();
    let client = ClientBuilder::new(http).with(retry).build();
    let server = Server::start(Answer::status(StatusCode::TOO_MANY_REQUESTS)).await;
    assert_eq!(post(&client, &server.url()).await, ONCE);
    let refused = Refused::new();
    assert_eq!(post(&client, &refused.url()).await, (3, Some(StopReason::AttemptsExhausted)));
}
