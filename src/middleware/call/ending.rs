//! The end of a call: its result, and who is told.

use reqwest::{Response, Url};
use reqwest_middleware::Result;

use super::Call;
use crate::middleware::error::FailedCall;
use crate::middleware::history::{AttemptRecord, RetryHistory};
use crate::middleware::{RetryError, RetryErrorExt as _, buffer, observe};
use crate::policy::StopReason;

impl Call<'_> {
    pub(super) fn finish(
        &self,
        attempts: Vec<AttemptRecord>,
        url: Option<&Url>,
        reason: StopReason,
        result: Result<Response>,
    ) -> Result<Response> {
        self.end(attempts, url, reason, result, true)
    }

    /// Leaves the history where the caller can find it, and tells the observers, if they know of the call.
    pub(super) fn end(
        &self,
        attempts: Vec<AttemptRecord>,
        url: Option<&Url>,
        reason: StopReason,
        mut result: Result<Response>,
        is_told: bool,
    ) -> Result<Response> {
        if let Some(shared) = self.shared_session() {
            shared.ended(reason, result.is_err());
        }
        if let Ok(response) = &mut result {
            buffer::forget(response);
        }
        let sent = attempts.last().map_or(0, AttemptRecord::number);
        result = result.map_err(|error| self.complete(error, sent, url, reason));
        let worth_telling = attempts.len() > 1 || reason.is_giving_up();
        if worth_telling || self.tracker().is_some() {
            let history = RetryHistory::new(attempts, reason);
            if let Some(tracker) = self.tracker() {
                tracker.record(history.clone());
            }
            if is_told {
                self.retry.observers.call_ended(&self.observed(url), &history);
            }
            // In a browser responses have no extensions.
            #[cfg(not(target_arch = "wasm32"))]
            if let (true, Ok(response)) = (worth_telling, &mut result) {
                response.extensions_mut().insert(history);
            }
        }
        result
    }

    /// An error of the layer's own says which call it ends; so does every other, where the client asked
    /// for that.
    fn complete(
        &self,
        error: reqwest_middleware::Error,
        attempts: u32,
        url: Option<&Url>,
        stop_reason: StopReason,
    ) -> reqwest_middleware::Error {
        let ours = match error {
            reqwest_middleware::Error::Middleware(error)
                if error.downcast_ref().is_some_and(RetryError::is_new) =>
            {
                match error.downcast() {
                    Ok(ours) => ours,
                    Err(error) => return error.into(),
                }
            }
            error if self.retry.wraps_errors && error.retry_error().is_none() => {
                RetryError::wrap(error)
            }
            error => return error,
        };
        let (method, origin) = (self.method.clone(), url.and_then(observe::origin));
        ours.of(FailedCall { method, origin, attempts, elapsed: self.elapsed(), stop_reason })
            .into()
    }
}
