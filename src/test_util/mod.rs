//! A kit for tests of retry behaviour: no socket, no real time, no real randomness.
//!
//! - [`Script`] is a final middleware that answers from a list, or by the request, and records what it was
//!   sent. All its waits are tokio's, so they cost nothing under paused time.
//! - [`Reply`] is one answer: a response, a late one, one whose body is cut, a real error of reqwest's, or none.
//! - [`seeded_jitter`] makes every wait repeatable.
//! - [`TestClock`] is a wall clock of the test's own, which can tick with tokio's time.
//!
//! Build the chain of your service in a function that returns the
//! [`ClientBuilder`](reqwest_middleware::ClientBuilder), and add the script last: it stands for the network, so
//! whatever is added after it is not reached. The example `testing` in the repository tests a whole service so.
//!
//! Where a test needs a seed or a clock, that function takes the
//! [`RetryMiddlewareBuilder`](crate::RetryMiddlewareBuilder), and the test sets
//! [`generator`](crate::RetryMiddlewareBuilder::generator) and
//! [`wall_clock`](crate::RetryMiddlewareBuilder::wall_clock) on it first; both are there without this feature, too. A
//! client that tests share shares its budget. `reqwest::Client::new()` loads the system's certificates, which is most
//! of the time of such a test: one can be shared.
//!
//! In a browser there are no [`Script`] and [`Reply`]: nothing makes a response there.
//!
//! Enable the feature `test-util` of this crate and of tokio in `[dev-dependencies]`, and mark tests with
//! `#[tokio::test(start_paused = true)]`. A test that takes as long as its waits is not paused.
//!
//! ```
//! use std::time::Duration;
//! use reqwest_middleware::ClientBuilder;
//! use reqwest_middleware::reqwest::{StatusCode, header::RETRY_AFTER};
//! use reqwest_typed_retry::test_util::{Reply, Script, seeded_jitter};
//! use reqwest_typed_retry::{RetryMiddleware, RetryPolicy};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let script = Script::new([
//!     Reply::status(StatusCode::SERVICE_UNAVAILABLE).header(RETRY_AFTER, 30),
//!     Reply::status(StatusCode::OK).body("hello"),
//! ]);
//! let retry = RetryMiddleware::builder(RetryPolicy::default())
//!     .generator(seeded_jitter(7))
//!     .build()?;
//! let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(script.clone()).build();
//!
//! let body = client.get("http://service.test/").send().await?.text().await?;
//! assert_eq!(body, "hello");
//! let waited = script.received()[1].at - script.received()[0].at;
//! assert!((Duration::from_secs(30)..=Duration::from_secs(33)).contains(&waited));
//! # Ok(()) }
//! ```

mod clock;
mod jitter;
#[cfg(not(target_arch = "wasm32"))]
mod reply;
#[cfg(not(target_arch = "wasm32"))]
mod script;

pub use clock::TestClock;
pub use jitter::seeded_jitter;
#[cfg(not(target_arch = "wasm32"))]
pub use reply::Reply;
#[cfg(not(target_arch = "wasm32"))]
pub use script::{Received, Script, ScriptExhausted};
