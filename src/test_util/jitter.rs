//! Repeatable randomness.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// A small generator whose draws depend on `seed` alone, for
/// [`RetryMiddlewareBuilder::generator`](crate::RetryMiddlewareBuilder::generator) and
/// [`RetryPolicy::decide`](crate::RetryPolicy::decide).
#[must_use]
pub fn seeded_jitter(seed: u64) -> impl Rng + Clone + Send + 'static {
    SmallRng::seed_from_u64(seed)
}
