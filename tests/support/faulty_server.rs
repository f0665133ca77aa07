//! Servers that act, and fail in every way they can. What becomes of a request is the witness's choice,
//! and it is told of every effect.
//!
//! They know nothing of the crate, so that they judge any client alike.

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// An address where nobody listens.
pub(crate) const NOBODY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// The head of a request for an operation: `/op/17`.
pub(crate) struct Arrival {
    pub(crate) protocol: Protocol,
    pub(crate) operation: usize,
    #[allow(dead_code, reason = "not every witness asks")]
    pub(crate) method: String,
    pub(crate) headers: HeaderMap,
}

/// Decides what happens, and keeps the record of it.
pub(crate) trait Witness: Send + Sync + 'static {
    /// A request has arrived: what becomes of it.
    fn fate(&self, arrival: &Arrival) -> Fate;

    /// The request takes effect.
    fn act(&self, arrival: &Arrival);

    /// Whether the next connection meets this, with a chance of one in `odds`.
    fn connection_meets(&self, odds: usize) -> bool;

    /// A connection was closed before a request was read.
    fn closed_unread(&self) {}
}

/// What a server does with a request that it has begun to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "each test has its own choice")]
pub(crate) enum Fate {
    Served,
    ServedSlowly,
    ServedAtLength,
    BusyBeforeActing,
    BusyAfterActing,
    /// With a body that is worth a drain.
    BusyAtLength,
    /// With a delay.
    BusyForAWhile,
    Rejected,
    /// With a delay.
    RejectedForAWhile,
    Silent,
    /// Half of a body comes, and then the end.
    CutBody,
    /// Half of a body comes, and then silence.
    StalledBody,
    // Over HTTP/1.1
    CutWhileReading,
    CutAfterReading,
    CutAfterActing,
    ResetAfterActing,
    HalfAResponse,
    RedirectedToNobody,
    RedirectedToRejection,
    // Over HTTP/2
    Refused,
    CancelledAfterActing,
    FailedAfterActing,
    ShutDownGracefully,
    DroppedAfterActing,
}

/// How long a slow answer takes.
const SLOWLY: Duration = Duration::from_millis(60);
/// How long a server asks to be left alone, in milliseconds.
const A_WHILE: &str = "100";

/// The answer of a fate that has one.
struct Answer {
    status: StatusCode,
    fields: Vec<(HeaderName, HeaderValue)>,
    body: &'static [u8],
}

impl Fate {
    /// Whether the request takes effect, where it is read whole.
    fn acts(self) -> bool {
        !matches!(self, Self::BusyBeforeActing | Self::Rejected | Self::RejectedForAWhile)
    }

    fn answer(self, own: SocketAddr, operation: usize) -> Answer {
        let field = |name: &'static str, value: &str| {
            (HeaderName::from_static(name), HeaderValue::try_from(value).unwrap())
        };
        let (status, fields) = match self {
            Self::BusyForAWhile => (503, vec![field("retry-after-ms", A_WHILE)]),
            Self::BusyBeforeActing | Self::BusyAfterActing | Self::BusyAtLength => (503, vec![]),
            Self::RejectedForAWhile => (429, vec![field("retry-after-ms", A_WHILE)]),
            Self::Rejected => (429, vec![]),
            Self::RedirectedToNobody => {
                let to = format!("http://{NOBODY}:{}/op/{operation}", own.port());
                (307, vec![field("location", &to)])
            }
            Self::RedirectedToRejection => (303, vec![field("location", "/rejected")]),
            _ => (200, vec![]),
        };
        let body: &[u8] = match self {
            Self::ServedAtLength | Self::BusyAtLength | Self::CutBody | Self::StalledBody => {
                &[b'x'; 20_000]
            }
            _ => b"ok",
        };
        Answer { status: StatusCode::from_u16(status).unwrap(), fields, body }
    }
}

/// The server's address, and its task.
pub(crate) async fn start(
    protocol: Protocol,
    witness: Arc<impl Witness>,
) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let witness = witness.clone();
            // Closed or reset before a byte is read.
            if witness.connection_meets(12) {
                witness.closed_unread();
                continue;
            }
            if witness.connection_meets(12) {
                witness.closed_unread();
                stream.set_zero_linger().unwrap();
                continue;
            }
            tokio::spawn(async move {
                // The client may be gone: that is its business.
                match protocol {
                    Protocol::Http1 => drop(serve_http1(stream, address, &*witness).await),
                    Protocol::Http2 => drop(serve_http2(stream, address, witness).await),
                }
            });
        }
    });
    (address, task)
}

/// The operation that a path names.
fn operation(path: &str) -> Option<usize> {
    path.strip_prefix("/op/")?.parse().ok()
}

