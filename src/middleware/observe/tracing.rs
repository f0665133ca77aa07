//! Events by the `tracing` crate.

use std::time::Duration;

use ::tracing::{debug, info, warn};
use http::Method;
use reqwest::Request;

use crate::middleware::history::AttemptRecord;
use crate::policy::{DelaySource, RetryReason, StopReason};

/// Not the path of a private module.
const TARGET: &str = "reqwest_typed_retry";

/// `number` is the attempt that failed: the resend to come is the retry of the same number.
pub(in crate::middleware) fn resend(
    request: Option<&Request>,
    number: u32,
    delay: Duration,
    reason: RetryReason,
    source: DelaySource,
) {
    info!(
        target: TARGET,
        retry = number,
        method = request.map(|request| request.method().as_str()),
        // Scheme, host and port alone: a URL holds secrets elsewhere.
        origin = request.map(|request| request.url().origin().ascii_serialization()),
        %reason,
        ?delay,
        delay_source = source.as_str(),
        "resending"
    );
}

pub(in crate::middleware) fn stop(method: &Method, last: &AttemptRecord, reason: StopReason) {
    let (attempts, method, outcome) = (last.number(), method.as_str(), last.outcome());
    match reason {
        StopReason::NotIdempotent => {
            debug!(target: TARGET, attempts, method, %outcome, %reason, "not resent");
        }
        _ if reason.is_giving_up() => {
            warn!(target: TARGET, attempts, method, %outcome, %reason, "giving up");
        }
        _ => {}
    }
}

pub(in crate::middleware) fn nested() {
    debug!(target: TARGET, "nested retry middleware passes through");
}

pub(in crate::middleware) fn unproven_statuses() {
    debug!(target: TARGET, "not_processed_statuses has no effect without a delivery proof");
}
