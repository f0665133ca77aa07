//! In place of what needs the parts of a response. reqwest hides them in a browser: what is read of a body can't be
//! put back.

use reqwest::{Client, Request, RequestBuilder};

/// A resend is for the server: what the browser has in its cache is the answer that called for it.
pub(super) fn go_past_the_cache(request: &mut Request) {
    let Some(copy) = request.try_clone() else { return };
    let copy = RequestBuilder::from_parts(Client::new(), copy).fetch_cache_no_store().build();
    if let Ok(copy) = copy {
        *request = copy;
    }
}

/// Bodies are never read inside the attempt.
pub(super) mod buffer {
    use reqwest::Response;
    use reqwest_middleware::Result;

    pub(in crate::middleware) const IS_POSSIBLE: bool = false;

    pub(in crate::middleware) async fn read(
        response: Response,
        _limit: u64,
        _keep: bool,
    ) -> Result<Response> {
        Ok(response)
    }

    pub(in crate::middleware) fn bytes(_response: &Response) -> Option<&[u8]> {
        None
    }

    pub(in crate::middleware) fn forget(_response: &mut Response) {}
}

/// A response that is dropped ends its `fetch`, and whether its connection can be used again is the browser's
/// affair. One that a cancellation may ask for is kept, unread, if it says that it is within the limit: the browser
/// reads on by itself up to some bound of its own, and then what is unread holds the connection.
pub(super) mod discarded {
    use std::task::Context;
    use std::time::Duration;

    use reqwest::Response;

    use crate::middleware::DrainLimits;

    pub(in crate::middleware) struct Discarded(Response);

    /// What came of reading on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(in crate::middleware) enum Progress {
        Done,
        Some,
        None,
    }

    impl Discarded {
        pub(in crate::middleware) fn new(
            response: Response,
            limits: DrainLimits,
            _delay: Duration,
            keep: bool,
        ) -> Option<Self> {
            let fits = response.content_length().is_some_and(|length| length <= limits.bytes);
            (keep && fits).then_some(Self(response))
        }

        pub(in crate::middleware) fn poll(&mut self, _cx: &mut Context<'_>) -> Progress {
            Progress::None
        }

        pub(in crate::middleware) fn into_response(self) -> Option<Response> {
            Some(self.0)
        }
    }
}
