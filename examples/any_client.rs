//! The same policy with another client: ureq, which blocks its thread.
//!
//! `RetrySession` counts the attempts of a request and asks the policy after each one; it sends nothing, waits for
//! nothing and reads no clock. What does that is `Client::send` here, the part to copy: a loop without a runtime,
//! and `fault`, which says what an error of ureq's proves.
//!
//! What it shows, each with a server on loopback that counts what it did:
//!
//! - a server's delay is waited for; an attempt that takes too long, and a body that is cut, are sent again;
//! - a POST is sent again after a refused connection, which proves that nobody got it; after a connection that died
//!   without an answer it is not, unless it carries a key that the server honours.
//!
//! Run it: `cargo run --example any_client`. It ends by itself in about 3 seconds; the exit code is 0 only if all went
//! as described. Some of what it prints:
//!
//! ```text
//! A POST whose connection is refused
//!   attempt 1: connect (seems not processed) -> retry in 73.58ms (set by the backoff): connect
//!   attempt 2: status 201 -> stop: completed
//!   end: 201 "ordered"; requests at the server: 1, orders: 1
//!   ok
//! ```

use std::collections::HashSet;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::ensure;
use http::{Request, Response, StatusCode};
use reqwest_typed_retry::{
    Attempt, Fault, FaultKind, KeyFormat, Outcome, RetryDecision, RetryPolicy, RetrySession,
    StopReason, fault_source,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

// What an application does.

/// A client that blocks, under a policy.
struct Client {
    agent: ureq::Agent,
    policy: RetryPolicy,
}

impl Client {
    fn new(policy: RetryPolicy) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false) // a status is no error: the policy looks at its fields
            // With these two an attempt is one exchange with one server, so that how it ends proves something.
            .max_redirects(0)
            .proxy(None)
            .timeout_connect(Some(Duration::from_secs(3)))
            .build();
        Self { agent: config.into(), policy }
    }

    /// Sends it as often as the policy says, and returns the last outcome as it is. `told` hears of each attempt,
    /// before the wait.
    fn send(
        &self,
        mut request: Request<Vec<u8>>,
        mut told: impl FnMut(&Attempt<'_>, RetryDecision),
    ) -> Result<Response<Vec<u8>>, ureq::Error> {
        let mut rng = rand::rng();
        // Once, before the first send: the key of all attempts.
        let key = self.policy.new_idempotency_key(request.method(), request.headers(), &mut rng);
        if let Some((field, key)) = key {
            request.headers_mut().insert(field, key.as_value().clone());
        }
        let class = self.policy.method_class(request.method(), request.headers());
        let mut session = RetrySession::new(self.policy.clone(), class);
        let started = Instant::now();
        loop {
            let result = self.send_once(&request, started.elapsed());
            let outcome = match &result {
                Ok(answer) => {
                    Outcome::response_with_body(answer.status(), answer.headers(), answer.body())
                }
                Err(Failure { fault, error }) => Outcome::error(*fault, error),
            };
            let attempt = session
                .attempt_ended(request.method(), outcome, SystemTime::now())
                .with_target(request.uri().host().unwrap_or(""), request.uri().path())
                .with_elapsed(started.elapsed())
                .with_sole_exchange(true); // no redirects, no proxy: see `Client::new`
            let decision = session.decide(&attempt, &mut rng);
            told(&attempt, decision);
            match decision.delay() {
                Some(delay) => thread::sleep(delay),
                None => return result.map_err(|failure| failure.error),
            }
        }
    }

    /// The body is part of the attempt: one that is cut is an outcome like any other.
    fn send_once(
        &self,
        request: &Request<Vec<u8>>,
        elapsed: Duration,
    ) -> Result<Response<Vec<u8>>, Failure> {
        let time_left = self.policy.deadline().map(|deadline| deadline.saturating_sub(elapsed));
        let limit = self.policy.attempt_timeout().into_iter().chain(time_left).min();
        let request = self.agent.configure_request(request.clone()).timeout_global(limit).build();
        let sent = if request.body().is_empty() {
            self.agent.run(request.map(|_| ()))
        } else {
            self.agent.run(request)
        };
        let (head, mut body) = sent.map_err(Failure::of_exchange)?.into_parts();
        let body = body.read_to_vec().map_err(Failure::of_body)?;
        Ok(Response::from_parts(head, body))
    }
}

