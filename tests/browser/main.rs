//! In a real browser, against a server on loopback by CORS: `browser/run` starts both. What the server was sent is
//! asked of the server.

#![cfg(target_arch = "wasm32")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod bodies;
mod faults;
mod limits;
mod methods;
mod statuses;
mod support;
