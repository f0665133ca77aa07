//! What is other in a browser. It has a cache between us and the server; and reqwest hides the parts of a response
//! there, so that what is read of a body can't be put back.

use reqwest::{Client, Request, RequestBuilder};

/// A resend is for the server: what the browser has in its cache is the answer that called for it. The next answer
/// takes its place there.
pub(super) fn go_past_the_cache(request: &mut Request) {
    let body = request.body_mut().take(); // the one thing that can't always be copied
    let copy = request.try_clone().map(|copy| RequestBuilder::from_parts(Client::new(), copy));
    if let Some(Ok(copy)) = copy.map(|copy| copy.fetch_cache_reload().build()) {
        *request = copy;
    }
    *request.body_mut() = body;
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
    use crate::middleware::drain::Progress;

    pub(in crate::middleware) struct Discarded(Response);

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
