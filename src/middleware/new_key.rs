//! The idempotency key that was made for a request.

use std::fmt;

use http::Method;
use reqwest::{Request, Url};

use crate::policy::IdempotencyKey;

/// Kept for when the same request comes by again: in the next request of a session, or because a layer outside
/// sends it once more. For another one it is of no use: two orders would be one to the server.
#[derive(Clone)]
pub(super) struct NewKey {
    method: Method,
    url: Url,
    key: IdempotencyKey,
}

impl NewKey {
    /// The key that is `kept` for this request, or else `new`, which is kept from now on.
    pub(super) fn of(
        request: &Request,
        kept: &mut Option<Self>,
        new: IdempotencyKey,
    ) -> IdempotencyKey {
        let is_same = |kept: &Self| kept.method == *request.method() && kept.url == *request.url();
        if let Some(kept) = kept.as_ref().filter(|kept| is_same(kept)) {
            return kept.key.clone();
        }
        let (method, url) = (request.method().clone(), request.url().clone());
        *kept = Some(Self { method, url, key: new.clone() });
        new
    }
}

/// The URL may hold secrets.
impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").finish_non_exhaustive()
    }
}
