//! From a transport error to a [`Fault`].
//!
//! The answer comes from the types in the error's chain, never from its text. Where it says less than
//! one would like, it says `Unknown`: only positive evidence makes a request "not processed".
//!
//! ```
//! use std::io::{Error, ErrorKind};
//! use reqwest_typed_retry::{Delivery, FaultKind, FaultSet, fault_source};
//!
//! let text = Error::other("connection reset by peer"); // says nothing by its type
//! assert_eq!(fault_source::classify(&text).kind(), FaultKind::Other);
//!
//! let reset = fault_source::classify(&Error::from(ErrorKind::ConnectionReset));
//! assert_eq!((reset.kind(), reset.delivery()), (FaultKind::ConnectionLost, Delivery::Unknown));
//! assert!(FaultSet::transient().contains(reset.kind()));
//! ```
//!
#![doc = include_str!("faults.md")]

mod chain;
#[cfg(not(target_arch = "wasm32"))]
mod http2;
mod io_error;
#[cfg(not(target_arch = "wasm32"))]
mod tls;
#[cfg(not(target_arch = "wasm32"))]
mod transport;
#[cfg(target_arch = "wasm32")]
#[path = "browser.rs"]
mod transport;

use std::error::Error;

use crate::policy::{Fault, FaultKind};

/// Reads what happened, and what that proves, from the structure of an error.
///
/// `&reqwest::Error` and `&reqwest_middleware::Error` get the same answer. Inside anything else (an
/// error of another middleware, an [`io::Error`](std::io::Error) around it) only the kind counts:
/// such an error may come from a call of its own, so it proves nothing and its delivery is
/// [`Delivery::Unknown`](crate::Delivery::Unknown).
///
/// [`Delivery::NotProcessed`](crate::Delivery::NotProcessed) is what the error says of *its*
/// exchange. A redirect may have carried the request there after another server acted on it, which
/// leaves no trace in the error: alone it does not make a POST safe to send again. What does is a
/// [`DeliveryProof`](crate::DeliveryProof).
///
/// Without the feature `rustls`, and with native-tls, a TLS verdict is read as
/// [`FaultKind::Connect`]; without `http2`, what only HTTP/2 says (a reset stream, `GOAWAY`, a broken
/// frame) as [`FaultKind::Other`].
///
/// ```
/// use reqwest_typed_retry::{Delivery, FaultKind, fault_source::classify};
///
/// let error = reqwest::Client::new().get("http://[broken").build().unwrap_err();
/// let fault = classify(&error);
/// assert_eq!((fault.kind(), fault.delivery()), (FaultKind::Invalid, Delivery::Unknown));
/// assert_eq!(classify(&reqwest_middleware::Error::from(error)), fault);
/// ```
#[must_use]
pub fn classify(error: &(dyn Error + 'static)) -> Fault {
    if let Some(error) = own(error) {
        return of_reqwest(error);
    }
    let kind = match reqwest_error(error) {
        Some(error) => of_reqwest(error).kind(),
        None if error.is::<reqwest_middleware::Error>() => FaultKind::Other,
        // An error that never was reqwest's, from another client.
        None => transport::bare_kind(error),
    };
    Fault::unknown(kind)
}

/// The error of the attempt itself, not one that something else wrapped.
fn own<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a reqwest::Error> {
    match error.downcast_ref() {
        Some(reqwest_middleware::Error::Reqwest(error)) => Some(error),
        Some(reqwest_middleware::Error::Middleware(_)) => None,
        None => error.downcast_ref(),
    }
}

/// The first error of reqwest's in the chain of `error`.
pub(crate) fn reqwest_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a reqwest::Error> {
    chain::find(error)
}

/// [`reqwest::Error::is_timeout`], which goes through a cycle of causes for ever.
pub(crate) fn timed_out(error: &reqwest::Error) -> bool {
    chain::timed_out(error)
}

/// The order of the branches decides; each is a measured fact of reqwest 0.13.
fn of_reqwest(error: &reqwest::Error) -> Fault {
    // Also after a first hop was processed: a redirect to a scheme that reqwest refuses. So nothing
    // is proven here, and there is nothing to gain from a resend either.
    if error.is_builder() || error.is_redirect() {
        return Fault::unknown(FaultKind::Invalid);
    }
    if error.is_request() { transport::classify(error) } else { Fault::unknown(body_kind(error)) }
}

/// The head had arrived. reqwest reports every failure of the body as "decode", or as "body" to who
/// reads it frame by frame; only a link below it, of hyper's or of a connection that ended, tells a
/// cut body from bad data. Compressed data that end early are cut too, wherever that was.
fn body_kind(error: &reqwest::Error) -> FaultKind {
    if timed_out(error) {
        FaultKind::Timeout
    } else if transport::is_cut(error) {
        FaultKind::Body
    } else if error.is_decode() || error.is_body() {
        FaultKind::Decode
    } else {
        FaultKind::Other // somebody called `error_for_status`: not an outcome of the network
    }
}
