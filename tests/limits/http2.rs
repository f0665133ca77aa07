//! HTTP/2 requests that queue for the one stream that a server allows, when their connection dies or
//! falls silent. Below us such requests can hang for ever.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Extensions, StatusCode};
use reqwest::{Client, Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use reqwest_typed_retry::{RetryMiddleware, RetryPolicyBuilder};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, yield_now};
use tokio::time::Instant;

use super::held_clock::{HeldClock, in_time};
use super::{Back, ms, waiting};

const ROUNDS: usize = 20;
const LIMIT: u64 = 1_000;
const WAIT: u64 = 10;
/// The requests that wait for the stream of the first.
const QUEUED: usize = 3;
/// Enough for what is ready to run, and for what is in the sockets to be read.
const TURNS: usize = 256;

/// How the connection dies, with a request on its one stream and others behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Death {
    /// It does not: it stays, and nothing is ever answered.
    Silence,
    Fin,
    Reset,
    /// The request is answered, and then there is no more.
    GoAway,
}

#[tokio::test(start_paused = true)]
async fn every_queued_request_ends_within_each_limit() {
    let attempts = ms(2 * LIMIT + WAIT);
    let policy = || waiting(ms(WAIT)).max_attempts(2);
    for death in [Death::Silence, Death::Fin, Death::Reset, Death::GoAway] {
        for _ in 0..ROUNDS {
            round(death, policy().attempt_timeout(ms(LIMIT)), (Back::Timeout, attempts)).await;
        }
        round(death, policy().head_timeout(ms(LIMIT)), (Back::HeadTimeout, attempts)).await;
        round(death, policy().deadline(ms(LIMIT)), (Back::Deadline, ms(LIMIT))).await;
    }
}

/// `latest` is what becomes of a request that nothing but the limit ends.
async fn round(death: Death, policy: RetryPolicyBuilder, latest: (Back, Duration)) {
    let clock = HeldClock::hold();
    let (address, mut server) = Server::start(death).await;
    let sent = Sent::default();
    let client =
        ClientBuilder::new(Client::builder().no_proxy().http2_prior_knowledge().build().unwrap())
            .with(RetryMiddleware::new(policy.build().unwrap()))
            .with(sent.clone())
            .build();
    // By its answer the client knows how many streams it may have.
    assert_eq!(end(&client, address).await.0, Back::Status(200));

    let mut calls = JoinSet::new();
    let mut send = |number: usize| {
        let client = client.clone();
        calls.spawn(async move { (number, in_time(end(&client, address)).await) });
    };
    send(1);
    server.has_first.take().unwrap().await.unwrap();
    (2..=1 + QUEUED).for_each(&mut send);
    while sent.0.load(Ordering::SeqCst) < 2 + QUEUED {
        yield_now().await;
    }
    turns().await;
    server.die.take().unwrap().send(()).unwrap();
    // Whatever ends by itself does so before the time limit.
    turns().await;
    drop(clock);

    while let Some(call) = calls.join_next().await {
        let (number, end) = call.unwrap();
        if death == Death::Silence {
            assert_eq!(end, latest, "request {number}");
        } else {
            assert!(end.1 <= latest.1, "{death:?}, request {number}: {end:?}");
        }
    }
    if death != Death::Silence {
        // No request is left behind in the way of others.
        let _clock = HeldClock::hold();
        assert_eq!(end(&client, address).await.0, Back::Status(200), "{death:?}");
    }
}

async fn end(client: &ClientWithMiddleware, address: SocketAddr) -> (Back, Duration) {
    let started = Instant::now();
    let result = client.get(format!("http://{address}/")).send().await;
    (Back::of(&result), started.elapsed())
}

async fn turns() {
    for _ in 0..TURNS {
        yield_now().await;
    }
}

/// How many attempts have gone to the client.
#[derive(Clone, Default)]
struct Sent(Arc<AtomicUsize>);

#[async_trait]
impl Middleware for Sent {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        self.0.fetch_add(1, Ordering::SeqCst);
        next.run(request, extensions).await
    }
}

/// Its first connection dies when it is told to; every other one answers.
struct Server {
    /// Tells that the request that will be in flight has arrived.
    has_first: Option<oneshot::Receiver<()>>,
    die: Option<oneshot::Sender<()>>,
    _connections: JoinSet<()>,
}

impl Server {
    async fn start(death: Death) -> (SocketAddr, Self) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (first, has_first) = oneshot::channel();
        let (die, dies) = oneshot::channel();
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connections = JoinSet::new();
            connections.spawn(dying(stream, death, first, dies));
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(answering(stream));
            }
        });
        let has_first = Some(has_first);
        (address, Self { has_first, die: Some(die), _connections: connections })
    }
}

type Connection = h2::server::Connection<TcpStream, Bytes>;
type Respond = h2::server::SendResponse<Bytes>;

async fn handshake(stream: TcpStream) -> Result<Connection, h2::Error> {
    h2::server::Builder::new().max_concurrent_streams(1).handshake(stream).await
}

fn answer(mut respond: Respond) {
    let mut head = http::Response::new(());
    *head.status_mut() = StatusCode::OK;
    // The client may have given up.
    let _ = respond.send_response(head, true);
}

async fn answering(stream: TcpStream) {
    // The client may leave at any time.
    let Ok(mut connection) = handshake(stream).await else { return };
    while let Some(Ok((_, respond))) = connection.accept().await {
        answer(respond);
    }
}

async fn dying(
    stream: TcpStream,
    death: Death,
    first: oneshot::Sender<()>,
    dies: oneshot::Receiver<()>,
) {
    if let Death::Reset = death {
        // What closes it then resets it.
        stream.set_zero_linger().unwrap();
    }
    let mut connection = handshake(stream).await.unwrap();
    let (_, respond) = connection.accept().await.unwrap().unwrap();
    answer(respond);
    let (_, respond) = connection.accept().await.unwrap().unwrap();
    first.send(()).unwrap();
    tokio::select! {
        further = connection.accept() => panic!("one stream is all there is: {further:?}"),
        died = dies => died.unwrap(),
    }
    match death {
        Death::Fin | Death::Reset => {}
        Death::Silence => {
            let mut unanswered = vec![respond];
            while let Some(Ok((_, respond))) = connection.accept().await {
                unanswered.push(respond);
            }
        }
        Death::GoAway => {
            connection.graceful_shutdown();
            answer(respond);
            while let Some(Ok(_)) = connection.accept().await {}
        }
    }
}
