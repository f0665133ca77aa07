//! A server's end of a connection: HTTP/1.1, TLS, and HTTP/2 by its frames.

use std::io;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::frames::{self, Frame};
use crate::servers::{Counts, Protocol};

pub(crate) struct Connection<'a> {
    stream: Stream,
    counts: &'a Counts,
    /// What was read and not yet taken.
    buffer: Vec<u8>,
    /// The stream of the last request, if this is HTTP/2.
    http2: Option<u32>,
    /// Whether the HTTP/2 preface was read and the settings sent.
    greeted: bool,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Where the body of an HTTP/1.1 request ends.
enum Length {
    Known(usize),
    Chunked,
    /// What follows a CONNECT is no request of the proxy's.
    Tunnel,
}

impl<'a> Connection<'a> {
    pub(crate) async fn accept(
        tcp: TcpStream,
        protocol: Protocol,
        counts: &'a Counts,
    ) -> io::Result<Self> {
        let http2 = matches!(protocol, Protocol::Http2).then_some(0);
        let stream = match protocol {
            Protocol::Http1 | Protocol::Http2 => Stream::Plain(tcp),
            Protocol::Tls(acceptor) => Stream::Tls(Box::new(acceptor.accept(tcp).await?)),
        };
        Ok(Self { stream, counts, buffer: Vec::new(), http2, greeted: false })
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => tls.get_ref().0,
        }
    }

    fn io(&mut self) -> &mut (dyn Io + '_) {
        match &mut self.stream {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => tls.as_mut(),
        }
    }

    /// Fails when the client has ended its half: nothing more will come.
    pub(crate) async fn read_more(&mut self) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.buffer);
        let read = self.io().read_buf(&mut bytes).await?;
        self.buffer = bytes;
        if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    async fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < length {
            self.read_more().await?;
        }
        let rest = self.buffer.split_off(length);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    pub(crate) async fn read_to_end(&mut self) -> io::Result<()> {
        let mut rest = [0; 0x4000];
        while self.io().read(&mut rest).await? > 0 {}
        Ok(())
    }

    /// A client that sees an early answer may be gone before the last byte of it.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.io().write_all(bytes).await?;
        self.io().flush().await
    }

    /// With TLS this says so in TLS.
    pub(crate) async fn end_writing(&mut self) {
        // A client that is gone has nothing to be told.
        let _ = self.io().shutdown().await;
    }

    /// Where no body follows, the head is the whole request.
    pub(crate) async fn read_head(&mut self) -> io::Result<()> {
        let is_whole = if self.http2.is_some() {
            self.read_headers().await?
        } else {
            matches!(self.read_http1_head().await?, Length::Known(0))
        };
        self.counts.whole.fetch_add(usize::from(is_whole), Ordering::SeqCst);
        Ok(())
    }

    pub(crate) async fn read_request(&mut self) -> io::Result<()> {
        if self.http2.is_some() {
            self.read_http2_request().await?;
        } else {
            match self.read_http1_head().await? {
                Length::Tunnel => return Ok(()),
                Length::Known(length) => {
                    self.take(length).await?;
                }
                // No chunk of the tests holds the bytes that end a body.
                Length::Chunked => {
                    while !self.buffer.ends_with(b"0\r\n\r\n") {
                        self.read_more().await?;
                    }
                    self.buffer.clear();
                }
            }
        }
        self.counts.whole.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    async fn read_http1_head(&mut self) -> io::Result<Length> {
        let end = loop {
            match self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => self.read_more().await?,
            }
        };
        let head = String::from_utf8(self.take(end).await?).unwrap().to_ascii_lowercase();
        self.counts.heads.fetch_add(1, Ordering::SeqCst);
        if head.starts_with("connect ") {
            return Ok(Length::Tunnel);
        }
        let field =
            |name| head.lines().find_map(|line| line.split_once(": ").filter(|(n, _)| *n == name));
        if field("transfer-encoding").is_some() {
            return Ok(Length::Chunked);
        }
        Ok(Length::Known(field("content-length").map_or(0, |(_, value)| value.parse().unwrap())))
    }

    // HTTP/2

    pub(crate) async fn send(&mut self, frame: Frame) -> io::Result<()> {
        self.greet().await?;
        self.write(&frame.encode(self.http2.unwrap_or(0))).await
    }

    async fn greet(&mut self) -> io::Result<()> {
        if !self.greeted {
            self.greeted = true;
            self.take(frames::PREFACE_LENGTH).await?;
            self.write(&frames::settings()).await?;
        }
        Ok(())
    }

    async fn next_frame(&mut self) -> io::Result<frames::Received> {
        self.greet().await?;
        let head = self.take(frames::HEAD_LENGTH).await?;
        let (received, length) = frames::parse_head(&head);
        self.take(length).await?;
        if received.kind == frames::SETTINGS && !received.is_ack() {
            self.write(&frames::settings_ack()).await?;
        }
        Ok(received)
    }

    /// Whether this was the whole request.
    async fn read_headers(&mut self) -> io::Result<bool> {
        loop {
            let frame = self.next_frame().await?;
            if frame.kind == frames::HEADERS {
                self.counts.heads.fetch_add(1, Ordering::SeqCst);
                self.http2 = Some(frame.stream);
                return Ok(frame.ends_stream());
            }
        }
    }

    async fn read_http2_request(&mut self) -> io::Result<()> {
        loop {
            let mut whole = self.read_headers().await?;
            let mut given_up = false;
            while !whole && !given_up {
                let frame = self.next_frame().await?;
                let ours = Some(frame.stream) == self.http2;
                whole = ours && frame.kind == frames::DATA && frame.ends_stream();
                given_up = ours && frame.kind == frames::RST_STREAM;
            }
            if whole {
                return Ok(());
            }
        }
    }

    pub(crate) async fn read_ping(&mut self) -> io::Result<()> {
        while self.next_frame().await?.kind != frames::PING {}
        Ok(())
    }
}

trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}
