//! How the middleware is built.

use std::time::SystemTime;

use rand::Rng;

use super::RetryMiddleware;
use super::generator::Generator;
use super::time::WallClock;
use crate::policy::{PolicyError, RetryPolicy};

/// Builds a [`RetryMiddleware`].
#[derive(Debug)]
#[must_use]
pub struct RetryMiddlewareBuilder {
    policy: RetryPolicy,
    wall_clock: WallClock,
    generator: Generator,
}

impl RetryMiddlewareBuilder {
    pub(super) fn new(policy: RetryPolicy) -> Self {
        Self {
            policy,
            wall_clock: WallClock::default(),
            generator: Generator::default(),
        }
    }

    /// The clock against which HTTP dates are read. **Default**: the system's.
    pub fn wall_clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.wall_clock = WallClock::new(now);
        self
    }

    /// The generator behind jitter. **Default**: the thread's own, `rand::rng()`.
    pub fn generator(mut self, rng: impl Rng + Send + 'static) -> Self {
        self.generator = Generator::new(rng);
        self
    }

    /// Checks the policy against what this client can do.
    ///
    /// # Errors
    /// If the policy lists [`not_processed_statuses`](RetryPolicy::not_processed_statuses): they
    /// lift method safety only together with a proof that the attempt was a single exchange, which
    /// this version does not have yet.
    pub fn build(self) -> Result<RetryMiddleware, PolicyError> {
        let statuses = self.policy.not_processed_statuses();
        if !statuses.is_empty() {
            let rule = "without a delivery proof the list has no effect: leave it empty";
            return Err(PolicyError::new("not_processed_statuses", statuses, rule));
        }
        Ok(self.build_unchecked())
    }

    pub(super) fn build_unchecked(self) -> RetryMiddleware {
        let Self {
            policy,
            wall_clock,
            generator,
        } = self;
        RetryMiddleware {
            policy,
            wall_clock,
            generator,
        }
    }
}
