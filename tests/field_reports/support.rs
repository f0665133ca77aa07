//! Policies without waits, clients, and servers that count.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_typed_retry::test_util::{Script, seeded_jitter};
use reqwest_typed_retry::{
    Attempt, Backoff, Outcome, RetryDecision, RetryHistory, RetryMiddleware, RetryPolicy,
    RetryPolicyBuilder, StopReason,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The attempt timeout for a server that never answers, and for no other: long enough for it to have
/// read the request on a busy machine.
pub(crate) const HANGING: Duration = Duration::from_secs(3);

// Policies and clients

/// The defaults, but no wait of the client's own.
pub(crate) fn no_waits() -> RetryPolicyBuilder {
    constant_waits(Duration::ZERO)
}

/// The defaults, but every wait of the client's own is this one.
pub(crate) fn constant_waits(delay: Duration) -> RetryPolicyBuilder {
    RetryPolicy::builder()
        .backoff(Backoff::constant(delay))
        .throttle_backoff(Backoff::constant(delay))
        .jitter(reqwest_typed_retry::Jitter::None)
}

/// A client for servers of the test's own, whatever the environment says of proxies.
pub(crate) fn http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

pub(crate) fn client(policy: RetryPolicyBuilder) -> ClientWithMiddleware {
    chain(policy).build()
}

/// The retry, for a chain that goes on.
pub(crate) fn chain(policy: RetryPolicyBuilder) -> ClientBuilder {
    ClientBuilder::new(http()).with(RetryMiddleware::new(policy.build().unwrap()))
}

/// A client without a socket: the script answers.
pub(crate) fn scripted(policy: RetryPolicyBuilder, script: &Script) -> ClientWithMiddleware {
    let retry = RetryMiddleware::builder(policy.build().unwrap())
        .generator(seeded_jitter(7))
        .build()
        .unwrap();
    ClientBuilder::new(http()).with(retry).with(script.clone()).build()
}

pub(crate) const SCRIPTED: &str = "http://service.test/";

/// The waits between the requests that the script received.
pub(crate) fn waits(script: &Script) -> Vec<Duration> {
    let received = script.received();
    received.windows(2).map(|pair| pair[1].at - pair[0].at).collect()
}

pub(crate) fn history(response: &Response) -> RetryHistory {
    let history = response.extensions().get::<RetryHistory>();
    history.expect("there is something to tell").clone()
}

pub(crate) fn stop_reason(response: &Response) -> Option<StopReason> {
    Some(history(response).stop_reason())
}

// Decisions

pub(crate) fn fields<V: AsRef<[u8]>>(
    rows: impl IntoIterator<Item = (&'static str, V)>,
) -> HeaderMap {
    let rows = rows.into_iter().map(|(name, value)| {
        let value = HeaderValue::from_bytes(value.as_ref()).unwrap();
        (HeaderName::from_static(name), value)
    });
    rows.collect()
}

/// The decision on the first attempt of a request that got this response.
pub(crate) fn decide(
    policy: &RetryPolicy,
    method: &Method,
    status: StatusCode,
    headers: &HeaderMap,
    now: SystemTime,
) -> RetryDecision {
    let class = policy.method_class(method, &HeaderMap::new());
    let outcome = Outcome::response(status, headers);
    let attempt = Attempt::new(1, class, method, outcome, now);
    policy.decide(&attempt, &mut seeded_jitter(7))
}

// Inner middlewares

/// An inner middleware that sees, and may change, each request before it is sent.
pub(crate) struct BeforeSend<F>(pub(crate) F);

#[async_trait]
impl<F> Middleware for BeforeSend<F>
where
    F: Fn(&mut Request, &mut Extensions) + Send + Sync + 'static,
{
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        (self.0)(&mut request, extensions);
        next.run(request, extensions).await
    }
}

/// An inner middleware that sees, and may replace, the outcome of each send.
pub(crate) struct AfterSend<F>(pub(crate) F);

#[async_trait]
impl<F> Middleware for AfterSend<F>
where
    F: Fn(Result<Response>) -> Result<Response> + Send + Sync + 'static,
{
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        (self.0)(next.run(request, extensions).await)
    }
}

