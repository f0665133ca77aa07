//! The faults of the article that this crate grew from, each shown not to be here.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Method, StatusCode};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_typed_retry::test_util::{Reply, Script, seeded_jitter};
use reqwest_typed_retry::{
    Attempt, Backoff, Jitter, Outcome, RetryDecision, RetryMiddleware, RetryPolicy, StopReason,
};
use tokio::time::Instant;

const URL: &str = "http://service.test/";
const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn exponential(base: Duration, max: Duration) -> Backoff {
    Backoff::exponential(base, max).unwrap()
}

fn scripted(policy: RetryPolicy, script: &Script) -> ClientWithMiddleware {
    ClientBuilder::new(reqwest::Client::new())
        .with(RetryMiddleware::new(policy))
        .with(script.clone())
        .build()
}

/// The decision on a GET whose first attempt got a 503 with this field.
fn decide(policy: &RetryPolicy, retry_after: &str, now: SystemTime) -> RetryDecision {
    let headers = HeaderMap::from_iter([(RETRY_AFTER, retry_after.parse().unwrap())]);
    let outcome = Outcome::response(UNAVAILABLE, &headers);
    let class = policy.method_class(&Method::GET, &HeaderMap::new());
    let attempt = Attempt::new(1, class, &Method::GET, outcome, now);
    policy.decide(&attempt, &mut seeded_jitter(7))
}

