//! What an attempt waits for.

use std::time::Duration;

use reqwest::Response;
use reqwest_middleware::Result;

use super::Call;
use crate::middleware::RetryError;
use crate::middleware::gate::Gate;
use crate::middleware::wait::{Held, Wait, Woken};
use crate::policy::StopReason;

impl Call<'_> {
    #[inline]
    pub(super) fn gate(&self) -> Option<Gate<'_>> {
        let cooldown = self.retry.cooldown.as_ref()?;
        let key = self.destination.as_ref()?.cooldown_key?;
        Some(Gate { cooldown, key, policy: &self.policy })
    }

    /// The wait after an outcome, or before the first attempt.
    pub(super) fn wait(&self, delay: Duration, outcome: Option<Result<Response>>) -> Wait {
        let held = outcome.and_then(|outcome| {
            let drain = self.endpoint().and_then(|endpoint| endpoint.drain);
            let may_be_longer = self.gate().is_some();
            let longest = if may_be_longer { Duration::MAX } else { delay };
            // A deadline may refuse the longer wait.
            let may_be_asked = self.can_cancel() || (may_be_longer && self.time_left().is_some());
            Held::new(outcome, drain.unwrap_or(self.retry.drain), longest, may_be_asked)
        });
        Wait::new(delay, self.scope.as_ref()).holding(held)
    }

    /// Waits, and longer where a cooldown asks for it. Says why, if that may not go on to its end.
    pub(super) async fn interrupted(&self, wait: &mut Wait) -> Option<StopReason> {
        loop {
            if (&mut *wait).await == Woken::Cancelled {
                return Some(StopReason::Cancelled);
            }
            match self.longer() {
                Ok(Some(more)) => wait.go_on(more),
                Ok(None) => return None,
                Err(reason) => return Some(reason),
            }
        }
    }

    fn longer(&self) -> std::result::Result<Option<Duration>, StopReason> {
        let Some(gate) = self.gate() else { return Ok(None) };
        let time_left = self.time_left();
        let Some(wait) = gate.wait(&self.retry.generator, time_left) else { return Ok(None) };
        if time_left.is_some_and(|time_left| time_left <= wait) {
            return Err(StopReason::DeadlineWouldPass);
        }
        self.retry.observers.held_back(&self.observed(self.destination()), wait);
        Ok(Some(wait))
    }

    /// The end of the call, if it may not go on after `wait`.
    pub(super) fn stopped(
        &self,
        interrupted: Option<StopReason>,
        wait: Wait,
    ) -> Option<(StopReason, Result<Response>)> {
        let Some(reason) = interrupted else {
            return self.refusal().map(|(reason, error)| (reason, Err(error.into())));
        };
        let error = match reason {
            StopReason::Cancelled => RetryError::cancelled,
            _ => RetryError::held_back,
        };
        Some((reason, wait.into_outcome().unwrap_or_else(|| Err(error().into()))))
    }
}
