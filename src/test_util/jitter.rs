//! Repeatable randomness.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// A small generator whose draws depend on `seed` alone, for
/// [`RetryMiddlewareBuilder::generator`](crate::RetryMiddlewareBuilder::generator) and
/// [`RetryPolicy::decide`](crate::RetryPolicy::decide).
///
/// ```
/// use std::time::Duration;
/// use reqwest_typed_retry::test_util::seeded_jitter;
/// use reqwest_typed_retry::{Backoff, Jitter};
///
/// let backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(60))?;
/// let wait = |seed| backoff.draw(3, None, Jitter::Full, &mut seeded_jitter(seed));
/// assert_eq!(wait(7), wait(7));
/// assert_ne!(wait(7), wait(8));
/// # Ok::<(), reqwest_typed_retry::PolicyError>(())
/// ```
#[must_use]
pub fn seeded_jitter(seed: u64) -> impl Rng + Clone + Send + 'static {
    SmallRng::seed_from_u64(seed)
}
