//! Safety by effects: the server counts what it did, and that is the only witness.
//!
//! Each case is a POST that took effect although the client was told otherwise. However hard the
//! policy tries, the effect happens once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use http::{Extensions, StatusCode};
use reqwest::{Client, Method, Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use reqwest_typed_retry::{
    Backoff, FaultKind, FaultSet, RetryHistory, RetryMiddleware, RetryPolicy, RetryTracker,
    StatusSet, StopReason,
};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// What the server does to a client after it acted on `POST /act`.
#[derive(Clone, Debug)]
enum AfterActing {
    Answer(&'static str),
    RedirectTo { status: &'static str, location: String },
    Cut,
    CutTheHead,
    CutTheBody,
    Hang,
}

/// Counts each `POST /act` that it has read whole; `GET /limited` answers 429.
struct Server {
    address: SocketAddr,
    effects: Arc<AtomicUsize>,
    others: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start(after: AfterActing) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (effects, others) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let counters = (effects.clone(), others.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (after, (effects, others)) = (after.clone(), counters.clone());
                tokio::spawn(async move {
                    // The client may be gone: that is its business.
                    let _ = serve(stream, &after, &effects, &others).await;
                });
            }
        });
        Self { address, effects, others, task }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn effects(&self) -> usize {
        self.effects.load(Ordering::SeqCst)
    }
}

async fn serve(
    stream: TcpStream,
    after: &AfterActing,
    effects: &AtomicUsize,
    others: &AtomicUsize,
) -> std::io::Result<()> {
    let mut stream = BufStream::new(stream);
    let (mut request_line, mut length) = (String::new(), 0);
    stream.read_line(&mut request_line).await?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        match line.to_ascii_lowercase().split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().unwrap_or(0),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let answer = |status: &str, more: &str| {
        format!("HTTP/1.1 {status}\r\nconnection: close\r\n{more}content-length: 2\r\n\r\nno")
    };
    let (reply, hang) = if request_line.starts_with("POST /act ") {
        effects.fetch_add(1, Ordering::SeqCst);
        match after {
            AfterActing::Answer(status) => (answer(status, ""), false),
            AfterActing::RedirectTo { status, location } => {
                (answer(status, &format!("location: {location}\r\n")), false)
            }
            AfterActing::Cut => (String::new(), false),
            AfterActing::CutTheHead => ("HTTP/1.1 200 OK\r\ncontent-le".to_owned(), false),
            AfterActing::CutTheBody => {
                ("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart".to_owned(), false)
            }
            AfterActing::Hang => (String::new(), true),
        }
    } else {
        others.fetch_add(1, Ordering::SeqCst);
        match request_line.split(' ').nth(1) {
            Some("/limited") => (answer("429 Too Many Requests", ""), false),
            _ => (answer("404 Not Found", ""), false),
        }
    };
    stream.write_all(reply.as_bytes()).await?;
    stream.flush().await?;
    if hang {
        std::future::pending::<()>().await;
    }
    Ok(())
}

/// A port where nobody listens: it stays bound as long as the process lives, so that nobody will.
fn refused() -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = socket.local_addr().unwrap();
    std::mem::forget(socket);
    address
}

/// As eager as a policy gets without saying that a POST may be repeated.
fn eager() -> RetryPolicy {
    let every_fault = [FaultKind::Tls, FaultKind::Decode, FaultKind::Invalid, FaultKind::Other];
    RetryPolicy::builder()
        .max_attempts(3)
        .backoff(Backoff::constant(Duration::ZERO))
        .throttle_backoff(Backoff::constant(Duration::ZERO))
        .retry_statuses((400..600).map(|code| StatusCode::from_u16(code).unwrap()).collect())
        .retry_faults(every_fault.into_iter().fold(FaultSet::transient(), FaultSet::with))
        .honour_idempotency_keys(true)
        // Ends the case of the silent server, once that has surely acted.
        .attempt_timeout(Duration::from_secs(3))
        .build()
        .unwrap()
}

/// The statuses that the API is said to reject unprocessed have no effect without a proof.
fn eager_with_rejections() -> RetryPolicy {
    let rejections =
        StatusSet::from_iter([StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE]);
    eager().to_builder().not_processed_statuses(rejections).build().unwrap()
}

fn client(policy: RetryPolicy) -> ClientWithMiddleware {
    ClientBuilder::new(Client::new()).with(RetryMiddleware::new(policy)).build()
}

