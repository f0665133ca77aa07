//! Without the feature `tracing` nobody listens.

use http::Method;
use reqwest::Url;

use crate::middleware::history::AttemptRecord;

pub(in crate::middleware) fn decided(_method: &Method, _url: Option<&Url>, _last: &AttemptRecord) {}

pub(in crate::middleware) fn nested() {}

pub(in crate::middleware) fn unproven_statuses() {}
