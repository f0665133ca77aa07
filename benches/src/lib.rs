//! What all benches share: who is measured, on what, and how memory is counted.

pub mod canned;
pub mod contenders;
pub mod counting;
pub mod numbers;
pub mod requests;
