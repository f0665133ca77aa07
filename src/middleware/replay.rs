//! The request as the caller made it, for each attempt anew.

use std::mem;

use http::Extensions;
use reqwest::{Body, Request};

/// Hands out the request for each attempt, and keeps it only as long as a resend can follow. `Bytes` bodies
/// share their memory, which stays pinned as long.
pub(super) struct Replay {
    request: Option<Request>,
    /// The extensions as the caller passed them, if a resend can follow.
    extensions: Extensions,
}

/// Whether the request can be copied: a body that is a stream can't.
#[inline]
pub(super) fn can_copy(request: &Request) -> bool {
    request.body().is_none_or(|body| Body::as_bytes(body).is_some())
}

impl Replay {
    #[inline]
    pub(super) fn new(request: Request) -> Self {
        Self { request: Some(request), extensions: Extensions::new() }
    }

    /// The request, as long as it is here.
    #[inline]
    pub(super) fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }

    pub(super) fn request_mut(&mut self) -> Option<&mut Request> {
        self.request.as_mut()
    }

    /// Notes the extensions for resends.
    #[inline]
    pub(super) fn keep_extensions(&mut self, extensions: &Extensions) {
        self.extensions = extensions.clone();
    }

    /// Resets `extensions` to what the caller passed; `keep`: and keeps them for another resend.
    pub(super) fn reset(&mut self, extensions: &mut Extensions, keep: bool) {
        let pristine = mem::take(&mut self.extensions);
        if keep {
            self.extensions = pristine.clone();
        }
        *extensions = pristine;
    }

    /// The request of an attempt: a copy where it is to stay, else itself.
    #[expect(clippy::expect_used, reason = "`Sending` sends only what is still here")]
    #[inline]
    pub(super) fn hand_out(&mut self, keep: bool) -> Request {
        if keep {
            if let Some(copy) = self.request.as_ref().and_then(Request::try_clone) {
                return copy;
            }
        }
        self.request.take().expect("the request is here")
    }
}
