//! Events by the `tracing` crate.

use ::tracing::{debug, info, warn};
use http::Method;
use reqwest::Url;

use crate::middleware::history::AttemptRecord;
use crate::policy::{RetryDecision, StopReason};

/// Not the path of a private module.
const TARGET: &str = "reqwest_typed_retry";

/// What follows the attempt `last`. A request that is not kept has no `url` any more.
pub(in crate::middleware) fn decided(method: &Method, url: Option<&Url>, last: &AttemptRecord) {
    let (number, method, outcome) = (last.number(), method.as_str(), last.outcome());
    match last.decision() {
        RetryDecision::RetryAfter { delay, reason, source } => info!(
            target: TARGET,
            retry = number, // the resend to come
            method,
            // Scheme, host and port alone: a URL holds secrets elsewhere.
            origin = url.map(|url| url.origin().ascii_serialization()),
            %reason,
            ?delay,
            delay_source = source.as_str(),
            "resending"
        ),
        RetryDecision::DoNotRetry { reason: reason @ StopReason::NotIdempotent } => {
            debug!(target: TARGET, attempts = number, method, %outcome, %reason, "not resent");
        }
        RetryDecision::DoNotRetry { reason } if reason.is_giving_up() => {
            warn!(target: TARGET, attempts = number, method, %outcome, %reason, "giving up");
        }
        RetryDecision::DoNotRetry { .. } => {}
    }
}

pub(in crate::middleware) fn nested() {
    debug!(target: TARGET, "nested retry middleware passes through");
}

pub(in crate::middleware) fn unproven_statuses() {
    debug!(target: TARGET, "not_processed_statuses has no effect without a delivery proof");
}
