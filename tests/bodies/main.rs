//! Bodies of requests and of responses: what each attempt sends, what is kept for a resend, and what
//! becomes of a response that is not handed out.
//!
//! Where time matters, the clock is paused; where sockets matter too, nobody moves it before what it
//! waits for has happened. So no load of the machine can change a result.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod connections;
mod copies;
mod discarded;
mod factory;
#[path = "../support/held_clock.rs"]
mod held_clock;
mod http2;
mod server;
mod sources;
mod support;
mod watch;
mod zero_waits;
