//! Section B: what the server says about when, and whether, to come back.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{AGE, DATE, HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use reqwest::Response;
use reqwest_middleware::Error;
use reqwest_typed_retry::test_util::{Reply, Script, TestClock, seeded_jitter};
use reqwest_typed_retry::{
    ApiProfile, Attempt, Backoff, DelayHint, DelaySource, Endpoint, Fault, FaultKind, HintUnit,
    Jitter, Outcome, RetryDecision, RetryHistory, RetryMiddleware, RetryPolicy, ServerDelays,
    StatusCondition, StopReason, Verdict, constants, retry_after,
};
use tokio::time::Instant;

use crate::support::{
    AfterSend, SCRIPTED, chain, client, constant_waits, decide, fields, history, ms, no_waits,
    reply, requests, scripted, secs, server, stop_reason, waits,
};

const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;

fn unavailable() -> Reply {
    Reply::status(UNAVAILABLE)
}

fn asking(retry_after: &'static str) -> Reply {
    unavailable().header(RETRY_AFTER, HeaderValue::from_static(retry_after))
}

fn ok() -> Reply {
    Reply::status(StatusCode::OK)
}

fn decide_for(policy: &RetryPolicy, retry_after: &[u8]) -> RetryDecision {
    let headers = fields([("retry-after", retry_after)]);
    decide(policy, &Method::GET, UNAVAILABLE, &headers, UNIX_EPOCH)
}

fn seconds_field(value: &[u8]) -> Option<Duration> {
    retry_after([value], None, None, UNIX_EPOCH)
}

/// A policy whose own wait can't be taken for one that the server asked for.
fn own_wait() -> RetryPolicy {
    constant_waits(ms(13)).build().unwrap()
}

// F013
#[tokio::test(start_paused = true)]
async fn a_resend_waits_as_long_as_the_server_asked_rather_than_the_backoff() {
    for status in [UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS] {
        let script = Script::new([Reply::status(status).header(RETRY_AFTER, 2), ok()]);
        let policy = RetryPolicy::builder().backoff(Backoff::constant(ms(10)));
        let response = scripted(policy, &script).get(SCRIPTED).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let waits = waits(&script);
        assert_eq!(waits.len(), 1, "{waits:?}");
        assert!((secs(2)..=ms(2_201)).contains(&waits[0]), "{status}: {waits:?}");
        let asked = history(&response).attempts()[0].server_delay();
        assert_eq!(asked, Some(secs(2)), "{status}");
    }
}

/// What a classifier was shown of one attempt.
#[derive(Clone, Debug, PartialEq)]
struct Shown {
    number: u32,
    target: String,
    outcome: String,
    elapsed: Duration,
    previous: Option<Duration>,
}

// F014
#[tokio::test(start_paused = true)]
async fn a_rule_of_the_application_sees_all_there_is_to_know_of_an_attempt() {
    let shown = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&shown);
    let classifier = move |attempt: &Attempt<'_>| {
        let outcome = match attempt.outcome() {
            Outcome::Response { status, headers, .. } => {
                format!("{} {:?}", status.as_u16(), headers.get("x-shard"))
            }
            Outcome::Fault { fault, error, .. } => {
                format!("{} {}", fault.kind(), error.is_some())
            }
            _ => "unknown".into(),
        };
        log.lock().unwrap().push(Shown {
            number: attempt.number(),
            target: format!("{} {}{}", attempt.method(), attempt.host(), attempt.path()),
            outcome,
            elapsed: attempt.elapsed(),
            previous: attempt.previous_delay(),
        });
        None
    };
    let shard = || HeaderValue::from_static("7");
    let script = Script::new([
        unavailable().header(HeaderName::from_static("x-shard"), shard()),
        Reply::dns_error().after(secs(1)),
        ok(),
    ]);
    let client = scripted(constant_waits(secs(3)).classifier(classifier), &script);
    client.get("http://service.test/items?page=1").send().await.unwrap();

    let target = "GET service.test/items";
    let row = |number, outcome: &str, elapsed, previous| Shown {
        number,
        target: target.into(),
        outcome: outcome.into(),
        elapsed,
        previous,
    };
    let expected = [
        row(1, r#"503 Some("7")"#, Duration::ZERO, None),
        row(2, "dns true", secs(4), Some(secs(3))),
        row(3, "200 None", secs(7), Some(secs(3))),
    ];
    assert_eq!(shown.lock().unwrap()[..], expected);
}

