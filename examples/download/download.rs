//! The part to copy: a download that takes up where it was cut.

use std::io;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap, HeaderValue, IF_RANGE, RANGE,
};
use reqwest::{Response, StatusCode};
use reqwest_middleware::ClientWithMiddleware;
use reqwest_typed_retry::{RetryPolicy, RetryRequestExt as _, SharedSession};
use tokio::fs::File;
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};

/// How far a download is.
#[derive(Debug, Default)]
pub(crate) struct Download {
    /// How many bytes are in the file.
    pub(crate) received: u64,
    /// How many there are to be, where the server says so.
    pub(crate) total: Option<u64>,
    /// The server's `Repr-Digest` (RFC 9530), to check the file against.
    pub(crate) digest: Option<HeaderValue>,
    /// Names what is in the file, byte for byte. Without one nothing can be taken up.
    strong_etag: Option<HeaderValue>,
    /// How many requests there were, those included that the middleware sent again.
    pub(crate) attempts: u32,
    /// How often the body ended early.
    pub(crate) cuts: u32,
    /// How often what had been received was of no use.
    pub(crate) restarts: u32,
}

/// Downloads `url` to the file at `path`, and asks for the rest whenever the body ends early.
///
/// - `policy` counts every request, whoever sends it again: the middleware after a 503, this loop
///   after a cut. So does the client's retry budget. The policy should have no attempt timeout, which would cut each long
///   body. Give the client
///   a `read_timeout` instead: so long a server may be silent.
/// - The client must not decompress, since ranges count the bytes on the wire: where reqwest has
///   these features, build it with `no_gzip()`, `no_brotli()`, `no_deflate()` and `no_zstd()`.
/// - A cut counts against `policy` however much came before it. For a long download leave the number
///   of attempts open and set a deadline.
/// - What the file had before is gone. After an error it is incomplete, if it is there at all.
/// - `progress` is told of each piece. When the download starts over, so does the count.
pub(crate) async fn download(
    client: &ClientWithMiddleware,
    url: &str,
    path: &Path,
    policy: RetryPolicy,
    mut progress: impl FnMut(&Download),
) -> anyhow::Result<Download> {
    let session = SharedSession::new(policy);
    let mut file = File::create(path).await?;
    let mut download = Download::default();
    'requests: loop {
        let mut request = client.get(url).header(ACCEPT_ENCODING, "identity");
        let part_of = download.strong_etag.clone().filter(|_| download.received > 0);
        if let Some(etag) = &part_of {
            // The rest, if it is still the same file; all of it, if it is another one by now.
            let rest = format!("bytes={}-", download.received);
            request = request.header(RANGE, rest).header(IF_RANGE, etag);
        }
        let mut response = request.retry_session(&session).send().await?;

        match (response.status(), &part_of) {
            (StatusCode::OK, _) => {
                download.start_over(&response)?;
                file.set_len(0).await?;
                file.rewind().await?;
            }
            (StatusCode::PARTIAL_CONTENT, Some(etag)) if is_of(&response, etag) => {
                let (start, total) = content_range(response.headers());
                let (asked, got) = (download.received, response.headers().get(CONTENT_RANGE));
                ensure!(start == Some(asked), "asked for bytes from {asked} on, got {got:?}");
                download.total = total.or(download.total);
            }
            // Nothing is left: just the end of a chunked body was missing.
            (StatusCode::RANGE_NOT_SATISFIABLE, Some(_)) if download.is_all_of(&response) => {
                break 'requests;
            }
            // It is another file by now, and the server does not know `If-Range`.
            (StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE, Some(_)) => {
                drop(response); // it holds a connection
                download.strong_etag = None; // so that the next request is for all of it
                session.resend_after(early_end("the file has changed")).await?;
                continue;
            }
            (status, _) => {
                response.error_for_status()?;
                bail!("nobody asked for the status {status}");
            }
        }
        progress(&download);

        let cut = loop {
            match response.chunk().await {
                Ok(Some(piece)) => {
                    // A failure of the disk ends the download: it is no reason to send again.
                    file.write_all(&piece).await?;
                    download.received += piece.len() as u64;
                    progress(&download);
                }
                Ok(None) if download.is_whole() => break 'requests,
                // A server may send less than it was asked for.
                Ok(None) => break early_end("not all of it"),
                Err(error) => break io::Error::other(error),
            }
        };
        download.cuts += 1;
        let gave_up = || format!("given up after {} bytes", download.received);
        session.resend_after(cut).await.with_context(gave_up)?;
    }
    file.flush().await?; // the last write may still be on its way
    download.attempts = session.attempts();
    Ok(download)
}

impl Download {
    /// All of a file begins with this response.
    fn start_over(&mut self, response: &Response) -> anyhow::Result<()> {
        let headers = response.headers();
        let encoding = headers.get(CONTENT_ENCODING);
        ensure!(
            encoding.is_none_or(|it| it == "identity"),
            "nobody asked for the encoding {encoding:?}"
        );
        self.restarts += u32::from(self.received > 0);
        self.received = 0;
        self.total = response.content_length();
        self.digest = headers.get("repr-digest").cloned();
        // A weak one (`W/"…"`) stands for files that may differ by their bytes (RFC 9110, 13.1.5).
        self.strong_etag = headers.get(ETAG).filter(|it| it.as_bytes().starts_with(b"\"")).cloned();
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.total.is_none_or(|total| self.received >= total)
    }

    /// Whether a 416 says that the file ends where this download is.
    fn is_all_of(&self, response: &Response) -> bool {
        let (_, total) = content_range(response.headers());
        total == Some(self.received) && self.total.is_none_or(|announced| Some(announced) == total)
    }
}

/// Whether a 206 is a part of the file with this ETag. By `If-Range` it is, if it says nothing else.
fn is_of(response: &Response, etag: &HeaderValue) -> bool {
    response.headers().get(ETAG).is_none_or(|theirs| theirs == etag)
}

/// The first byte and the length of the whole, of `bytes 5-9/10` or `bytes */10`.
fn content_range(headers: &HeaderMap) -> (Option<u64>, Option<u64>) {
    let field = headers.get(CONTENT_RANGE).and_then(|field| field.to_str().ok());
    let parts = field.and_then(|field| field.strip_prefix("bytes ")?.split_once('/'));
    let (range, total) = parts.unwrap_or_default();
    let start = range.split_once('-').and_then(|(start, _)| start.parse().ok());
    (start, total.parse().ok())
}

/// A failure that the policy takes for a lost connection.
fn early_end(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, why)
}
