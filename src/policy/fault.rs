//! What went wrong when no response came back whole.

use std::fmt;

/// The kind of a transport fault.
///
/// ```
/// use reqwest_typed_retry::FaultKind;
///
/// fn advice(kind: FaultKind) -> &'static str {
///     match kind {
///         FaultKind::Dns | FaultKind::Connect => "is the server up?",
///         FaultKind::Tls => "is the certificate good?",
///         _ => "see the error", // new kinds may come
///     }
/// }
/// assert_eq!(advice(FaultKind::Tls), "is the certificate good?");
/// assert_eq!(FaultKind::ConnectionLost.as_str(), "connection_lost");
/// assert_eq!(FaultKind::Timeout.to_string(), "timeout");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// The host name was not resolved.
    Dns,
    /// No connection came about: refused, unreachable, a proxy that declined, a connect timeout.
    Connect,
    /// The peers do not agree on TLS: a certificate, name, version or protocol verdict. Only rustls
    /// tells (feature `rustls`); otherwise it is a [`Connect`](Self::Connect).
    Tls,
    /// A time limit passed. A connect timeout is a [`Connect`](Self::Connect) instead.
    Timeout,
    /// The connection ended before the response head was there.
    ConnectionLost,
    /// A browser's [network error] (Fetch standard): it does not tell whether it was the name, the
    /// connection, TLS, CORS or something that blocks requests. The request may have taken effect: CORS
    /// hides answers, too. Only in a browser.
    ///
    /// [network error]: https://fetch.spec.whatwg.org/#concept-network-error
    Network,
    /// The server declined the request (HTTP/2 `REFUSED_STREAM`, `GOAWAY`). Only the first says that it
    /// did not act (RFC 9113 8.7): see [`Delivery`]. Only the feature `http2` tells; otherwise it is an
    /// [`Other`](Self::Other).
    Refused,
    /// The peer broke the protocol, or reset the stream.
    Protocol,
    /// The response body was cut. A call sees that only where the body is read inside the attempt
    /// ([`buffer_body`](crate::RetryMiddlewareBuilder::buffer_body)): otherwise the response has been
    /// handed out by then.
    Body,
    /// The response body arrived whole and is not what it claims to be.
    Decode,
    /// The request itself can't be sent: a bad URL or scheme, a redirect loop, a request body that
    /// failed.
    Invalid,
    /// Anything else, such as an error of another middleware that holds none of reqwest's.
    Other,
}

impl FaultKind {
    pub(super) const ALL: [Self; 12] = [
        Self::Dns,
        Self::Connect,
        Self::Tls,
        Self::Timeout,
        Self::ConnectionLost,
        Self::Network,
        Self::Refused,
        Self::Protocol,
        Self::Body,
        Self::Decode,
        Self::Invalid,
        Self::Other,
    ];

    /// A stable, low-cardinality label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::ConnectionLost => "connection_lost",
            Self::Network => "network",
            Self::Refused => "refused",
            Self::Protocol => "protocol",
            Self::Body => "body",
            Self::Decode => "decode",
            Self::Invalid => "invalid",
            Self::Other => "other",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is known about the fate of a request that failed.
///
/// ```
/// use reqwest_typed_retry::{Delivery, Fault, FaultKind};
///
/// fn may_have_taken_effect(fault: Fault) -> bool {
///     match fault.delivery() {
///         Delivery::NotProcessed => false,
///         _ => true,
///     }
/// }
/// assert!(may_have_taken_effect(Fault::unknown(FaultKind::Timeout)));
/// assert!(!may_have_taken_effect(Fault::not_processed(FaultKind::Connect)));
/// assert_eq!(Delivery::NotProcessed.as_str(), "not_processed");
/// assert_eq!(Delivery::Unknown.to_string(), "unknown");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Delivery {
    /// Proven: the server of this exchange did not act on the request. What a redirect leaves open is for a
    /// [`DeliveryProof`](crate::DeliveryProof).
    NotProcessed,
    /// It may have taken effect. Silence is no proof, so this is the usual case.
    Unknown,
}

impl Delivery {
    /// A stable, low-cardinality label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotProcessed => "not_processed",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failed attempt as the policy sees it: what happened, and what that proves.
/// [`fault_source::classify`](crate::fault_source::classify) reads it from an error; who drives another
/// client says it.
///
/// ```
/// use reqwest_typed_retry::{Delivery, Fault, FaultKind};
///
/// let fault = Fault::not_processed(FaultKind::Connect); // the connection was refused
/// assert_eq!((fault.kind(), fault.delivery()), (FaultKind::Connect, Delivery::NotProcessed));
/// assert_eq!(fault.to_string(), "connect (seems not processed)");
/// assert_eq!(Fault::unknown(FaultKind::Timeout).delivery(), Delivery::Unknown);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    kind: FaultKind,
    delivery: Delivery,
}

