//! Without the feature `tracing` nobody listens.

use std::time::Duration;

use http::Method;
use reqwest::Request;

use crate::middleware::history::AttemptRecord;
use crate::policy::{DelaySource, RetryReason, StopReason};

pub(in crate::middleware) fn resend(
    _request: Option<&Request>,
    _number: u32,
    _delay: Duration,
    _reason: RetryReason,
    _source: DelaySource,
) {
}

pub(in crate::middleware) fn stop(_method: &Method, _last: &AttemptRecord, _reason: StopReason) {}

pub(in crate::middleware) fn nested() {}

pub(in crate::middleware) fn unproven_statuses() {}
