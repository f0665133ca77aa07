//! How far a server's delay is followed.

use std::time::Duration;

use super::{StopReason, constants};

/// What to do with a delay that the server asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerDelays {
    /// Wait as long as asked; beyond this limit stop at once and return the response, its field
    /// readable. The default, with 60 s ([`constants::MAX_SERVER_DELAY`]).
    UpTo(Duration),
    /// Wait as long as asked, or this long if more was asked: the next send may then reach a server
    /// that said that it is closed.
    ClampedTo(Duration),
    /// Never read the fields; the backoff decides alone.
    Ignored,
}

impl ServerDelays {
    pub(super) const DEFAULT: Self = Self::UpTo(constants::MAX_SERVER_DELAY);

    /// The part of `asked` to wait for. The limit applies to what was asked, not to what jitter
    /// adds to it.
    pub(super) fn allow(self, asked: Duration) -> Result<Duration, StopReason> {
        match self {
            Self::UpTo(allowed) if asked > allowed => {
                Err(StopReason::ServerDelayTooLong { asked, allowed })
            }
            Self::ClampedTo(longest) => Ok(asked.min(longest)),
            Self::UpTo(_) | Self::Ignored => Ok(asked),
        }
    }
}
