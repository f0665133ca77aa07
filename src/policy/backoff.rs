//! How long to wait before a resend when nobody said.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use rand::Rng;

use super::jitter::{draw, from_nanos};
use super::{Jitter, PolicyError, constants};

/// The schedule of waits between attempts, before and after [`Jitter`].
///
/// Retries are counted from 1: retry 1 is the second send. [Nominal delays](Self::delay) never shrink from
/// one retry to the next and never pass the maximum, for any retry up to `u32::MAX` and any `Duration`.
///
/// ```
/// use std::time::Duration;
/// use rand::{SeedableRng, rngs::SmallRng};
/// use reqwest_typed_retry::{Backoff, Jitter};
///
/// let ms = Duration::from_millis;
/// let backoff = Backoff::exponential(ms(100), ms(1_000))?;
/// let delays: Vec<_> = (1..=5).map(|retry| backoff.delay(retry)).collect();
/// assert_eq!(delays, [ms(100), ms(200), ms(400), ms(800), ms(1_000)]);
/// assert_eq!(backoff.max_delay(), ms(1_000));
///
/// let wait = backoff.draw(2, None, Jitter::Equal, &mut SmallRng::seed_from_u64(7));
/// assert!(backoff.envelope(2, None, Jitter::Equal).contains(&wait)); // 100 to 200 ms
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Backoff {
    pub(super) shape: Shape,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Constant(Duration),
    Linear { base: Duration, max: Duration },
    Exponential { base: Duration, max: Duration, factor: f64 },
    Decorrelated { base: Duration, max: Duration },
    Schedule(Arc<[Duration]>),
}

impl Backoff {
    /// The same delay every time. It is the longest too, so that [`Jitter::Proportional`] only shortens it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use reqwest_typed_retry::{Backoff, Jitter};
    ///
    /// let secs = Duration::from_secs;
    /// let backoff = Backoff::constant(secs(10));
    /// assert_eq!((backoff.delay(1), backoff.delay(1_000)), (secs(10), secs(10)));
    /// let envelope = backoff.envelope(1, None, Jitter::proportional(0.5)?);
    /// assert_eq!(envelope, secs(5)..=secs(10));
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    #[must_use]
    pub const fn constant(delay: Duration) -> Self {
        Self { shape: Shape::Constant(delay) }
    }

    /// `base`, twice `base`, three times `base`, … up to `max`: `min(max, base · retry)`.
    ///
    /// # Errors
    /// If `base` is longer than `max`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use reqwest_typed_retry::Backoff;
    ///
    /// let backoff = Backoff::linear(Duration::from_secs(2), Duration::from_secs(5))?;
    /// assert_eq!([1, 2, 3].map(|retry| backoff.delay(retry).as_secs()), [2, 4, 5]);
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn linear(base: Duration, max: Duration) -> Result<Self, PolicyError> {
        base_within_max(base, max)?;
        Ok(Self { shape: Shape::Linear { base, max } })
    }

    /// `base`, then twice as long each time, up to `max`: `min(max, base · 2^(retry-1))`.
    ///
    /// # Errors
    /// If `base` is longer than `max`.
    pub fn exponential(base: Duration, max: Duration) -> Result<Self, PolicyError> {
        base_within_max(base, max)?;
        Ok(Self { shape: Shape::Exponential { base, max, factor: constants::FACTOR } })
    }

    /// The same exponential backoff with another factor: `min(max, base · factor^(retry-1))`.
    /// **Default**: 2.
    ///
    /// # Errors
    /// If `factor` is not a finite number of at least 1 (a smaller one would speed up under
    /// failure), or if the backoff is not exponential.
    ///
    /// ```
    /// use std::time::Duration;
    /// use reqwest_typed_retry::Backoff;
    ///
    /// let ms = Duration::from_millis;
    /// let backoff = Backoff::exponential(ms(100), ms(1_000))?.with_factor(1.5)?;
    /// assert_eq!([1, 2, 3].map(|retry| backoff.delay(retry)), [ms(100), ms(150), ms(225)]);
    /// assert!(backoff.with_factor(0.5).is_err());
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn with_factor(self, factor: f64) -> Result<Self, PolicyError> {
        let Shape::Exponential { base, max, .. } = self.shape else {
            let rule = "only an exponential backoff has a factor";
            return Err(PolicyError::new("factor", factor, rule));
        };
        if !factor.is_finite() || factor < 1.0 {
            let rule = "it must be a finite number of at least 1";
            return Err(PolicyError::new("factor", factor, rule));
        }
        Ok(Self { shape: Shape::Exponential { base, max, factor } })
    }

    /// Each wait is drawn from `[base, min(max, 3 · the previous wait)]`, the first one from
    /// `[base, min(max, 3 · base)]`: random by itself, whatever the [`Jitter`]. A wait that a server asked for
    /// is a previous wait too.
    ///
    /// # Errors
    /// If `base` is longer than `max`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use reqwest_typed_retry::{Backoff, Jitter};
    ///
    /// let secs = Duration::from_secs;
    /// let backoff = Backoff::decorrelated(secs(1), secs(20))?;
    /// assert_eq!(backoff.envelope(1, None, Jitter::None), secs(1)..=secs(3));
    /// assert_eq!(backoff.envelope(2, Some(secs(2)), Jitter::None), secs(1)..=secs(6));
    /// assert_eq!(backoff.envelope(3, Some(secs(9)), Jitter::None), secs(1)..=secs(20));
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn decorrelated(base: Duration, max: Duration) -> Result<Self, PolicyError> {
        base_within_max(base, max)?;
        Ok(Self { shape: Shape::Decorrelated { base, max } })
    }

