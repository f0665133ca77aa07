//! What follows an attempt: the policy's decision, and what the policy does not know.

use std::mem;
use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use reqwest::{Response, Url};
use reqwest_middleware::Result;

use super::{Call, Progress, target};
use crate::middleware::attempt_scope::Ended;
use crate::middleware::history::{AttemptOutcome, AttemptRecord};
use crate::middleware::{RetryError, RetryErrorExt as _, buffer};
use crate::policy::{DelaySource, Outcome, RetryDecision, StopReason, is_well};

impl Call<'_> {
    /// Decides what follows an attempt: a resend after a wait, or the result as it is.
    pub(super) fn judge(
        &self,
        progress: &mut Progress,
        ended: Ended,
        url: Option<&Url>,
        can_resend: bool,
    ) -> ControlFlow<Result<Response>, (Duration, Result<Response>)> {
        let record = self.decide(progress, &ended, can_resend);
        progress.attempts.push(record);
        self.retry.observers.attempt_ended(&self.observed(url), &record);
        match record.decision() {
            RetryDecision::RetryAfter { delay, .. } => Continue((delay, ended.result)),
            RetryDecision::DoNotRetry { reason } => {
                if let Some(shared) = self.shared_session() {
                    shared.keep_account(progress.account.take());
                }
                let attempts = mem::take(&mut progress.attempts);
                Break(self.finish(attempts, url, reason, ended.result))
            }
        }
    }

    fn decide(&self, progress: &mut Progress, ended: &Ended, can_resend: bool) -> AttemptRecord {
        let Progress { session, account, attempt_started, .. } = progress;
        if let Some(shared) = self.shared_session() {
            *session = shared.session(self.class);
        }
        let number = session.attempts();
        let no_headers = HeaderMap::new();
        let (outcome, recorded) = match &ended.result {
            Ok(response) => {
                let (status, headers) = (response.status(), response.headers());
                let outcome = match buffer::bytes(response) {
                    Some(body) => Outcome::response_with_body(status, headers, body),
                    None => Outcome::response(status, headers),
                };
                (outcome, AttemptOutcome::Status(status))
            }
            Err(error) => match error.status() {
                // An inner middleware called `error_for_status`: the server did answer.
                Some(status) => {
                    (Outcome::response(status, &no_headers), AttemptOutcome::Status(status))
                }
                None => {
                    let fault = RetryError::fault_of(error);
                    (Outcome::error(fault, error), AttemptOutcome::Fault(fault))
                }
            },
        };
        let now = self.retry.wall_clock.now();
        let elapsed = self.elapsed();
        let deadline = self.time_left_in_scope().map(|left| elapsed.saturating_add(left));
        let (host, path) = target(self.destination());
        let attempt = session
            .attempt_ended(&self.method, outcome, now)
            .with_target(host, path)
            .with_sole_exchange(self.provable && ended.exchanges.vouch_for(&outcome))
            .with_elapsed(elapsed)
            .with_deadline(deadline);
        let not_processed = session.policy().proves_not_processed(&attempt);
        let mut decision = session.decide(&attempt, &mut self.retry.generator.draws());
        let server_delay = match outcome {
            Outcome::Response { headers, .. } => session.policy().server_delay(headers, now),
            Outcome::Fault { .. } => None,
        };
        if let (Some(gate), Some(asked), true) =
            (self.gate(), server_delay, outcome.status().is_some_and(asks_for_quiet))
        {
            gate.close(asked);
        }
        if let Some(reason) = self.veto(&decision, &ended.result, can_resend) {
            decision = RetryDecision::DoNotRetry { reason };
        }
        if let Some(account) = account {
            let is_paced = recorded.status() == Some(StatusCode::TOO_MANY_REQUESTS)
                && decision.delay_source() == Some(DelaySource::Server)
                && decision.delay() >= server_delay;
            match decision.stop_reason() {
                None if is_paced => account.failed(),
                None if account.take() => {}
                None => {
                    decision = RetryDecision::DoNotRetry { reason: StopReason::BudgetExhausted };
                }
                Some(reason)
                    if !reason.is_giving_up() && recorded.status().is_some_and(is_well) =>
                {
                    account.answered();
                }
                Some(_) => account.failed(),
            }
        }
        if let (Some(shared), Some(_)) = (self.shared_session(), decision.delay()) {
            shared.moved_on(session);
        }
        AttemptRecord::new(
            number,
            *attempt_started,
            recorded,
            not_processed,
            server_delay,
            decision,
        )
    }

    /// What the policy does not know: why there is no resend, although it would allow one, or does not
    /// know that time ran out.
    fn veto(
        &self,
        decision: &RetryDecision,
        result: &Result<Response>,
        can_resend: bool,
    ) -> Option<StopReason> {
        let ours = new_error(result);
        if ours.is_some_and(RetryError::is_deadline) && self.time_left() == Some(Duration::ZERO) {
            Some(StopReason::DeadlinePassed)
        } else if ours.is_some_and(RetryError::is_cancelled) {
            Some(StopReason::Cancelled)
        } else if decision.delay().is_none() {
            None
        } else if ours.is_some_and(RetryError::is_body) {
            Some(StopReason::Permanent)
        } else if !can_resend {
            Some(StopReason::BodyNotReplayable)
        } else if self.is_cancelled() {
            Some(StopReason::Cancelled)
        } else {
            let closed = self.gate()?.closed_for()?;
            (self.time_left()? <= closed).then_some(StopReason::DeadlineWouldPass)
        }
    }
}

/// An error that the layer made for this very attempt.
fn new_error(result: &Result<Response>) -> Option<&RetryError> {
    result.as_ref().err()?.retry_error().filter(|error| error.is_new())
}

/// The statuses by which a server asks for quiet, if it says for how long (RFC 6585 4, RFC 9110 15.6.4).
fn asks_for_quiet(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}
