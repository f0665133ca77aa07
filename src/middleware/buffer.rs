//! Response bodies that are read inside the attempt, so that their failures are outcomes like others.

use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::HeaderMap;
use http::response::{Builder, Parts};
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use reqwest::{Body, Response, ResponseBuilderExt as _, Url};
use reqwest_middleware::Result;

use crate::time;

pub(super) const IS_POSSIBLE: bool = true;

/// The whole body of a response, among its extensions as long as the call goes on.
#[derive(Clone)]
struct Buffered(Bytes);

/// A body that is always ready gives way after so many frames, so that a limit can pass.
const FRAMES_AT_ONCE: usize = 32;

/// No server makes us set aside more than this by an announcement alone.
const MOST_AHEAD: u64 = 64 * 1024;

/// Reads the body of `response` and gives back one that says the same. What is longer than `limit`
/// bytes streams on from where reading stopped; where its length says so before, nothing is read.
/// `keep`: whether [`bytes`] may be asked for it.
pub(super) async fn read(response: Response, limit: u64, keep: bool) -> Result<Response> {
    let announced = response.content_length();
    if announced.is_some_and(|length| length > limit) {
        return Ok(response);
    }
    let url = response.url().clone();
    let (mut parts, mut body) = http::Response::<Body>::from(response).into_parts();
    let mut read = Vec::new();
    let mut trailers = None;
    let mut frames = 0_usize;
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.transpose()? {
        match frame.into_data() {
            Ok(data) => {
                if read.is_empty() {
                    // Of a body without data some say a length, to a HEAD: not to be relied on.
                    let ahead = announced.map_or(0, |length| length.min(limit).min(MOST_AHEAD));
                    read.reserve(usize::try_from(ahead).unwrap_or(0));
                }
                read.extend_from_slice(&data);
                if read.len() as u64 > limit {
                    return Ok(rebuild(parts, url, Rebuilt::part(read.into(), trailers, body)));
                }
            }
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
        frames += 1;
        if frames % FRAMES_AT_ONCE == 0 {
            time::sleep(Duration::ZERO).await;
        }
    }
    let read = Bytes::from(read);
    if keep {
        parts.extensions.insert(Buffered(read.clone()));
    }
    Ok(rebuild(parts, url, Rebuilt::whole(read, trailers, &body)))
}

/// The body of a response that was read whole, as long as the call goes on.
pub(super) fn bytes(response: &Response) -> Option<&[u8]> {
    response.extensions().get().map(|Buffered(bytes)| bytes.as_ref())
}

/// Ends what [`bytes`] knows of: the caller has no use for it.
pub(super) fn forget(response: &mut Response) {
    response.extensions_mut().remove::<Buffered>();
}

pub(super) fn rebuild(mut parts: Parts, url: Url, body: Rebuilt) -> Response {
    // reqwest keeps the URL in an extension that only its builder can make.
    if let Some(with_url) = Builder::new().url(url).extensions_mut() {
        parts.extensions.extend(mem::take(with_url));
    }
    http::Response::from_parts(parts, Body::wrap(body)).into()
}

/// What was read of a body, and what was not.
pub(super) struct Rebuilt {
    read: Bytes,
    trailers: Option<HeaderMap>,
    rest: Option<Body>,
    /// What a body that has ended says of its length all the same.
    ended: SizeHint,
}

impl Rebuilt {
    /// Of a body that has ended, and must not be asked again.
    pub(super) fn whole(read: Bytes, trailers: Option<HeaderMap>, ended: &Body) -> Self {
        // Where there was no data the length that it says is that of another response, as to a HEAD.
        let nothing = SizeHint::with_exact(0);
        let ended = if read.is_empty() { ended.size_hint() } else { nothing };
        Self { read, trailers, rest: None, ended }
    }

    /// Of a body of which something is still to come.
    pub(super) fn part(read: Bytes, trailers: Option<HeaderMap>, rest: Body) -> Self {
        Self { read, trailers, rest: Some(rest), ended: SizeHint::default() }
    }
}

impl HttpBody for Rebuilt {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<reqwest::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        if !this.read.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(mem::take(&mut this.read)))));
        }
        if let Some(trailers) = this.trailers.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        match &mut this.rest {
            Some(rest) => Pin::new(rest).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.read.len() as u64;
        let of_rest = self.rest.as_ref().map(HttpBody::size_hint);
        let rest = of_rest.as_ref().unwrap_or(&self.ended);
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(read));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(read));
        }
        hint
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty()
            && self.trailers.is_none()
            && self.rest.as_ref().is_none_or(HttpBody::is_end_stream)
    }
}
