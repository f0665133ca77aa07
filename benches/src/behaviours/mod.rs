//! What each contender does when a server does this: the table of `docs/COMPARE.md`.

pub mod answer;
pub mod contender;
pub mod request;
pub mod rows;
pub mod seen;
pub mod server;
pub mod told;

/// Of a row that could not be measured at all.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
