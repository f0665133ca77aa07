//! Whether two requests are the same one, come by again.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::OnceLock;

use http::Method;
use reqwest::{Request, Url};

/// What a request is told by when it comes by again: method, URL, and the bytes that it carries.
#[derive(Clone)]
pub(super) struct Identity {
    method: Method,
    url: Url,
    /// `None`: what it carries can't be seen, so that it is like no other.
    body: Option<u64>,
}

impl Identity {
    pub(super) fn of(request: &Request) -> Self {
        let (method, url) = (request.method().clone(), request.url().clone());
        Self { method, url, body: digest(request) }
    }

    pub(super) fn is_of(&self, request: &Request) -> bool {
        self.method == *request.method()
            && self.url == *request.url()
            && self.body.is_some()
            && self.body == digest(request)
    }
}

/// Of the bytes that the request carries, if they are there. Keyed at random, so that nobody makes two bodies
/// of one digest.
fn digest(request: &Request) -> Option<u64> {
    static KEYS: OnceLock<RandomState> = OnceLock::new();
    let bytes = match request.body() {
        Some(body) => Some(body.as_bytes()?),
        None => None,
    };
    Some(KEYS.get_or_init(RandomState::new).hash_one(bytes))
}

/// The URL may hold secrets.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}
