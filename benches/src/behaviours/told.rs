//! The retries that resend what their callers tell them to: reqwest's own, backon's and tower's. All are told the
//! same, with care: an idempotent method, and 408, 429, any 5xx, or any error.

use std::sync::Arc;
use std::time::Duration;

use backon::{ConstantBuilder, Retryable as _};
use http::{Method, StatusCode};
use reqwest::{Request, Response};
use tokio::time::{Sleep, sleep};
use tower::retry::Policy;
use tower::retry::budget::{Budget as _, TpsBudget};

type Sent = std::result::Result<Response, reqwest::Error>;

fn is_transient(status: StatusCode) -> bool {
    let listed = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
    status.is_server_error() || listed.contains(&status)
}

/// The rule. No status is an error.
fn may_resend(method: &Method, status: Option<StatusCode>) -> bool {
    method.is_idempotent() && status.is_none_or(is_transient)
}

/// reqwest's own, with the budget that it has by default.
#[must_use]
pub fn reqwests_own(retries: u32) -> reqwest::retry::Builder {
    reqwest::retry::for_host("127.0.0.1").max_retries_per_request(retries).classify_fn(|answer| {
        if may_resend(answer.method(), answer.status()) {
            answer.retryable()
        } else {
            answer.success()
        }
    })
}

/// The policy that one would write for tower, with tower's budget as it is by default.
#[derive(Clone)]
pub struct Rule {
    left: u32,
    wait: Duration,
    budget: Arc<TpsBudget>,
}

impl Rule {
    #[must_use]
    pub fn new(retries: u32, wait: Duration) -> Self {
        Self { left: retries, wait, budget: Arc::default() }
    }
}

impl Policy<Request, Response, reqwest::Error> for Rule {
    type Future = Sleep;

    fn retry(&mut self, request: &mut Request, sent: &mut Sent) -> Option<Sleep> {
        let status = sent.as_ref().ok().map(Response::status);
        if !may_resend(request.method(), status) {
            self.budget.deposit();
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        self.budget.withdraw().then(|| sleep(self.wait))
    }

    fn clone_request(&mut self, request: &Request) -> Option<Request> {
        if self.left > 0 { request.try_clone() } else { None }
    }
}

/// backon, around what makes the request and sends it.
///
/// # Errors
/// The last one's, or a status that is one.
pub async fn backon(
    method: &Method,
    retries: usize,
    wait: Duration,
    send: impl AsyncFn() -> Sent,
) -> Sent {
    (async || send().await?.error_for_status())
        .retry(ConstantBuilder::new().with_delay(wait).with_max_times(retries))
        .when(|error: &reqwest::Error| may_resend(method, error.status()))
        .await
}