// Servers

pub(crate) fn reply(status: u16) -> ResponseTemplate {
    ResponseTemplate::new(status)
}

/// A server that gives these answers one after the other, and the last one again and again.
pub(crate) async fn server<const N: usize>(replies: [ResponseTemplate; N]) -> MockServer {
    let server = MockServer::start().await;
    let served = AtomicUsize::new(0);
    Mock::given(matchers::any())
        .respond_with(move |_: &wiremock::Request| {
            let at = served.fetch_add(1, Ordering::SeqCst);
            replies[at.min(N - 1)].clone()
        })
        .mount(&server)
        .await;
    server
}

/// The requests that the server counted.
pub(crate) async fn requests(server: &MockServer) -> Vec<wiremock::Request> {
    server.received_requests().await.unwrap()
}

/// An address where nobody listens, for as long as it is held.
pub(crate) struct RefusedPort {
    socket: TcpSocket,
}

impl RefusedPort {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        Self { socket }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.socket.local_addr().unwrap())
    }
}

/// What a [`WireServer`] does with a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Reads the request, writes these bytes and closes.
    Write(&'static str),
    /// Reads the request and never answers.
    Hang,
    /// Reads the request and resets the connection.
    Reset,
    /// Closes at the first bytes, whatever they are.
    Close,
}

/// Closes without a word.
pub(crate) const CUT: Act = Act::Write("");
pub(crate) const CREATED: Act =
    Act::Write("HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
pub(crate) const UNAVAILABLE: Act =
    Act::Write("HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
pub(crate) const HALF_A_HEAD: Act = Act::Write("HTTP/1.1 200 OK\r\nContent-Len");

/// A server for what a well-behaved one doesn't do. It serves one connection after the other, one
/// request each, so that its count is exact.
pub(crate) struct WireServer {
    address: SocketAddr,
    task: JoinHandle<Seen>,
}

/// What a [`WireServer`] has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) connections: usize,
    /// Those that arrived whole.
    pub(crate) requests: usize,
}

const STOP: &[u8] = b"STOP / HTTP/1.1\r\n\r\n";

impl WireServer {
    /// These acts, one a connection; the last one again and again.
    pub(crate) async fn start(acts: &[Act]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(serve(listener, acts.to_vec()));
        Self { address, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(crate) fn https_url(&self) -> String {
        format!("https://{}/", self.address)
    }

    /// What it has seen, once it is through with everything that was sent before this call.
    pub(crate) async fn finish(self) -> Seen {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(STOP).await.unwrap();
        self.task.await.unwrap()
    }
}

async fn serve(listener: TcpListener, acts: Vec<Act>) -> Seen {
    let mut seen = Seen::default();
    let mut hanging = Vec::new();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let act = acts[seen.connections.min(acts.len() - 1)];
        let request = read_request(&mut stream, act).await;
        if request == STOP {
            return seen;
        }
        seen.connections += 1;
        seen.requests += usize::from(is_whole(&request));
        match act {
            Act::Close => {}
            Act::Reset => stream.set_zero_linger().unwrap(),
            Act::Hang => hanging.push(stream),
            Act::Write(answer) => {
                // The client may be gone.
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        }
    }
}

/// What the client sends: its request, unless it leaves before; or its first bytes, for an act that
/// waits for no more.
async fn read_request(stream: &mut TcpStream, act: Act) -> Vec<u8> {
    let mut request = Vec::new();
    while !is_whole(&request) {
        match stream.read_buf(&mut request).await {
            Ok(0) | Err(_) => break,
            Ok(_) if matches!(act, Act::Close) => break,
            Ok(_) => {}
        }
    }
    request
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
    });
    body.len() >= length.unwrap_or(0)
}
