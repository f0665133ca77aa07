//! Bodies that are made anew for each attempt.
//!
//! What it shows: a file, a stream and a multipart form can't be copied, so a retry layer can send them only once,
//! unless it is told how to make them again. Each is uploaded to a server on loopback that answers 503 once. The
//! server keeps what it was sent, and both attempts must have carried the same.
//!
//! Run it: `cargo run --example upload`. It ends by itself in a second; the exit code is 0 only if all went as
//! described. Some of what it prints:
//!
//! ```text
//! /form
//!   950381 bytes -> 503
//!   950381 bytes -> 201
//!   end: 201 Created
//!   ok: the same parts, each time with a boundary of its own
//! ```

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures_util::stream;
use reqwest::{Body, multipart};
use reqwest_middleware::{ClientBuilder, RequestBuilder};
use reqwest_typed_retry::{ReplayBody, RetryMiddleware, RetryPolicy, RetryRequestExt as _};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

#[tokio::main]
async fn main() -> ExitCode {
    let limit = Duration::from_secs(30); // whatever goes wrong, this does not hang
    match tokio::time::timeout(limit, run()).await {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(error)) => eprintln!("{error:#}"),
        Err(_) => eprintln!("not finished after {limit:?}"),
    }
    ExitCode::FAILURE
}

async fn run() -> anyhow::Result<()> {
    let policy = RetryPolicy::builder()
        .attempt_timeout(Duration::from_secs(5)) // time enough for the whole upload
        .honour_idempotency_keys(true) // for the form, which is a POST
        .build()?;
    let http = reqwest::Client::builder().no_proxy().build()?; // loopback needs no proxy
    let client = ClientBuilder::new(http).with(RetryMiddleware::new(policy)).build();
    let server = Server::start().await?;
    let url = |path| format!("http://{}{path}", server.address);
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("backup");
    tokio::fs::write(&path, "a line of the file\n".repeat(50_000)).await?;

    // A file is opened anew. Its length is that of this attempt's file.
    let file = path.clone();
    let upload = client.put(url("/file")).body_factory(move || {
        let path = file.clone();
        async move {
            let file = tokio::fs::File::open(path).await?;
            let length = file.metadata().await?.len();
            Ok(ReplayBody::new(file).with_length(length))
        }
    });
    let [first, second] = send(&server, "/file", upload).await?;
    ensure!(first.body == second.body && second.body == tokio::fs::read(&path).await?);
    println!("  ok: the file, both times\n");

    // A stream is started anew. Where its length is known, say so: else it is sent in chunks.
    let upload = client.put(url("/stream")).body_factory(|| async {
        let pieces = (0..1000).map(|number| Ok::<_, io::Error>(format!("row {number:03}\n")));
        Ok(ReplayBody::new(Body::wrap_stream(stream::iter(pieces))).with_length(1000 * 8))
    });
    let [first, second] = send(&server, "/stream", upload).await?;
    ensure!(first.body == second.body && second.body.ends_with(b"row 998\nrow 999\n"));
    println!("  ok: the same rows, both times\n");

    // A form is built anew, and has a new boundary. It is a POST: without the key it might take
    // effect twice, and would not be sent again.
    let upload = client.post(url("/form")).header("Idempotency-Key", "\"8e03978e\"");
    let upload = upload.body_factory(move || {
        let path = path.clone();
        async move {
            let file = multipart::Part::file(path).await?;
            let form = multipart::Form::new().text("title", "a backup").part("file", file);
            Ok(ReplayBody::try_from(form)?)
        }
    });
    let [first, second] = send(&server, "/form", upload).await?;
    ensure!(first.boundary()? != second.boundary()?, "the boundaries are the same");
    ensure!(first.parts()? == second.parts()? && second.parts()?.len() == 2);
    println!("  ok: the same parts, each time with a boundary of its own\n");

    println!("All 3 went as described.");
    Ok(())
}

/// Sends it, and tells what the server was sent, twice.
async fn send(server: &Server, path: &str, upload: RequestBuilder) -> anyhow::Result<[Upload; 2]> {
    println!("{path}");
    let status = upload.send().await?.error_for_status()?.status();
    let uploads = server.uploads.lock().await.remove(path).unwrap_or_default();
    for (upload, answer) in uploads.iter().zip(ANSWERS) {
        println!("  {} bytes -> {answer}", upload.body.len());
    }
    println!("  end: {status}");
    let [first, second] = uploads.try_into().ok().context("there were not two attempts")?;
    Ok([first, second])
}

/// What the server was sent with one request.
struct Upload {
    head: String,
    body: Vec<u8>,
}

impl Upload {
    /// A field of the head; hyper sends their names in lower case.
    fn field(&self, name: &str) -> anyhow::Result<&str> {
        let mut lines = self.head.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.with_context(|| format!("the request has no {name}"))
    }

    fn boundary(&self) -> anyhow::Result<&str> {
        let form = "multipart/form-data; boundary=";
        self.field("content-type")?.strip_prefix(form).context("the request is no form")
    }

    /// What is between the boundaries.
    fn parts(&self) -> anyhow::Result<Vec<&str>> {
        let body = std::str::from_utf8(&self.body)?;
        let end = format!("--{}--\r\n", self.boundary()?);
        let parts = body.strip_suffix(&end).context("the form has no end")?;
        Ok(parts.split(&format!("--{}\r\n", self.boundary()?)).skip(1).collect())
    }
}

/// What the server answers to the first request for a path, and to the second.
const ANSWERS: [u16; 2] = [503, 201];

/// An HTTP/1.1 server that keeps, for each path, what it was sent.
#[derive(Clone)]
struct Server {
    address: SocketAddr,
    uploads: Arc<Mutex<HashMap<String, Vec<Upload>>>>,
}

impl Server {
    async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?; // the system picks the port
        let server = Self { address: listener.local_addr()?, uploads: Arc::default() };
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(accepting.clone().serve(stream));
            }
        });
        Ok(server)
    }

    /// One connection: one request, one response.
    async fn serve(self, mut stream: TcpStream) -> anyhow::Result<()> {
        let upload = read(&mut stream).await?;
        let path = upload.head.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut uploads = self.uploads.lock().await;
        let earlier = uploads.entry(path).or_default();
        let answer = ANSWERS.get(earlier.len()).unwrap_or(&400);
        earlier.push(upload);
        drop(uploads);
        let response =
            format!("HTTP/1.1 {answer} \r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(response.as_bytes()).await?;
        Ok(stream.shutdown().await?)
    }
}

/// A whole request. It must say how long it is: this server knows no chunks.
async fn read(stream: &mut TcpStream) -> anyhow::Result<Upload> {
    let (mut reader, mut head) = (BufReader::new(stream), String::new());
    while !head.ends_with("\r\n\r\n") {
        ensure!(reader.read_line(&mut head).await? > 0, "the head was cut");
    }
    let mut upload = Upload { head, body: Vec::new() };
    let length = upload.field("content-length")?.parse()?;
    reader.take(length).read_to_end(&mut upload.body).await?;
    ensure!(upload.body.len() as u64 == length, "the body was cut");
    Ok(upload)
}