// F014
#[tokio::test(start_paused = true)]
async fn one_client_can_treat_hosts_differently() {
    let script = Script::always(unavailable());
    let policy = constant_waits(ms(1)).max_attempts(5);
    let policy = policy.classifier(|attempt: &Attempt<'_>| {
        (attempt.host() == "b.test").then_some(Verdict::Permanent)
    });
    let client = scripted(policy, &script);
    for (host, sent) in [("a.test", 5), ("b.test", 1)] {
        client.get(format!("http://{host}/")).send().await.unwrap();
        let received = script.received();
        let received = received.iter().filter(|r| r.url.host_str() == Some(host));
        assert_eq!(received.count(), sent, "{host}");
    }
}

// F014
#[tokio::test(start_paused = true)]
async fn one_client_can_have_a_policy_for_each_host() {
    let script = Script::always(unavailable());
    let often = constant_waits(ms(1)).max_attempts(5).build().unwrap();
    let often = Endpoint::named("a").host("a.test").policy(often).build().unwrap();
    let never = Endpoint::named("b").host("b.test").policy(RetryPolicy::never()).build().unwrap();
    let retry = RetryMiddleware::builder(constant_waits(ms(7)).build().unwrap());
    let retry = retry.endpoint(often).endpoint(never).build().unwrap();
    let client = reqwest_middleware::ClientBuilder::new(crate::support::http())
        .with(retry)
        .with(script.clone())
        .build();
    for (host, sent, wait) in [("a.test", 5, ms(1)), ("b.test", 1, ms(0)), ("c.test", 3, ms(7))] {
        client.get(format!("http://{host}/")).send().await.unwrap();
        let received = script.received();
        let of_host = received.iter().filter(|it| it.url.host_str() == Some(host));
        let at: Vec<_> = of_host.map(|it| it.at).collect();
        assert_eq!(at.len(), sent, "{host}");
        assert!(at.windows(2).all(|pair| pair[1] - pair[0] == wait), "{host}: {at:?}");
    }
}

// F016
#[tokio::test(start_paused = true)]
async fn a_date_in_the_past_leaves_the_wait_to_the_backoff() {
    for (label, jitter, bounds) in
        [("none", Jitter::None, ms(100)..=ms(101)), ("equal", Jitter::Equal, ms(50)..=ms(101))]
    {
        let script = Script::new([asking("Sun, 06 Nov 1994 08:49:37 GMT"), ok()]);
        let policy = constant_waits(ms(100)).jitter(jitter);
        let response = scripted(policy, &script).get(SCRIPTED).send().await.unwrap();
        assert_eq!(response.status(), 200, "{label}");
        let waits = waits(&script);
        assert_eq!(waits.len(), 1, "{label}: {waits:?}");
        assert!(bounds.contains(&waits[0]), "{label}: {waits:?}");
    }
}

// F017
#[test]
fn however_many_seconds_the_server_asks_for_it_never_means_now() {
    let stops = RetryPolicy::default();
    let clamps = RetryPolicy::builder()
        .server_delays(ServerDelays::ClampedTo(secs(45)))
        .jitter(Jitter::None)
        .build()
        .unwrap();
    for value in [
        "9223372036",
        "9223372037",
        "18446744073709551615",
        "18446744073709551616",
        "1234567890123456789012345678901234567890",
    ] {
        let asked = seconds_field(value.as_bytes()).unwrap();
        assert!(asked >= secs(9_223_372_036), "{value}: {asked:?}");

        let reason = decide_for(&stops, value.as_bytes()).stop_reason();
        let StopReason::ServerDelayTooLong { asked: told, allowed, .. } = reason.unwrap() else {
            panic!("{value}: {reason:?}");
        };
        assert_eq!((told, allowed), (asked, constants::MAX_SERVER_DELAY), "{value}");

        let wait = decide_for(&clamps, value.as_bytes()).delay();
        assert_eq!(wait, Some(secs(45)), "{value}");
    }
}

