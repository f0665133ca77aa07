//! Servers on loopback, each on a thread with a runtime of its own.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use http::{Request, Response, StatusCode};
use http_body_util::{Full, StreamBody};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Serves until it is dropped.
pub struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start<S: Future<Output = ()> + Send + 'static>(
        serve: impl Fn(TcpStream) -> S + Send + 'static,
    ) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = Arc::clone(&connections);
        let (stop, stopped) = oneshot::channel();
        let accept = async move {
            while let Ok((stream, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::Relaxed);
                if stream.set_nodelay(true).is_ok() {
                    tokio::spawn(serve(stream));
                }
            }
        };
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = accept => {}
                }
            });
        });
        Ok(Self { address, connections, stop: Some(stop), thread: Some(thread) })
    }

    /// Answers each request, which must have no body, with an empty 200 over HTTP/1.1.
    ///
    /// # Errors
    /// If there is no port or no runtime.
    pub fn at_once() -> io::Result<Self> {
        Self::start(|stream| async move {
            // A client that goes away ends its connection only.
            let _ = answer_at_once(stream).await;
        })
    }

    /// Its address with a `/` at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// How many were opened so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

async fn answer_at_once(mut stream: TcpStream) -> io::Result<()> {
    const END: &[u8] = b"\r\n\r\n";
    let mut received = Vec::with_capacity(4_096);
    while stream.read_buf(&mut received).await? > 0 {
        while let Some(end) = received.windows(END.len()).position(|bytes| bytes == END) {
            received.drain(..end + END.len());
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    /// With prior knowledge.
    Http2,
}

/// The first part at once.
fn in_parts(parts: Vec<Bytes>) -> Pin<Box<dyn Body<Data = Bytes, Error = Infallible> + Send>> {
    if let [whole] = &parts[..] {
        return Box::pin(Full::new(whole.clone())); // with its length
    }
    Box::pin(StreamBody::new(stream::iter(parts).enumerate().then(async |(number, part)| {
        if number > 0 {
            // What there is is sent meanwhile. A timer would round up to the next millisecond; nobody else waits.
            tokio::task::yield_now().await;
            std::thread::sleep(Duration::from_micros(300));
        }
        Ok(Frame::data(part))
    })))
}

/// Answers 503 to each path, twice or for ever, then 200; without `Retry-After`, and with the same body each time,
/// whose parts are 0.3 ms apart. A body in parts is for one client that sends one request at a time.
pub struct Flaky {
    pub server: Server,
    arrivals: Arc<AtomicUsize>,
}

impl Flaky {
    /// # Errors
    /// If there is no port or no runtime.
    pub fn start(protocol: Protocol, parts: Vec<Bytes>) -> io::Result<Self> {
        Self::failing(protocol, parts, 2)
    }

    /// # Errors
    /// If there is no port or no runtime.
    pub fn for_ever(protocol: Protocol) -> io::Result<Self> {
        Self::failing(protocol, vec![Bytes::new()], usize::MAX)
    }

    fn failing(protocol: Protocol, parts: Vec<Bytes>, failures: usize) -> io::Result<Self> {
        let arrivals = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&arrivals);
        let failed = Arc::new(Mutex::new(HashMap::<String, usize>::new()));
        let server = Server::start(move |stream| {
            let (parts, counter, failed) =
                (parts.clone(), Arc::clone(&counter), Arc::clone(&failed));
            async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    counter.fetch_add(1, Ordering::Relaxed);
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    let path = request.uri().path();
                    let before = failed.get(path).copied().unwrap_or(0);
                    let mut response = Response::new(in_parts(parts.clone()));
                    if before < failures {
                        failed.insert(path.to_owned(), before + 1);
                        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                    } else {
                        failed.remove(path);
                    }
                    async { Ok::<_, Infallible>(response) }
                });
                let stream = TokioIo::new(stream);
                // A client that goes away ends its connection only.
                let _ = match protocol {
                    Protocol::Http1 => {
                        hyper::server::conn::http1::Builder::new()
                            .serve_connection(stream, service)
                            .await
                    }
                    Protocol::Http2 => {
                        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                            .serve_connection(stream, service)
                            .await
                    }
                };
            }
        })?;
        Ok(Self { server, arrivals })
    }

    /// How many requests arrived so far.
    #[must_use]
    pub fn arrivals(&self) -> usize {
        self.arrivals.load(Ordering::Relaxed)
    }
}
