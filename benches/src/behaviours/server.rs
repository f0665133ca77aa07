//! Scripted servers on loopback, with what they saw.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use h2::Reason;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::Result;
use super::answer::{Answer, Ending};

const BACKLOG: u32 = 128;

/// What a server is, and what it does with the requests, which are counted from 1.
#[derive(Clone, Copy)]
pub enum Script {
    Http1(fn(usize) -> Answer),
    /// HTTP/2 with prior knowledge: these are reset with this reason, the rest is served.
    Http2Resets(usize, Reason),
    /// TLS with a certificate that nobody has signed.
    SelfSigned,
    /// Nobody listens.
    Nobody,
    /// Nobody listens for so long; then each request is answered with 200.
    NobodyFor(Duration),
}

/// A request that has arrived whole.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub at: Instant,
    pub idempotency_key: Option<String>,
}

#[derive(Default)]
struct Log {
    arrivals: Mutex<Vec<Arrival>>,
    connections: AtomicUsize,
}

impl Log {
    /// Its number, from 1.
    fn arrived(&self, idempotency_key: Option<String>) -> usize {
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.push(Arrival { at: Instant::now(), idempotency_key });
        arrivals.len()
    }
}

/// Serves until it is dropped.
pub struct Server {
    scheme: &'static str,
    address: SocketAddr,
    log: Arc<Log>,
    task: Option<JoinHandle<()>>,
    /// Bound, so that nobody else gets it, but not listening.
    _bound: Option<TcpSocket>,
}

impl Server {
    /// # Errors
    /// If there is no port or no certificate.
    pub async fn start(script: Script) -> Result<Self> {
        let log = Arc::new(Log::default());
        let tls = matches!(script, Script::SelfSigned).then(self_signed).transpose()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let socket = TcpSocket::new_v4()?;
        socket.bind(([127, 0, 0, 1], 0).into())?;
        let address = socket.local_addr()?;
        let new = |task, _bound| Self { scheme, address, log: Arc::clone(&log), task, _bound };
        let serve = |listener| tokio::spawn(serve(listener, Arc::clone(&log), script, tls.clone()));
        Ok(match script {
            Script::Nobody => new(None, Some(socket)),
            Script::NobodyFor(time) => {
                let log = Arc::clone(&log);
                let later = tokio::spawn(async move {
                    tokio::time::sleep(time).await;
                    if let Ok(listener) = socket.listen(BACKLOG) {
                        self::serve(listener, log, script, None).await;
                    }
                });
                new(Some(later), None)
            }
            _ => new(Some(serve(socket.listen(BACKLOG)?)), None),
        })
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}/", self.scheme, self.address)
    }

    #[must_use]
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.log.arrivals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[must_use]
    pub fn connections(&self) -> usize {
        self.log.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn serve(listener: TcpListener, log: Arc<Log>, script: Script, tls: Option<TlsAcceptor>) {
    while let Ok((stream, _)) = listener.accept().await {
        log.connections.fetch_add(1, Ordering::Relaxed);
        let (log, tls) = (Arc::clone(&log), tls.clone());
        tokio::spawn(async move {
            // What a client does to its connection is none of the server's errors.
            let _ = match (script, tls) {
                (Script::Http1(answer), _) => http1(stream, &log, answer).await,
                (Script::NobodyFor(_), _) => http1(stream, &log, |_| Answer::new(200)).await,
                (Script::Http2Resets(resets, reason), _) => {
                    http2(stream, &log, resets, reason).await
                }
                (_, Some(tls)) => tls.accept(stream).await.map(drop),
                (_, None) => Ok(()),
            };
        });
    }
}

fn self_signed() -> Result<TlsAcceptor> {
    let key = rcgen::KeyPair::generate()?;
    let params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()])?;
    let certificate = CertificateDer::from(params.self_signed(&key)?);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivateKeyDer::Pkcs8(key.serialize_der().into()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn http1(mut stream: TcpStream, log: &Log, answer: fn(usize) -> Answer) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut received = Vec::new();
    while let Some(head) = request(&mut stream, &mut received).await? {
        let answer = answer(log.arrived(field(&head, "idempotency-key")));
        let (head, first, rest) = answer.parts();
        match answer.ending {
            Ending::Whole => stream.write_all(format!("{head}{first}{rest}").as_bytes()).await?,
            Ending::Cut => {
                stream.write_all(format!("{head}{first}").as_bytes()).await?;
                return stream.shutdown().await;
            }
            Ending::Late(after) => {
                stream.write_all(format!("{head}{first}").as_bytes()).await?;
                tokio::time::sleep(after).await;
                stream.write_all(rest.as_bytes()).await?;
            }
            Ending::NoAnswer => return Ok(()),
            Ending::Silence => {
                // Until the client has gone.
                stream.read_buf(&mut received).await?;
                return Ok(());
            }
            Ending::Gibberish => {
                stream.write_all(b"none of your business\r\n\r\n").await?;
                return stream.shutdown().await;
            }
        }
    }
    Ok(())
}

/// The head of the next request, which has come whole, or `None` at the end of the connection.
async fn request(stream: &mut TcpStream, received: &mut Vec<u8>) -> io::Result<Option<String>> {
    const END: &[u8] = b"\r\n\r\n";
    let find = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|at| at == what);
    loop {
        if let Some(end) = find(received, END) {
            let (head, body) = received.split_at(end + END.len());
            let head = String::from_utf8_lossy(head).into_owned();
            let length = match field(&head, "content-length") {
                Some(length) => length.parse().ok(),
                None if field(&head, "transfer-encoding").is_some() => {
                    find(body, b"0\r\n\r\n").map(|last| last + 5)
                }
                None => Some(0),
            };
            if let Some(length) = length.filter(|length| *length <= body.len()) {
                received.drain(..head.len() + length);
                return Ok(Some(head));
            }
        }
        if stream.read_buf(received).await? == 0 {
            return Ok(None);
        }
    }
}

fn field(head: &str, name: &str) -> Option<String> {
    head.lines().find_map(|line| {
        let (field, value) = line.split_once(':')?;
        field.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}

async fn http2(stream: TcpStream, log: &Log, resets: usize, reason: Reason) -> io::Result<()> {
    let mut connection = h2::server::handshake(stream).await.map_err(io::Error::other)?;
    while let Some(stream) = connection.accept().await {
        let (_, mut respond) = stream.map_err(io::Error::other)?;
        if log.arrived(None) <= resets {
            respond.send_reset(reason);
        } else {
            respond.send_response(http::Response::new(()), true).map_err(io::Error::other)?;
        }
    }
    Ok(())
}