async fn serve_http1(stream: TcpStream, own: SocketAddr, witness: &impl Witness) -> io::Result<()> {
    let mut stream = BufStream::new(stream);
    loop {
        let mut request_line = String::new();
        if stream.read_line(&mut request_line).await? == 0 {
            return Ok(());
        }
        let Some(headers) = fields(&mut stream).await? else { return Ok(()) };
        let mut words = request_line.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap_or_default());
        let Some(operation) = operation(path) else {
            let rejected = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\n\r\nok";
            stream.write_all(rejected).await?;
            stream.flush().await?;
            continue;
        };
        let method = method.to_owned();
        let arrival = Arrival { protocol: Protocol::Http1, operation, method, headers };
        let fate = witness.fate(&arrival);
        if fate == Fate::CutWhileReading {
            return Ok(());
        }
        read_body(&mut stream, &arrival.headers).await?;
        if fate == Fate::CutAfterReading {
            return Ok(());
        }
        if fate.acts() {
            witness.act(&arrival);
        }
        match fate {
            Fate::CutAfterActing => return Ok(()),
            Fate::ResetAfterActing => return stream.get_ref().set_zero_linger(),
            Fate::Silent => return until_it_has_had_enough(&mut stream).await,
            Fate::HalfAResponse => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-le").await?;
                return stream.flush().await;
            }
            Fate::ServedSlowly => tokio::time::sleep(SLOWLY).await,
            _ => {}
        }
        let Answer { status, fields, body } = fate.answer(own, operation);
        let length = body.len();
        let mut head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n");
        for (name, value) in fields {
            head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).await?;
        let is_half = matches!(fate, Fate::CutBody | Fate::StalledBody);
        stream.write_all(if is_half { &body[..length / 2] } else { body }).await?;
        stream.flush().await?;
        match fate {
            Fate::CutBody => return Ok(()),
            Fate::StalledBody => return until_it_has_had_enough(&mut stream).await,
            _ => {}
        }
    }
}

/// The fields of a head, if all of it comes.
async fn fields(stream: &mut BufStream<TcpStream>) -> io::Result<Option<HeaderMap>> {
    let mut fields = HeaderMap::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let Some((name, value)) = line.split_once(':') else { return Ok(Some(fields)) };
        let name = HeaderName::try_from(name).unwrap();
        fields.insert(name, HeaderValue::try_from(value.trim()).unwrap());
    }
}

async fn read_body(stream: &mut BufStream<TcpStream>, fields: &HeaderMap) -> io::Result<()> {
    if fields.contains_key("transfer-encoding") {
        loop {
            let mut size = String::new();
            if stream.read_line(&mut size).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let size = usize::from_str_radix(size.trim(), 16).unwrap();
            stream.read_exact(&mut vec![0; size + 2]).await?; // with its end of line
            if size == 0 {
                return Ok(());
            }
        }
    }
    let length = fields.get("content-length").map(|value| value.to_str().unwrap());
    let length = length.unwrap_or("0").parse().unwrap();
    stream.read_exact(&mut vec![0; length]).await?;
    Ok(())
}

async fn until_it_has_had_enough(stream: &mut BufStream<TcpStream>) -> io::Result<()> {
    while stream.read(&mut [0; 64]).await? > 0 {}
    Ok(())
}

async fn serve_http2(
    stream: TcpStream,
    own: SocketAddr,
    witness: Arc<impl Witness>,
) -> Result<(), h2::Error> {
    let mut connection = h2::server::handshake(stream).await?;
    while let Some(request) = connection.accept().await {
        let (request, mut respond) = request?;
        let (head, mut body) = request.into_parts();
        let operation = operation(head.uri.path()).unwrap();
        let (method, headers) = (head.method.to_string(), head.headers);
        let arrival = Arrival { protocol: Protocol::Http2, operation, method, headers };
        let fate = witness.fate(&arrival);
        match fate {
            Fate::Refused => {
                respond.send_reset(h2::Reason::REFUSED_STREAM);
                continue;
            }
            Fate::DroppedAfterActing => {
                witness.act(&arrival);
                return Ok(());
            }
            Fate::ShutDownGracefully => connection.graceful_shutdown(),
            _ => {}
        }
        let witness = witness.clone();
        tokio::spawn(async move {
            // A head is enough to act on.
            if fate.acts() {
                witness.act(&arrival);
            }
            while let Some(Ok(chunk)) = body.data().await {
                let _ = body.flow_control().release_capacity(chunk.len());
            }
            // The client may be gone: that is its business.
            drop(answer_http2(respond, fate, fate.answer(own, operation)).await);
        });
    }
    Ok(())
}

async fn answer_http2(
    mut respond: SendResponse<Bytes>,
    fate: Fate,
    answer: Answer,
) -> Result<(), h2::Error> {
    match fate {
        Fate::CancelledAfterActing => {
            respond.send_reset(h2::Reason::CANCEL);
            return Ok(());
        }
        Fate::FailedAfterActing => {
            respond.send_reset(h2::Reason::INTERNAL_ERROR);
            return Ok(());
        }
        Fate::Silent => {
            poll_fn(|cx| respond.poll_reset(cx)).await?;
            return Ok(());
        }
        Fate::ServedSlowly => tokio::time::sleep(SLOWLY).await,
        _ => {}
    }
    let mut response = http::Response::new(());
    *response.status_mut() = answer.status;
    response.headers_mut().extend(answer.fields);
    let body = answer.body;
    let is_long = body.len() > 100;
    let mut stream = respond.send_response(response, !is_long)?; // a short one is its head alone
    match fate {
        Fate::CutBody => {
            stream.send_data(Bytes::from_static(&body[..body.len() / 2]), false)?;
            stream.send_reset(h2::Reason::INTERNAL_ERROR);
            Ok(())
        }
        Fate::StalledBody => {
            stream.send_data(Bytes::from_static(&body[..body.len() / 2]), false)?;
            poll_fn(|cx| stream.poll_reset(cx)).await?;
            Ok(())
        }
        _ if is_long => stream.send_data(Bytes::from_static(body), true),
        _ => Ok(()),
    }
}
