//! What one attempt waits for at a cooldown.

use std::time::Duration;

use super::generator::Generator;
use crate::origin::{Closed, Cooldown, Key};
use crate::policy::RetryPolicy;
use crate::time::Instant;

/// One attempt before a [`Cooldown`], under the rules of its policy.
pub(super) struct Gate<'a> {
    pub(super) cooldown: &'a Cooldown,
    pub(super) key: Key,
    pub(super) policy: &'a RetryPolicy,
    waited: Duration,
}

impl<'a> Gate<'a> {
    pub(super) fn new(cooldown: &'a Cooldown, key: Key, policy: &'a RetryPolicy) -> Self {
        Self { cooldown, key, policy, waited: Duration::ZERO }
    }

    /// How long it is closed for this attempt; the policy limits all that it waits here.
    pub(super) fn closed_for(&self) -> Option<Duration> {
        self.closed().map(|(left, _)| left)
    }

    fn closed(&self) -> Option<(Duration, Closed)> {
        let now = Instant::now();
        let closed = self.cooldown.closed(self.key, now)?;
        let left = closed.until.saturating_duration_since(now);
        let followed = self.policy.followed_delay(self.waited.saturating_add(left))?;
        let left = followed.saturating_sub(self.waited);
        (!left.is_zero()).then_some((left, closed))
    }

    /// The wait before the attempt: until it opens, and a while of its own.
    pub(super) fn wait(&mut self, generator: &Generator) -> Option<Duration> {
        let (left, Closed { asked, .. }) = self.closed()?;
        let wait = left.saturating_add(self.policy.spread(asked, &mut generator.draws()));
        self.waited = self.waited.saturating_add(wait);
        Some(wait)
    }

    /// A server asked for this delay.
    pub(super) fn close(&self, asked: Duration) {
        if let Some(followed) = self.policy.followed_delay(asked) {
            self.cooldown.close(self.key, Instant::now(), followed);
        }
    }
}
