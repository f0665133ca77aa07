//! Servers that follow a script and count what has reached them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::connection::Connection;
use crate::frames::Frame;

/// A step of what a server does with a connection. The steps are repeated, so that the connection
/// serves several requests, until one of them ends it or the client leaves.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Waits for the first bytes, and leaves them unread.
    AwaitBytes,
    /// Reads the first bytes, whatever they are.
    ReadBytes,
    /// Reads the head of a request.
    ReadHead,
    /// Reads a whole request.
    ReadRequest,
    /// Reads up to an HTTP/2 ping, and does not answer it.
    ReadPing,
    Write(Vec<u8>),
    /// Writes a frame on the HTTP/2 stream of the last request.
    Send(Frame),
    /// Ends its own half of the connection.
    EndWriting,
    /// Waits until the client's call has returned.
    AwaitReturn,
    /// Moves the paused clock on.
    Pass(Duration),
    /// Ends its own half, and reads on until the client ends the other.
    Linger,
    /// Closes the connection. Bytes that were left unread make that a reset.
    Close,
    /// Resets the connection.
    Reset,
}

/// How requests are read, and what is below them.
#[derive(Clone)]
pub(crate) enum Protocol {
    Http1,
    Http2,
    Tls(TlsAcceptor),
}

/// More rounds than any client asks for: a redirect is followed ten times.
const MAX_ROUNDS: usize = 32;

/// What has reached a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Request heads that it has read whole.
    pub(crate) heads: usize,
    /// Requests that it has read whole.
    pub(crate) whole: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) heads: AtomicUsize,
    pub(crate) whole: AtomicUsize,
}

pub(crate) struct Server {
    address: SocketAddr,
    /// Already bound, so that the server knows the connection by which it is told to end.
    end: TcpSocket,
    task: JoinHandle<()>,
    counts: Arc<Counts>,
    returned: watch::Sender<bool>,
}

impl Server {
    pub(crate) async fn start(protocol: Protocol, script: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let end = bound_socket();
        let end_address = end.local_addr().unwrap();
        let counts = Arc::<Counts>::default();
        let (returned, returns) = watch::channel(false);
        let task = tokio::spawn({
            let counts = counts.clone();
            async move {
                let mut connections = JoinSet::new();
                loop {
                    let (stream, client) = listener.accept().await.unwrap();
                    if client == end_address {
                        break;
                    }
                    let connection = (protocol.clone(), script.clone());
                    let (counts, returns) = (counts.clone(), returns.clone());
                    connections.spawn(async move {
                        let (protocol, script) = connection;
                        // The client may leave at any time: its own business.
                        let _ = serve(stream, protocol, &script, &counts, returns).await;
                    });
                }
                connections.join_all().await;
            }
        });
        Self { address, end, task, counts, returned }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Tells the server that the client's call has returned.
    pub(crate) fn call_returned(&self) {
        self.returned.send_replace(true);
    }

    /// What has reached the server, once it is through with every connection made before this call.
    /// The client has closed its own by then, or this never ends.
    pub(crate) async fn finish(self) -> Seen {
        let _end = self.end.connect(self.address).await.unwrap();
        self.task.await.unwrap();
        Seen {
            heads: self.counts.heads.load(Ordering::SeqCst),
            whole: self.counts.whole.load(Ordering::SeqCst),
        }
    }
}

async fn serve(
    stream: TcpStream,
    protocol: Protocol,
    script: &[Act],
    counts: &Counts,
    mut returned: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut connection = Connection::accept(stream, protocol, counts).await?;
    for _ in 0..MAX_ROUNDS {
        for act in script {
            match act {
                // Not `readable()`, which may say so when there is nothing.
                Act::AwaitBytes => drop(connection.tcp().peek(&mut [0]).await?),
                Act::ReadBytes => connection.read_more().await?,
                Act::ReadHead => connection.read_head().await?,
                Act::ReadRequest => connection.read_request().await?,
                Act::ReadPing => connection.read_ping().await?,
                Act::Write(bytes) => connection.write(bytes).await?,
                Act::Send(frame) => connection.send(*frame).await?,
                Act::EndWriting => connection.end_writing().await,
                Act::AwaitReturn => {
                    returned.wait_for(|returned| *returned).await.map_err(io::Error::other)?;
                }
                Act::Pass(time) => tokio::time::advance(*time).await,
                Act::Linger => {
                    connection.end_writing().await;
                    return connection.read_to_end().await;
                }
                Act::Close => return Ok(()),
                Act::Reset => return connection.tcp().set_zero_linger(),
            }
        }
    }
    Err(io::Error::other("a script without an end"))
}

/// An address of its own that nobody listens at.
pub(crate) fn bound_socket() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    socket
}

/// A listener that takes no further connection: the one that it has room for is taken already.
pub(crate) struct FullListener {
    listener: TcpListener,
    _first: TcpStream,
}

impl FullListener {
    pub(crate) async fn start() -> Self {
        let listener = bound_socket().listen(0).unwrap();
        let first = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        Self { listener, _first: first }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }
}