// F019
#[tokio::test(start_paused = true)]
async fn a_value_that_breaks_the_grammar_never_fails_the_call() {
    for value in ["0.503", "1.", ".5", "1e3", "", "soon", "5s", "1,2", "0x10", "٣"] {
        assert_eq!(seconds_field(value.as_bytes()), None, "{value:?}");
        let bytes = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        let script = Script::new([unavailable().header(RETRY_AFTER, bytes), ok()]);
        let client = scripted(constant_waits(ms(13)), &script);
        let response = client.get(SCRIPTED).send().await.unwrap();
        assert_eq!(response.status(), 200, "{value:?}");
        assert_eq!(waits(&script), [ms(13)], "{value:?}");
    }
}

// F021
#[test]
fn a_lone_number_is_seconds_and_never_a_piece_of_a_date() {
    for (value, expected) in
        [("-3", None), ("+3", None), ("1.5", None), ("Wed", None), ("2026", Some(secs(2026)))]
    {
        assert_eq!(seconds_field(value.as_bytes()), expected, "{value:?}");
    }
}

// F022
#[test]
fn bytes_that_are_no_ascii_digits_are_no_number() {
    for (label, value) in [
        ("superscript in Latin-1", &b"\xb2"[..]),
        ("superscript in UTF-8", "\u{b2}".as_bytes()),
        ("Arabic-Indic digits", "\u{661}\u{662}".as_bytes()),
        ("full-width digits", "\u{ff11}".as_bytes()),
        ("no UTF-8", b"\xff"),
        ("digits and then no UTF-8", b"12\xff"),
    ] {
        assert_eq!(seconds_field(value), None, "{label}");
        assert_eq!(decide_for(&own_wait(), value).delay(), Some(ms(13)), "{label}");
    }
}

// F023
#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_too_long_gets_its_response_returned_at_once() {
    let script = Script::always(asking("3600").body("come back later"));
    let started = Instant::now();
    let client = scripted(RetryPolicy::builder(), &script);
    let response = client.get(SCRIPTED).send().await.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(script.received().len(), 1);
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()[RETRY_AFTER], "3600");
    let Some(StopReason::ServerDelayTooLong { asked, allowed, .. }) = stop_reason(&response) else {
        panic!("{}", history(&response));
    };
    assert_eq!((asked, allowed), (secs(3600), secs(60)));
    assert_eq!(history(&response).server_delay(), Some(secs(3600)));
    assert_eq!(response.text().await.unwrap(), "come back later");
}

// F023, F024
#[tokio::test(start_paused = true)]
async fn no_request_is_sent_before_the_time_that_the_server_named() {
    for (value, expected) in [
        ("0", Some(ms(13))), // no minimum: the backoff alone
        ("59", Some(secs(59))),
        ("60", Some(secs(60))), // the limit itself is allowed
        ("61", None),
    ] {
        let script = Script::new([asking(value), ok()]);
        let client = scripted(constant_waits(ms(13)), &script);
        let response = client.get(SCRIPTED).send().await.unwrap();
        assert_eq!(waits(&script), Vec::from_iter(expected), "{value}: {response:?}");
    }
}

// F023
#[tokio::test(start_paused = true)]
async fn a_delay_over_the_limit_can_be_clamped_to_it_by_choice() {
    let script = Script::new([asking("3600"), ok()]);
    let policy = constant_waits(ms(13)).server_delays(ServerDelays::ClampedTo(secs(30)));
    scripted(policy, &script).get(SCRIPTED).send().await.unwrap();
    assert_eq!(waits(&script), [secs(30)]);
}

