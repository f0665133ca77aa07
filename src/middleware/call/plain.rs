//! A call that is nothing but one send.

use std::ops::ControlFlow::{Break, Continue};
use std::pin::Pin;
use std::task::{Context, Poll};

use reqwest::Response;
use reqwest_middleware::Result;

use super::Call;
use crate::middleware::attempt_scope::{Ended, InScope};
use crate::middleware::exchange::Exchanges;

/// A call that is [no more](Call::is_plain) than that. Its request is with the next middleware already,
/// and nothing of it is kept: moving it about would be most of what the call costs.
pub(in crate::middleware) struct Plain<'a> {
    pub(in crate::middleware) call: Call<'a>,
    pub(in crate::middleware) attempt: InScope<'a>,
}

impl Plain<'_> {
    #[cold]
    #[inline(never)]
    fn after_failure(&self, result: Result<Response>) -> Result<Response> {
        let (call, url) = (&self.call, self.call.destination());
        let ended = Ended { result, exchanges: Exchanges::default() };
        match call.judge(&mut call.progress(url), ended, url, false) {
            // There is nothing to send again.
            Break(result) | Continue((_, result)) => result,
        }
    }
}

impl Future for Plain<'_> {
    type Output = Result<Response>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Response>> {
        let polled = self.attempt.poll_result(cx);
        if let Poll::Ready(result) = &polled {
            if !self.call.is_done(result) {
                return polled.map(|result| self.after_failure(result));
            }
            self.call.answered(self.call.destination());
        }
        polled
    }
}
