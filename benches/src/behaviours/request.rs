//! The request of a row, made as often as somebody asks for it.

use std::io;

use futures_util::stream;
use http::{HeaderValue, Method};
use reqwest::{Body, Request, Url};

use super::Result;

#[derive(Clone, Debug)]
pub struct Wanted {
    pub method: Method,
    pub body: Payload,
    /// The caller's own.
    pub idempotency_key: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    None,
    Bytes,
    /// It can't be cloned.
    Stream,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { method: Method::GET, body: Payload::None, idempotency_key: None }
    }
}

impl Wanted {
    #[must_use]
    pub fn new(method: Method) -> Self {
        let body = if method == Method::GET { Payload::None } else { Payload::Bytes };
        Self { method, body, idempotency_key: None }
    }

    /// # Errors
    /// If the URL is none.
    pub fn request(&self, url: &str) -> Result<Request> {
        let mut request = Request::new(self.method.clone(), Url::parse(url)?);
        *request.body_mut() = match self.body {
            Payload::None => None,
            Payload::Bytes => Some(Body::from("an order")),
            Payload::Stream => Some(streamed()),
        };
        if let Some(key) = self.idempotency_key {
            request.headers_mut().insert("idempotency-key", HeaderValue::from_static(key));
        }
        Ok(request)
    }
}

/// The body that can't be cloned.
#[must_use]
pub fn streamed() -> Body {
    Body::wrap_stream(stream::iter([Ok::<_, io::Error>("an order")]))
}