// F026
#[tokio::test(start_paused = true)]
async fn each_field_has_a_unit_and_a_place_in_one_order() {
    let (azure, standard) = (ApiProfile::azure, ApiProfile::standard);
    let short = ("retry-after-ms", "250");
    let long = ("x-ms-retry-after-ms", "1500");
    let seconds = ("retry-after", "5");
    for (label, profile, sent, expected) in [
        ("milliseconds and seconds", azure(), &[short, seconds][..], ms(250)),
        ("seconds and milliseconds", azure(), &[seconds, short], ms(250)),
        ("the other milliseconds", azure(), &[long], ms(1_500)),
        ("the other milliseconds and seconds", azure(), &[seconds, long], ms(1_500)),
        ("all", azure(), &[seconds, long, short], ms(250)),
        ("seconds alone", azure(), &[seconds], secs(5)),
        ("milliseconds that nobody named", standard(), &[short, long, seconds], secs(5)),
        ("milliseconds that nobody named, alone", standard(), &[short], ms(13)),
    ] {
        let reply = sent.iter().fold(unavailable(), |reply, (name, value)| {
            reply.header(HeaderName::from_static(name), HeaderValue::from_static(value))
        });
        let script = Script::new([reply, ok()]);
        let policy = constant_waits(ms(13)).profile(profile);
        scripted(policy, &script).get(SCRIPTED).send().await.unwrap();
        assert_eq!(waits(&script), [expected], "{label}");
    }
}

// F027
#[tokio::test]
async fn the_servers_directive_vetoes_and_promotes_but_lifts_no_limit() {
    use StopReason::{AttemptsExhausted, Completed, NotIdempotent, Permanent, ServerRefused};
    for (label, method, status, directive, attempts, sent, reason) in [
        ("veto", Method::GET, 503, "false", 3, 1, ServerRefused),
        ("promotion", Method::GET, 409, "true", 3, 2, Completed),
        ("promoted POST", Method::POST, 409, "true", 3, 1, NotIdempotent),
        ("promoted, no attempts left", Method::GET, 409, "true", 1, 1, AttemptsExhausted),
        ("no directive", Method::GET, 409, "maybe", 3, 1, Permanent),
    ] {
        let field = HeaderName::from_static("x-should-retry");
        let server = server([reply(status).insert_header(&field, directive), reply(200)]).await;
        let profile = ApiProfile::standard().verdict_field(field);
        let client = client(no_waits().max_attempts(attempts).profile(profile));
        let tracker = reqwest_typed_retry::RetryTracker::new();
        let request = client.request(method, server.uri());
        request.with_extension(tracker.clone()).send().await.unwrap();
        assert_eq!(requests(&server).await.len(), sent, "{label}");
        assert_eq!(tracker.history().unwrap().stop_reason(), reason, "{label}");
    }
}

// F027
#[tokio::test]
async fn a_veto_of_what_is_permanent_anyway_gives_nothing_up() {
    let field = HeaderName::from_static("x-should-retry");
    let server = server([reply(404).insert_header(&field, "false")]).await;
    let profile = ApiProfile::standard().verdict_field(field);
    let get = client(no_waits().profile(profile)).get(server.uri());
    let response = get.send().await.unwrap();
    assert_eq!(requests(&server).await.len(), 1);
    let told = response.extensions().get::<RetryHistory>();
    assert_eq!(told, None, "a 404 is no transient failure");
}

// F027
#[tokio::test]
async fn a_directive_that_no_profile_names_is_inert() {
    let server = server([reply(503).insert_header("x-should-retry", "false"), reply(200)]).await;
    let response = client(no_waits()).get(server.uri()).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(requests(&server).await.len(), 2);
}

// F029
#[tokio::test(start_paused = true)]
async fn the_date_of_a_stored_response_is_not_taken_for_now() {
    let now = UNIX_EPOCH + secs(1_800_000_000);
    let date = |at: SystemTime| HeaderValue::try_from(httpdate::fmt_http_date(at)).unwrap();
    let closed = |sent| {
        let reply = unavailable().header(RETRY_AFTER, date(now + secs(2)));
        reply.header(DATE, date(sent))
    };
    for (label, reply, expected) in [
        ("fresh", closed(now), secs(2)),
        ("fresh, from a server whose clock is behind", closed(now - secs(30)), secs(32)),
        ("stored", closed(now - secs(600)).header(AGE, 600), secs(2)),
    ] {
        let script = Script::new([reply, ok()]);
        let retry = RetryMiddleware::builder(own_wait())
            .wall_clock(TestClock::new(now).reader())
            .build()
            .unwrap();
        let client = reqwest_middleware::ClientBuilder::new(crate::support::http())
            .with(retry)
            .with(script.clone())
            .build();
        client.get(SCRIPTED).send().await.unwrap();
        assert_eq!(waits(&script), [expected], "{label}");
    }
}