/// An attempt without a whole response.
struct Failure {
    fault: Fault,
    error: ureq::Error,
}

impl Failure {
    fn of_exchange(error: ureq::Error) -> Self {
        Self { fault: fault(&error), error }
    }

    /// The head was there: whatever happens now, the server has acted.
    fn of_body(error: ureq::Error) -> Self {
        let kind = match fault(&error).kind() {
            FaultKind::Timeout => FaultKind::Timeout,
            FaultKind::ConnectionLost | FaultKind::Protocol => FaultKind::Body,
            other => other,
        };
        Self { fault: Fault::unknown(kind), error }
    }
}

/// What an error of ureq's says. Only what ends before there is a connection proves that nothing was sent; every
/// other one may come after the server has acted.
fn fault(error: &ureq::Error) -> Fault {
    use ureq::{Error, Timeout};

    match error {
        Error::HostNotFound | Error::Timeout(Timeout::Resolve) => {
            Fault::not_processed(FaultKind::Dns)
        }
        // A resolver's error is an `Io` as well, of no kind that would tell it.
        Error::ConnectionFailed | Error::Timeout(Timeout::Connect) => {
            Fault::not_processed(FaultKind::Connect)
        }
        // A connection that is established can't be refused any more: it is reset.
        Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Fault::not_processed(FaultKind::Connect)
        }
        Error::Io(error) => Fault::unknown(fault_source::classify(error).kind()),
        Error::Timeout(_) => Fault::unknown(FaultKind::Timeout),
        Error::Protocol(_) | Error::LargeResponseHeader(..) => Fault::unknown(FaultKind::Protocol),
        Error::Tls(_) => Fault::unknown(FaultKind::Tls),
        Error::Http(_) | Error::BadUri(_) | Error::RequireHttpsOnly(_) => {
            Fault::unknown(FaultKind::Invalid)
        }
        _ => Fault::unknown(FaultKind::Other), // not sent again
    }
}

// What shows that it works.

fn run() -> anyhow::Result<()> {
    let policy = RetryPolicy::builder()
        .attempt_timeout(Duration::from_secs(1))
        .deadline(Duration::from_secs(10)) // whatever goes wrong, this does not hang
        .build()?;
    let keyed = policy.to_builder().generate_idempotency_keys(KeyFormat::Bare).build()?;
    let runtime = Runtime::new()?; // the server's; the client has none
    let mut scenes = Scenes { runtime, failed: 0 };
    let client = Client::new(policy);

    println!("A server that asks for a second");
    scenes.get(&client, &[Reply::BusyFor(1), Reply::Answer(200, "a report")], |sent| {
        sent.end == "200 \"a report\"" && sent.waited >= Duration::from_secs(1)
    })?;

    println!("A server that never answers, until the attempt's time limit");
    scenes.get(&client, &[Reply::Silence, Reply::Answer(200, "a report")], |sent| {
        sent.end == "200 \"a report\"" && sent.faults == [Fault::unknown(FaultKind::Timeout)]
    })?;

    println!("A body that is cut");
    scenes.get(&client, &[Reply::Cut("half of a"), Reply::Answer(200, "a report")], |sent| {
        sent.end == "200 \"a report\"" && sent.faults == [Fault::unknown(FaultKind::Body)]
    })?;

    println!("A POST whose connection is refused");
    let refused = Fault::not_processed(FaultKind::Connect);
    scenes.order(&client, Door::OpensLater, &[Reply::Answer(201, "ordered")], |sent| {
        sent.end == "201 \"ordered\"" && sent.faults == [refused] && sent.orders == 1
    })?;

    println!("A POST whose connection dies");
    let lost = Fault::unknown(FaultKind::ConnectionLost);
    scenes.order(&client, Door::Open, &[Reply::HangUp], |sent| {
        let sent_once = sent.faults == [lost] && sent.stop == Some(StopReason::NotIdempotent);
        sent.end.starts_with("io:") && sent_once && sent.orders == 1
    })?;

    println!("A POST whose connection dies, with an idempotency key");
    let replies = [Reply::HangUp, Reply::Answer(201, "ordered")];
    scenes.order(&Client::new(keyed), Door::Open, &replies, |sent| {
        sent.end == "201 \"ordered\"" && sent.faults == [lost] && sent.orders == 1
    })?;

    ensure!(scenes.failed == 0, "{} of 6 did not go as described", scenes.failed);
    println!("All 6 went as described.");
    Ok(())
}

