//! Events by the `tracing` crate.

use std::time::Duration;

use ::tracing::{debug, info, warn};
use http::Method;
use reqwest::Request;

use crate::policy::{DelaySource, RetryReason, StopReason};

/// `number` is the attempt that failed: the resend to come is the retry of the same number.
pub(in crate::middleware) fn resend(
    request: Option<&Request>,
    number: u32,
    delay: Duration,
    reason: RetryReason,
    source: DelaySource,
) {
    info!(
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

pub(in crate::middleware) fn stop(method: &Method, number: u32, reason: StopReason) {
    let method = method.as_str();
    match reason {
        StopReason::NotIdempotent => debug!(attempts = number, method, %reason, "not resent"),
        _ if reason.is_giving_up() => warn!(attempts = number, method, %reason, "giving up"),
        _ => {}
    }
}

pub(in crate::middleware) fn nested() {
    debug!("nested retry middleware passes through");
}