/// A 403 with the instant when there is quota again, three seconds from now, and what is left of it.
fn limited_until_later(now: SystemTime, left: Option<u16>) -> Reply {
    let reset = now.duration_since(UNIX_EPOCH).unwrap().as_secs() + 3;
    let reply = Reply::status(StatusCode::FORBIDDEN)
        .header(HeaderName::from_static("x-ratelimit-reset"), reset);
    match left {
        Some(left) => reply.header(HeaderName::from_static("x-ratelimit-remaining"), left),
        None => reply,
    }
}

// F031: while something is left, the end of the window is no delay, unless the application says so.
#[tokio::test(start_paused = true)]
async fn a_refusal_with_the_instant_of_new_quota_is_a_limit_and_a_plain_one_is_final() {
    let now = UNIX_EPOCH + secs(1_800_000_000);
    let reset = HeaderName::from_static("x-ratelimit-reset");
    let whatever_is_left = || {
        ApiProfile::standard()
            .hint(DelayHint::new(reset.clone(), HintUnit::EpochSeconds))
            .retry_statuses([StatusCode::FORBIDDEN], StatusCondition::WithServerDelay)
    };
    let forbidden = || Reply::status(StatusCode::FORBIDDEN);
    for (label, profile, reply, expected) in [
        ("all used up", ApiProfile::github(), limited_until_later(now, Some(0)), Some(secs(3))),
        ("it says not", ApiProfile::github(), limited_until_later(now, None), Some(secs(3))),
        ("some is left", ApiProfile::github(), limited_until_later(now, Some(5)), None),
        (
            "some is left, by choice",
            whatever_is_left(),
            limited_until_later(now, Some(5)),
            Some(secs(3)),
        ),
        ("plain", ApiProfile::github(), forbidden(), None),
        ("plain, by choice", whatever_is_left(), forbidden(), None),
        ("no profile", ApiProfile::standard(), limited_until_later(now, Some(0)), None),
    ] {
        let script = Script::new([reply, ok()]);
        let policy = constant_waits(ms(13)).profile(profile).build().unwrap();
        let retry =
            RetryMiddleware::builder(policy).wall_clock(TestClock::new(now).reader()).build();
        let client = reqwest_middleware::ClientBuilder::new(crate::support::http())
            .with(retry.unwrap())
            .with(script.clone())
            .build();
        let response = client.get(SCRIPTED).send().await.unwrap();
        assert_eq!(waits(&script), Vec::from_iter(expected), "{label}");
        assert_eq!(response.status().is_success(), expected.is_some(), "{label}");
    }
}

// F032
#[tokio::test]
async fn the_words_in_a_body_decide_nothing_and_the_body_stays_whole() {
    const BODIES: [&str; 3] = ["rate limit exceeded", "secondary rate limit", "slow down"];
    let policy = || no_waits().max_attempts(2);
    for status in [403, 503] {
        let mut outcomes = BTreeSet::new();
        for body in BODIES {
            let server = server([reply(status).set_body_string(body)]).await;
            let response = client(policy()).get(server.uri()).send().await.unwrap();
            assert_eq!(response.status(), status);
            assert_eq!(response.text().await.unwrap(), body);
            outcomes.insert(requests(&server).await.len());
        }
        assert_eq!(outcomes.len(), 1, "{status}: {outcomes:?}");
    }
}

#[derive(Debug)]
struct Limited {
    wait: Duration,
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limited for {:?}", self.wait)
    }
}

impl std::error::Error for Limited {}

fn limited<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Limited> {
    match error.downcast_ref()? {
        Error::Middleware(error) => error.downcast_ref(),
        Error::Reqwest(_) => None,
    }
}

