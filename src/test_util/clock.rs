//! A wall clock for tests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::time::Instant;

/// A wall clock of the test's own: it moves when told, and with tokio's time where it [ticks](Self::ticking). The
/// system's clock doesn't move it, and under paused time doesn't move with the waits. Clones show the same time.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use reqwest_middleware::ClientBuilder;
/// use reqwest_typed_retry::test_util::{Reply, Script, TestClock};
/// use reqwest_typed_retry::{RetryMiddleware, RetryPolicy};
/// # use reqwest::StatusCode;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = TestClock::ticking(SystemTime::UNIX_EPOCH);
/// let retry =
///     RetryMiddleware::builder(RetryPolicy::default()).wall_clock(clock.reader()).build()?;
/// // A server that is closed until half a minute past midnight.
/// let network = Script::new([
///     Reply::status(StatusCode::SERVICE_UNAVAILABLE)
///         .header("retry-after", "Thu, 01 Jan 1970 00:00:30 GMT"),
///     Reply::status(StatusCode::OK),
/// ]);
/// let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(network).build();
/// client.get("http://api.test/").send().await?;
/// assert!(clock.now() >= SystemTime::UNIX_EPOCH + Duration::from_secs(30));
/// # Ok(()) }
/// ```
///
/// One that does not tick moves when it is told to:
///
/// ```
/// # use std::time::{Duration, SystemTime};
/// # use reqwest_typed_retry::test_util::TestClock;
/// let clock = TestClock::new(SystemTime::UNIX_EPOCH);
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(clock.now(), SystemTime::UNIX_EPOCH + Duration::from_secs(60));
/// clock.set(SystemTime::UNIX_EPOCH); // a clock that is put right can go back
/// assert_eq!(clock.now(), SystemTime::UNIX_EPOCH);
/// ```
#[derive(Clone, Debug)]
pub struct TestClock {
    shown: Arc<Mutex<Shown>>,
}

#[derive(Debug)]
struct Shown {
    at: SystemTime,
    /// Since when it has moved from there, if it moves.
    since: Option<Instant>,
}

impl TestClock {
    /// A clock that shows `now`, whatever time passes: waits don't move it.
    #[must_use]
    pub fn new(now: SystemTime) -> Self {
        Self { shown: Arc::new(Mutex::new(Shown { at: now, since: None })) }
    }

    /// A clock that shows `now`, and moves with tokio's time, paused or not: after a wait for a date that date has
    /// come.
    #[must_use]
    pub fn ticking(now: SystemTime) -> Self {
        let since = Some(Instant::now());
        Self { shown: Arc::new(Mutex::new(Shown { at: now, since })) }
    }

    /// What it shows.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        let Shown { at, since } = *self.lock();
        let passed = since.map_or(Duration::ZERO, |since| since.elapsed());
        at.checked_add(passed).unwrap_or(at)
    }

    /// Sets it. One that ticks goes on from there.
    pub fn set(&self, now: SystemTime) {
        let shown = &mut *self.lock();
        shown.at = now;
        shown.since = shown.since.map(|_| Instant::now());
    }

    /// Moves it forward; further than a `SystemTime` goes it does not move at all.
    pub fn advance(&self, by: Duration) {
        let now = self.now();
        self.set(now.checked_add(by).unwrap_or(now));
    }

    /// The closure for [`RetryMiddlewareBuilder::wall_clock`](crate::RetryMiddlewareBuilder::wall_clock).
    pub fn reader(&self) -> impl Fn() -> SystemTime + Send + Sync + 'static + use<> {
        let clock = self.clone();
        move || clock.now()
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
