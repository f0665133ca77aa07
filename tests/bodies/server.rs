//! A raw HTTP/1.1 server: it answers by a script, and keeps what it has read.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// One answer of the script.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    head: String,
    body: Vec<u8>,
    then: Then,
}

#[derive(Clone, Copy, Debug)]
enum Then {
    /// The next request.
    Go,
    /// Pieces of a chunked body, until the client closes the connection.
    NeverEnd,
    /// Nothing, until the client closes the connection.
    FallSilent,
}

impl Answer {
    /// Without a body.
    pub(crate) fn status(status: &str) -> Self {
        Self::with_fields(status, "content-length: 0\r\n")
    }

    /// Without a body, but with this field.
    pub(crate) fn redirect(status: &str, location: &str) -> Self {
        Self::with_fields(status, &format!("content-length: 0\r\nlocation: {location}\r\n"))
    }

    /// Busy, with a body whose length the head says.
    pub(crate) fn busy_with_length(body: &[u8]) -> Self {
        let answer = Self::with_fields(BUSY, &format!("content-length: {}\r\n", body.len()));
        Self { body: body.to_vec(), ..answer }
    }

    /// Busy, with a body in pieces.
    pub(crate) fn busy_in_chunks(body: &[u8]) -> Self {
        let answer = Self::with_fields(BUSY, "transfer-encoding: chunked\r\n");
        let pieces = body.chunks(16 * 1024).map(chunk).chain([chunk(b"")]);
        Self { body: pieces.flatten().collect(), ..answer }
    }

    pub(crate) fn busy_without_end() -> Self {
        let answer = Self::with_fields(BUSY, "transfer-encoding: chunked\r\n");
        Self { then: Then::NeverEnd, ..answer }
    }

    /// Busy, with a body that never comes.
    pub(crate) fn busy_and_silent() -> Self {
        Self { then: Then::FallSilent, ..Self::with_fields(BUSY, "content-length: 10\r\n") }
    }

    fn with_fields(status: &str, fields: &str) -> Self {
        let head = format!("HTTP/1.1 {status}\r\n{fields}\r\n");
        Self { head, body: Vec::new(), then: Then::Go }
    }
}

pub(crate) const BUSY: &str = "503 Service Unavailable";

/// Far more than the client's limit and the buffers of a socket.
const TOO_MANY_PIECES: usize = 64 * 1024;

fn chunk(data: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

/// When a body is written.
#[derive(Clone, Debug)]
pub(crate) enum Bodies {
    /// Together with its head.
    AtOnce,
    /// Once the client has had so many heads.
    AfterTheHead(watch::Receiver<usize>),
}

/// What has reached a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The connections that it has accepted.
    pub(crate) connections: usize,
    /// The requests that it has read whole.
    pub(crate) requests: Vec<Received>,
}

#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// How a request says where its body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
    /// There is no body.
    None,
}

impl Received {
    pub(crate) fn framing(&self) -> Framing {
        framing(&self.headers)
    }

    /// The values of a field, in order.
    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        self.headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
    }
}

fn framing(headers: &HeaderMap) -> Framing {
    match (headers.get(CONTENT_LENGTH), headers.get(TRANSFER_ENCODING)) {
        (Some(length), None) => Framing::Length(length.to_str().unwrap().parse().unwrap()),
        (None, Some(coding)) if coding == "chunked" => Framing::Chunked,
        (None, None) => Framing::None,
        both => panic!("no request says both: {both:?}"),
    }
}

pub(crate) struct Server {
    address: SocketAddr,
    /// Already bound, so that the server knows the connection by which it is told to end.
    end: TcpSocket,
    task: JoinHandle<()>,
    state: Arc<State>,
}

struct State {
    answers: Vec<Answer>,
    bodies: Bodies,
    seen: Mutex<Seen>,
    /// The connections that the client has closed while an answer had not ended.
    broken: watch::Sender<usize>,
}

