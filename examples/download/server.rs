//! The server of the example: it is busy, cuts bodies, and puts another file in place of the first.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

const LENGTH: usize = 4 << 20;
/// What is written at once, and the pause after it, so that there is a progress to see.
const PIECE: usize = 64 << 10;
const PAUSE: Duration = Duration::from_millis(2);

/// What the server does with one request.
#[derive(Clone, Copy)]
enum Reply {
    /// 503.
    Busy,
    /// What was asked for.
    All,
    /// So many bytes of it; then the connection ends.
    Cut(usize),
    /// All of it in chunks, without the last one that says so.
    WithoutEnd,
    /// A part that starts one byte late.
    Misplaced,
}

/// What the server does with the first request for a path, with the second, and so on; and which
/// version of the file it has by then.
fn script(path: &str) -> &'static [(u64, Reply)] {
    use Reply::{All, Busy, Cut, Misplaced, WithoutEnd};
    match path {
        "/cut" => &[(1, Busy), (1, Cut(1_500_000)), (1, Cut(1)), (1, Cut(2_000_000)), (1, All)],
        "/changed" => &[(1, Cut(3_000_000)), (2, Cut(1_000_000)), (2, All)],
        "/weak" => &[(1, Cut(2_000_000)), (1, All)],
        "/open-end" => &[(1, WithoutEnd), (1, All)],
        "/no-if-range" => &[(1, Cut(1_000_000)), (2, All), (2, All)],
        "/sick" => &[(1, Cut(1_000_000)), (1, Cut(1_000_000)), (1, Cut(1_000_000)), (1, All)],
        "/misplaced" => &[(1, Cut(1_000_000)), (1, Misplaced)],
        _ => &[],
    }
}

/// A version of the file, and what the server says of it.
struct Version {
    bytes: Vec<u8>,
    digest: String,
}

static FIRST: LazyLock<Version> = LazyLock::new(|| Version::new(1));
static SECOND: LazyLock<Version> = LazyLock::new(|| Version::new(2));

impl Version {
    fn new(seed: u64) -> Self {
        let mut bytes = vec![0; LENGTH];
        StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
        Self { digest: digest(&bytes), bytes }
    }
}

/// As `Repr-Digest` has it.
pub(crate) fn digest(bytes: &[u8]) -> String {
    format!("sha-256=:{}:", BASE64_STANDARD.encode(Sha256::digest(bytes)))
}

/// An HTTP/1.1 server that follows the script, and notes for each path what it was asked.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<HashMap<String, Vec<String>>>>,
}

impl Server {
    pub(crate) async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?; // the system picks the port
        let server = Self { address: listener.local_addr()?, log: Arc::default() };
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(accepting.clone().serve(stream));
            }
        });
        Ok(server)
    }

    /// What it was asked for at this path, and what it answered.
    pub(crate) async fn log(&self, path: &str) -> Vec<String> {
        self.log.lock().await.remove(path).unwrap_or_default()
    }

    /// One connection: one request, one response.
    async fn serve(self, mut stream: TcpStream) -> io::Result<()> {
        let head = read_head(&mut stream).await?;
        let path = head.split(' ').nth(1).unwrap_or_default();
        let mut log = self.log.lock().await;
        let earlier = log.entry(path.to_owned()).or_default();
        // Who asks more often than the script knows is told that it is busy.
        let step = script(path).get(earlier.len());
        let (version, reply) = step.copied().unwrap_or((1, Reply::Busy));
        let (status, response) = answer(path, &head, version, reply);
        let asked = field(&head, "range").unwrap_or("all of it");
        let sent = match reply {
            Reply::Cut(bytes) => format!(", cut after {bytes} bytes"),
            Reply::WithoutEnd => ", without an end".to_owned(),
            Reply::All | Reply::Busy | Reply::Misplaced => String::new(),
        };
        earlier.push(format!("{asked:<14} -> {status}{sent}"));
        drop(log);
        for piece in response.chunks(PIECE) {
            stream.write_all(piece).await?;
            tokio::time::sleep(PAUSE).await;
        }
        stream.shutdown().await
    }
}

/// The status, and all that goes over the wire.
fn answer(path: &str, head: &str, version: u64, reply: Reply) -> (u16, Vec<u8>) {
    if matches!(reply, Reply::Busy) {
        return (503, b"HTTP/1.1 503 \r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec());
    }
    let Version { bytes, digest } = if version == 1 { &*FIRST } else { &*SECOND };
    let weak = if path == "/weak" { "W/" } else { "" };
    let etag = format!("{weak}\"version {version}\"");
    // A weak tag never matches.
    let matches = |tag| path == "/no-if-range" || (tag == etag && weak.is_empty());
    let start = field(head, "range")
        .filter(|_| field(head, "if-range").is_none_or(matches))
        .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
    let (status, part) = match start {
        None => (200, bytes.as_slice()),
        Some(start) => (206, bytes.get(start..).unwrap_or_default()),
    };
    let status = if part.is_empty() { 416 } else { status };
    let mut fields = format!("ETag: {etag}\r\nConnection: close\r\n");
    match (status, start.unwrap_or_default()) {
        // Not in a 206: it has what the client does not know yet.
        (200, _) => fields += &format!("Repr-Digest: {digest}\r\n"),
        (206, start) => {
            let start = start + usize::from(matches!(reply, Reply::Misplaced));
            fields += &format!("Content-Range: bytes {start}-{}/{LENGTH}\r\n", LENGTH - 1);
        }
        _ => fields += &format!("Content-Range: bytes */{LENGTH}\r\n"),
    }
    fields += &match reply {
        Reply::WithoutEnd => "Transfer-Encoding: chunked\r\n".to_owned(),
        _ => format!("Content-Length: {}\r\n", part.len()),
    };
    let mut response = format!("HTTP/1.1 {status} \r\n{fields}\r\n").into_bytes();
    match reply {
        Reply::Cut(bytes) => response.extend(part.get(..bytes).unwrap_or(part)),
        Reply::WithoutEnd => {
            response.extend(format!("{:x}\r\n", part.len()).as_bytes());
            response.extend(part);
            response.extend(b"\r\n"); // "0\r\n\r\n" would be the end
        }
        Reply::All | Reply::Busy | Reply::Misplaced => response.extend(part),
    }
    (status, response)
}

/// A request without a body.
async fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let (mut reader, mut head) = (BufReader::new(stream), String::new());
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head)
}

/// A field of a request; hyper sends their names in lower case.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}
