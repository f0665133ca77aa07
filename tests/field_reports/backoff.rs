//! Section C: the arithmetic of waits.

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use reqwest_middleware::ClientBuilder;
use reqwest_typed_retry::test_util::{Reply, Script, TestClock, seeded_jitter};
use reqwest_typed_retry::{
    ApiProfile, Attempt, Backoff, Jitter, Outcome, RetryMiddleware, RetryPolicy,
    RetryRequestExt as _, StopReason,
};

use crate::support::{
    SCRIPTED, client, ms, no_waits, reply, requests, scripted, secs, server, stop_reason,
};

const HOUR: Duration = Duration::from_secs(3_600);
const EDGES: [u32; 10] = [0, 1, 2, 31, 32, 33, 63, 64, 65, u32::MAX];

fn jitters() -> [(&'static str, Jitter); 6] {
    let proportional = |share| Jitter::proportional(share).unwrap();
    [
        ("none", Jitter::None),
        ("full", Jitter::Full),
        ("equal", Jitter::Equal),
        ("proportional", proportional(0.2)),
        ("proportional, nothing", proportional(0.0)),
        ("proportional, everything", proportional(1.0)),
    ]
}

/// One backoff of each shape.
fn backoffs(base: Duration, max: Duration, factor: f64) -> [(&'static str, Backoff); 5] {
    let exponential = Backoff::exponential(base, max).unwrap();
    [
        ("constant", Backoff::constant(base)),
        ("linear", Backoff::linear(base, max).unwrap()),
        ("exponential", exponential.with_factor(factor).unwrap()),
        ("decorrelated", Backoff::decorrelated(base, max).unwrap()),
        ("schedule", Backoff::schedule([base, max]).unwrap()),
    ]
}

// F037
#[test]
fn no_attempt_is_too_late_for_the_arithmetic() {
    let mut rng = seeded_jitter(7);
    for base in [ms(1), ms(100), secs(1), HOUR] {
        for max in [base, HOUR, Duration::MAX] {
            for factor in [1.0, 1.5, 2.0, 10.0, f64::MAX] {
                for (shape, backoff) in backoffs(base, max, factor) {
                    for retry in EDGES {
                        let delay = backoff.delay(retry);
                        assert!(
                            (base..=max).contains(&delay),
                            "{shape} of {base:?}, factor {factor}, max {max:?}, {retry}: {delay:?}"
                        );
                        for (label, jitter) in jitters() {
                            let wait = backoff.draw(retry, Some(delay), jitter, &mut rng);
                            assert!(wait <= max, "{shape}, {label}, {retry}: {wait:?}");
                        }
                    }
                }
            }
        }
    }
}

// F037
#[test]
fn a_decision_at_any_attempt_waits_within_the_bounds() {
    let headers = HeaderMap::new();
    for number in EDGES {
        let outcome = Outcome::response(StatusCode::BAD_GATEWAY, &headers);
        let policy =
            RetryPolicy::builder().unlimited_attempts().deadline(Duration::MAX).build().unwrap();
        let class = policy.method_class(&Method::GET, &headers);
        let attempt = Attempt::new(number, class, &Method::GET, outcome, UNIX_EPOCH);
        let decision = policy.decide(&attempt, &mut seeded_jitter(7));
        let wait = decision.delay().unwrap();
        assert!((ms(50)..=secs(10)).contains(&wait), "{number}: {decision}");
    }
}

// F039
#[test]
fn an_interval_without_width_is_its_only_point() {
    let mut rng = seeded_jitter(7);
    for (label, jitter) in jitters() {
        for (shape, backoff) in backoffs(Duration::ZERO, Duration::ZERO, 2.0) {
            for previous in [None, Some(Duration::ZERO)] {
                let wait = backoff.draw(1, previous, jitter, &mut rng);
                assert_eq!(wait, Duration::ZERO, "{shape}, {label}, {previous:?}");
            }
        }
        for (shape, backoff) in backoffs(ms(5), ms(5), 2.0) {
            let wait = backoff.draw(3, Some(ms(5)), jitter, &mut rng);
            assert!(wait <= ms(5), "{shape}, {label}: {wait:?}");
        }
        for (shape, backoff) in backoffs(Duration::MAX, Duration::MAX, 2.0) {
            let wait = backoff.draw(3, Some(Duration::MAX), jitter, &mut rng);
            assert!(wait <= Duration::MAX, "{shape}, {label}: {wait:?}");
        }
    }
}

// F039
#[tokio::test(start_paused = true)]
async fn a_wait_of_nothing_is_no_wait() {
    let script = Script::always(Reply::status(StatusCode::BAD_GATEWAY));
    let policy = RetryPolicy::new(3, Duration::ZERO, Duration::ZERO).unwrap();
    scripted(policy.to_builder(), &script).get(SCRIPTED).send().await.unwrap();
    let sent: Vec<_> = script.received().iter().map(|received| received.at).collect();
    assert_eq!(sent, [Duration::ZERO; 3]);
}

// F041
#[test]
fn an_unjittered_schedule_never_shrinks() {
    let schedules = [ms(1), secs(1), Duration::from_nanos(1)].map(|base| {
        [1.0, 1.000_001, 1.5, 2.0, 3.7, 10.0]
            .map(|factor| [HOUR, Duration::MAX].map(|max| backoffs(base, max, factor)))
    });
    for (shape, backoff) in schedules.into_iter().flatten().flatten().flatten() {
        let mut previous = Duration::ZERO;
        for retry in 0..=10_000 {
            let delay = backoff.delay(retry);
            assert!(
                delay >= previous && !delay.is_zero(),
                "{shape} {backoff:?}, {retry}: {previous:?}, then {delay:?}"
            );
            previous = delay;
        }
    }
}

/// Least, mean and most of many draws.
fn draw_many(mut draw: impl FnMut() -> Duration) -> [Duration; 3] {
    const DRAWS: u32 = 10_000;
    let draws: Vec<_> = (0..DRAWS).map(|_| draw()).collect();
    let sum: Duration = draws.iter().sum();
    [*draws.iter().min().unwrap(), sum / DRAWS, *draws.iter().max().unwrap()]
}

// F042
#[test]
fn jitter_stays_in_its_interval_and_fills_it() {
    let proportional = Jitter::proportional(0.2).unwrap();
    // The third delay of this backoff is 400 ms, the fourth is its longest.
    let backoff = Backoff::exponential(ms(100), ms(800)).unwrap();
    for (label, jitter, retry, [from, mean, to]) in [
        ("none", Jitter::None, 3, [400, 400, 400]),
        ("full", Jitter::Full, 3, [0, 200, 400]),
        ("equal", Jitter::Equal, 3, [200, 300, 400]),
        ("proportional", proportional, 3, [320, 400, 480]),
        ("full at the longest", Jitter::Full, 9, [0, 400, 800]),
        ("equal at the longest", Jitter::Equal, 9, [400, 600, 800]),
        ("proportional at the longest", proportional, 9, [640, 720, 800]),
    ] {
        let mut rng = seeded_jitter(7);
        let drawn = draw_many(|| backoff.draw(retry, None, jitter, &mut rng));
        let [least, average, most] = drawn;
        let edge = ms(to - from) / 50;
        assert!(least >= ms(from) && least <= ms(from) + edge, "{label}: {drawn:?}");
        assert!(most <= ms(to) && most >= ms(to) - edge, "{label}: {drawn:?}");
        assert!(average.abs_diff(ms(mean)) <= edge, "{label}: {drawn:?}");
    }
}

// F042
#[test]
fn a_decorrelated_wait_lies_between_the_base_and_thrice_the_last_one() {
    let backoff = Backoff::decorrelated(ms(100), ms(1_000)).unwrap();
    for (previous, [from, mean, to]) in [
        (None, [100, 200, 300]),
        (Some(ms(200)), [100, 350, 600]),
        (Some(ms(900)), [100, 550, 1_000]),
        (Some(secs(60)), [100, 550, 1_000]), // a server's wait
    ] {
        let mut rng = seeded_jitter(7);
        let drawn = draw_many(|| backoff.draw(2, previous, Jitter::Equal, &mut rng));
        let [least, average, most] = drawn;
        let edge = ms(to - from) / 50;
        assert!(least >= ms(from) && most <= ms(to), "{previous:?}: {drawn:?}");
        assert!(average.abs_diff(ms(mean)) <= edge, "{previous:?}: {drawn:?}");
    }
}

// F044
#[test]
fn a_base_above_the_maximum_is_refused_and_never_swapped() {
    let (base, max) = (ms(100), ms(30));
    let message = "max_delay is 30ms, but it must not be shorter than the base delay of 100ms";
    for (label, refused) in [
        ("exponential", Backoff::exponential(base, max).map(drop)),
        ("linear", Backoff::linear(base, max).map(drop)),
        ("decorrelated", Backoff::decorrelated(base, max).map(drop)),
        ("policy", RetryPolicy::new(3, base, max).map(drop)),
    ] {
        let error = refused.expect_err(label);
        assert_eq!(error.setting(), "max_delay", "{label}");
        assert_eq!(error.to_string(), message, "{label}");
    }
}

// F044
#[test]
fn a_factor_that_would_speed_up_or_is_no_number_is_refused() {
    for factor in [0.999, 0.0, -2.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let backoff = Backoff::exponential(ms(100), secs(1)).unwrap();
        let error = backoff.with_factor(factor).unwrap_err();
        assert_eq!(error.setting(), "factor", "{error}");
        assert!(error.to_string().contains(&format!("{factor:?}")), "{error}");
    }
}

// F046
#[tokio::test]
async fn attempts_count_every_send_the_first_included() {
    let limited = |count| no_waits().max_attempts(count);
    for (label, policy, sent) in [
        ("one", limited(1), 1),
        ("two", limited(2), 2),
        ("four", limited(4), 4),
        ("never", RetryPolicy::never().to_builder(), 1),
        ("default", no_waits(), 3),
    ] {
        let server = server([reply(503)]).await;
        let response = client(policy).get(server.uri()).send().await.unwrap();
        assert_eq!(requests(&server).await.len(), sent, "{label}");
        let reason = stop_reason(&response);
        assert_eq!(reason, Some(StopReason::AttemptsExhausted), "{label}");
    }
}

// F046
#[test]
fn no_attempt_at_all_is_refused() {
    let error = RetryPolicy::builder().max_attempts(0).build().unwrap_err();
    assert_eq!(error.setting(), "max_attempts");
    assert!(RetryPolicy::new(0, ms(1), ms(2)).is_err());
}

// F146
#[tokio::test(start_paused = true)]
async fn bounds_beyond_all_time_are_only_long() {
    let half = Duration::MAX / 2;
    let mut rng = seeded_jitter(7);
    let headers = HeaderMap::new();
    for (shape, backoff) in backoffs(half, Duration::MAX, 2.0) {
        let policy = || RetryPolicy::builder().backoff(backoff.clone()).jitter(Jitter::Full);
        let longest = policy().unlimited_attempts().deadline(Duration::MAX).build().unwrap();
        for number in 0..64 {
            let outcome = Outcome::response(StatusCode::BAD_GATEWAY, &headers);
            let class = longest.method_class(&Method::GET, &headers);
            let attempt = Attempt::new(number, class, &Method::GET, outcome, UNIX_EPOCH);
            assert!(longest.decide(&attempt, &mut rng).delay().is_some(), "{shape}, {number}");
        }
        // The same through a call, and against a deadline.
        let script = Script::always(Reply::status(StatusCode::BAD_GATEWAY));
        let client = scripted(policy().jitter(Jitter::None), &script);
        for deadline in [secs(1), half] {
            let response = client.get(SCRIPTED).retry_deadline(deadline).send().await.unwrap();
            let stop = stop_reason(&response);
            assert_eq!(stop, Some(StopReason::DeadlineWouldPass), "{shape}, {deadline:?}");
        }
        assert_eq!(script.received().len(), 2, "{shape}");
    }
}

// F146
#[tokio::test(start_paused = true)]
async fn an_instant_at_the_end_of_time_is_only_far_away() {
    let reset = HeaderName::from_static("x-ratelimit-reset");
    for now in [UNIX_EPOCH, UNIX_EPOCH + Duration::from_secs(1 << 55)] {
        for value in ["18446744073709551615", "99999999999999999999999999", "9223372036854775807"] {
            let limited = Reply::status(StatusCode::FORBIDDEN)
                .header(reset.clone(), HeaderValue::from_static(value));
            let script = Script::always(limited);
            let policy = no_waits().profile(ApiProfile::github()).build().unwrap();
            let retry =
                RetryMiddleware::builder(policy).wall_clock(TestClock::new(now).reader()).build();
            let client = ClientBuilder::new(crate::support::http())
                .with(retry.unwrap())
                .with(script.clone())
                .build();
            let response = client.get(SCRIPTED).send().await.unwrap();
            let stop = stop_reason(&response).unwrap();
            assert!(matches!(stop, StopReason::ServerDelayTooLong { .. }), "{value}: {stop}");
            assert_eq!(script.received().len(), 1, "{value}");
        }
    }
}
