//! Randomness in a delay.

use std::ops::RangeInclusive;
use std::time::Duration;

use rand::{Rng, RngExt as _};

use super::{PolicyError, constants};

/// How a delay is spread, so that clients that failed together do not come back together.
///
/// For a nominal delay `d` the wait is drawn evenly from
///
/// | jitter | interval |
/// |---|---|
/// | `None` | `d` |
/// | `Full` | `[0, d]` |
/// | `Equal` (the default) | `[d/2, d]` |
/// | `Proportional(p)` | `[d - p·d, d + p·d]`, cut off at the longest delay of the backoff |
///
/// A [decorrelated](crate::Backoff::decorrelated) backoff is random by itself and looks at none of them.
///
/// A delay that a server asked for is never undercut: with any jitter but `None` the wait is drawn from that delay
/// to a tenth more, at most 5 s more ([`constants::MAX_SERVER_DELAY_SPREAD`]).
///
/// ```
/// use std::time::Duration;
/// use reqwest_typed_retry::{Backoff, Jitter};
///
/// let secs = Duration::from_secs;
/// let backoff = Backoff::exponential(secs(10), secs(21))?; // 10 s, 20 s, 21 s, 21 s, ...
/// let envelope = |jitter| backoff.envelope(2, None, jitter);
/// assert_eq!(envelope(Jitter::None), secs(20)..=secs(20));
/// assert_eq!(envelope(Jitter::Full), secs(0)..=secs(20));
/// assert_eq!(envelope(Jitter::Equal), secs(10)..=secs(20));
/// assert_eq!(envelope(Jitter::proportional(0.5)?), secs(10)..=secs(21));
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Jitter {
    /// No randomness.
    None,
    /// Anything up to the delay.
    Full,
    /// Between half the delay and the whole of it.
    Equal,
    /// A share of the delay up and down. Built by [`Jitter::proportional`].
    Proportional(Share),
}

impl Jitter {
    /// Spread by `share` of the delay to both sides: `0.2` gives the ±20 % of gRPC.
    ///
    /// # Errors
    /// If `share` is not between 0 and 1, both included.
    ///
    /// ```
    /// use reqwest_typed_retry::Jitter;
    ///
    /// assert!(Jitter::proportional(0.2).is_ok());
    /// assert!(Jitter::proportional(f64::NAN).is_err());
    /// ```
    pub fn proportional(share: f64) -> Result<Self, PolicyError> {
        Share::new(share).map(Self::Proportional)
    }

    /// The interval for a nominal `delay` that may not pass `max`.
    pub(super) fn spread(self, delay: Duration, max: Duration) -> RangeInclusive<Duration> {
        match self {
            Self::None => delay..=delay,
            Self::Full => Duration::ZERO..=delay,
            Self::Equal => (delay / 2)..=delay,
            Self::Proportional(share) => {
                let width = share.of(delay);
                delay.saturating_sub(width)..=delay.saturating_add(width).min(max)
            }
        }
    }

    /// The interval for a delay that a server asked for.
    pub(super) fn stretch(self, asked: Duration) -> RangeInclusive<Duration> {
        let width = match self {
            Self::None => Duration::ZERO,
            _ => (asked / constants::SERVER_DELAY_SPREAD_DIVISOR)
                .min(constants::MAX_SERVER_DELAY_SPREAD),
        };
        asked..=asked.saturating_add(width)
    }
}

/// One delay from `interval`, each as likely as the other. A single point needs no randomness.
pub(super) fn draw<R: Rng + ?Sized>(interval: RangeInclusive<Duration>, rng: &mut R) -> Duration {
    let (start, end) = (interval.start().as_nanos(), interval.end().as_nanos());
    if start >= end {
        return *interval.start();
    }
    // Up to 584 years in 64 bits, which takes half the time.
    match (u64::try_from(start), u64::try_from(end)) {
        (Ok(start), Ok(end)) => Duration::from_nanos(rng.random_range(start..=end)),
        _ => from_nanos(rng.random_range(start..=end)),
    }
}

/// Saturates where a `Duration` ends.
pub(super) fn from_nanos(nanos: u128) -> Duration {
    const PER_SECOND: u128 = 1_000_000_000;
    match (u64::try_from(nanos / PER_SECOND), u32::try_from(nanos % PER_SECOND)) {
        (Ok(seconds), Ok(rest)) => Duration::new(seconds, rest),
        _ => Duration::MAX,
    }
}

/// A share of a whole, from 0 to 1. [`Jitter::proportional`] makes it.
///
/// ```
/// use reqwest_typed_retry::Jitter;
///
/// let jitter = Jitter::proportional(0.2)?;
/// assert!(matches!(jitter, Jitter::Proportional(share) if share.get() == 0.2));
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(f64);

impl Share {
    fn new(share: f64) -> Result<Self, PolicyError> {
        if (0.0..=1.0).contains(&share) {
            Ok(Self(share))
        } else {
            Err(PolicyError::new("jitter", share, "a share must be between 0 and 1"))
        }
    }

    /// The share as a number from 0 to 1.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of at most 1 of a u128 is in its range, and `as` saturates"
    )]
    fn of(self, delay: Duration) -> Duration {
        from_nanos((delay.as_nanos() as f64 * self.0) as u128)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::SmallRng;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    #[test]
    fn a_share_outside_nought_to_one_is_refused_by_value_and_rule() {
        for share in [-0.1, 1.1, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let message = Jitter::proportional(share).unwrap_err().to_string();
            assert_eq!(
                message,
                format!("jitter is {share:?}, but a share must be between 0 and 1")
            );
        }
    }

    #[test]
    fn what_a_server_asked_for_is_stretched_and_never_undercut() {
        let secs = Duration::from_secs;
        for jitter in [Jitter::Equal, Jitter::Full, Jitter::proportional(0.5).unwrap()] {
            assert_eq!(jitter.stretch(secs(10)), secs(10)..=secs(11), "{jitter:?}");
            assert_eq!(jitter.stretch(secs(100)), secs(100)..=secs(105), "{jitter:?}");
        }
        assert_eq!(Jitter::None.stretch(secs(10)), secs(10)..=secs(10));
    }

    #[test]
    fn nanoseconds_saturate_where_a_duration_ends() {
        assert_eq!(from_nanos(Duration::MAX.as_nanos()), Duration::MAX);
        assert_eq!(from_nanos(Duration::MAX.as_nanos() + 1), Duration::MAX);
        assert_eq!(from_nanos(u128::MAX), Duration::MAX);
        assert_eq!(from_nanos(1_000_000_001), Duration::new(1, 1));
    }

    #[test]
    fn both_ends_of_an_interval_are_drawn_wherever_it_lies() {
        let mut rng = SmallRng::seed_from_u64(1);
        let nano = Duration::from_nanos(1);
        // Below and above what 64 bits of nanoseconds hold, and across.
        let most = Duration::from_nanos(u64::MAX);
        for start in [Duration::ZERO, most - nano, most, Duration::MAX - nano] {
            let end = start + nano;
            let drawn = [(); 64].map(|()| draw(start..=end, &mut rng));
            assert!(drawn.iter().all(|it| [start, end].contains(it)), "{start:?}");
            assert!(drawn.contains(&start) && drawn.contains(&end), "{start:?}");
        }
    }
}
