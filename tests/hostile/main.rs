//! Servers that mean harm, and callers under attack: every call ends within its limits, with a clear outcome
//! and bounded memory.
//!
//! The servers run on a thread of their own, so that what is counted is the memory of the client alone; the
//! allocator counts by threads. The clock of the client is paused, and stands still while an attempt is on its
//! way: it is the server that lets time pass, once it has done its worst.

#![cfg(feature = "http2")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod bodies;
mod cancelled;
mod clock;
mod compressed;
mod connections;
mod dates;
mod delays;
mod frames;
mod heads;
#[path = "../support/held_clock.rs"]
mod held_clock;
mod http2;
mod informational;
mod liars;
mod logs;
mod origins;
mod redirects;
mod server;
mod uploads;
mod vendors;
mod world;
