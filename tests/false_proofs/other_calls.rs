//! Calls of inner middlewares, by clients that are observed too: their exchanges vouch for nothing but
//! themselves, whatever became of the request's own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Extensions, StatusCode};
use reqwest::{Client, ClientBuilder as HttpBuilder, Request, Response};
use reqwest_middleware::{ClientBuilder, Error, Middleware, Next, Result};
use reqwest_typed_retry::{DeliveryProof, RetryMiddleware, StopReason};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{
    Answer, ONCE, Refused, Server, Spawning, Streaming, chain, client, plain, policy, post,
};

/// What a [`Mute`] server does once it has acted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    Hang,
    Close,
    /// And no POST is acted on again: they are told 429, as a GET always is.
    CloseAndLimit,
}

/// Acts on each POST, and does not answer it.
struct Mute {
    address: SocketAddr,
    effects: Arc<AtomicUsize>,
}

const LIMITED: &[u8] = b"HTTP/1.1 429 Later\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

impl Mute {
    async fn start(then: Then) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let effects = Arc::new(AtomicUsize::new(0));
        let count = effects.clone();
        tokio::spawn(async move {
            let mut hanging = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                while !request.ends_with(b"pay") && !request.starts_with(b"GET") {
                    if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                        break;
                    }
                }
                let limits = then == Then::CloseAndLimit && count.load(Ordering::SeqCst) > 0;
                if request.starts_with(b"GET") || limits {
                    // The client may be gone: its own business.
                    let _ = stream.write_all(LIMITED).await;
                    continue;
                }
                count.fetch_add(usize::from(request.ends_with(b"pay")), Ordering::SeqCst);
                if then == Then::Hang {
                    hanging.push(stream);
                }
            }
        });
        Self { address, effects }
    }

    fn url(&self) -> String {
        format!("http://{}/act", self.address)
    }

    fn effects(&self) -> usize {
        self.effects.load(Ordering::SeqCst)
    }
}

/// Sends the request once and, whatever becomes of that, tells another service by POST.
struct ThenTells {
    http: Client,
    service: String,
}

/// Sends the request once and, whatever becomes of that, asks the same URL how it went.
struct ThenAsks {
    http: Client,
}

#[async_trait::async_trait]
impl Middleware for ThenAsks {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let url = request.url().clone();
        let result = next.run(request, extensions).await;
        self.http.get(url).send().await?.error_for_status()?;
        result
    }
}

#[async_trait::async_trait]
impl Middleware for ThenTells {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let result = next.run(request, extensions).await;
        self.http.post(&self.service).body("told").send().await?.error_for_status()?;
        result
    }
}

/// Gives up on what takes long, by dropping it.
struct Impatient;

#[async_trait::async_trait]
impl Middleware for Impatient {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        match tokio::time::timeout(LIMIT, next.run(request, extensions)).await {
            Ok(result) => result,
            Err(_) => Err(Error::middleware(io::Error::from(io::ErrorKind::TimedOut))),
        }
    }
}

/// Sends through a chain of its own, which has a retry layer and so a scope of its own.
struct Elsewhere;

#[async_trait::async_trait]
impl Middleware for Elsewhere {
    async fn handle(&self, request: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        client(plain()).execute(request).await
    }
}

const LIMIT: Duration = Duration::from_millis(200);

/// One service that refuses, and one that answers 429.
async fn services() -> (Refused, Server, [String; 2]) {
    let (refused, limiter) = (Refused::new(), Server::start(Answer::status(StatusCode::OK)).await);
    let urls = [refused.url(), format!("http://{}/limited", limiter.address)];
    (refused, limiter, urls)
}

/// A chain over `http` that tells `service`, and the proof of a client built by `builder`.
fn telling(builder: HttpBuilder, limit: Option<Duration>) -> (Client, ClientBuilder) {
    let (http, proof) = DeliveryProof::build(builder).unwrap();
    let policy = policy().to_builder().attempt_timeout(limit).build().unwrap();
    let retry = RetryMiddleware::builder(policy).delivery_proof(proof).build().unwrap();
    (http.clone(), ClientBuilder::new(http).with(retry))
}

/// A time limit cuts the request above the observer, so that it never sees its end.
#[tokio::test]
async fn after_a_request_that_a_limit_cut() {
    let (_refused, _limiter, services) = services().await;
    for service in services {
        for (label, builder, limit) in [
            ("of the client", plain().timeout(LIMIT), None),
            ("of the policy", plain(), Some(LIMIT)),
            ("of an inner middleware", plain(), None),
        ] {
            let server = Mute::start(Then::Hang).await;
            let (http, chain) = telling(builder, limit);
            let chain = chain.with(ThenTells { http, service: service.clone() });
            let client = match label {
                "of an inner middleware" => chain.with(Impatient).build(),
                _ => chain.build(),
            };
            assert_eq!(post(&client, &server.url()).await, ONCE, "{label}, {service}");
            assert!(server.effects() <= 1, "{label}, {service}");
        }
    }
}

