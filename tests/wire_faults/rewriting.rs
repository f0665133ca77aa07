//! An inner middleware that sends the body on as a stream, as one that counts or compresses does.

use std::convert::Infallible;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use http::Extensions;
use reqwest::{Body, Request, Response};
use reqwest_middleware::{Middleware, Next, Result};

pub(crate) struct AsStream;

#[async_trait]
impl Middleware for AsStream {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let bytes = request.body().and_then(Body::as_bytes).map(Bytes::copy_from_slice);
        if let Some(bytes) = bytes {
            let chunks = stream::iter([Ok::<_, Infallible>(bytes)]);
            *request.body_mut() = Some(Body::wrap_stream(chunks));
        }
        next.run(request, extensions).await
    }
}
