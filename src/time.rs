//! All time of the adapter: waits, elapsed time, the wall clock.
//!
//! Waits and elapsed time are tokio's, so that paused time works. A runtime without its time driver
//! is not supported. In a browser they are the browser's own, and there is no runtime.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

#[cfg(target_arch = "wasm32")]
#[path = "time/browser.rs"]
mod platform;
#[cfg(not(target_arch = "wasm32"))]
#[path = "time/native.rs"]
mod platform;

pub(crate) use platform::{Instant, reqwest_timeout, sleep, timeout};

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
        Self::new(platform::wall_clock)
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WallClock")
    }
}
