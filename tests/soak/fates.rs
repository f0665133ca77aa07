//! What becomes of a request, by lot.

use rand::RngExt as _;
use rand::rngs::SmallRng;

use super::faulty_server::{Fate, Protocol};

/// Three requests in five are served. Over HTTP/2 one in `connection_odds` takes its connection with it, and
/// all requests that share that.
pub(crate) fn draw(rng: &mut SmallRng, protocol: Protocol, connection_odds: u32) -> Fate {
    let (takes_connection, lot) =
        (rng.random_range(0..connection_odds) == 0, rng.random_range(0..100));
    let mut any = |fates: &[Fate]| fates[rng.random_range(0..fates.len())];
    let fates = match protocol {
        Protocol::Http1 => HTTP1,
        Protocol::Http2 if takes_connection => return any(CONNECTION),
        Protocol::Http2 => HTTP2,
    };
    match lot {
        0..35 => Fate::ServedSlowly,
        35..60 => Fate::Served,
        _ => any(fates),
    }
}

const HTTP1: &[Fate] = &[
    Fate::ServedAtLength,
    Fate::BusyBeforeActing,
    Fate::BusyAfterActing,
    Fate::BusyAtLength,
    Fate::BusyForAWhile,
    Fate::Rejected,
    Fate::RejectedForAWhile,
    Fate::Silent,
    Fate::CutBody,
    Fate::StalledBody,
    Fate::CutWhileReading,
    Fate::CutAfterReading,
    Fate::CutAfterActing,
    Fate::ResetAfterActing,
    Fate::HalfAResponse,
    Fate::RedirectedToNobody,
    Fate::RedirectedToRejection,
];

const HTTP2: &[Fate] = &[
    Fate::ServedAtLength,
    Fate::ServedAtLength,
    Fate::BusyBeforeActing,
    Fate::BusyAfterActing,
    Fate::BusyAtLength,
    Fate::BusyForAWhile,
    Fate::Rejected,
    Fate::RejectedForAWhile,
    Fate::Silent,
    Fate::CutBody,
    Fate::StalledBody,
    Fate::Refused,
    Fate::Refused,
    Fate::CancelledAfterActing,
    Fate::FailedAfterActing,
];

const CONNECTION: &[Fate] =
    &[Fate::DroppedAfterActing, Fate::ShutDownGracefully, Fate::ShutDownGracefully];
