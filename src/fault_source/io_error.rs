//! What the kind of an io error says.

use std::error::Error;
use std::io;

use super::chain::all;
use crate::policy::FaultKind;

/// By the first io error in the chain of `error` that says something.
pub(super) fn kind(error: &(dyn Error + 'static)) -> Option<FaultKind> {
    all::<io::Error>(error).find_map(|error| match error.kind() {
        io::ErrorKind::TimedOut => Some(FaultKind::Timeout),
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable => Some(FaultKind::Connect),
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::NotConnected
        | io::ErrorKind::UnexpectedEof => Some(FaultKind::ConnectionLost),
        _ => None,
    })
}