struct Scenes {
    runtime: Runtime,
    failed: u32,
}

/// What became of a request.
#[derive(Default)]
struct Sent {
    end: String,
    faults: Vec<Fault>,
    waited: Duration,
    stop: Option<StopReason>,
    orders: usize,
}

#[derive(PartialEq)]
enum Door {
    Open,
    /// From the first wait on.
    OpensLater,
}

impl Scenes {
    fn get(
        &mut self,
        client: &Client,
        replies: &[Reply],
        is_right: impl Fn(&Sent) -> bool,
    ) -> anyhow::Result<()> {
        let get = Request::get("/").body(Vec::new())?;
        self.play(client, get, Door::Open, replies, |sent| is_right(sent) && sent.orders == 0)
    }

    fn order(
        &mut self,
        client: &Client,
        door: Door,
        replies: &[Reply],
        is_right: impl Fn(&Sent) -> bool,
    ) -> anyhow::Result<()> {
        let order = Request::post("/").body(b"a teapot".to_vec())?;
        self.play(client, order, door, replies, is_right)
    }

    fn play(
        &mut self,
        client: &Client,
        mut request: Request<Vec<u8>>,
        door: Door,
        replies: &[Reply],
        is_right: impl Fn(&Sent) -> bool,
    ) -> anyhow::Result<()> {
        let mut server = Server::bind(replies)?;
        *request.uri_mut() = format!("http://{}/", server.address).parse()?;
        if door == Door::Open {
            server.open(&self.runtime)?;
        }
        let mut sent = Sent::default();
        let mut failed_to_open = None;
        let result = client.send(request, |attempt, decision| {
            print_attempt(attempt, decision);
            if let Outcome::Fault { fault, .. } = attempt.outcome() {
                sent.faults.push(fault);
            }
            sent.waited += decision.delay().unwrap_or_default();
            sent.stop = decision.stop_reason();
            failed_to_open = failed_to_open.take().or(server.open(&self.runtime).err());
        });
        if let Some(error) = failed_to_open {
            return Err(error.into());
        }
        sent.end = match result {
            Ok(answer) => {
                let body = String::from_utf8_lossy(answer.body());
                format!("{} {body:?}", answer.status().as_u16())
            }
            Err(error) => error.to_string(),
        };
        let (requests, orders) = server.seen();
        sent.orders = orders;
        println!("  end: {}; requests at the server: {requests}, orders: {orders}", sent.end);
        let is_right = is_right(&sent) && requests == replies.len();
        println!("  {}\n", if is_right { "ok" } else { "FAILED" });
        self.failed += u32::from(!is_right);
        Ok(())
    }
}

fn print_attempt(attempt: &Attempt<'_>, decision: RetryDecision) {
    let came_back = match attempt.outcome() {
        Outcome::Fault { fault, .. } => fault.to_string(),
        outcome => format!("status {}", outcome.status().map_or(0, |status| status.as_u16())),
    };
    println!("  attempt {}: {came_back} -> {decision}", attempt.number());
}

// What stands in for a service.

