//! The errors below reqwest: hyper-util, hyper, io.

use std::error::Error;
use std::io;

use hyper_util::client::legacy;

use super::chain::{find, is_dns, timed_out};
use super::{http2, io_error, tls};
use crate::policy::{Fault, FaultKind};

/// An error of the send itself: no head arrived.
pub(super) fn classify(error: &reqwest::Error) -> Fault {
    let Some(pool) = find::<legacy::Error>(error) else {
        // reqwest's own timers leave no error of the pool's, even while it is still connecting, so
        // they prove nothing.
        return Fault::unknown(if timed_out(error) {
            FaultKind::Timeout
        } else {
            FaultKind::Other
        });
    };
    // The pool's own errors about the request (version or URI unsupported) have no source.
    if pool.source().is_none() {
        return Fault::unknown(FaultKind::Invalid);
    }
    // Below this is the error of the caller's stream, perhaps one of another exchange altogether.
    let http = find::<hyper::Error>(error);
    if http.is_some_and(body_failed) {
        return Fault::unknown(FaultKind::Invalid);
    }
    // Most verdicts come while connecting, but with TLS 1.3 a refused client certificate comes after.
    if tls::is_verdict(error) {
        return Fault::unknown(FaultKind::Tls);
    }
    // Before any timeout: a connect timeout is both, and it proves that nothing was sent.
    if pool.is_connect() {
        return Fault::not_processed(if is_dns(error) {
            FaultKind::Dns
        } else {
            FaultKind::Connect
        });
    }
    // hyper gives a cancelled request back before it serialises a byte of it.
    if http.is_some_and(hyper::Error::is_canceled) {
        return Fault::not_processed(FaultKind::ConnectionLost);
    }
    // No connection was ever ready for it: set-up failed before anything was dispatched.
    if pool.connect_info().is_none() {
        return Fault::not_processed(FaultKind::ConnectionLost);
    }
    http2::classify(error).unwrap_or_else(|| Fault::unknown(established_kind(error, http)))
}

/// On an established connection nothing is proven: bytes may have left.
fn established_kind(error: &(dyn Error + 'static), http: Option<&hyper::Error>) -> FaultKind {
    if let Some(kind) = http.and_then(http_kind) {
        kind
    } else if find::<io::Error>(error).is_some() {
        FaultKind::ConnectionLost
    } else {
        FaultKind::Other
    }
}

/// Whether the caller's body failed, or was shorter than announced.
fn body_failed(error: &hyper::Error) -> bool {
    let cause = || error.source().and_then(|source| source.downcast_ref::<reqwest::Error>());
    error.is_body_write_aborted() || cause().is_some_and(reqwest::Error::is_body)
}

fn http_kind(error: &hyper::Error) -> Option<FaultKind> {
    if error.is_user() {
        // hyper says "user" of a dispatcher that went away, too (runtime shut down, a queued HTTP/2
        // request): that is nobody's mistake.
        Some(FaultKind::ConnectionLost)
    } else if error.is_timeout() {
        Some(FaultKind::Timeout) // an HTTP/2 keep-alive ping without an answer
    } else if error.is_parse() {
        Some(FaultKind::Protocol)
    } else if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        Some(FaultKind::ConnectionLost)
    } else {
        None
    }
}

/// Whether the connection ended, or its data did, rather than being bad.
pub(super) fn is_cut(error: &(dyn Error + 'static)) -> bool {
    find::<hyper::Error>(error).is_some() || io_error::kind(error).is_some()
}

/// For the errors of other clients.
pub(super) fn bare_kind(error: &(dyn Error + 'static)) -> FaultKind {
    let http = find::<hyper::Error>(error);
    if http.is_some_and(body_failed) {
        return FaultKind::Invalid;
    }
    if tls::is_verdict(error) {
        return FaultKind::Tls;
    }
    if let Some(fault) = http2::classify(error) {
        return fault.kind();
    }
    if let Some(kind) = http.and_then(http_kind) {
        return kind;
    }
    io_error::kind(error).unwrap_or(FaultKind::Other)
}
