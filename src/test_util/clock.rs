//! A wall clock for tests.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// A wall clock that only moves when told. Clones show the same time.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use reqwest_typed_retry::test_util::TestClock;
/// use reqwest_typed_retry::{RetryMiddleware, RetryPolicy};
///
/// let clock = TestClock::new(SystemTime::UNIX_EPOCH);
/// let retry = RetryMiddleware::builder(RetryPolicy::default()).wall_clock(clock.reader()).build()?;
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(clock.now(), SystemTime::UNIX_EPOCH + Duration::from_secs(60));
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TestClock {
    now: Arc<Mutex<SystemTime>>,
}

impl TestClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn new(now: SystemTime) -> Self {
        Self { now: Arc::new(Mutex::new(now)) }
    }

    /// What it shows.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets it.
    pub fn set(&self, now: SystemTime) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Moves it forward, as far as a `SystemTime` goes.
    pub fn advance(&self, by: Duration) {
        let now = self.now();
        self.set(now.checked_add(by).unwrap_or(now));
    }

    /// The closure for [`RetryMiddlewareBuilder::wall_clock`](crate::RetryMiddlewareBuilder::wall_clock).
    pub fn reader(&self) -> impl Fn() -> SystemTime + Send + Sync + 'static + use<> {
        let clock = self.clone();
        move || clock.now()
    }
}