    /// A list of delays, one a retry; the last one repeats.
    ///
    /// # Errors
    /// If the list is empty, or a delay is shorter than the one before it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use reqwest_typed_retry::Backoff;
    ///
    /// let backoff = Backoff::schedule([1, 5, 30].map(Duration::from_secs))?;
    /// assert_eq!(backoff.delay(2), Duration::from_secs(5));
    /// assert_eq!(backoff.delay(9), Duration::from_secs(30));
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    pub fn schedule(delays: impl Into<Arc<[Duration]>>) -> Result<Self, PolicyError> {
        let delays = delays.into();
        if delays.is_empty() {
            return Err(PolicyError::new("schedule", delays, "it needs at least one delay"));
        }
        if !delays.is_sorted() {
            let rule = "no delay may be shorter than the one before it";
            return Err(PolicyError::new("schedule", delays, rule));
        }
        Ok(Self { shape: Shape::Schedule(delays) })
    }

    /// The nominal delay before `retry`, without jitter; `retry` 0 counts as 1. For a decorrelated backoff,
    /// which has no nominal delay, the longest that the wait can be when each one before it was the longest
    /// too.
    #[must_use]
    pub fn delay(&self, retry: u32) -> Duration {
        let step = retry.saturating_sub(1); // retry 0 does not exist and counts as the first
        match &self.shape {
            Shape::Constant(delay) => *delay,
            Shape::Linear { base, max } => {
                from_nanos(base.as_nanos().saturating_mul(u128::from(step) + 1)).min(*max)
            }
            Shape::Exponential { base, max, factor } => grow(*base, *factor, step).min(*max),
            Shape::Decorrelated { base, max } => grow(*base, 3.0, step.saturating_add(1)).min(*max),
            Shape::Schedule(delays) => {
                let at = usize::try_from(step).unwrap_or(usize::MAX);
                delays.get(at).or(delays.last()).copied().unwrap_or_default()
            }
        }
    }

    /// The longest delay that this backoff ever waits; jitter does not pass it.
    #[must_use]
    pub fn max_delay(&self) -> Duration {
        match &self.shape {
            Shape::Constant(delay) => *delay,
            Shape::Linear { max, .. }
            | Shape::Exponential { max, .. }
            | Shape::Decorrelated { max, .. } => *max,
            Shape::Schedule(delays) => delays.last().copied().unwrap_or_default(),
        }
    }

    /// The interval from which the wait before `retry` is drawn evenly. `previous` is the wait
    /// before that, if there was one: only a decorrelated backoff looks at it, and only the others look at
    /// `jitter`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use reqwest_typed_retry::{Backoff, Jitter};
    ///
    /// let ms = Duration::from_millis;
    /// let backoff = Backoff::exponential(ms(100), ms(10_000))?;
    /// assert_eq!(backoff.envelope(3, None, Jitter::Equal), ms(200)..=ms(400));
    /// # Ok::<(), reqwest_typed_retry::PolicyError>(())
    /// ```
    #[must_use]
    pub fn envelope(
        &self,
        retry: u32,
        previous: Option<Duration>,
        jitter: Jitter,
    ) -> RangeInclusive<Duration> {
        match self.shape {
            Shape::Decorrelated { base, max } => {
                let longest = previous.unwrap_or(base).saturating_mul(3).min(max);
                base..=longest.max(base)
            }
            _ => jitter.spread(self.delay(retry), self.max_delay()),
        }
    }

    /// The wait before `retry`: one draw from the [`envelope`](Self::envelope). An interval of one point
    /// draws nothing from `rng`.
    #[must_use]
    pub fn draw<R: Rng + ?Sized>(
        &self,
        retry: u32,
        previous: Option<Duration>,
        jitter: Jitter,
        rng: &mut R,
    ) -> Duration {
        draw(self.envelope(retry, previous, jitter), rng)
    }
}

fn base_within_max(base: Duration, max: Duration) -> Result<(), PolicyError> {
    if base > max {
        let rule = format!("it must not be shorter than the base delay of {base:?}");
        return Err(PolicyError::new("max_delay", max, rule));
    }
    Ok(())
}

/// `base · factor^step`, saturating, in closed form. Exact for a whole factor; otherwise as exact as
/// `f64` is.
fn grow(base: Duration, factor: f64, step: u32) -> Duration {
    if step == 0 {
        return base;
    }
    let nanos = base.as_nanos();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "`as` saturates, and makes nothing of the NaN that is zero times infinity"
    )]
    let grown = if factor.fract() == 0.0 {
        (factor as u128).saturating_pow(step).saturating_mul(nanos)
    } else {
        (nanos as f64 * factor.powf(f64::from(step))) as u128
    };
    from_nanos(grown)
}
