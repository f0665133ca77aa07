//! What is told of a call, by hooks, events, metrics, histories and errors; and that none of it is secret.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests"
)]

mod answers;
mod ends;
mod errors;
mod filters;
mod header;
mod histories;
mod listening;
mod options;
mod panics;
mod row;
mod secrets;
mod sessions;
mod world;

use std::time::Duration;

use http::StatusCode;
use reqwest_typed_retry::test_util::Reply;
use reqwest_typed_retry::{Jitter, RetryPolicy, RetryPolicyBuilder};

/// Everything in it that is called secret must not be seen; nor must any field or body.
const URL: &str =
    "https://secret-user:secret-pw@service.test:8443/secret-token?key=secret-key#secret-part";
const ORIGIN: &str = "https://service.test:8443";

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The defaults, three attempts 100 and 200 ms apart, without randomness.
fn policy() -> RetryPolicyBuilder {
    RetryPolicy::builder().jitter(Jitter::None)
}

/// A reply whose field and body are secret.
fn reply(status: u16) -> Reply {
    let token = http::HeaderName::from_static("x-token");
    let value = http::HeaderValue::from_static("secret-field");
    Reply::status(StatusCode::from_u16(status).unwrap()).header(token, value).body("secret body")
}

fn asking(status: u16, seconds: u64) -> Reply {
    reply(status).header(http::header::RETRY_AFTER, seconds)
}