impl Fault {
    /// A fault that proves nothing about the fate of the request.
    #[must_use]
    pub const fn unknown(kind: FaultKind) -> Self {
        Self { kind, delivery: Delivery::Unknown }
    }

    /// A fault that proves that the server did not act on the request.
    #[must_use]
    pub const fn not_processed(kind: FaultKind) -> Self {
        Self { kind, delivery: Delivery::NotProcessed }
    }

    /// What happened.
    #[must_use]
    pub const fn kind(self) -> FaultKind {
        self.kind
    }

    /// What it proves.
    #[must_use]
    pub const fn delivery(self) -> Delivery {
        self.delivery
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What it claims: whether that is proven, the fault alone can't say.
        match self.delivery {
            Delivery::NotProcessed => write!(f, "{} (seems not processed)", self.kind),
            Delivery::Unknown => write!(f, "{} (delivery unknown)", self.kind),
        }
    }
}

/// A set of fault kinds.
///
/// ```
/// use reqwest_typed_retry::{FaultKind, FaultSet};
///
/// let set = FaultSet::transient().without(FaultKind::Dns);
/// assert!(set.contains(FaultKind::Timeout));
/// assert!(!set.contains(FaultKind::Dns));
/// assert!(!set.contains(FaultKind::Invalid));
///
/// // Only what happens before a request is on its way.
/// let early = FaultSet::empty().with(FaultKind::Connect).with(FaultKind::Dns);
/// assert_eq!(early.iter().collect::<Vec<_>>(), [FaultKind::Dns, FaultKind::Connect]);
/// assert_eq!(early, [FaultKind::Dns, FaultKind::Connect].into_iter().collect());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FaultSet {
    bits: u16,
}

impl FaultSet {
    /// No fault at all.
    #[must_use]
    pub const fn empty() -> Self {
        Self { bits: 0 }
    }

    /// The faults that are retried by default: all but [`FaultKind::Tls`], [`FaultKind::Decode`],
    /// [`FaultKind::Invalid`] and [`FaultKind::Other`], which a resend would meet again.
    /// [`FaultKind::Network`] may be CORS, which it would meet again too, or a device that is offline for now.
    #[must_use]
    pub const fn transient() -> Self {
        Self::empty()
            .with(FaultKind::Dns)
            .with(FaultKind::Connect)
            .with(FaultKind::Timeout)
            .with(FaultKind::ConnectionLost)
            .with(FaultKind::Network)
            .with(FaultKind::Refused)
            .with(FaultKind::Protocol)
            .with(FaultKind::Body)
    }

    /// This set and `kind`.
    #[must_use]
    pub const fn with(self, kind: FaultKind) -> Self {
        Self { bits: self.bits | kind.bit() }
    }

    /// This set but not `kind`.
    #[must_use]
    pub const fn without(self, kind: FaultKind) -> Self {
        Self { bits: self.bits & !kind.bit() }
    }

    /// Whether `kind` is in the set.
    #[must_use]
    pub const fn contains(&self, kind: FaultKind) -> bool {
        self.bits & kind.bit() != 0
    }

    /// The kinds of the set, in the order of the variants of [`FaultKind`].
    pub fn iter(&self) -> impl Iterator<Item = FaultKind> + '_ {
        FaultKind::ALL.into_iter().filter(|kind| self.contains(*kind))
    }
}

impl FromIterator<FaultKind> for FaultSet {
    fn from_iter<I: IntoIterator<Item = FaultKind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::empty(), Self::with)
    }
}

impl fmt::Debug for FaultSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    #[test]
    fn all_kinds_are_in_the_order_of_the_variants() {
        let places = FaultKind::ALL.map(|kind| kind as usize);
        assert!(places.into_iter().eq(0..FaultKind::ALL.len()), "{places:?}");
    }

    #[test]
    fn each_kind_goes_in_and_out_alone() {
        for kind in FaultKind::ALL {
            let set = FaultSet::empty().with(kind);
            assert_eq!(set.iter().collect::<Vec<_>>(), [kind]);
            assert_eq!(set.with(kind), set, "twice is once");
            assert_eq!(set.without(kind), FaultSet::empty());
            assert_eq!(set.without(kind).without(kind), FaultSet::empty());
        }
    }

    #[test]
    fn a_fault_that_a_resend_would_meet_again_is_not_transient() {
        let permanent: Vec<_> =
            FaultKind::ALL.into_iter().filter(|k| !FaultSet::transient().contains(*k)).collect();
        let expected = [FaultKind::Tls, FaultKind::Decode, FaultKind::Invalid, FaultKind::Other];
        assert_eq!(permanent, expected);
    }
}
