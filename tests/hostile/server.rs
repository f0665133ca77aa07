//! Servers of raw bytes, on a thread of their own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::clock::Clock;

/// Far more than any client reads, and than all buffers of a connection hold.
const TOO_MUCH: u64 = 128 * 1_024 * 1_024;

/// Longer than any test takes.
const AT_MOST: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
    written: AtomicU64,
    ended: AtomicUsize,
}

impl Counts {
    fn seen(&self) -> Seen {
        Seen {
            connections: self.connections.load(Ordering::SeqCst),
            requests: self.requests.load(Ordering::SeqCst),
            written: self.written.load(Ordering::SeqCst),
            ended: self.ended.load(Ordering::SeqCst),
        }
    }
}

/// What a server has seen and done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) connections: usize,
    /// Requests whose heads it has read.
    pub(crate) requests: usize,
    /// Bytes, of all connections.
    pub(crate) written: u64,
    /// Connections that have ended.
    pub(crate) ended: usize,
}

/// What serves a connection. It ends with the connection, which the client may close at any time.
pub(crate) struct Server {
    address: SocketAddr,
    counts: Arc<Counts>,
    end: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Server {
    pub(crate) fn start<F>(
        clock: &Clock,
        serve: impl Fn(Connection) -> F + Copy + Send + 'static,
    ) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Arc::<Counts>::default();
        let (end, ends) = oneshot::channel();
        let accept = accept(listener, ends, serve, clock.clone(), counts.clone());
        let thread = std::thread::spawn(move || runtime.block_on(accept));
        Self { address, counts, end, thread }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(crate) fn seen(&self) -> Seen {
        self.counts.seen()
    }

    /// What it has seen, once it is through with every connection. The clients are gone by then.
    pub(crate) fn finish(self) -> Seen {
        self.end.send(()).unwrap();
        self.thread.join().unwrap();
        self.counts.seen()
    }
}

async fn accept<F>(
    listener: TcpListener,
    mut ends: oneshot::Receiver<()>,
    serve: impl Fn(Connection) -> F + Copy + Send + 'static,
    clock: Clock,
    counts: Arc<Counts>,
) where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    // Known before, so that the server knows the connection behind all others.
    let end = TcpSocket::new_v4().unwrap();
    end.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let end_address = end.local_addr().unwrap();
    let address = listener.local_addr().unwrap();
    let end = tokio::spawn(async move {
        // It ends all the same if the test has failed.
        let _ = (&mut ends).await;
        end.connect(address).await.unwrap()
    });
    loop {
        let (stream, client) = listener.accept().await.unwrap();
        if client == end_address {
            break;
        }
        let number = counts.connections.fetch_add(1, Ordering::SeqCst) + 1;
        let connection = Connection {
            stream,
            number,
            clock: clock.clone(),
            counts: counts.clone(),
            buffer: Vec::new(),
            wrote: 0,
        };
        let counts = counts.clone();
        connections.spawn(async move {
            // The client may leave at any time.
            let served = tokio::time::timeout(AT_MOST, serve(connection)).await;
            counts.ended.fetch_add(1, Ordering::SeqCst);
            assert!(served.is_ok(), "a connection is held without an end");
        });
    }
    drop(end.await);
    while let Some(served) = connections.join_next().await {
        served.unwrap();
    }
}

pub(crate) struct Connection {
    stream: TcpStream,
    /// Counted from 1.
    pub(crate) number: usize,
    clock: Clock,
    counts: Arc<Counts>,
    /// What was read and not yet taken.
    buffer: Vec<u8>,
    wrote: u64,
}

impl Connection {
    /// Reads a request: its head, and as much of a body as it says.
    pub(crate) async fn read_request(&mut self) -> io::Result<String> {
        let head = self.read_head().await?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        self.take(length.map_or(0, |length| length.parse().unwrap())).await?;
        Ok(head)
    }

    /// Reads the head of a request, in small letters.
    pub(crate) async fn read_head(&mut self) -> io::Result<String> {
        let end = loop {
            match self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => self.read_more().await?,
            }
        };
        let head = String::from_utf8(self.take(end).await?).unwrap().to_ascii_lowercase();
        self.count_request();
        Ok(head)
    }

    pub(crate) fn count_request(&self) {
        self.counts.requests.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) async fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < length {
            self.read_more().await?;
        }
        let rest = self.buffer.split_off(length);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    /// Fails when the client has ended its half.
    async fn read_more(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let bytes = bytes.as_ref();
        self.stream.write_all(bytes).await?;
        self.wrote += bytes.len() as u64;
        self.counts.written.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        if self.wrote > TOO_MUCH {
            self.pass();
            panic!("read without a bound");
        }
        Ok(())
    }

    /// Writes it again and again, as fast as it is read, until the client leaves.
    pub(crate) async fn flood(&mut self, piece: impl AsRef<[u8]>) -> io::Result<()> {
        loop {
            self.write(&piece).await?;
        }
    }

    /// Writes it again and again, until the client leaves. The pauses in between grow, so that any client is through
    /// with it in one of them, however slow: a paused clock moves when there is nothing to do.
    pub(crate) async fn in_bursts(&mut self, piece: impl AsRef<[u8]>) -> io::Result<()> {
        let mut pause = Duration::from_millis(2);
        loop {
            self.write(&piece).await?;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Writes it again and again, and reads nothing, until the client takes no more; lets its time pass then.
    pub(crate) async fn flood_until_stalled(&mut self, piece: impl AsRef<[u8]>) -> io::Result<()> {
        const STALLED: Duration = Duration::from_millis(200);
        while let Ok(written) = tokio::time::timeout(STALLED, self.write(&piece)).await {
            written?;
        }
        self.pass();
        self.linger().await
    }

    /// Writes some of it, lets the client's time pass, and goes on slowly until the client leaves.
    pub(crate) async fn trickle(&mut self, piece: impl AsRef<[u8]>) -> io::Result<()> {
        for _ in 0..BEFORE_TIME_PASSES {
            self.write(&piece).await?;
            tokio::task::yield_now().await;
        }
        self.pass();
        self.in_bursts(piece).await
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Lets the client's time pass.
    pub(crate) fn pass(&self) {
        self.clock.pass();
    }

    /// Reads and throws away until the client leaves.
    pub(crate) async fn linger(&mut self) -> io::Result<()> {
        self.buffer.clear();
        let mut rest = vec![0; 0x4000];
        while self.stream.read(&mut rest).await? > 0 {}
        Ok(())
    }

    /// Reads nothing for a while, longer than the client stays.
    pub(crate) async fn read_nothing(&mut self) -> io::Result<()> {
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.linger().await
    }

    pub(crate) async fn end_writing(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }

    #[expect(clippy::unnecessary_wraps, reason = "the end of a connection that is served")]
    pub(crate) fn close(self) -> io::Result<()> {
        Ok(())
    }

    /// What closes it now resets it.
    pub(crate) fn reset(self) -> io::Result<()> {
        self.stream.set_zero_linger()
    }
}

/// Pieces that a slow server has written when time begins to pass.
const BEFORE_TIME_PASSES: usize = 20;
