//! The exchanges that an observer sees during an attempt, and what they vouch for.

use std::error::Error;
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU64;
use std::sync::LazyLock;

use http::{Method, StatusCode};
use reqwest::Request;

use crate::fault_source;
use crate::policy::{Delivery, Outcome};

/// What tells an exchange of the attempt's own request from that of another call: the method and the
/// URL, hashed, so that it fits in a cell; never 0, so that none takes no more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target(NonZeroU64);

impl Target {
    pub(super) fn of_request(request: &Request) -> Self {
        let url = request.url().as_str();
        // The fragment is not sent (RFC 9110 7.1).
        let sent = url.split_once('#').map_or(url, |(sent, _)| sent);
        Self::of(request.method(), sent)
    }

    pub(super) fn of(method: &Method, url: &str) -> Self {
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(NonZeroU64::new(KEYS.hash_one((method, url))).unwrap_or(NonZeroU64::MAX))
    }
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Status(StatusCode),
    /// With an error that proves that the server did not act.
    NotProcessed,
    /// In any way that says nothing of the request, or another request's.
    Unknown,
}

impl End {
    pub(super) fn of(status: Option<StatusCode>, error: Option<&(dyn Error + 'static)>) -> Self {
        match (status, error.map(fault_source::classify)) {
            (Some(status), _) => Self::Status(status),
            (None, Some(fault)) if fault.delivery() == Delivery::NotProcessed => Self::NotProcessed,
            (None, _) => Self::Unknown,
        }
    }
}

/// The exchanges that were seen in an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Exchanges {
    #[default]
    None,
    One(End),
    Several,
}

impl Exchanges {
    pub(super) fn and(self, end: End) -> Self {
        match self {
            Self::None => Self::One(end),
            Self::One(_) | Self::Several => Self::Several,
        }
    }

    /// Whether `outcome` is the end of the one exchange that was seen. An exchange that ended in a
    /// status never vouches for an error: that came from somewhere else. What the outcome says of
    /// itself is for the policy.
    pub(super) fn vouch_for(self, outcome: &Outcome<'_>) -> bool {
        match (self, outcome) {
            (Self::One(End::NotProcessed), Outcome::Fault { .. }) => true,
            (Self::One(End::Status(seen)), Outcome::Response { status, .. }) => seen == *status,
            _ => false,
        }
    }
}