// F034
#[tokio::test(start_paused = true)]
async fn a_rule_of_the_application_can_hand_over_a_delay_that_an_inner_layer_hid_in_an_error() {
    let script = Script::new([Reply::status(StatusCode::TOO_MANY_REQUESTS), ok()]);
    let policy = constant_waits(ms(13)).classifier(|attempt: &Attempt<'_>| {
        let Outcome::Fault { error, .. } = attempt.outcome() else {
            return None;
        };
        let delay = Some(limited(error?)?.wait);
        Some(Verdict::Transient { delay })
    });
    let hide = AfterSend(|result: reqwest_middleware::Result<Response>| match result {
        Ok(response) if response.status() == StatusCode::TOO_MANY_REQUESTS => {
            Err(Error::middleware(Limited { wait: secs(21) }))
        }
        result => result,
    });
    let client = chain(policy).with(hide).with(script.clone()).build();
    let response = client.get(SCRIPTED).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(waits(&script), [secs(21)]);
}

// F034
#[test]
fn a_delay_from_a_rule_of_the_application_is_never_undercut_and_bound_by_the_same_limit() {
    let decide = |asked| {
        let policy = RetryPolicy::builder().classifier(move |_: &Attempt<'_>| {
            let delay = Some(asked);
            Some(Verdict::Transient { delay })
        });
        let policy = policy.build().unwrap();
        let outcome = Outcome::fault(Fault::unknown(FaultKind::Other));
        let class = policy.method_class(&Method::GET, &HeaderMap::new());
        let attempt = Attempt::new(1, class, &Method::GET, outcome, UNIX_EPOCH);
        policy.decide(&attempt, &mut seeded_jitter(7))
    };
    let decision = decide(secs(20));
    let RetryDecision::RetryAfter { delay, source, .. } = decision else {
        panic!("{decision}");
    };
    assert!((secs(20)..=secs(22)).contains(&delay), "{decision}");
    assert_eq!(source, DelaySource::Classifier);
    let decision = decide(secs(61));
    let reason = decision.stop_reason();
    assert!(matches!(reason, Some(StopReason::ServerDelayTooLong { .. })), "{decision}");
}

// F035
#[tokio::test(start_paused = true)]
async fn a_wait_that_would_pass_the_deadline_never_starts() {
    let script = Script::always(asking("10").body("closed"));
    let started = Instant::now();
    let client = scripted(constant_waits(ms(13)).deadline(secs(5)), &script);
    let response = client.get(SCRIPTED).send().await.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(script.received().len(), 1);
    assert_eq!(stop_reason(&response), Some(StopReason::DeadlineWouldPass));
    assert_eq!(response.text().await.unwrap(), "closed");
}

// F036
#[test]
fn jitter_only_stretches_what_the_server_asked_for_also_at_the_limit() {
    for (label, jitter) in [
        ("full", Jitter::Full),
        ("equal", Jitter::Equal),
        ("proportional", Jitter::proportional(0.5).unwrap()),
    ] {
        for (value, bounds) in [
            ("10", secs(10)..=secs(11)),
            ("60", secs(60)..=secs(65)), // the limit
        ] {
            let policy = RetryPolicy::builder().jitter(jitter).build().unwrap();
            let headers = fields([("retry-after", value)]);
            let outcome = Outcome::response(UNAVAILABLE, &headers);
            let class = policy.method_class(&Method::GET, &HeaderMap::new());
            let attempt = Attempt::new(1, class, &Method::GET, outcome, UNIX_EPOCH);
            let mut rng = seeded_jitter(7);
            let draws = (0..1_000).map(|_| policy.decide(&attempt, &mut rng).delay().unwrap());
            let draws = BTreeSet::from_iter(draws);
            let (first, last) = (draws.first().unwrap(), draws.last().unwrap());
            assert!(
                bounds.contains(first) && bounds.contains(last),
                "{label}, {value}: {first:?} to {last:?}"
            );
            let width = *bounds.end() - *bounds.start();
            assert!(*last - *first > width / 2, "{label}, {value}: {first:?} to {last:?}");
        }
    }
}
