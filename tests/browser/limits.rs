//! Time limits, cancellation, and the budget of a task.

use std::time::Duration;

use futures_util::future::join;
use reqwest::{Response, StatusCode};
use reqwest_middleware::Result;
use reqwest_typed_retry::{
    Attempt, Classifier, RetryErrorExt as _, RetryRequestExt as _, RetryScope, RetryTracker,
    StopReason, Verdict,
};
use tokio_util::sync::CancellationToken;
use wasm_bindgen_test::wasm_bindgen_test as test;
use web_time::Instant;

use super::support::{client, log, methods, quick, url};

const SOON: Duration = Duration::from_millis(300);
/// Far more than it takes, on a slow machine, too; far less than the server hangs.
const LATE: Duration = Duration::from_secs(8);

#[test]
async fn a_deadline_ends_an_attempt() {
    let started = Instant::now();
    let request = client(quick().deadline(SOON)).get(url("deadline", "hang"));
    let error = request.send().await.unwrap_err();
    assert!(error.retry_error().is_some_and(|ours| ours.is_deadline()), "{error:?}");
    assert!((SOON..LATE).contains(&started.elapsed()), "{:?}", started.elapsed());
    // Not only has the call ended: the browser has given the request up.
    while log("deadline").await.len() < 2 {
        assert!(started.elapsed() < LATE, "{:?}", log("deadline").await);
    }
    assert!(log("deadline").await.ends_with(&["gone".to_owned()]));
}

#[test]
async fn a_wait_that_would_pass_the_deadline_is_not_begun() {
    let tracker = RetryTracker::new();
    let request = client(quick().deadline(LATE))
        .get(url("too-long", "429;retry-after=30~200"))
        .with_extension(tracker.clone());
    assert_eq!(request.send().await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(tracker.history().unwrap().stop_reason(), StopReason::DeadlineWouldPass);
    assert_eq!(methods("too-long").await, ["GET"]);
}

#[test]
async fn a_head_timeout_is_sent_again() {
    let response =
        client(quick().head_timeout(SOON)).get(url("head", "hang~200")).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(methods("head").await, ["GET"; 2]);
}

/// What people write for "none".
#[test]
async fn limits_without_end() {
    let policy = quick().head_timeout(Duration::MAX).deadline(Duration::MAX);
    let call = client(policy).get(url("endless", "503~200")).send();
    let response = RetryScope::new().deadline_in(Duration::MAX).run(call).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}

#[test]
async fn the_deadline_of_a_task() {
    let client = client(quick());
    let call = client.get(url("task", "hang")).send();
    let error = RetryScope::new().deadline_in(SOON).run(call).await.unwrap_err();
    assert!(error.retry_error().is_some_and(|ours| ours.is_deadline()), "{error:?}");
    let at = Instant::now() + SOON;
    let call = client.get(url("task", "hang")).send();
    let error = RetryScope::new().deadline_at(at).run(call).await.unwrap_err();
    assert!(error.retry_error().is_some_and(|ours| ours.is_deadline()), "{error:?}");
    assert!(at.elapsed() < LATE);
}

/// A call that is cancelled once its first response is there.
async fn cancelled(name: &str, reply: &str) -> Result<Response> {
    let (client, gone, tracker) = (client(quick()), CancellationToken::new(), RetryTracker::new());
    let seen = Seen(CancellationToken::new());
    let policy = quick().classifier(seen.clone());
    let request = client
        .get(url(name, reply))
        .retry_policy(policy.build().unwrap())
        .with_extension(tracker.clone());
    let cancel = async {
        seen.0.cancelled().await;
        gone.cancel();
    };
    let scope = RetryScope::new().cancel_on(gone.clone());
    let (result, ()) = join(scope.run(request.send()), cancel).await;
    assert_eq!(tracker.history().unwrap().stop_reason(), StopReason::Cancelled);
    assert_eq!(methods(name).await, ["GET"]);
    result
}

/// Tells that there is an outcome to decide on.
#[derive(Clone)]
struct Seen(CancellationToken);

impl Classifier for Seen {
    fn classify(&self, _attempt: &Attempt<'_>) -> Option<Verdict> {
        self.0.cancel();
        None
    }
}

#[test]
async fn a_response_that_is_waited_on_comes_back_when_that_is_cancelled() {
    let response = cancelled("cancel", "503;retry-after=60").await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.text().await.unwrap(), "hello");
}

/// Kept unread, it would keep its connection.
#[test]
async fn a_long_response_is_not_kept_for_a_cancellation() {
    let error = cancelled("cancel-long", "503;retry-after=60;long").await.unwrap_err();
    assert!(error.retry_error().is_some_and(|ours| ours.is_cancelled()), "{error:?}");
}

#[test]
async fn a_request_can_say_that_it_is_sent_once() {
    let response = client(quick()).get(url("once", "503~200")).no_retry().send().await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(methods("once").await, ["GET"]);
}