impl Server {
    /// These answers, one a request; the last one again and again.
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::start_with(answers, Bodies::AtOnce).await
    }

    pub(crate) async fn start_with(
        answers: impl IntoIterator<Item = Answer>,
        bodies: Bodies,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let end = bound_socket();
        let end_address = end.local_addr().unwrap();
        let state = Arc::new(State {
            answers: answers.into_iter().collect(),
            bodies,
            seen: Mutex::default(),
            broken: watch::Sender::new(0),
        });
        let task = tokio::spawn({
            let state = state.clone();
            async move {
                loop {
                    let (stream, client) = listener.accept().await.unwrap();
                    if client == end_address {
                        break;
                    }
                    state.seen.lock().unwrap().connections += 1;
                    let state = state.clone();
                    tokio::spawn(async move {
                        // The client may leave at any time: its own business.
                        let _ = serve(stream, &state).await;
                    });
                }
            }
        });
        Self { address, end, task, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// How many connections the client has closed while an answer had not ended.
    pub(crate) fn broken(&self) -> watch::Receiver<usize> {
        self.state.broken.subscribe()
    }

    /// What has reached it. A connection that was made before this call is counted.
    pub(crate) async fn finish(self) -> Seen {
        let _end = self.end.connect(self.address).await.unwrap();
        self.task.await.unwrap();
        let seen = self.state.seen.lock().unwrap();
        seen.clone()
    }
}

async fn serve(stream: TcpStream, state: &State) -> io::Result<()> {
    let mut stream = BufStream::new(stream);
    // Ends when the client leaves.
    loop {
        let request = read_request(&mut stream).await?;
        let number = {
            let mut seen = state.seen.lock().unwrap();
            seen.requests.push(request);
            seen.requests.len()
        };
        let answer = &state.answers[(number - 1).min(state.answers.len() - 1)];
        stream.write_all(answer.head.as_bytes()).await?;
        if let Bodies::AfterTheHead(heads) = &state.bodies {
            stream.flush().await?;
            let had = heads.clone().wait_for(|heads| *heads >= number).await.is_ok();
            assert!(had, "the client is gone");
        }
        stream.write_all(&answer.body).await?;
        stream.flush().await?;
        match answer.then {
            Then::Go => continue,
            Then::NeverEnd => {
                let piece = chunk(&[b'x'; 1024]);
                let mut pieces = 0;
                while stream.write_all(&piece).await.is_ok() {
                    pieces += 1;
                    assert!(pieces < TOO_MANY_PIECES, "read without a bound");
                }
            }
            Then::FallSilent => {
                let mut nothing_more = Vec::new();
                let _ = stream.read_to_end(&mut nothing_more).await;
                assert!(nothing_more.is_empty(), "a request before the answer has ended");
            }
        }
        state.broken.send_modify(|broken| *broken += 1);
        return Ok(());
    }
}

async fn read_request(stream: &mut BufStream<TcpStream>) -> io::Result<Received> {
    let _request_line = read_line(stream).await?;
    let mut headers = HeaderMap::new();
    loop {
        let line = read_line(stream).await?;
        let Some((name, value)) = line.split_once(':') else { break };
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(value.trim()).unwrap());
    }
    let body = match framing(&headers) {
        Framing::None => Vec::new(),
        Framing::Length(length) => {
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await?;
            body
        }
        Framing::Chunked => read_chunks(stream).await?,
    };
    Ok(Received { headers, body })
}

async fn read_chunks(stream: &mut BufStream<TcpStream>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let length = usize::from_str_radix(read_line(stream).await?.trim(), 16).unwrap();
        let mut piece = vec![0; length];
        stream.read_exact(&mut piece).await?;
        body.append(&mut piece);
        read_line(stream).await?;
        if length == 0 {
            return Ok(body);
        }
    }
}

async fn read_line(stream: &mut BufStream<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    match stream.read_line(&mut line).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line),
    }
}

/// An address of its own that nobody listens at.
pub(crate) fn bound_socket() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    socket
}