#[tokio::test(start_paused = true)]
async fn nobody_sleeps_after_the_last_attempt() {
    for (label, reply) in [
        ("response", Reply::status(UNAVAILABLE)),
        (
            "response with a server's delay",
            Reply::status(UNAVAILABLE).header(RETRY_AFTER, HeaderValue::from_static("30")),
        ),
        ("error", Reply::connect_error()),
    ] {
        for attempts in [1, 3] {
            let script = Script::always(reply.clone());
            let started = Instant::now();
            let policy = RetryPolicy::new(attempts, secs(1), secs(9)).unwrap();
            let _ = scripted(policy, &script).get(URL).send().await;
            let received = script.received();
            assert_eq!(received.len(), usize::try_from(attempts).unwrap(), "{label}");
            let last = received.last().unwrap().at;
            assert_eq!(started.elapsed(), last, "{label}, {attempts} attempts");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_final_response_is_the_last_one_that_came() {
    let body = |text: &str| Reply::status(UNAVAILABLE).body(text);
    let script = Script::new([body("first"), body("second"), body("third")]);
    let client = scripted(RetryPolicy::default(), &script);
    let response = client.get(URL).send().await.unwrap();
    assert_eq!(response.status(), UNAVAILABLE);
    assert_eq!(response.text().await.unwrap(), "third");
}

#[tokio::test(start_paused = true)]
async fn the_final_error_is_the_last_one_that_came() {
    let script = Script::new([Reply::status(UNAVAILABLE), Reply::connect_error(), Reply::hang()]);
    let policy = RetryPolicy::builder().attempt_timeout(secs(1)).build().unwrap();
    let error = scripted(policy, &script).get(URL).send().await.unwrap_err();
    assert_eq!(script.received().len(), 3);
    assert!(error.is_timeout() && !error.is_connect(), "{error:?}");
    assert_eq!(error.url().map(reqwest::Url::as_str), Some(URL));
}

#[tokio::test(start_paused = true)]
async fn a_response_without_success_is_no_error() {
    for code in [304, 400, 404, 409, 418, 429, 500, 501, 503] {
        let status = StatusCode::from_u16(code).unwrap();
        let script = Script::always(Reply::status(status).body("why"));
        let response = scripted(RetryPolicy::default(), &script).get(URL).send().await;
        let response = response.unwrap_or_else(|error| panic!("{status}: {error:?}"));
        assert_eq!(response.status(), status);
        assert_eq!(response.text().await.unwrap(), "why", "{status}");
    }
}

#[test]
fn delays_below_a_millisecond_are_not_cut_to_nothing() {
    let nanos = Duration::from_nanos;
    for (label, base) in [
        ("hundreds of microseconds", nanos(250_000)),
        ("a microsecond", nanos(1_000)),
        ("a nanosecond", nanos(1)),
        ("a millisecond and a bit", nanos(1_000_001)),
    ] {
        let backoff = exponential(base, secs(1));
        let delays: Vec<_> = (1..=4).map(|retry| backoff.delay(retry)).collect();
        assert_eq!(delays, [base, base * 2, base * 4, base * 8], "{label}");
        let mut rng = seeded_jitter(7);
        for _ in 0..1_000 {
            let wait = backoff.draw(4, None, Jitter::Equal, &mut rng);
            assert!((base * 4..=base * 8).contains(&wait), "{label}: {wait:?}");
        }
    }
}

#[test]
fn no_number_of_attempts_overflows_wraps_or_panics() {
    for (label, base, max) in [
        ("default", ms(100), secs(10)),
        ("tiny", Duration::from_nanos(1), Duration::MAX),
        ("endless", secs(u64::MAX / 2), Duration::MAX),
    ] {
        let backoff = exponential(base, max);
        let mut rng = seeded_jitter(7);
        for retry in [32, 33, 63, 64, 65, 127, 128, 129, 1 << 20, u32::MAX - 1, u32::MAX] {
            let expected = match label {
                // 2^63 ns and fewer still fit.
                "tiny" if retry <= 64 => Duration::from_nanos(1 << (retry - 1)),
                "tiny" if retry == 65 => secs(18_446_744_073) + Duration::from_nanos(709_551_616),
                _ => max,
            };
            assert_eq!(backoff.delay(retry), expected, "{label}, {retry}");
            for jitter in [Jitter::Full, Jitter::Equal] {
                let wait = backoff.draw(retry, None, jitter, &mut rng);
                assert!(wait <= expected, "{label}, {retry}: {wait:?}");
            }
        }
    }
}

#[test]
fn jitter_keeps_its_lower_bound() {
    for (label, base) in [("even", ms(100)), ("odd", Duration::from_nanos(101))] {
        let backoff = exponential(base, secs(10));
        let mut rng = seeded_jitter(7);
        for retry in 1..=12 {
            let delay = backoff.delay(retry);
            for _ in 0..1_000 {
                let wait = backoff.draw(retry, None, Jitter::Equal, &mut rng);
                assert!(
                    (delay / 2..=delay).contains(&wait),
                    "{label}, {retry}: {wait:?} of {delay:?}"
                );
            }
        }
    }
}

#[test]
fn retry_after_is_read_as_seconds_and_as_a_date_in_each_form() {
    let policy = RetryPolicy::builder().jitter(Jitter::None).build().unwrap();
    let now = UNIX_EPOCH + secs(784_111_777 - 37); // 08:49:00 on the day of RFC 9110's example
    for (label, value) in [
        ("seconds", "37"),
        ("IMF-fixdate", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("RFC 850", "Sunday, 06-Nov-94 08:49:37 GMT"),
        ("asctime", "Sun Nov  6 08:49:37 1994"),
    ] {
        let decision = decide(&policy, value, now);
        assert_eq!(decision.delay(), Some(secs(37)), "{label}: {decision}");
    }
}

#[test]
fn what_a_server_may_ask_for_has_a_limit() {
    let policy = RetryPolicy::default();
    for value in ["61", "86400", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"] {
        let decision = decide(&policy, value, UNIX_EPOCH);
        let reason = decision.stop_reason();
        assert!(
            matches!(reason, Some(StopReason::ServerDelayTooLong { .. })),
            "{value}: {decision}"
        );
    }
    assert!(decide(&policy, "60", UNIX_EPOCH).delay() >= Some(secs(60)));
}

#[test]
fn growth_ends_at_the_longest_delay_and_at_no_attempt() {
    let backoff = exponential(ms(1), secs(3_600));
    for retry in 1..=22 {
        assert_eq!(backoff.delay(retry), ms(1 << (retry - 1)), "{retry}");
    }
    for retry in 23..=40 {
        assert_eq!(backoff.delay(retry), secs(3_600), "{retry}");
    }
}