#[tokio::test]
async fn a_question_about_a_request_that_a_limit_cut() {
    let server = Mute::start(Then::Hang).await;
    let (http, chain) = telling(plain(), Some(LIMIT));
    let client = chain.with(ThenAsks { http }).build();
    assert_eq!(post(&client, &server.url()).await, ONCE);
    assert!(server.effects() <= 1);
}

/// … and here it sees the end of both.
#[tokio::test]
async fn after_a_request_that_was_cut_on_the_wire() {
    let (_refused, _limiter, services) = services().await;
    for service in services {
        for observed in [true, false] {
            let server = Mute::start(Then::Close).await;
            let (http, chain) = telling(plain(), None);
            let http = if observed { http } else { plain().build().unwrap() };
            let client = chain.with(ThenTells { http, service: service.clone() }).build();
            assert_eq!(post(&client, &server.url()).await, ONCE, "{service}, {observed}");
            assert_eq!(server.effects(), 1, "{service}, {observed}");
        }
    }
}

#[tokio::test]
async fn after_a_request_that_the_observer_was_not_shown() {
    let (_refused, _limiter, services) = services().await;
    for service in services {
        for label in ["a stream", "a task of its own", "a chain of its own", "a client without it"]
        {
            let server = Server::start(Answer::status(StatusCode::OK)).await;
            let (http, chain) = telling(plain(), None);
            let tells = ThenTells { http, service: service.clone() };
            let client = match label {
                "a stream" => chain.with(tells).with(Streaming).build(),
                "a task of its own" => chain.with(tells).with(Spawning).build(),
                "a chain of its own" => chain.with(tells).with(Elsewhere).build(),
                _ => {
                    let proof = DeliveryProof::build(plain()).unwrap().1;
                    let retry = RetryMiddleware::builder(policy()).delivery_proof(proof);
                    ClientBuilder::new(plain().build().unwrap())
                        .with(retry.build().unwrap())
                        .with(tells)
                        .build()
                }
            };
            assert_eq!(post(&client, &server.url()).await, ONCE, "{label}, {service}");
            assert_eq!(server.effects(), 1, "{label}, {service}");
        }
    }
}

/// Sends the request, and if that fails once more, elsewhere.
struct FallsBack {
    to: String,
}

#[async_trait::async_trait]
impl Middleware for FallsBack {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let mut again = request.try_clone().unwrap();
        *again.url_mut() = self.to.parse().unwrap();
        match next.clone().run(request, extensions).await {
            Err(_) => next.run(again, extensions).await,
            response => response,
        }
    }
}

#[tokio::test]
async fn a_fallback_after_a_request_that_failed_unseen_or_seen() {
    let (_refused, _limiter, services) = services().await;
    for to in services {
        for (then, builder) in [(Then::Hang, plain().timeout(LIMIT)), (Then::Close, plain())] {
            let server = Mute::start(then).await;
            let (_, chain) = telling(builder, None);
            let client = chain.with(FallsBack { to: to.clone() }).build();
            assert_eq!(post(&client, &server.url()).await, ONCE, "{then:?}, {to}");
            assert!(server.effects() <= 1, "{then:?}, {to}");
        }
    }
}

/// The one way that is left open is that the first send is not seen, and the second goes to its URL.
#[tokio::test]
async fn a_second_send_to_the_same_url_after_one_that_was_seen() {
    let server = Mute::start(Then::CloseAndLimit).await;
    let (_, chain) = telling(plain(), None);
    let client = chain.with(FallsBack { to: server.url() }).build();
    assert_eq!(post(&client, &server.url()).await, ONCE);
    assert_eq!(server.effects(), 1);
}

/// Sends the request to another URL than the caller's.
struct Rewrites {
    to: String,
}

#[async_trait::async_trait]
impl Middleware for Rewrites {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        *request.url_mut() = self.to.parse().unwrap();
        next.run(request, extensions).await
    }
}

/// A true proof is lost there: it can't be told from that of another call.
#[tokio::test]
async fn a_request_whose_url_an_inner_middleware_changes_is_never_proven() {
    let refused = Refused::new();
    let rewrites = Rewrites { to: format!("{}elsewhere", refused.url()) };
    assert_eq!(post(&chain(rewrites), &refused.url()).await, ONCE);
    let keeps = Rewrites { to: refused.url() };
    let exhausted = (3, Some(StopReason::AttemptsExhausted));
    assert_eq!(post(&chain(keeps), &refused.url()).await, exhausted);
}
