//! A browser's time: `performance.now`, `setTimeout` and `Date.now`. What the standard library has for these
//! panics there.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use gloo_timers::future::TimeoutFuture;
use js_sys::Date;
pub(crate) use web_time::Instant;

/// The longest that `setTimeout` can wait, 24 days: its milliseconds are a `long` (HTML standard, timers), and what
/// does not fit wraps round.
const LONGEST_TIMER: u32 = i32::MAX.unsigned_abs();

/// What reqwest takes for a timeout there: with a longer one it panics, and it cuts off what is no whole millisecond.
pub(crate) fn reqwest_timeout(limit: Duration) -> Duration {
    Duration::from_millis(millis(limit).into())
}

/// Never shorter, although timers count whole milliseconds, and some come early by one. A zero wait gives way to
/// the browser. It counts from the call, not from the first poll.
pub(crate) fn sleep(delay: Duration) -> impl Future<Output = ()> {
    sleep_by(TimeoutFuture::new, Instant::now(), delay)
}

async fn sleep_by<T: Future<Output = ()>>(timer: fn(u32) -> T, started: Instant, delay: Duration) {
    let left = || delay.saturating_sub(started.elapsed());
    loop {
        timer(millis(left())).await;
        if left().is_zero() {
            return;
        }
    }
}

/// What is left in milliseconds, rounded up, as far as a timer can wait.
fn millis(left: Duration) -> u32 {
    u32::try_from(left.as_nanos().div_ceil(1_000_000))
        .map_or(LONGEST_TIMER, |ms| ms.min(LONGEST_TIMER))
}

/// What `work` gives, if it is there in time.
pub(crate) async fn timeout<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut is_over) = (pin!(work), pin!(sleep(limit)));
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => is_over.as_mut().poll(cx).map(|()| None),
    })
    .await
}

pub(super) fn wall_clock() -> SystemTime {
    after_1970(Date::now())
}

/// No `SystemTime` of wasm is before 1970, where a clock can be all the same.
fn after_1970(millis: f64) -> SystemTime {
    let since = Duration::try_from_secs_f64(millis / 1_000.0).unwrap_or_default();
    SystemTime::UNIX_EPOCH + since
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    const LONGEST: Duration = Duration::from_millis(LONGEST_TIMER as u64);

    #[test]
    fn a_timer_is_never_shorter_than_the_wait_but_for_what_no_timer_can_wait() {
        for (left, expected) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_micros(1_001), 2),
            (Duration::from_secs(60), 60_000),
            (LONGEST, LONGEST_TIMER),
            (LONGEST + Duration::from_nanos(1), LONGEST_TIMER),
            (Duration::MAX, LONGEST_TIMER),
        ] {
            assert_eq!(millis(left), expected, "{left:?}");
            assert_eq!(reqwest_timeout(left), Duration::from_millis(expected.into()), "{left:?}");
        }
    }

    #[test]
    async fn a_wait_is_never_shorter_than_asked() {
        for delay in [Duration::from_micros(900), Duration::from_micros(20_300)] {
            let started = Instant::now();
            sleep(delay).await;
            assert!(started.elapsed() >= delay);
        }
    }

    #[test]
    async fn a_timer_that_comes_early_is_followed_by_another() {
        let (started, delay) = (Instant::now(), Duration::from_millis(60));
        sleep_by(|millis| TimeoutFuture::new(millis / 4), started, delay).await;
        assert!(started.elapsed() >= delay);
    }

    #[test]
    async fn what_no_timer_can_wait_is_not_over_at_once() {
        let days = LONGEST + Duration::from_millis(1);
        assert_eq!(timeout(Duration::from_millis(50), sleep(days)).await, None);
        assert_eq!(timeout(Duration::MAX, sleep(Duration::ZERO)).await, Some(()));
    }

    /// As with tokio's: what a first poll takes is part of it.
    #[test]
    async fn a_limit_counts_from_before_the_first_poll() {
        let (limit, started) = (Duration::from_millis(200), Instant::now());
        let work = async {
            while started.elapsed() < limit {}
            sleep(limit / 2).await;
        };
        assert_eq!(timeout(limit, work).await, None);
    }

    #[test]
    async fn what_is_ready_is_in_time() {
        assert_eq!(timeout(Duration::ZERO, async { 7 }).await, Some(7));
    }

    #[test]
    fn the_wall_clock_is_the_browsers() {
        let shown = wall_clock().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let end_of_2025 = Duration::from_secs(1_767_225_600);
        assert!(shown > end_of_2025, "{shown:?}");
    }

    #[test]
    fn no_clock_is_too_far_away() {
        for far in [-1.0, f64::MIN, f64::MAX, f64::INFINITY, f64::NAN] {
            assert_eq!(after_1970(far), SystemTime::UNIX_EPOCH, "{far}");
        }
        let longest = 8.64e15; // ECMAScript's: a hundred million days
        let expected = SystemTime::UNIX_EPOCH + Duration::from_secs(8_640_000_000_000);
        assert_eq!(after_1970(longest), expected);
    }
}
