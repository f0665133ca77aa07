//! One attempt: what goes round the inner middlewares.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Next, Result};

use super::body_factory::BodyFactory;
use super::retry_scope::RetryScope;
use super::{BoxFuture, RetryError, buffer};
use crate::time;
use crate::time::Instant;

/// What an attempt does besides sending.
#[derive(Debug)]
pub(super) struct Around {
    pub(super) body_factory: Option<BodyFactory>,
    /// Up to the head.
    pub(super) head_timeout: Option<Duration>,
    /// Up to the head, or to the end of a body that is read here.
    pub(super) time_left: Option<Duration>,
    /// How much of the body is read.
    pub(super) buffer_body: Option<u64>,
    /// Whether anybody may ask for what was read.
    pub(super) keep_body: bool,
    /// What can cancel it before it is sent.
    pub(super) scope: Option<Arc<RetryScope>>,
    /// Becomes true when it is sent.
    pub(super) has_left: Option<Arc<AtomicBool>>,
}

impl Around {
    pub(super) fn run<'a>(
        self,
        next: Next<'a>,
        mut request: Request,
        extensions: &'a mut Extensions,
    ) -> BoxFuture<'a, Result<Response>> {
        let Self { body_factory, head_timeout, time_left, buffer_body, keep_body, scope, has_left } =
            self;
        Box::pin(within(time_left, RetryError::deadline, async move {
            let head = async {
                if let Some(factory) = body_factory {
                    let started = Instant::now();
                    factory.fill(&mut request).await?;
                    // It may have held the thread, so that no timer has fired.
                    let has_passed =
                        |limit: Option<Duration>| limit.is_some_and(|it| started.elapsed() >= it);
                    if scope.is_some_and(|scope| scope.is_cancelled()) {
                        return Err(RetryError::cancelled().into());
                    } else if has_passed(time_left) {
                        return Err(RetryError::deadline().into());
                    } else if has_passed(head_timeout) {
                        return Err(RetryError::head_timeout().into());
                    }
                }
                if let Some(has_left) = has_left {
                    has_left.store(true, Ordering::Relaxed);
                }
                next.run(request, extensions).await
            };
            let response = within(head_timeout, RetryError::head_timeout, head).await?;
            match buffer_body {
                Some(limit) => buffer::read(response, limit, keep_body).await,
                None => Ok(response),
            }
        }))
    }
}

async fn within(
    limit: Option<Duration>,
    error: fn() -> RetryError,
    work: impl Future<Output = Result<Response>>,
) -> Result<Response> {
    match limit {
        Some(limit) => time::timeout(limit, work).await.unwrap_or_else(|| Err(error().into())),
        None => work.await,
    }
}
