//! The request as the caller made it, for each attempt anew.

use std::mem;

use http::Extensions;
use reqwest::Request;

/// Hands out the request for each attempt, and keeps a pristine copy only as long as a resend can
/// follow. `Bytes` bodies share their memory, which stays pinned as long as the copy.
pub(super) struct Replay {
    /// Before the first send the request itself; after that the copy, if there is one.
    request: Option<Request>,
    /// The extensions as the caller passed them, if there is a copy.
    extensions: Extensions,
}

impl Replay {
    pub(super) fn new(request: Request) -> Self {
        Self { request: Some(request), extensions: Extensions::new() }
    }

    /// The request and map of the first attempt: the caller's own. A body that can't be cloned
    /// leaves no copy.
    #[expect(
        clippy::expect_used,
        reason = "`new` fills the slot, and `Call` asks for one first send"
    )]
    pub(super) fn first(&mut self, extensions: &Extensions, keep: bool) -> Request {
        let original = self.request.take().expect("the request has not been sent yet");
        if keep {
            self.request = original.try_clone();
        }
        if self.request.is_some() {
            self.extensions = extensions.clone();
        }
        original
    }

    /// Whether there is a copy to send.
    pub(super) fn is_possible(&self) -> bool {
        self.request.is_some()
    }

    /// The copy, where there is one.
    pub(super) fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }

    /// The request of a resend; resets `extensions` to what the caller passed. Unless a further
    /// copy must be kept, the last one is handed out itself.
    #[expect(clippy::expect_used, reason = "`Call` waits for a resend only if one is possible")]
    pub(super) fn again(&mut self, extensions: &mut Extensions, keep: bool) -> Request {
        if keep {
            if let Some(copy) = self.request.as_ref().and_then(Request::try_clone) {
                *extensions = self.extensions.clone();
                return copy;
            }
        }
        *extensions = mem::take(&mut self.extensions);
        self.request.take().expect("a resend was possible")
    }
}
