//! Every kind of fault.

use reqwest_typed_retry::FaultKind;

pub(crate) const FAULTS: [FaultKind; 12] = [
    FaultKind::Dns,
    FaultKind::Connect,
    FaultKind::Tls,
    FaultKind::Timeout,
    FaultKind::ConnectionLost,
    FaultKind::Network,
    FaultKind::Refused,
    FaultKind::Protocol,
    FaultKind::Body,
    FaultKind::Decode,
    FaultKind::Invalid,
    FaultKind::Other,
];
