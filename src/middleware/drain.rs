//! How much of a response that is not handed out is read.

use std::fmt;
use std::time::Duration;

/// How much of a discarded response is read, so that its connection can be used again.
///
/// It is read while the middleware waits anyway: the next attempt never waits for it, and no failure
/// of it is one of the call. Without a wait only what has arrived is read. What is beyond a bound is
/// dropped at once; over HTTP/1.1 its connection is closed then, over HTTP/2 the stream is reset.
///
/// Where a [`RetryScope`](crate::RetryScope) can cancel the wait, what was read is kept until its end:
/// a response within these bounds comes back whole then, one beyond them is lost.
///
/// In a browser nothing is read, and only the bytes count: a response that is not longer, by its `Content-Length`, is
/// kept unread as long as somebody may ask for it.
///
/// ```
/// use std::time::Duration;
/// use reqwest_typed_retry::{DrainLimits, RetryMiddleware, RetryPolicy};
///
/// let drain = DrainLimits::new(256 * 1024, Duration::from_secs(2));
/// let retry = RetryMiddleware::builder(RetryPolicy::default()).drain(drain).build()?;
/// let rules = retry.explain().to_string();
/// assert!(rules.contains("read up to 262144 bytes, for at most 2s of the wait"), "{rules}");
///
/// assert_eq!(DrainLimits::default(), DrainLimits::new(64 * 1024, Duration::from_secs(1)));
/// assert_eq!(DrainLimits::none().to_string(), "dropped unread");
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainLimits {
    pub(super) bytes: u64,
    pub(super) time: Duration,
}

impl DrainLimits {
    /// At most this many bytes of a body, during at most this much of the wait. With 0 bytes every response is
    /// dropped unread.
    #[must_use]
    pub const fn new(bytes: u64, time: Duration) -> Self {
        Self { bytes, time }
    }

    /// Every response that is not handed out is dropped unread.
    #[must_use]
    pub const fn none() -> Self {
        Self::new(0, Duration::ZERO)
    }
}

impl fmt::Display for DrainLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { bytes: 0, .. } => f.write_str("dropped unread"),
            Self { bytes, time } => {
                write!(f, "read up to {bytes} bytes, for at most {time:?} of the wait")
            }
        }
    }
}

/// 64 KiB and one second: error pages fit in it, downloads do not.
impl Default for DrainLimits {
    fn default() -> Self {
        Self::new(64 * 1024, Duration::from_secs(1))
    }
}

/// What came of reading on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// There is nothing left that anybody could ask for.
    Done,
    /// Something was read.
    Some,
    None,
}
