//! What a driver of its own attempts is told.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, SystemTime};

use http::{HeaderMap, Method, StatusCode};
use reqwest_typed_retry::test_util::seeded_jitter;
use reqwest_typed_retry::{
    Attempt, Backoff, Fault, FaultKind, Jitter, Outcome, RetryPolicy, RetrySession,
    RetryableMethod, StopReason,
};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const NOW: SystemTime = SystemTime::UNIX_EPOCH;

#[test]
fn a_session_moves_on_with_each_resend_and_stays_where_there_is_none() {
    let (one, two) = (Duration::from_secs(1), Duration::from_secs(2));
    let waits = Backoff::schedule([one, two]).unwrap();
    let policy = RetryPolicy::builder().backoff(waits).jitter(Jitter::None).build().unwrap();
    let class = RetryableMethod::Idempotent;
    let mut session = RetrySession::new(policy, class);
    let headers = HeaderMap::new();
    let busy = Outcome::response(StatusCode::SERVICE_UNAVAILABLE, &headers);
    for (number, previous, delay) in [
        (1, None, Some(one)),
        (2, Some(one), Some(two)),
        (3, Some(two), None),
        (3, Some(two), None),
    ] {
        assert_eq!((session.attempts(), session.class()), (number, class));
        assert_eq!(session.may_resend(false), number < 3);
        let attempt = session.attempt_ended(&Method::PUT, busy, NOW);
        assert_eq!((attempt.number(), attempt.class()), (number, class));
        assert_eq!((attempt.method(), attempt.now()), (&Method::PUT, NOW));
        assert_eq!(attempt.previous_delay(), previous);
        let decision = session.decide(&attempt, &mut seeded_jitter(1));
        assert_eq!(decision.delay(), delay);
        let stop = delay.is_none().then_some(StopReason::AttemptsExhausted);
        assert_eq!(decision.stop_reason(), stop);
    }
    assert_eq!(session.policy().max_attempts().unwrap().get(), 3);
}

/// A driver that can prove nothing, and one that can.
#[test]
fn a_request_need_not_be_kept_exactly_where_no_outcome_would_send_it_again() {
    let headers = HeaderMap::new();
    let busy = Outcome::response(StatusCode::SERVICE_UNAVAILABLE, &headers);
    let refused = Outcome::fault(Fault::not_processed(FaultKind::Refused));
    for honours in [false, true] {
        let policy = RetryPolicy::builder()
            .max_attempts(2)
            .honour_idempotency_keys(honours)
            .build()
            .unwrap();
        for class in [
            RetryableMethod::Idempotent,
            RetryableMethod::IdempotentWithToken,
            RetryableMethod::NonIdempotent,
        ] {
            for (number, provable) in [(1, false), (1, true), (2, false), (2, true)] {
                let resends = [busy, refused].into_iter().any(|outcome| {
                    let attempt = Attempt::new(number, class, &Method::POST, outcome, NOW)
                        .with_sole_exchange(provable);
                    policy.decide(&attempt, &mut seeded_jitter(1)).delay().is_some()
                });
                let mut session = RetrySession::new(policy.clone(), class);
                for _ in 1..number {
                    let resent =
                        session.attempt_ended(&Method::POST, refused, NOW).with_sole_exchange(true);
                    assert!(session.decide(&resent, &mut seeded_jitter(1)).delay().is_some());
                }
                let may = session.may_resend(provable);
                assert_eq!(may, resends, "{class} {number} {provable} {honours}");
            }
        }
    }
}

/// What an attempt says of itself is a driver's word; the session knows better.
#[test]
fn a_session_counts_for_itself_and_knows_its_class() {
    let headers = HeaderMap::new();
    let busy = Outcome::response(StatusCode::SERVICE_UNAVAILABLE, &headers);
    let waits = Backoff::decorrelated(Duration::from_secs(1), Duration::from_secs(100)).unwrap();
    let policy = RetryPolicy::builder().backoff(waits).build().unwrap();
    let always_the_first = Attempt::new(1, RetryableMethod::Idempotent, &Method::POST, busy, NOW);
    for (class, resends, stop) in [
        (RetryableMethod::Idempotent, 2, StopReason::AttemptsExhausted),
        (RetryableMethod::NonIdempotent, 0, StopReason::NotIdempotent),
    ] {
        let mut session = RetrySession::new(policy.clone(), class);
        let mut told = session.clone();
        for number in 1..10 {
            let decision = session.decide(&always_the_first, &mut seeded_jitter(number));
            let attempt = told.attempt_ended(&Method::POST, busy, NOW);
            assert_eq!(decision, told.decide(&attempt, &mut seeded_jitter(number)));
            assert_eq!(decision.delay().is_some(), number <= resends, "{class}: {decision}");
            assert!(number <= resends || decision.stop_reason() == Some(stop), "{decision}");
        }
    }
}

#[test]
fn a_stop_is_final_whatever_comes_after_it() {
    let headers = HeaderMap::new();
    let not_found = Outcome::response(StatusCode::NOT_FOUND, &headers);
    let refused = Outcome::fault(Fault::not_processed(FaultKind::Refused));
    let mut session = RetrySession::new(RetryPolicy::default(), RetryableMethod::Idempotent);
    for outcome in [not_found, refused] {
        let attempt = session.attempt_ended(&Method::GET, outcome, NOW).with_sole_exchange(true);
        let decision = session.decide(&attempt, &mut seeded_jitter(1));
        assert_eq!(decision.stop_reason(), Some(StopReason::Permanent), "{outcome:?}");
    }
    assert!(!session.may_resend(true));
}

/// The head of a good answer completes the attempt, and its body may still be cut.
#[test]
fn an_answer_whose_body_is_cut_can_be_asked_about_again() {
    let headers = HeaderMap::new();
    let good = Outcome::response(StatusCode::OK, &headers);
    let cut = Outcome::fault(Fault::unknown(FaultKind::Body));
    let mut session = RetrySession::new(RetryPolicy::default(), RetryableMethod::Idempotent);
    for (outcome, attempts, stop) in [
        (good, 1, Some(StopReason::Completed)),
        (cut, 2, None),
        (good, 2, Some(StopReason::Completed)),
    ] {
        let attempt = session.attempt_ended(&Method::GET, outcome, NOW);
        let decision = session.decide(&attempt, &mut seeded_jitter(1));
        assert_eq!((decision.stop_reason(), session.attempts()), (stop, attempts), "{outcome:?}");
        assert!(session.may_resend(false));
    }
}