/// What the server does with one request.
#[derive(Clone, Copy)]
enum Reply {
    Answer(u16, &'static str),
    /// 503 with `Retry-After` in seconds.
    BusyFor(u64),
    /// Nothing, and the connection stays.
    Silence,
    /// A body shorter than its length says.
    Cut(&'static str),
    /// Nothing: the connection dies.
    HangUp,
}

impl Reply {
    fn response(self) -> Option<String> {
        let head = |status: u16, length: usize, more: &str| {
            let length = format!("content-length: {length}\r\n");
            format!("HTTP/1.1 {status} \r\n{length}{more}connection: close\r\n\r\n")
        };
        match self {
            Self::Answer(status, body) => Some(head(status, body.len(), "") + body),
            Self::BusyFor(seconds) => {
                let status = StatusCode::SERVICE_UNAVAILABLE.as_u16();
                Some(head(status, 0, &format!("retry-after: {seconds}\r\n")))
            }
            Self::Cut(body) => Some(head(200, body.len() + 9, "") + body),
            Self::Silence | Self::HangUp => None,
        }
    }
}

/// What the server has had and done.
#[derive(Default)]
struct Book {
    requests: usize,
    orders: usize,
    /// Of the orders that had one.
    keys: HashSet<String>,
}

struct Server {
    address: SocketAddr,
    /// Until it listens, connections to its port are refused.
    closed: Option<TcpSocket>,
    replies: Arc<[Reply]>,
    book: Arc<Mutex<Book>>,
}

impl Server {
    fn bind(replies: &[Reply]) -> anyhow::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?; // the system picks the port
        let (address, replies) = (socket.local_addr()?, replies.into());
        Ok(Self { address, closed: Some(socket), replies, book: Arc::default() })
    }

    fn open(&mut self, runtime: &Runtime) -> io::Result<()> {
        let Some(socket) = self.closed.take() else { return Ok(()) };
        let _runtime = runtime.enter();
        let listener = socket.listen(16)?;
        runtime.spawn(accept(listener, Arc::clone(&self.replies), Arc::clone(&self.book)));
        Ok(())
    }

    /// How many requests it has had, and how many orders it has taken.
    fn seen(&self) -> (usize, usize) {
        let book = lock(&self.book);
        (book.requests, book.orders)
    }
}

async fn accept(listener: TcpListener, replies: Arc<[Reply]>, book: Arc<Mutex<Book>>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, Arc::clone(&replies), Arc::clone(&book)));
    }
}

/// One connection: one request, which takes effect whatever comes back; one response, or none.
async fn serve(
    mut stream: TcpStream,
    replies: Arc<[Reply]>,
    book: Arc<Mutex<Book>>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let head = read_request(&mut stream).await?;
    let reply = lock(&book).take(&head, &replies);
    if let Some(Reply::Silence) = reply {
        stream.read_to_end(&mut Vec::new()).await?; // until the client goes
    }
    if let Some(response) = reply.and_then(Reply::response) {
        stream.write_all(response.as_bytes()).await?;
    }
    Ok(stream.shutdown().await?)
}

impl Book {
    fn take(&mut self, head: &str, replies: &[Reply]) -> Option<Reply> {
        let reply = replies.get(self.requests).copied();
        self.requests += 1;
        let key = field(head, "idempotency-key");
        let is_new = key.is_none_or(|key| self.keys.insert(key.to_owned()));
        self.orders += usize::from(head.starts_with("POST ") && is_new);
        reply
    }
}

/// The head of a request that has come whole.
async fn read_request(stream: &mut TcpStream) -> io::Result<String> {
    let (mut reader, mut head) = (BufReader::new(stream), String::new());
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let length = field(&head, "content-length").and_then(|digits| digits.parse().ok());
    reader.take(length.unwrap_or(0)).read_to_end(&mut Vec::new()).await?;
    Ok(head)
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.find_map(|(field, value)| field.eq_ignore_ascii_case(name).then_some(value))
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}
