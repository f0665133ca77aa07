//! The requests that are measured.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use reqwest::{Body, Request, Url};

/// One kind of request. Each is made outside of what is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A GET without fields.
    Get,
    /// A POST with eight fields and a body of this many bytes.
    Post(usize),
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Get, Self::Post(1 << 10), Self::Post(1 << 20)];

    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Get => "GET".to_owned(),
            Self::Post(bytes) if bytes >= 1 << 20 => format!("POST {} MiB", bytes >> 20),
            Self::Post(bytes) => format!("POST {} KiB", bytes >> 10),
        }
    }

    /// Bodies share the bytes of `source`.
    #[must_use]
    pub fn request(self, url: &Url, source: &bytes::Bytes) -> Request {
        match self {
            Self::Get => Request::new(Method::GET, url.clone()),
            Self::Post(length) => {
                let mut request = Request::new(Method::POST, url.clone());
                *request.headers_mut() = fields();
                *request.body_mut() = Some(Body::from(source.slice(..length.min(source.len()))));
                request
            }
        }
    }
}

/// Eight fields, as many APIs get them.
#[must_use]
pub fn fields() -> HeaderMap {
    let names = [
        "accept",
        "authorization",
        "content-type",
        "user-agent",
        "x-client",
        "x-region",
        "x-request-id",
        "x-tenant",
    ];
    names
        .map(|name| {
            (HeaderName::from_static(name), HeaderValue::from_static("a value of some length"))
        })
        .into_iter()
        .collect()
}
