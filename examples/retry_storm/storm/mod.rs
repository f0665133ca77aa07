//! The simulation, apart from the program: the test includes it, too.

mod chart;
pub(crate) mod claims;
pub(crate) mod contenders;
mod fleet;
pub(crate) mod fleets;
mod measures;
pub(crate) mod outcome;
mod report;
mod server;
mod table;
mod tally;
mod works;
pub(crate) mod world;