fn cases() -> Vec<(&'static str, AfterActing)> {
    let refused = format!("http://{}/next", refused());
    let redirect =
        |status, location: &str| AfterActing::RedirectTo { status, location: location.to_owned() };
    vec![
        ("answered 503", AfterActing::Answer("503 Service Unavailable")),
        ("answered 429", AfterActing::Answer("429 Too Many Requests")),
        ("answered 500", AfterActing::Answer("500 Internal Server Error")),
        ("cut after acting", AfterActing::Cut),
        ("cut within the head", AfterActing::CutTheHead),
        ("silent after acting", AfterActing::Hang),
        ("303 into a refused host", redirect("303 See Other", &refused)),
        ("307 into a refused host", redirect("307 Temporary Redirect", &refused)),
        ("303 to a 429", redirect("303 See Other", "/limited")),
        ("303 to a scheme nobody speaks", redirect("303 See Other", "ftp://localhost/")),
    ]
}

#[tokio::test]
async fn a_post_takes_effect_once_whatever_the_client_is_told() {
    for policy in [eager(), eager_with_rejections()] {
        join_all(cases().into_iter().map(async |(label, after)| {
            let server = Server::start(after).await;
            let tracker = RetryTracker::new();
            let _ = client(policy.clone())
                .post(server.url("/act"))
                .body("pay")
                .with_extension(tracker.clone())
                .send()
                .await;
            assert_eq!(server.effects(), 1, "{label}");
            let stop = tracker.history().map(|history| history.stop_reason());
            assert_eq!(stop, Some(StopReason::NotIdempotent), "{label}");
        }))
        .await;
    }
}

/// The same servers see each resend of a request that may be repeated: so the test above can fail.
#[tokio::test]
async fn the_same_post_is_resent_where_the_policy_says_that_it_may_be() {
    let policy = eager().to_builder().assume_idempotent(true).build().unwrap();
    join_all(cases().into_iter().map(async |(label, after)| {
        let server = Server::start(after).await;
        let _ = client(policy.clone()).post(server.url("/act")).body("search").send().await;
        assert_eq!(server.effects(), 3, "{label}");
    }))
    .await;
}

#[tokio::test]
async fn a_cut_body_is_not_resent_and_reaches_the_caller() {
    let server = Server::start(AfterActing::CutTheBody).await;
    let response = client(eager()).post(server.url("/act")).body("pay").send().await.unwrap();
    response.bytes().await.unwrap_err();
    assert_eq!(server.effects(), 1);
}

/// Calls another service after each send, and fails when that one does.
struct Audit {
    service: String,
}

#[async_trait::async_trait]
impl Middleware for Audit {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let response = next.run(request, extensions).await?;
        Client::new().get(&self.service).send().await?;
        Ok(response)
    }
}

#[tokio::test]
async fn an_inner_middleware_whose_own_call_fails_after_the_post_acted_causes_no_second_effect() {
    for policy in [eager(), eager_with_rejections()] {
        let server = Server::start(AfterActing::Answer("200 OK")).await;
        let service = format!("http://{}/audit", refused());
        let client = ClientBuilder::new(Client::new())
            .with(RetryMiddleware::new(policy))
            .with(Audit { service })
            .build();
        let error = client.post(server.url("/act")).body("pay").send().await.unwrap_err();
        assert!(error.is_connect(), "{error:?}");
        assert_eq!(server.effects(), 1);
    }
}

#[tokio::test]
async fn a_bare_key_does_not_make_a_post_repeatable() {
    let server = Server::start(AfterActing::Answer("503 Service Unavailable")).await;
    let policy = eager().to_builder().honour_idempotency_keys(false).build().unwrap();
    let request = client(policy).post(server.url("/act")).header("idempotency-key", "k1");
    let response = request.body("pay").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(server.effects(), 1);
}

#[tokio::test]
async fn a_redirected_get_starts_again_at_its_own_url() {
    let server = Server::start(AfterActing::RedirectTo {
        status: "303 See Other",
        location: "/limited".to_owned(),
    })
    .await;
    let policy = eager().to_builder().assume_idempotent(true).build().unwrap();
    let request = client(policy).request(Method::POST, server.url("/act")).body("search");
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    let history = response.extensions().get::<RetryHistory>().expect("there were resends");
    assert_eq!(history.attempts().len(), 3, "{history}");
    assert_eq!((server.effects(), server.others.load(Ordering::SeqCst)), (3, 3));
}
