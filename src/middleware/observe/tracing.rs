//! Events by the `tracing` crate.

use std::time::Duration;

use ::tracing::level_filters::LevelFilter;
use ::tracing::{Level, debug, info, warn};

use super::{ObservedCall, RetryObserver};
use crate::middleware::history::{AttemptRecord, RetryHistory};
use crate::policy::{RetryDecision, StopReason};

/// Not the path of a private module.
const TARGET: &str = "reqwest_typed_retry";

/// Asks no subscriber: `enabled!` without an event after it makes a filter of `tracing-subscriber` swallow
/// the next event of somebody else (tokio-rs/tracing#2519).
pub(super) fn wants_failures() -> bool {
    LevelFilter::current() >= Level::WARN
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
            endpoint = call.endpoint(),
            %reason,
            ?delay,
            delay_source = source.as_str(),
            server_delay = attempt.server_delay().map(::tracing::field::debug),
            "retry {retry}{of}"
        );
    }

    fn held_back(&self, call: &ObservedCall<'_>, wait: Duration) {
        let (method, origin, endpoint) = place(call);
        info!(target: TARGET, method, origin, endpoint, ?wait, "held back");
    }

    fn gave_up(&self, call: &ObservedCall<'_>, history: &RetryHistory) {
        let last = history.attempts().last();
        let attempts = last.map_or(0, |last| i64::from(last.number()));
        let outcome = last.map(|last| ::tracing::field::display(last.outcome()));
        let reason = history.stop_reason();
        let (method, origin, endpoint) = place(call);
        // Nobody gives up what was not to be sent again, or what the application ended itself.
        let is_asked_for = match reason {
            StopReason::NotIdempotent | StopReason::Cancelled => true,
            _ => call.max_retries() == Some(0),
        };
        if is_asked_for {
            debug!(target: TARGET, attempts, method, origin, endpoint, outcome, %reason, "not resent");
        } else {
            warn!(target: TARGET, attempts, method, origin, endpoint, outcome, %reason, "giving up");
        }
    }

    fn recovered(&self, call: &ObservedCall<'_>, history: &RetryHistory) {
        let Some(last) = history.attempts().last() else { return };
        debug!(
            target: TARGET,
            attempts = i64::from(last.number()),
            method = call.method().as_str(),
            origin = call.origin(),
            endpoint = call.endpoint(),
            outcome = %last.outcome(),
            elapsed = ?call.elapsed(),
            "recovered"
        );
    }
}

/// What the request is, as far as anybody may know.
fn place<'a>(call: &'a ObservedCall<'_>) -> (&'a str, Option<String>, Option<&'a str>) {
    (call.method().as_str(), call.origin(), call.endpoint())
}

pub(super) fn nested() {
    debug!(target: TARGET, "nested retry middleware passes through");
}

pub(super) fn unproven_statuses() {
    debug!(target: TARGET, "not_processed_statuses has no effect without a delivery proof");
}
