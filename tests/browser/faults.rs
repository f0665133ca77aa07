//! What a browser tells of a failure, and what is made of it.

use std::time::Duration;

use reqwest_typed_retry::{Fault, FaultKind, RetryTracker, StopReason, fault_source};
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::support::{client, methods, quick, url};

const UNKNOWN: Fault = Fault::unknown(FaultKind::Network);

#[test]
async fn nobody_listens() {
    let tracker = RetryTracker::new();
    // Nobody gets this port by chance.
    let request = client(quick()).get("http://127.0.0.1:65535/").with_extension(tracker.clone());
    let error = request.send().await.unwrap_err();
    assert_eq!(fault_source::classify(&error), UNKNOWN);
    assert_eq!(tracker.history().unwrap().resends(), 2, "a GET is sent again");
}

#[test]
async fn a_connection_that_ends_before_the_answer() {
    let response = client(quick()).get(url("close", "close~200")).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
}

/// To its page it looks like a server that nobody reached, and yet the server has acted.
#[test]
async fn a_response_that_cors_hides() {
    let tracker = RetryTracker::new();
    let request = client(quick())
        .post(url("no-cors", "200;no-cors"))
        .body("pay")
        .with_extension(tracker.clone());
    let error = request.send().await.unwrap_err();
    assert_eq!(fault_source::classify(&error), UNKNOWN);
    assert_eq!(tracker.history().unwrap().stop_reason(), StopReason::NotIdempotent);
    assert_eq!(methods("no-cors").await, ["POST"]);
}

/// It may come several times, though the layer sent it once: Chromium tries each connection that it has used before.
#[test]
async fn a_post_whose_connection_ends_is_not_resent() {
    let tracker = RetryTracker::new();
    let request = client(quick()).post(url("lost", "close")).body("pay");
    let error = request.with_extension(tracker.clone()).send().await.unwrap_err();
    assert_eq!(fault_source::classify(&error), UNKNOWN);
    assert_eq!(tracker.history().unwrap().attempts().len(), 1);
    assert!(!methods("lost").await.is_empty());
}

#[test]
async fn a_request_that_a_browser_does_not_make() {
    let tracker = RetryTracker::new();
    let request =
        client(quick()).get("http://user:word@127.0.0.1/").with_extension(tracker.clone());
    let error = request.send().await.unwrap_err();
    assert_eq!(fault_source::classify(&error), Fault::unknown(FaultKind::Invalid));
    assert_eq!(tracker.history().unwrap().resends(), 0);
}

#[test]
async fn an_attempt_timeout() {
    let policy = quick().attempt_timeout(Duration::from_millis(300));
    let tracker = RetryTracker::new();
    let request = client(policy).get(url("slow", "hang~200")).with_extension(tracker.clone());
    assert_eq!(request.send().await.unwrap().status().as_u16(), 200);
    let first = tracker.history().unwrap().attempts()[0];
    assert_eq!(first.outcome().fault(), Some(Fault::unknown(FaultKind::Timeout)));
}

/// reqwest panics there with a timeout beyond 24 days, and this is what people write for "none".
#[test]
async fn an_attempt_timeout_beyond_what_a_timer_can_wait() {
    for (name, timeout) in [("max", Duration::MAX), ("days", Duration::from_secs(30 * 86_400))] {
        let policy = quick().attempt_timeout(timeout);
        let response = client(policy).get(url(name, "503~200")).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
    }
}

/// A browser does not tell a body that is cut from one that is wrong, so it is not asked for again.
#[test]
async fn a_body_that_is_cut() {
    let response = client(quick()).get(url("cut", "200;cut")).send().await.unwrap();
    let error = response.text().await.unwrap_err();
    assert_eq!(fault_source::classify(&error), Fault::unknown(FaultKind::Decode));
}
