//! Statuses, and what they say of the wait.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest_typed_retry::{
    Cooldown, DelaySource, RetryBudget, RetryHistory, RetryMiddleware, RetryPolicy, RetryTracker,
    StopReason,
};
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::support::{came, client, methods, quick, url, with};

const SECOND: Duration = Duration::from_secs(1);

fn delay_source(history: &RetryHistory) -> Option<DelaySource> {
    history.attempts().first().unwrap().decision().delay_source()
}

#[test]
async fn a_503_and_then_a_200() {
    let client = client(RetryPolicy::builder()); // the default, backoff and jitter included
    let response = client.get(url("recovers", "503~200")).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.text().await.unwrap(), "hello");
    let came = came("recovers").await;
    assert_eq!(came.len(), 2);
    assert!(came[1].at >= Duration::from_millis(50), "half of 100 ms: {came:?}");
}

#[test]
async fn the_last_response_comes_back_whole() {
    let tracker = RetryTracker::new();
    let request = client(quick()).get(url("stays", "503")).with_extension(tracker.clone());
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.text().await.unwrap(), "hello");
    assert_eq!(methods("stays").await, ["GET"; 3]);
    let history = tracker.history().unwrap();
    assert_eq!(history.stop_reason(), StopReason::AttemptsExhausted);
    assert_eq!(history.resends(), 2);
}

#[test]
async fn a_429_is_waited_on_as_it_asks() {
    let tracker = RetryTracker::new();
    let client = client(quick());
    let request = client.get(url("asks", "429;retry-after=1~200")).with_extension(tracker.clone());
    assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
    let came = came("asks").await;
    assert_eq!(came.len(), 2);
    assert!(came[1].at >= SECOND, "{came:?}");
    assert_eq!(delay_source(&tracker.history().unwrap()), Some(DelaySource::Server));
}

/// By the wall clock: the standard library's own panics in a browser.
#[test]
async fn a_date_is_waited_for() {
    let date = httpdate::fmt_http_date(wall_clock() + 2 * SECOND).replace(' ', "_");
    let tracker = RetryTracker::new();
    let url = url("date", &format!("503;retry-after={date}~200"));
    let request = client(quick()).get(url).with_extension(tracker.clone());
    assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
    assert_eq!(delay_source(&tracker.history().unwrap()), Some(DelaySource::Server));
    // A date has whole seconds; the other is what the answer took, on a slow machine, too.
    let waited = tracker.history().unwrap().attempts()[0].decision().delay().unwrap();
    assert!(waited <= 2 * SECOND + SECOND / 5, "{waited:?}");
    assert_eq!(methods("date").await, ["GET"; 2]);
}

fn wall_clock() -> std::time::SystemTime {
    use web_time::web::SystemTimeExt as _;
    web_time::SystemTime::now().to_std()
}

/// A field that the server does not expose (`Access-Control-Expose-Headers`) the browser does not show.
#[test]
async fn a_hidden_field_leaves_the_wait_to_the_backoff() {
    let tracker = RetryTracker::new();
    let url = url("hidden", "429;retry-after=60;hidden~200");
    let request = client(quick()).get(url).with_extension(tracker.clone());
    assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
    assert_eq!(delay_source(&tracker.history().unwrap()), Some(DelaySource::ThrottleBackoff));
    assert_eq!(methods("hidden").await, ["GET"; 2]);
}

#[test]
async fn a_resend_is_for_the_server_whatever_the_browser_has_in_its_cache() {
    let (client, url) = (client(quick()), url("cache", "503;max-age~200"));
    assert_eq!(client.get(&url).send().await.unwrap().status(), StatusCode::OK);
    assert_eq!(methods("cache").await, ["GET"; 2]);
    // Nor does the failure stay there for the next call.
    let tracker = RetryTracker::new();
    client.get(&url).with_extension(tracker.clone()).send().await.unwrap();
    assert_eq!(tracker.history().unwrap().resends(), 0);
    assert_eq!(methods("cache").await, ["GET"; 3]);
}

#[test]
async fn a_zero_wait_goes_on() {
    let response =
        client(quick()).get(url("at-once", "429;retry-after=0~200")).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(methods("at-once").await, ["GET"; 2]);
}

#[test]
async fn a_budget_ends_the_resends() {
    let budget = RetryBudget::builder().capacity(1).build().unwrap();
    let policy = quick().max_attempts(5).build().unwrap();
    let retry = RetryMiddleware::builder(policy).budget(budget).build().unwrap();
    let tracker = RetryTracker::new();
    let request = with(retry).get(url("budget", "503")).with_extension(tracker.clone());
    request.send().await.unwrap();
    assert_eq!(methods("budget").await, ["GET"; 2]);
    assert_eq!(tracker.history().unwrap().stop_reason(), StopReason::BudgetExhausted);
}

#[test]
async fn a_cooldown_holds_the_next_call_back() {
    let policy = quick().max_attempts(1).deadline(30 * SECOND).build().unwrap();
    let retry = RetryMiddleware::builder(policy).cooldown(Cooldown::by_origin()).build().unwrap();
    let client = with(retry);
    let url = url("quiet", "503;retry-after=1~200");
    client.get(&url).send().await.unwrap();
    assert_eq!(client.get(&url).send().await.unwrap().status(), StatusCode::OK);
    let came = came("quiet").await;
    assert!(came[1].at >= SECOND - SECOND / 10, "{came:?}");
}
