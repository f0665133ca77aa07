//! Retries that are no middleware: backon's and tower's go around a call, reqwest's own sits below it.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use backon::{ConstantBuilder, Retryable as _};
use futures_util::future::{Either, Ready, ready};
use reqwest::{Request, Response, StatusCode};
use tokio::time::{Sleep, sleep};
use tower::retry::budget::{Budget as _, TpsBudget};
use tower::retry::{Policy, Retry};

/// The policy that one would write for tower.
#[derive(Clone)]
pub struct Again {
    left: u32,
    wait: Duration,
    budget: Option<Arc<TpsBudget>>,
}

impl<E> Policy<Request, Response, E> for Again {
    type Future = Either<Ready<()>, Sleep>;

    fn retry(&mut self, _: &mut Request, result: &mut Result<Response, E>) -> Option<Self::Future> {
        let is_sick =
            matches!(result, Ok(answer) if answer.status() == StatusCode::SERVICE_UNAVAILABLE);
        if let Some(budget) = self.budget.as_ref().filter(|_| !is_sick) {
            budget.deposit();
        }
        self.left = self.left.checked_sub(1).filter(|_| is_sick)?;
        if !self.budget.as_ref().is_none_or(|budget| budget.withdraw()) {
            return None;
        }
        Some(if self.wait.is_zero() {
            Either::Left(ready(()))
        } else {
            Either::Right(sleep(self.wait))
        })
    }

    fn clone_request(&mut self, request: &Request) -> Option<Request> {
        if self.left > 0 { request.try_clone() } else { None }
    }
}

/// tower's retry around a client.
pub fn tower<S>(service: S, retries: u32, wait: Duration) -> Retry<Again, S> {
    Retry::new(Again { left: retries, wait, budget: None }, service)
}

/// The same, with tower's budget as it is by default.
pub fn tower_with_budget<S>(service: S, retries: u32) -> Retry<Again, S> {
    let budget = Some(Arc::new(TpsBudget::default()));
    Retry::new(Again { left: retries, wait: Duration::ZERO, budget }, service)
}

/// backon around one call.
///
/// # Errors
/// The last one's, a status that is one too; or if the body is a stream.
pub async fn backon<E: Into<Box<dyn Error>>>(
    request: Request,
    retries: usize,
    wait: Duration,
    send: impl AsyncFn(Request) -> Result<Response, E>,
) -> Result<Response, Box<dyn Error>> {
    let send = async || -> Result<Response, Box<dyn Error>> {
        let request = request.try_clone().ok_or("the body is a stream")?;
        Ok(send(request).await.map_err(Into::into)?.error_for_status()?)
    };
    #[expect(clippy::borrowed_box, reason = "that is how backon hands it out")]
    let is_sick = |error: &Box<dyn Error>| {
        let status = error.downcast_ref::<reqwest::Error>().and_then(reqwest::Error::status);
        status == Some(StatusCode::SERVICE_UNAVAILABLE)
    };
    let backoff = ConstantBuilder::new().with_delay(wait).with_max_times(retries);
    send.retry(backoff).when(is_sick).await
}

/// reqwest's own retry of a 503 from loopback, with its default budget.
#[must_use]
pub fn reqwests_own(retries: u32) -> reqwest::retry::Builder {
    reqwest::retry::for_host("127.0.0.1").max_retries_per_request(retries).classify_fn(|answer| {
        match answer.status() {
            Some(StatusCode::SERVICE_UNAVAILABLE) => answer.retryable(),
            _ => answer.success(),
        }
    })
}
