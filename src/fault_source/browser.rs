//! The errors below reqwest in a browser. It says no more than that a `fetch` failed, on purpose.

use std::error::Error;

use super::chain::timed_out;
use super::io_error;
use crate::policy::{Fault, FaultKind};

/// An error of the send itself. Nothing is proven by it: a response that the browser hides from its page, for want
/// of CORS, looks like a server that nobody reached.
pub(super) fn classify(error: &reqwest::Error) -> Fault {
    Fault::unknown(if timed_out(error) { FaultKind::Timeout } else { FaultKind::Network })
}

/// A body that is cut looks like one that is wrong.
pub(super) fn is_cut(_error: &(dyn Error + 'static)) -> bool {
    false
}

/// For the errors of other clients.
pub(super) fn bare_kind(error: &(dyn Error + 'static)) -> FaultKind {
    io_error::kind(error).unwrap_or(FaultKind::Other)
}
