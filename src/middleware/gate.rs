//! What one attempt waits for at a cooldown.

use std::time::Duration;

use super::generator::Generator;
use crate::origin::{Cooldown, Key};
use crate::policy::RetryPolicy;
use crate::time::Instant;

/// One attempt before a [`Cooldown`], under the rules of its policy.
pub(super) struct Gate<'a> {
    pub(super) cooldown: &'a Cooldown,
    pub(super) key: Key,
    pub(super) policy: &'a RetryPolicy,
}

impl Gate<'_> {
    /// How long it is closed for this attempt, and how long the server asked for in all.
    fn closed(&self) -> Option<(Duration, Duration)> {
        let now = Instant::now();
        let closed = self.cooldown.closed(self.key, now)?;
        let followed = self.policy.followed_delay(closed.asked)?;
        let left = followed.saturating_sub(now.saturating_duration_since(closed.since));
        (!left.is_zero()).then_some((left, closed.asked))
    }

    /// How long it is closed for this attempt.
    pub(super) fn closed_for(&self) -> Option<Duration> {
        self.closed().map(|(left, _)| left)
    }

    /// The wait before the attempt, if it is closed: until it opens, and a while of its own, as far as there
    /// is time.
    pub(super) fn wait(
        &self,
        generator: &Generator,
        time_left: Option<Duration>,
    ) -> Option<Duration> {
        let (left, asked) = self.closed()?;
        let wait = left.saturating_add(self.policy.spread(asked, &mut generator.draws()));
        Some(if time_left.is_some_and(|time_left| wait >= time_left) { left } else { wait })
    }

    /// A server asked for this delay.
    pub(super) fn close(&self, asked: Duration) {
        if self.policy.followed_delay(asked).is_some() {
            self.cooldown.close(self.key, Instant::now(), asked);
        }
    }
}
