//! Events by the `tracing` crate.

use std::time::Duration;

use ::tracing::{Level, debug, enabled, info, warn};

use super::{ObservedCall, RetryObserver};
use crate::middleware::history::{AttemptRecord, RetryHistory};
use crate::policy::{RetryDecision, StopReason};

/// Not the path of a private module.
const TARGET: &str = "reqwest_typed_retry";

pub(super) fn wants_failures() -> bool {
    enabled!(target: TARGET, Level::WARN)
}

pub(super) struct Events;

impl RetryObserver for Events {
    fn resending(&self, call: &ObservedCall<'_>, attempt: &AttemptRecord) {
        let RetryDecision::RetryAfter { delay, reason, source } = attempt.decision() else {
            return;
        };
        let retry = attempt.number(); // the resend to come
        let of = call.max_retries().map(|max| format!(" of {max}")).unwrap_or_default();
        info!(
            target: TARGET,
            // Signed, since what exports spans has no unsigned numbers.
            retry = i64::from(retry),
            max_retries = call.max_retries().map(i64::from),
            method = call.method().as_str(),
            origin = call.origin(),
            %reason,
            ?delay,
            delay_source = source.as_str(),
            server_delay = attempt.server_delay().map(::tracing::field::debug),
            "retry {retry}{of}"
        );
    }

    fn held_back(&self, call: &ObservedCall<'_>, wait: Duration) {
        let (method, origin) = (call.method().as_str(), call.origin());
        info!(target: TARGET, method, origin, ?wait, "held back");
    }

    fn gave_up(&self, call: &ObservedCall<'_>, history: &RetryHistory) {
        let Some(last) = history.attempts().last() else { return };
        let (attempts, outcome) = (i64::from(last.number()), last.outcome());
        let reason = history.stop_reason();
        let (method, origin) = (call.method().as_str(), call.origin());
        // Nobody gives up what was not to be sent again, or what the application ended itself.
        let is_asked_for = match reason {
            StopReason::NotIdempotent | StopReason::Cancelled => true,
            _ => call.max_retries() == Some(0),
        };
        if is_asked_for {
            debug!(target: TARGET, attempts, method, origin, %outcome, %reason, "not resent");
        } else {
            warn!(target: TARGET, attempts, method, origin, %outcome, %reason, "giving up");
        }
    }

    fn recovered(&self, call: &ObservedCall<'_>, history: &RetryHistory) {
        let Some(last) = history.attempts().last() else { return };
        debug!(
            target: TARGET,
            attempts = i64::from(last.number()),
            method = call.method().as_str(),
            origin = call.origin(),
            outcome = %last.outcome(),
            elapsed = ?call.elapsed(),
            "recovered"
        );
    }
}

pub(super) fn nested() {
    debug!(target: TARGET, "nested retry middleware passes through");
}

pub(super) fn unproven_statuses() {
    debug!(target: TARGET, "not_processed_statuses has no effect without a delivery proof");
}
