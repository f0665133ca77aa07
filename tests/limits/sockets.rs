//! The limits, reqwest's own and a slow inner middleware, over real sockets: which of them ends the
//! call, and when.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Client, Request, Response};
use reqwest_middleware::{ClientBuilder, Middleware, Next, Result};
use reqwest_typed_retry::{ReplayBody, RetryErrorExt as _, RetryMiddleware, RetryRequestExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::held_clock::in_time;
use super::transit::Transit;
use super::{Back, ms, waiting};

/// Each of ours, when it is set.
const OURS: u64 = 1_000;
/// Of two attempts, so that the worst case of attempts is [`TWO_ATTEMPTS`].
const WAIT: u64 = 100;
const TWO_ATTEMPTS: u64 = OURS + WAIT + OURS;

const SHORTER: u64 = 400;
const LONGER: u64 = 3_000;
const TWO_SHORTER: u64 = SHORTER + WAIT + SHORTER;

/// A body comes byte by byte, for longer than any limit of ours, but with short pauses.
const BODY: &[u8] = b"trickles";
const PAUSE: u64 = 300;
const WHOLE_BODY: u64 = BODY.len() as u64 * PAUSE;

/// What the server does.
#[derive(Clone, Copy, Debug)]
enum Server {
    /// It takes no connection.
    Deaf,
    /// It reads each request, and never answers.
    Silent,
    /// It answers after so long, head and body at once.
    SlowHead(u64),
    /// The head comes at once, the body in pieces, with this pause before each.
    SlowBody(u64),
}

/// What sets a limit besides us, or takes time.
#[derive(Clone, Copy, Debug)]
enum Theirs {
    Nothing,
    Client(u64),
    Request(u64),
    Read(u64),
    Connect(u64),
    /// An inner middleware sleeps so long before it sends.
    Inner(u64),
    /// A body factory takes so long.
    Factory(u64),
    /// The body is read inside the attempt.
    Buffer,
}

#[derive(Debug, PartialEq)]
enum Came {
    /// All of the body.
    Whole,
    /// A head; and of its body reqwest's own error, a timeout.
    Cut,
    /// reqwest's error of a connection that did not come about in time.
    ConnectTimeout,
    Timeout,
    HeadTimeout,
    Deadline,
}

/// When the call ended, what came back, how many requests the server has read.
type Cell = (u64, Came, usize);

struct Row {
    theirs: Theirs,
    server: Server,
    attempt_timeout: Cell,
    head_timeout: Cell,
    deadline: Cell,
}

fn rows() -> Vec<Row> {
    use Came::{ConnectTimeout, Cut, Deadline, HeadTimeout, Timeout, Whole};
    use Server::{Deaf, Silent, SlowBody, SlowHead};
    use Theirs::{Buffer, Connect, Factory, Inner, Nothing, Read};
    let row = |theirs, server, attempt_timeout, head_timeout, deadline| Row {
        theirs,
        server,
        attempt_timeout,
        head_timeout,
        deadline,
    };
    // What each of ours does to a silent server, if nothing else is in the way.
    let attempts = || (TWO_ATTEMPTS, Timeout, 2);
    let heads = || (TWO_ATTEMPTS, HeadTimeout, 2);
    let call = || (OURS, Deadline, 1);
    let reqwests = || (TWO_SHORTER, Timeout, 2);
    let whole = || (WHOLE_BODY, Whole, 1);
    vec![
        // Ours alone.
        row(Nothing, Silent, attempts(), heads(), call()),
        row(
            Nothing,
            Deaf,
            (TWO_ATTEMPTS, Timeout, 0),
            (TWO_ATTEMPTS, HeadTimeout, 0),
            (OURS, Deadline, 0),
        ),
        row(Nothing, SlowHead(600), (600, Whole, 1), (600, Whole, 1), (600, Whole, 1)),
        row(Nothing, SlowHead(LONGER), attempts(), heads(), call()),
        row(Nothing, SlowBody(PAUSE), (OURS, Cut, 1), whole(), whole()),
        row(Buffer, SlowBody(PAUSE), attempts(), whole(), call()),
        // The client's timeout: an attempt timeout takes its place, even where it is shorter.
        row(Theirs::Client(SHORTER), Silent, attempts(), reqwests(), reqwests()),
        row(Theirs::Client(LONGER), Silent, attempts(), heads(), call()),
        row(
            Theirs::Client(SHORTER),
            SlowBody(PAUSE),
            (OURS, Cut, 1),
            (SHORTER, Cut, 1),
            (SHORTER, Cut, 1),
        ),
        // The request's: the shorter one holds.
        row(Theirs::Request(SHORTER), Silent, reqwests(), reqwests(), reqwests()),
        row(Theirs::Request(LONGER), Silent, attempts(), heads(), call()),
        row(
            Theirs::Request(SHORTER),
            SlowBody(PAUSE),
            (SHORTER, Cut, 1),
            (SHORTER, Cut, 1),
            (SHORTER, Cut, 1),
        ),
        // A read timeout runs before the head too, and then from piece to piece.
        row(Read(SHORTER), Silent, reqwests(), reqwests(), reqwests()),
        row(Read(LONGER), Silent, attempts(), heads(), call()),
        row(Read(SHORTER), SlowBody(PAUSE), (OURS, Cut, 1), whole(), whole()),
        row(
            Read(SHORTER),
            SlowBody(SHORTER + PAUSE),
            (SHORTER, Cut, 1),
            (SHORTER, Cut, 1),
            (SHORTER, Cut, 1),
        ),
        // A connect timeout ends with the connection.
        row(
            Connect(SHORTER),
            Deaf,
            (TWO_SHORTER, ConnectTimeout, 0),
            (TWO_SHORTER, ConnectTimeout, 0),
            (TWO_SHORTER, ConnectTimeout, 0),
        ),
        row(
            Connect(LONGER),
            Deaf,
            (TWO_ATTEMPTS, Timeout, 0),
            (TWO_ATTEMPTS, HeadTimeout, 0),
            (OURS, Deadline, 0),
        ),
        row(Connect(SHORTER), Silent, attempts(), heads(), call()),
        // What happens before reqwest has the request is no part of an attempt timeout.
        row(Inner(SHORTER), Silent, (TWO_ATTEMPTS + 2 * SHORTER, Timeout, 2), heads(), call()),
        row(
            Inner(LONGER),
            Silent,
            (TWO_ATTEMPTS + 2 * LONGER, Timeout, 2),
            (TWO_ATTEMPTS, HeadTimeout, 0),
            (OURS, Deadline, 0),
        ),
        row(Factory(SHORTER), Silent, (TWO_ATTEMPTS + 2 * SHORTER, Timeout, 2), heads(), call()),
    ]
}

#[tokio::test(start_paused = true)]
async fn of_all_limits_the_one_that_holds_ends_the_call_to_the_millisecond() {
    for Row { theirs, server, attempt_timeout, head_timeout, deadline } in rows() {
        for (ours, expected) in [
            (Ours::AttemptTimeout, attempt_timeout),
            (Ours::HeadTimeout, head_timeout),
            (Ours::Deadline, deadline),
        ] {
            let got = call(ours, theirs, server).await;
            assert_eq!(got, expected, "{ours:?}, {theirs:?}, {server:?}");
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Ours {
    AttemptTimeout,
    HeadTimeout,
    Deadline,
}

async fn call(ours: Ours, theirs: Theirs, server: Server) -> Cell {
    let transit = Transit::default();
    let served = Served::start(server, transit.clone()).await;

    let policy = waiting(ms(WAIT)).max_attempts(2);
    let policy = match ours {
        Ours::AttemptTimeout => policy.attempt_timeout(ms(OURS)),
        Ours::HeadTimeout => policy.head_timeout(ms(OURS)),
        Ours::Deadline => policy.deadline(ms(OURS)),
    };
    let http = Client::builder().no_proxy();
    let http = match theirs {
        Theirs::Client(limit) => http.timeout(ms(limit)),
        Theirs::Read(limit) => http.read_timeout(ms(limit)),
        Theirs::Connect(limit) => http.connect_timeout(ms(limit)),
        _ => http,
    };
    let retry = RetryMiddleware::builder(policy.build().unwrap());
    let retry = match theirs {
        Theirs::Buffer => retry.buffer_body(1_024),
        _ => retry,
    };
    let client = ClientBuilder::new(http.build().unwrap()).with(retry.build().unwrap());
    let client = match theirs {
        Theirs::Inner(time) => client.with(SlowInner(ms(time))),
        _ => client,
    };
    let client = match server {
        Server::Deaf => client, // nothing ever gets through
        _ => client.with(transit),
    };
    let request = client.build().get(format!("http://{}/", served.address));
    let request = match theirs {
        Theirs::Request(limit) => request.timeout(ms(limit)),
        Theirs::Factory(time) => request.body_factory(move || async move {
            sleep(ms(time)).await;
            Ok(ReplayBody::new(""))
        }),
        _ => request,
    };

    let started = Instant::now();
    let call = async { came(request.send().await).await };
    let came = in_time(call).await;
    let after = u64::try_from(started.elapsed().as_micros()).unwrap();
    assert_eq!(after % 1_000, 0, "timers are exact");
    (after / 1_000, came, served.requests.load(Ordering::SeqCst))
}

async fn came(result: Result<Response>) -> Came {
    match Back::of(&result) {
        Back::Status(200) => match result.unwrap().bytes().await {
            Ok(bytes) => {
                assert_eq!(bytes, BODY);
                Came::Whole
            }
            Err(error) => {
                assert!(error.is_timeout() && error.is_decode(), "{error:?}");
                Came::Cut
            }
        },
        Back::Timeout => {
            let error = result.unwrap_err();
            assert!(error.timed_out() && error.retry_error().is_none());
            if error.is_connect() { Came::ConnectTimeout } else { Came::Timeout }
        }
        Back::HeadTimeout => Came::HeadTimeout,
        Back::Deadline => Came::Deadline,
        other => panic!("{other:?}"),
    }
}

struct SlowInner(Duration);

#[async_trait]
impl Middleware for SlowInner {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        sleep(self.0).await;
        next.run(request, extensions).await
    }
}

struct Served {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    _connections: JoinSet<()>,
}

impl Served {
    async fn start(server: Server, transit: Transit) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let requests = Arc::<AtomicUsize>::default();
        let mut connections = JoinSet::new();
        let address = socket.local_addr().unwrap();
        if let Server::Deaf = server {
            // It has room for one connection, and that is taken.
            let listener = socket.listen(0).unwrap();
            let first = TcpStream::connect(address).await.unwrap();
            connections.spawn(async move {
                std::future::pending::<()>().await;
                drop((listener, first));
            });
        } else {
            let listener = socket.listen(16).unwrap();
            connections.spawn(accept(listener, server, transit, requests.clone()));
        }
        Self { address, requests, _connections: connections }
    }
}

async fn accept(
    listener: TcpListener,
    server: Server,
    transit: Transit,
    requests: Arc<AtomicUsize>,
) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (transit, requests) = (transit.clone(), requests.clone());
        connections.spawn(async move {
            // The client may leave at any time: its own business.
            let _ = serve(stream, server, &transit, &requests).await;
        });
    }
}

/// One request, a GET, and what becomes of it.
async fn serve(
    mut stream: TcpStream,
    server: Server,
    transit: &Transit,
    requests: &AtomicUsize,
) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut request).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    requests.fetch_add(1, Ordering::SeqCst);
    let attempt = transit.live();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", BODY.len());
    match server {
        Server::Deaf | Server::Silent => transit.end(),
        Server::SlowHead(time) => {
            transit.end();
            sleep(ms(time)).await;
            if transit.begin_answer(attempt) {
                stream.write_all(&[head.as_bytes(), BODY].concat()).await?;
            }
        }
        Server::SlowBody(pause) => {
            stream.write_all(head.as_bytes()).await?;
            for piece in BODY.chunks(1) {
                sleep(ms(pause)).await;
                if !transit.begin_answer(attempt) {
                    break;
                }
                stream.write_all(piece).await?;
            }
        }
    }
    // It keeps the connection as long as the client does.
    stream.read_to_end(&mut request).await?;
    Ok(())
}
