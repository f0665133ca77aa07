//! Section N: which statuses are worth another send.

use std::time::UNIX_EPOCH;

use futures_util::future::join_all;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::test_util::{Reply, Script, TestClock, seeded_jitter};
use reqwest_typed_retry::{
    ApiProfile, Attempt, Backoff, Endpoint, Outcome, RetryMiddleware, RetryPolicy, StatusSet,
};

use crate::support::{
    SCRIPTED, client, constant_waits, http, ms, no_waits, reply, requests, scripted, secs, server,
    waits,
};

/// Whether a request is sent again after this status.
fn resends(policy: &RetryPolicy, method: &Method, key: Option<&str>, status: u16) -> bool {
    let mut fields = HeaderMap::new();
    if let Some(key) = key {
        fields.insert("idempotency-key", key.parse().unwrap());
    }
    let class = policy.method_class(method, &fields);
    let headers = HeaderMap::new();
    let outcome = Outcome::response(StatusCode::from_u16(status).unwrap(), &headers);
    let attempt = Attempt::new(1, class, method, outcome, UNIX_EPOCH);
    policy.decide(&attempt, &mut seeded_jitter(7)).delay().is_some()
}

// F131
#[test]
fn by_default_seven_statuses_are_transient_and_no_other() {
    let policy = RetryPolicy::default();
    let transient: Vec<_> =
        (100..=599).filter(|status| resends(&policy, &Method::GET, None, *status)).collect();
    assert_eq!(transient, [408, 425, 429, 500, 502, 503, 504]);
}

// F132: a status lifts no method safety without a proof, so 521 to 523 are like the others.
#[test]
fn the_statuses_of_a_cdn_are_transient_by_choice_and_only_where_a_resend_is_safe() {
    let statuses = StatusSet::transient().union(StatusSet::cloudflare());
    let chosen = no_waits().retry_statuses(statuses).honour_idempotency_keys(true).build().unwrap();
    let plain = no_waits().honour_idempotency_keys(true).build().unwrap();
    for (status, is_transient) in [
        (520, true),
        (521, true),
        (522, true),
        (523, true),
        (524, true),
        (525, false),
        (526, false),
        (527, false),
        (530, false),
    ] {
        for (label, method, key, is_safe) in [
            ("GET", Method::GET, None, true),
            ("POST with a key", Method::POST, Some("k1"), true),
            ("POST", Method::POST, None, false),
        ] {
            let resent = resends(&chosen, &method, key, status);
            assert_eq!(resent, is_transient && is_safe, "{label} {status}");
            assert!(!resends(&plain, &method, key, status), "{label} {status}, not chosen");
        }
    }
}

// F134: it is transient like others, by default and as often as they are.
#[tokio::test]
async fn too_early_is_sent_again_within_the_number_of_attempts() {
    let without =
        || no_waits().retry_statuses(StatusSet::transient().without(StatusCode::TOO_EARLY));
    for (label, policy, replies, sent) in [
        ("once", no_waits(), [425, 200, 200], 2),
        ("always", no_waits(), [425, 425, 425], 3),
        ("always, one resend", no_waits().max_attempts(2), [425, 425, 200], 2),
        ("not listed", without(), [425, 200, 200], 1),
    ] {
        let server = server(replies.map(reply)).await;
        client(policy).get(server.uri()).send().await.unwrap();
        assert_eq!(requests(&server).await.len(), sent, "{label}");
    }
}

// F136
#[tokio::test]
async fn after_a_gateway_timeout_the_method_decides() {
    let rows = [(Method::GET, 2), (Method::PUT, 2), (Method::POST, 1), (Method::PATCH, 1)];
    join_all(rows.map(|(method, sent)| async move {
        let server = server([reply(504), reply(200)]).await;
        client(no_waits()).request(method.clone(), server.uri()).send().await.unwrap();
        assert_eq!(requests(&server).await.len(), sent, "{method}");
    }))
    .await;
}

// F137
#[tokio::test(start_paused = true)]
async fn one_path_can_have_a_status_and_a_wait_that_no_other_has() {
    let scanned = constant_waits(secs(1))
        .retry_statuses(StatusSet::transient().with(StatusCode::FORBIDDEN))
        .build()
        .unwrap();
    let packages = Endpoint::named("packages").path("/pkg").policy(scanned).build().unwrap();
    for (path, expected) in
        [("/pkg/left-pad", Some(secs(1))), ("/pkg", Some(secs(1))), ("/api", None), ("/pkgs", None)]
    {
        let script =
            Script::new([Reply::status(StatusCode::FORBIDDEN), Reply::status(StatusCode::OK)]);
        let retry = RetryMiddleware::builder(constant_waits(ms(13)).build().unwrap());
        let retry = retry.endpoint(packages.clone()).build().unwrap();
        let client = ClientBuilder::new(http()).with(retry).with(script.clone()).build();
        client.get(format!("http://service.test{path}")).send().await.unwrap();
        assert_eq!(waits(&script), Vec::from_iter(expected), "{path}");
    }
}

// F141
#[tokio::test(start_paused = true)]
async fn a_profile_adds_to_what_a_policy_sends_again_and_takes_nothing_away() {
    let now = UNIX_EPOCH + secs(1_800_000_000);
    let forbidden = || Reply::status(StatusCode::FORBIDDEN);
    let field = HeaderName::from_static;
    let reset = forbidden()
        .header(field("x-ratelimit-reset"), 1_800_000_020_u64)
        .header(field("x-ratelimit-remaining"), 0);
    let listed = StatusSet::transient().with(StatusCode::CONFLICT);
    for (label, reply, expected) in [
        ("a reset", reset, secs(20)),
        ("a 403 with Retry-After", forbidden().header(field("retry-after"), 4), secs(4)),
        ("a connection that fails", Reply::connect_error(), ms(13)),
        ("a name that is not found", Reply::dns_error(), ms(13)),
        ("a 503", Reply::status(StatusCode::SERVICE_UNAVAILABLE), ms(13)),
        ("a 429 that says nothing", Reply::status(StatusCode::TOO_MANY_REQUESTS), ms(13)),
        ("a status of the policy's own", Reply::status(StatusCode::CONFLICT), ms(13)),
    ] {
        let script = Script::new([reply, Reply::status(StatusCode::OK)]);
        let policy = constant_waits(ms(13)).retry_statuses(listed).profile(ApiProfile::github());
        let retry = RetryMiddleware::builder(policy.build().unwrap());
        let retry = retry.wall_clock(TestClock::new(now).reader()).build().unwrap();
        let client = ClientBuilder::new(http()).with(retry).with(script.clone()).build();
        assert_eq!(client.get(SCRIPTED).send().await.unwrap().status(), 200, "{label}");
        assert_eq!(waits(&script), [expected], "{label}");
    }
    // And what is permanent stays so.
    let script =
        Script::always(forbidden().header(field("x-other"), HeaderValue::from_static("1")));
    let policy = constant_waits(ms(13)).profile(ApiProfile::github());
    scripted(policy.backoff(Backoff::constant(ms(13))), &script)
        .get(SCRIPTED)
        .send()
        .await
        .unwrap();
    assert_eq!(script.received().len(), 1);
}
