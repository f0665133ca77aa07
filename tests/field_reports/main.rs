//! What people who retry HTTP requests ran into elsewhere, as tests that it doesn't happen here.
//! One module a kind of report; each test names its report in a comment.
//!
//! Time is virtual wherever a wait matters, and then no socket is open; on sockets the waits are
//! zero. What was sent is what the server counted.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

mod backoff;
mod chain;
mod errors;
mod exhaustion;
mod method_safety;
mod request_bodies;
mod server_delay;
mod setup;
mod statuses;
mod support;
mod time_limits;
