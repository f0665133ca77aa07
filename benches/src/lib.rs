//! What all benches share: who is measured, on what, against whom, and how memory and numbers are counted.

pub mod around;
pub mod behaviours;
pub mod canned;
pub mod contenders;
pub mod counting;
pub mod numbers;
pub mod requests;
pub mod servers;
pub mod sick;
pub mod targets;
