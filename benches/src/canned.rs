//! The last middlewares: they answer from memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Extensions, StatusCode};
use reqwest::{Request, Response, ResponseBuilderExt as _};
use reqwest_middleware::{Middleware, Next};

/// 200, or 503 to a path that says so.
pub struct Canned;

#[async_trait::async_trait]
impl Middleware for Canned {
    async fn handle(
        &self,
        request: Request,
        _: &mut Extensions,
        _: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        answer(&request)
    }
}

/// The same answers, and how many: clones share the number.
#[derive(Clone, Default)]
pub struct Counted {
    sends: Arc<AtomicUsize>,
}

impl Counted {
    /// The requests that have come so far.
    #[must_use]
    pub fn sends(&self) -> usize {
        self.sends.load(Ordering::Relaxed)
    }
}

#[async_trait::async_trait]
impl Middleware for Counted {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        self.sends.fetch_add(1, Ordering::Relaxed);
        Canned.handle(request, extensions, next).await
    }
}

/// The same, but each request gives way once, so that all that can be are in flight at the same time.
pub struct CannedInFlight;

#[async_trait::async_trait]
impl Middleware for CannedInFlight {
    async fn handle(
        &self,
        request: Request,
        _: &mut Extensions,
        _: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        tokio::task::yield_now().await;
        answer(&request)
    }
}

fn answer(request: &Request) -> reqwest_middleware::Result<Response> {
    let status = match request.url().path() {
        "/sick" => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    // Without its URL it would be given one by parsing.
    let response = http::Response::builder().status(status).url(request.url().clone()).body("");
    Ok(response.map_err(reqwest_middleware::Error::middleware)?.into())
}
