//! All time of the adapter: waits, elapsed time, the wall clock.
//!
//! Waits and elapsed time are tokio's, so that paused time works. A runtime without its time driver
//! is not supported.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub(crate) use tokio::time::Instant;

/// A zero wait touches no timer. It gives way all the same, so that a call whose attempts are ready
/// at once can be dropped, and leaves the thread to others and to what has arrived.
pub(crate) async fn sleep(delay: Duration) {
    if delay.is_zero() {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(delay).await;
    }
}

/// What `work` gives, if it is there in time.
pub(crate) async fn timeout<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, work).await.ok()
}

/// The wall clock, for HTTP dates alone.
#[derive(Clone)]
pub(crate) struct WallClock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl WallClock {
    pub(crate) fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(crate) fn now(&self) -> SystemTime {
        (self.0)()
    }
}

impl Default for WallClock {
    fn default() -> Self {
        Self::new(SystemTime::now)
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WallClock")
    }
}
