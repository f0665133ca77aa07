//! Bodies: which are sent again, and what can't be had of a response.

use std::io;

use gloo_timers::future::TimeoutFuture;
use reqwest::StatusCode;
use reqwest::multipart::Form;
use reqwest_typed_retry::{
    Endpoint, ReplayBody, RetryMiddleware, RetryPolicy, RetryRequestExt as _, RetrySettings,
    RetryTracker, SharedSession, StopReason,
};
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::support::{came, client, methods, quick, url};

fn form() -> Form {
    Form::new().text("kind", "report")
}

#[test]
async fn a_form_is_sent_once() {
    let tracker = RetryTracker::new();
    let request = client(quick()).put(url("form", "503~200")).multipart(form());
    let response = request.with_extension(tracker.clone()).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(tracker.history().unwrap().stop_reason(), StopReason::BodyNotReplayable);
    assert_eq!(methods("form").await, ["PUT"]);
}

/// What its future waits for is JavaScript's, and so stays on this thread.
#[test]
async fn a_form_from_a_factory_is_sent_again() {
    let request = client(quick()).put(url("forms", "503~200")).body_factory(|| async {
        TimeoutFuture::new(1).await;
        Ok(ReplayBody::try_from(form())?)
    });
    assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
    let bodies: Vec<_> = came("forms").await.into_iter().map(|came| came.body).collect();
    assert_eq!(bodies.len(), 2);
    for body in &bodies {
        assert!(body.contains(r#"name="kind""#) && body.contains("report"), "{body}");
    }
    assert_ne!(bodies[0], bodies[1], "a boundary of its own");
}

/// A browser does not tell a body that is cut from one that is wrong: who reads it can say so.
#[test]
async fn a_body_that_is_cut_is_asked_for_again_by_who_says_that_it_is() {
    let client = client(quick());
    let session = SharedSession::new(quick().build().unwrap());
    let url = url("whole", "503~200;cut~200");
    let text = loop {
        let response = client.get(&url).retry_session(&session).send().await.unwrap();
        match response.text().await {
            Ok(text) => break text,
            Err(_) => {
                let cut = io::Error::from(io::ErrorKind::UnexpectedEof);
                session.resend_after(cut).await.unwrap();
            }
        }
    };
    assert_eq!(text, "hello");
    assert_eq!(methods("whole").await, ["GET"; 3]);
    assert_eq!(session.attempts(), 3);
}

#[test]
fn bodies_cant_be_read_inside_the_attempt() {
    let rule = "a browser shows no parts of a response: what is read can't be put back";
    let builder = || RetryMiddleware::builder(RetryPolicy::default());
    let error = builder().buffer_body(1).build().unwrap_err();
    assert_eq!(error.to_string(), format!("buffer_body is 1, but {rule}"));
    let endpoint = Endpoint::named("config").path("/config").buffer_body(7).build().unwrap();
    let error = builder().endpoint(endpoint).build().unwrap_err();
    assert_eq!(error.to_string(), format!("endpoint.config.buffer_body is 7, but {rule}"));
    let error = serde_json::from_str::<RetrySettings>(r#"{"buffer_body": 1}"#).unwrap_err();
    assert!(error.to_string().contains(rule), "{error}");
    assert!(builder().buffer_body(0).build().is_ok());
}

/// All of it: a file that is written for one platform loads on the other.
#[test]
fn the_default_settings_load() {
    let settings = serde_json::to_string(&RetrySettings::default()).unwrap();
    let settings: RetrySettings = serde_json::from_str(&settings).unwrap();
    let page = RetryMiddleware::from_settings(&settings).unwrap().explain().to_string();
    assert!(page.contains("left to the browser"), "{page}");
}
