//! Tokio's time, and the system's wall clock.

use std::time::{Duration, SystemTime};

pub(crate) use tokio::time::Instant;

/// What reqwest takes for a timeout: any.
#[inline]
pub(crate) fn reqwest_timeout(limit: Duration) -> Duration {
    limit
}

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

pub(super) fn wall_clock() -> SystemTime {
    SystemTime::now()
}
