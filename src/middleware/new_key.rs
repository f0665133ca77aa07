//! The idempotency key of a request, kept for when it comes by again.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::OnceLock;

use http::Method;
use reqwest::{Request, Url};

use crate::policy::IdempotencyKey;

/// In the next request of a session, or because a layer outside sends it once more. For another request it
/// is of no use: two orders would be one to the server.
#[derive(Clone)]
pub(super) struct NewKey {
    method: Method,
    url: Url,
    /// `None`: what it carries can't be seen, so that it is like no other.
    body: Option<u64>,
    key: IdempotencyKey,
}

impl NewKey {
    /// The key that is `kept` for this request, or else a new one, which is kept from now on.
    pub(super) fn of(
        request: &Request,
        kept: &mut Option<Self>,
        make: impl FnOnce() -> IdempotencyKey,
    ) -> IdempotencyKey {
        let body = digest(request);
        let is_same = |kept: &Self| {
            kept.method == *request.method()
                && kept.url == *request.url()
                && kept.body.is_some()
                && kept.body == body
        };
        if let Some(kept) = kept.as_ref().filter(|kept| is_same(kept)) {
            return kept.key.clone();
        }
        let key = make();
        *kept = Some(Self::with(request, body, key.clone()));
        key
    }

    pub(super) fn new(request: &Request, key: IdempotencyKey) -> Self {
        Self::with(request, digest(request), key)
    }

    fn with(request: &Request, body: Option<u64>, key: IdempotencyKey) -> Self {
        Self { method: request.method().clone(), url: request.url().clone(), body, key }
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
impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").finish_non_exhaustive()
    }
}
