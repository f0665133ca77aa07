//! What nobody prints by accident. What is told of whole calls is looked through in every scenario, see
//! [`row`](super::row); here are the values that a user holds.

use std::time::{Duration, SystemTime};

use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use reqwest_middleware::Error;
use reqwest_typed_retry::test_util::{Reply, Script};
use reqwest_typed_retry::{
    Attempt, Cooldown, DeliveryProof, Fault, FaultKind, Outcome, ReplayBody, RetryBudget,
    RetryErrorExt as _, RetryMiddleware, RetryPolicy, RetryRequestExt as _, RetrySession,
    RetryTracker, RetryableMethod, SharedSession,
};

use super::listening::Shown;
use super::{URL, policy, reply, world};

fn secret_fields() -> HeaderMap {
    let value = HeaderValue::from_static("secret");
    HeaderMap::from_iter([(AUTHORIZATION, value.clone()), (COOKIE, value)])
}

#[test]
fn an_attempt_shows_no_path_no_field_no_body_and_no_error() {
    let (shown, fields) = (Shown::default(), secret_fields());
    let cause = std::io::Error::other("secret cause");
    let outcomes = [
        Outcome::response(StatusCode::OK, &fields),
        Outcome::response_with_body(StatusCode::OK, &fields, b"secret body"),
        Outcome::error(Fault::unknown(FaultKind::Other), &cause),
        Outcome::fault(Fault::unknown(FaultKind::Other)),
    ];
    let class = RetryableMethod::Idempotent;
    let now = SystemTime::UNIX_EPOCH;
    for outcome in outcomes {
        let attempt = Attempt::new(1, class, &Method::GET, outcome, now);
        let attempt = attempt.with_target("service.test", "/secret-token");
        shown.debug(&outcome);
        shown.debug(&attempt);
        assert!(format!("{attempt:?}").contains(&format!("{outcome:?}")));
        assert!(format!("{attempt:?}").contains("service.test"), "but where it went");
    }
    shown.assert_nothing_secret("attempt");
    let texts = outcomes.map(|outcome| format!("{outcome:?}"));
    let expected = [
        r#"Response { status: 200, fields: ["authorization", "cookie"], body_bytes: None }"#,
        r#"Response { status: 200, fields: ["authorization", "cookie"], body_bytes: Some(11) }"#,
        "Fault { fault: Fault { kind: Other, delivery: Unknown }, has_error: true }",
        "Fault { fault: Fault { kind: Other, delivery: Unknown }, has_error: false }",
    ];
    assert_eq!(texts, expected);
}

/// As they are in a call.
#[tokio::test(start_paused = true)]
async fn a_classifier_can_print_what_it_is_asked() {
    let shown = Shown::default();
    let printed = shown.clone();
    let policy = policy().classifier(move |attempt: &Attempt<'_>| {
        printed.debug(attempt);
        printed.debug(&attempt.outcome());
        None
    });
    let policy = policy.build().unwrap();
    shown.debug(&policy);
    let retry = RetryMiddleware::builder(policy).buffer_body(1_024).build().unwrap();
    let script = Script::new([reply(503), Reply::connect_error(), reply(200)]);
    let session = SharedSession::new(RetryPolicy::default());
    world::client(retry, &script).get(URL).send().await.unwrap();
    shown.debug(&session);
    shown.assert_nothing_secret("classifier");
}

#[tokio::test(start_paused = true)]
async fn the_values_that_a_user_holds_show_nothing() {
    let shown = Shown::default();
    let (_, proof) = DeliveryProof::build(reqwest::Client::builder()).unwrap();
    let budget = RetryBudget::default();
    let by_key = Cooldown::by_key(|request| {
        let value = request.headers().get(AUTHORIZATION)?;
        Some(value.to_str().ok()?.to_owned())
    });
    let retry =
        RetryMiddleware::builder(policy().deadline(Duration::from_secs(60)).build().unwrap())
            .delivery_proof(proof.clone())
            .budget(budget.clone())
            .cooldown(by_key.clone());
    shown.debug(&retry);
    let retry = retry.build().unwrap();
    shown.debug(&retry);
    let script = Script::new([reply(503), super::asking(429, 1), reply(200)]);
    let client = world::client(retry, &script);
    let session = SharedSession::new(policy().build().unwrap());
    let tracker = RetryTracker::new();
    let request = client.get(URL).retry_session(&session).with_extension(tracker.clone());
    shown.debug(request.send().await.unwrap().extensions());
    let body = ReplayBody::new("secret body")
        .with_length(11)
        .with_field(CONTENT_TYPE, HeaderValue::from_static("secret/secret"));
    let class = RetryableMethod::Idempotent;
    shown.debug(&body);
    shown.debug(&proof);
    shown.debug(&budget);
    shown.debug(&by_key);
    shown.debug(&session);
    shown.debug(&tracker);
    shown.history(&tracker.history().unwrap());
    shown.debug(&RetrySession::new(policy().build().unwrap(), class));
    shown.assert_nothing_secret("values");
    assert!(format!("{session:?}").contains("https://service.test:8443"), "{session:?}");
}

/// `{:?}` of an error of the client prints the chain, as `anyhow` does: our part of it, and then what is
/// inside, by its own `Display`. For the whole URL of reqwest's errors see their `without_url`.
#[tokio::test(start_paused = true)]
async fn of_an_error_of_the_client_our_part_shows_nothing() {
    let replies: [fn() -> Reply; 3] = [Reply::connect_error, Reply::dns_error, || {
        Reply::error(|| Error::middleware(std::io::Error::other("secret cause")))
    }];
    let broken = || async { Err::<ReplayBody, _>("secret cause".into()) };
    for reply in replies {
        for makes_body in [false, true] {
            let retry = RetryMiddleware::builder(policy().build().unwrap()).wrap_errors();
            let client = world::client(retry.build().unwrap(), &Script::always(reply()));
            let request = client.get(URL);
            let request = if makes_body { request.body_factory(broken) } else { request };
            let error = request.send().await.unwrap_err();
            let shown = Shown::default();
            shown.debug(error.retry_error().unwrap());
            shown.display(error.retry_error().unwrap());
            shown.display(&error.to_string());
            shown.display(&format!("{error:#?}"));
            shown.assert_nothing_secret("error");
            let chain = format!("{error:?}");
            let (ours, inside) = chain.split_once("Caused by:").unwrap();
            assert!(!ours.contains("secret"), "{chain}");
            assert!(inside.contains("secret"), "{chain}: the source is as it came");
        }
    }
}

#[test]
fn the_check_itself_finds_a_secret() {
    let shown = Shown::default();
    shown.debug(&"nothing");
    shown.assert_nothing_secret("nothing");
    shown.debug(&"a secret");
    let found = std::panic::catch_unwind(|| shown.assert_nothing_secret("a secret"));
    assert!(found.is_err());
}
