//! Section D: what the caller gets in the end.

use std::fmt;
use std::time::Duration;

use futures_util::future::join_all;
use http::StatusCode;
use reqwest_middleware::Error;
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Attempt, AttemptOutcome, FaultKind, RetryDecision, RetryHistory, RetryReason, RetryTracker,
    StopReason, Verdict,
};
use tokio::time::Instant;

use crate::support::{
    Act, AfterSend, HANGING, RefusedPort, SCRIPTED, Seen, WireServer, chain, client,
    constant_waits, history, http, ms, no_waits, reply, requests, scripted, server, waits,
};

// F047
#[tokio::test]
async fn the_last_error_still_says_that_it_is_a_timeout() {
    let all = [1, 3].map(|attempts| async move {
        let server = WireServer::start(&[Act::Hang]).await;
        let policy = no_waits().max_attempts(attempts);
        let client = client(policy.attempt_timeout(HANGING));
        let error = client.get(server.url()).send().await.unwrap_err();
        assert!(error.is_timeout(), "{attempts}: {error:?}");
        assert!(matches!(error, Error::Reqwest(_)), "{attempts}: {error:?}");
        let url = error.url().map(reqwest::Url::as_str);
        assert_eq!(url, Some(server.url().as_str()), "{attempts}");
        let sent = usize::try_from(attempts).unwrap();
        let seen = Seen { connections: sent, requests: sent };
        assert_eq!(server.finish().await, seen, "{attempts}");
    });
    join_all(all).await;
}

// F047
#[tokio::test]
async fn the_last_error_is_the_one_that_reqwest_alone_would_give() {
    let nobody = RefusedPort::new();
    let bare = http().get(nobody.url()).send().await.unwrap_err();
    for attempts in [1, 3] {
        let client = client(no_waits().max_attempts(attempts));
        let tracker = RetryTracker::new();
        let get = client.get(nobody.url()).with_extension(tracker.clone());
        let error = get.send().await.unwrap_err();
        assert!(error.is_connect(), "{attempts}: {error:?}");
        assert!(!error.is_timeout(), "{attempts}: {error:?}");
        assert_eq!(error.url(), bare.url(), "{attempts}");
        assert_eq!(format!("{error}"), format!("{bare}"), "{attempts}");
        let Error::Reqwest(error) = error else {
            panic!("{attempts}: {error:?}");
        };
        assert_eq!(format!("{error:?}"), format!("{bare:?}"), "{attempts}");
        let history = tracker.history().unwrap();
        assert_eq!(history.attempts().len(), usize::try_from(attempts).unwrap());
        assert_eq!(history.stop_reason(), StopReason::AttemptsExhausted, "{attempts}");
    }
}

// F047
#[tokio::test]
async fn the_last_error_still_tells_the_status_that_an_inner_layer_made_it_from() {
    let server = server([reply(503)]).await;
    let to_error = AfterSend(|result: reqwest_middleware::Result<reqwest::Response>| {
        Ok(result?.error_for_status()?)
    });
    let client = chain(no_waits()).with(to_error).build();
    let error = client.get(server.uri()).send().await.unwrap_err();
    assert_eq!(requests(&server).await.len(), 3);
    assert_eq!(error.status(), Some(StatusCode::SERVICE_UNAVAILABLE));
    assert_eq!(error.url().unwrap().as_str(), format!("{}/", server.uri()));
}

// F049
#[tokio::test]
async fn the_last_response_comes_back_with_its_body_unread() {
    let body = |text: &str| reply(503).insert_header("x-shard", text).set_body_string(text);
    let server = server([body("a1"), body("a2")]).await;
    let client = client(no_waits().max_attempts(2));
    let response = client.get(server.uri()).send().await.unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["x-shard"], "a2");
    assert_eq!(history(&response).resends(), 1);
    assert_eq!(response.text().await.unwrap(), "a2");
}

// F050
#[tokio::test(start_paused = true)]
async fn a_deadline_that_forbids_the_next_wait_returns_the_response_in_hand() {
    let script = Script::always(Reply::status(StatusCode::SERVICE_UNAVAILABLE).body("x"));
    let started = Instant::now();
    let policy = constant_waits(ms(200)).max_attempts(9).deadline(ms(300));
    let response = scripted(policy, &script).get(SCRIPTED).send().await.unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(waits(&script), [ms(200)]);
    assert_eq!(started.elapsed(), ms(200));
    let reason = Some(history(&response).stop_reason());
    assert_eq!(reason, Some(StopReason::DeadlineWouldPass));
    assert_eq!(response.text().await.unwrap(), "x");
}

