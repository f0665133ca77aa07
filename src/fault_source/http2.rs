//! What HTTP/2 says by its error codes.

use std::error::Error;

use crate::policy::Fault;

/// `None` if it is no error of HTTP/2.
#[cfg(feature = "http2")]
pub(super) fn classify(error: &(dyn Error + 'static)) -> Option<Fault> {
    super::chain::find::<h2::Error>(error).map(by_h2)
}

#[cfg(not(feature = "http2"))]
pub(super) fn classify(_error: &(dyn Error + 'static)) -> Option<Fault> {
    None
}

#[cfg(feature = "http2")]
fn by_h2(error: &h2::Error) -> Fault {
    use h2::Reason;

    use crate::policy::FaultKind;

    let from_peer = error.is_remote();
    if error.is_reset() && from_peer {
        match error.reason() {
            // The one code by which a server guarantees that it did not act (RFC 9113 8.7).
            Some(Reason::REFUSED_STREAM) => Fault::not_processed(FaultKind::Refused),
            // Only another client would do better.
            Some(Reason::HTTP_1_1_REQUIRED) => Fault::unknown(FaultKind::Other),
            _ => Fault::unknown(FaultKind::Protocol),
        }
    } else if error.is_go_away() && from_peer {
        // No proof, whatever its last stream says: hyper fails requests with it that the server has
        // begun to handle, and has even answered.
        Fault::unknown(FaultKind::Refused)
    } else if error.is_reset() && !error.is_library() {
        // Neither the peer nor the library reset the stream: the caller's body did, by failing.
        Fault::unknown(FaultKind::Invalid)
    } else if error.is_io() {
        Fault::unknown(FaultKind::ConnectionLost)
    } else {
        Fault::unknown(FaultKind::Protocol)
    }
}
