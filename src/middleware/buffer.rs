//! Response bodies that are read inside the attempt, so that their failures are outcomes like others.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::HeaderMap;
use http::response::{Builder, Parts};
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use reqwest::{Body, Response, ResponseBuilderExt as _, Url};
use reqwest_middleware::Result;

/// The whole body of a response, among its extensions while classifiers may ask for it.
#[derive(Clone)]
struct Buffered(Bytes);

/// Reads the body of `response` and gives back one that says the same. What is longer than `limit`
/// bytes streams on from where reading stopped; where its length says so before, nothing is read.
pub(super) async fn read(
    response: Response,
    limit: u64,
    for_classifiers: bool,
) -> Result<Response> {
    if response.content_length().is_some_and(|length| length > limit) {
        return Ok(response);
    }
    let url = response.url().clone();
    let (mut parts, mut body) = http::Response::<Body>::from(response).into_parts();
    let mut chunks = Vec::new();
    let mut trailers = None;
    let mut length = 0_u64;
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.transpose()? {
        match frame.into_data() {
            Ok(data) => {
                length = length.saturating_add(data.len() as u64);
                chunks.push(data);
                if length > limit {
                    let body = Rebuilt { chunks: chunks.into(), trailers, rest: Some(body) };
                    return Ok(rebuild(parts, url, body));
                }
            }
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    let bytes = join(chunks);
    if for_classifiers {
        parts.extensions.insert(Buffered(bytes.clone()));
    }
    Ok(rebuild(parts, url, Rebuilt { chunks: [bytes].into(), trailers, rest: None }))
}

/// The body of a response that was read whole, if classifiers may ask for it.
pub(super) fn bytes(response: &Response) -> Option<&[u8]> {
    response.extensions().get().map(|Buffered(bytes)| bytes.as_ref())
}

/// Ends what [`bytes`] knows of: the caller has no use for it.
pub(super) fn forget(response: &mut Response) {
    response.extensions_mut().remove::<Buffered>();
}

/// One piece is not copied.
fn join(mut chunks: Vec<Bytes>) -> Bytes {
    match chunks.len() {
        0 | 1 => chunks.pop().unwrap_or_default(),
        _ => chunks.concat().into(),
    }
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
    pub(super) chunks: VecDeque<Bytes>,
    pub(super) trailers: Option<HeaderMap>,
    pub(super) rest: Option<Body>,
}

impl HttpBody for Rebuilt {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<reqwest::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        if let Some(chunk) = this.chunks.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        if let Some(trailers) = this.trailers.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        match &mut this.rest {
            Some(rest) => Poll::Ready(ready!(Pin::new(rest).poll_frame(cx))),
            None => Poll::Ready(None),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>();
        let rest = self.rest.as_ref().map_or(SizeHint::with_exact(0), HttpBody::size_hint);
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(read));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(read));
        }
        hint
    }

    fn is_end_stream(&self) -> bool {
        self.chunks.iter().all(Bytes::is_empty)
            && self.trailers.is_none()
            && self.rest.as_ref().is_none_or(HttpBody::is_end_stream)
    }
}