// F050
#[tokio::test(start_paused = true)]
async fn a_deadline_that_forbids_the_next_wait_returns_the_error_in_hand() {
    let script = Script::always(Reply::connect_error());
    let policy = constant_waits(ms(200)).max_attempts(9).deadline(ms(300));
    let error = scripted(policy, &script).get(SCRIPTED).send().await.unwrap_err();
    assert!(error.is_connect(), "{error:?}");
    assert_eq!(waits(&script), [ms(200)]);
}

#[derive(Debug)]
struct TokenExpired;

impl fmt::Display for TokenExpired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the token has expired")
    }
}

impl std::error::Error for TokenExpired {}

// F051
#[tokio::test(start_paused = true)]
async fn an_error_of_an_inner_layer_comes_out_as_it_went_in() {
    let always = |_: &Attempt<'_>| Some(Verdict::Transient { delay: None });
    for (label, policy, sent) in [
        ("permanent by default", no_waits(), 1),
        ("retried and given up", no_waits().classifier(always), 3),
    ] {
        let script = Script::always(Reply::error(|| Error::middleware(TokenExpired)));
        let error = scripted(policy, &script).get(SCRIPTED).send().await.unwrap_err();
        assert_eq!(script.received().len(), sent, "{label}");
        let Error::Middleware(error) = error else {
            panic!("{label}: {error:?}");
        };
        assert!(error.downcast_ref::<TokenExpired>().is_some(), "{label}: {error:?}");
        assert_eq!(error.to_string(), "the token has expired", "{label}");
    }
}

fn reasons(history: &RetryHistory) -> Vec<RetryReason> {
    let reasons = history.attempts().iter().map(|attempt| match attempt.decision() {
        RetryDecision::RetryAfter { reason, .. } => Some(reason),
        _ => None,
    });
    reasons.flatten().collect()
}

// F052
#[tokio::test]
async fn a_response_after_resends_tells_how_many_there_were_and_why() {
    let unavailable = RetryReason::Status(StatusCode::SERVICE_UNAVAILABLE);
    let server_error = RetryReason::Status(StatusCode::INTERNAL_SERVER_ERROR);
    for (label, statuses, told, reason) in [
        ("recovered", [503, 500, 200], &[unavailable, server_error][..], StopReason::Completed),
        ("given up", [503, 500, 502], &[unavailable, server_error], StopReason::AttemptsExhausted),
        ("ended by a 404", [503, 404, 200], &[unavailable], StopReason::Permanent),
    ] {
        let server = server(statuses.map(reply)).await;
        let response = client(no_waits()).get(server.uri()).send().await.unwrap();
        let history = history(&response);
        assert_eq!(history.resends(), told.len(), "{label}");
        assert_eq!(reasons(&history), told, "{label}");
        assert_eq!(history.stop_reason(), reason, "{label}");
        let last = history.attempts().last().unwrap().outcome();
        assert_eq!(last, AttemptOutcome::Status(response.status()), "{label}");
    }
}

// F052
#[tokio::test(start_paused = true)]
async fn a_tracker_tells_the_same_of_an_error() {
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    let script =
        Script::new([Reply::status(unavailable), Reply::dns_error(), Reply::connect_error()]);
    let tracker = RetryTracker::new();
    let get = scripted(constant_waits(ms(50)), &script).get(SCRIPTED);
    get.with_extension(tracker.clone()).send().await.unwrap_err();
    let history = tracker.history().unwrap();
    assert_eq!(history.resends(), 2);
    let expected = [RetryReason::Status(unavailable), RetryReason::Fault(FaultKind::Dns)];
    assert_eq!(reasons(&history), expected);
    let waited = history.attempts().iter().filter_map(|attempt| attempt.decision().delay());
    assert_eq!(waited.sum::<Duration>(), ms(100));
    assert_eq!(history.stop_reason(), StopReason::AttemptsExhausted);
}

// F052
#[tokio::test]
async fn a_bad_status_on_the_first_try_can_be_told_from_one_after_resends() {
    let server = server([reply(503)]).await;
    for (attempts, resends) in [(1, 0), (3, 2)] {
        let client = client(no_waits().max_attempts(attempts));
        let response = client.get(server.uri()).send().await.unwrap();
        assert_eq!(history(&response).resends(), resends);
    }
}

// F054
#[tokio::test]
async fn a_status_that_is_not_retried_stays_a_response() {
    for status in [302, 400, 401, 403, 404, 409, 501] {
        let server = server([reply(status).set_body_string("see the docs")]).await;
        let response = client(no_waits()).get(server.uri()).send().await.unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(requests(&server).await.len(), 1, "{status}");
        let told = response.extensions().get::<RetryHistory>();
        assert_eq!(told, None, "{status}: nothing was given up");
        assert_eq!(response.text().await.unwrap(), "see the docs", "{status}");
    }
}
