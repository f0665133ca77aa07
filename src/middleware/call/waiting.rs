//! What an attempt waits for.

use std::time::Duration;

use reqwest::{Response, Url};
use reqwest_middleware::Result;

use super::Call;
use crate::middleware::gate::Gate;
use crate::middleware::wait::{Limits, Wait, Woken};
use crate::middleware::{BoxFuture, RetryError};
use crate::policy::StopReason;

impl Call<'_> {
    pub(super) fn gate(&self) -> Option<Gate<'_>> {
        let cooldown = self.retry.cooldown.as_ref()?;
        let key = self.destination.as_ref()?.cooldown_key?;
        Some(Gate { cooldown, key, policy: &self.policy })
    }

    /// The wait for a cooldown before the first attempt, if there is one. It gives the error that ends the
    /// call, if that may not go on.
    pub(in crate::middleware) fn held_back(
        &mut self,
    ) -> Option<BoxFuture<'_, Option<reqwest_middleware::Error>>> {
        self.gate()?.closed_for()?;
        Some(Box::pin(async move {
            let wait = Wait { delay: Duration::ZERO, outcome: None };
            if let Some((reason, result)) = self.interrupted(wait, self.url()).await {
                return self.finish(Vec::new(), self.url(), reason, result).err();
            }
            let held_back = self.started.elapsed();
            if let Some(destination) = &mut self.destination {
                destination.held_back = held_back;
            }
            None
        }))
    }

    /// Waits, and longer where a cooldown asks for it. Gives the end of the call, if that may not go on.
    pub(super) async fn interrupted(
        &self,
        wait: Wait,
        url: Option<&Url>,
    ) -> Option<(StopReason, Result<Response>)> {
        let gate = self.gate();
        let longer = || {
            let time_left = self.time_left();
            let wait = gate.as_ref().and_then(|gate| gate.wait(&self.retry.generator, time_left));
            if let Some(wait) = wait {
                if time_left.is_some_and(|time_left| time_left <= wait) {
                    return Err(StopReason::DeadlineWouldPass);
                }
                self.retry.observers.held_back(&self.observed(url), wait);
            }
            Ok(wait)
        };
        let limits = Limits {
            drain: self.endpoint().and_then(|endpoint| endpoint.drain).unwrap_or(self.retry.drain),
            scope: self.scope.as_deref(),
            may_be_longer: gate.is_some(),
            // A deadline may refuse the longer wait.
            may_be_asked: self.can_cancel() || (gate.is_some() && self.time_left().is_some()),
        };
        match wait.run(limits, longer).await {
            Woken::InTime => self.refusal().map(|(reason, error)| (reason, Err(error.into()))),
            Woken::Interrupted(reason, outcome) => {
                let error = match reason {
                    StopReason::Cancelled => RetryError::cancelled,
                    _ => RetryError::closed,
                };
                Some((reason, outcome.unwrap_or_else(|| Err(error().into()))))
            }
        }
    }
}
