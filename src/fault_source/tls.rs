//! Verdicts of TLS: a resend would meet them again.
//!
//! Only rustls says so by type. native-tls hides everything behind the platform's own error, so that
//! there a bad certificate stays a connection that did not come about, and is tried again.

use std::error::Error;

/// Whether the peers do not agree on TLS, rather than lost each other on the way.
#[cfg(feature = "rustls")]
pub(super) fn is_verdict(error: &(dyn Error + 'static)) -> bool {
    super::chain::find::<rustls::Error>(error).is_some_and(by_rustls)
        || super::chain::find::<rustls::pki_types::InvalidDnsNameError>(error).is_some()
}

#[cfg(not(feature = "rustls"))]
pub(super) fn is_verdict(_error: &(dyn Error + 'static)) -> bool {
    false
}

#[cfg(feature = "rustls")]
fn by_rustls(error: &rustls::Error) -> bool {
    use rustls::{AlertDescription as Alert, Error, InvalidMessage};

    match error {
        Error::InvalidCertificate(_)
        | Error::InvalidCertRevocationList(_)
        | Error::NoCertificatesPresented
        | Error::PeerIncompatible(_)
        | Error::NoApplicationProtocol
        // A peer that does not speak TLS at all.
        | Error::InvalidMessage(InvalidMessage::InvalidContentType) => true,
        // What the peer says of us. An internal error of its own is not among them.
        Error::AlertReceived(alert) => matches!(
            alert,
            Alert::HandshakeFailure
                | Alert::NoCertificate
                | Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::CertificateRequired
                | Alert::UnknownCA
                | Alert::AccessDenied
                | Alert::ProtocolVersion
                | Alert::InsufficientSecurity
                | Alert::UnrecognisedName
                | Alert::NoApplicationProtocol
        ),
        _ => false,
    }
}
