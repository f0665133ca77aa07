//! How the middleware is built.

use std::time::SystemTime;

use rand::Rng;

use super::generator::Generator;
use super::time::WallClock;
use super::{DeliveryProof, RetryMiddleware};
use crate::policy::{PolicyError, RetryPolicy};

/// Builds a [`RetryMiddleware`].
#[derive(Debug)]
#[must_use]
pub struct RetryMiddlewareBuilder {
    policy: RetryPolicy,
    proof: Option<DeliveryProof>,
    wall_clock: WallClock,
    generator: Generator,
}

impl RetryMiddlewareBuilder {
    pub(super) fn new(policy: RetryPolicy) -> Self {
        Self {
            policy,
            proof: None,
            wall_clock: WallClock::default(),
            generator: Generator::default(),
        }
    }

    /// The proof of the client that this middleware is for: lifts method safety where a request is
    /// proven not to have been processed. **Default**: none, so that nothing lifts it.
    pub fn delivery_proof(mut self, proof: DeliveryProof) -> Self {
        self.proof = Some(proof);
        self
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
    /// If the policy lists [`not_processed_statuses`](RetryPolicy::not_processed_statuses) and there
    /// is no [`delivery_proof`](Self::delivery_proof): a redirected request may have taken effect
    /// before such a status came.
    pub fn build(self) -> Result<RetryMiddleware, PolicyError> {
        let statuses = self.policy.not_processed_statuses();
        if !statuses.is_empty() && self.proof.is_none() {
            let rule =
                "without a delivery proof the list has no effect: add one, or leave it empty";
            return Err(PolicyError::new("not_processed_statuses", statuses, rule));
        }
        Ok(self.build_unchecked())
    }

    pub(super) fn build_unchecked(self) -> RetryMiddleware {
        let Self { policy, proof, wall_clock, generator } = self;
        RetryMiddleware { policy, observed: proof.is_some(), wall_clock, generator }
    }
}
