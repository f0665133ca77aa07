//! Delays for any retry and any `Duration`: bounds, growth, no panic and no wrap.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "support/waits.rs"]
mod waits;

use std::time::{Duration, SystemTime};

use http::{HeaderMap, Method, StatusCode};
use proptest::prelude::*;
use reqwest_typed_retry::test_util::seeded_jitter;
use reqwest_typed_retry::{
    Attempt, Backoff, Outcome, RetryDecision, RetryPolicy, RetryableMethod, ServerDelays,
};
use waits::{backoffs, durations, jitters, numbers};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_delay_never_shrinks_and_never_passes_the_maximum(
        backoff in backoffs(), retry in numbers(), step in 1_u32..1_000,
    ) {
        let (sooner, later) = (backoff.delay(retry), backoff.delay(retry.saturating_add(step)));
        prop_assert!(sooner <= later, "{sooner:?} then {later:?}");
        prop_assert!(later <= backoff.max_delay(), "{later:?}");
    }

    #[test]
    fn the_maximum_is_reached_at_the_end_unless_nothing_grows(
        bounds in (durations(), durations()), factor in 1.001_f64..10.0,
    ) {
        let (base, max) = (bounds.0.min(bounds.1), bounds.0.max(bounds.1));
        let backoff = Backoff::exponential(base, max).unwrap().with_factor(factor).unwrap();
        let expected = if base.is_zero() { base } else { max };
        prop_assert_eq!(backoff.delay(u32::MAX), expected);
    }

    #[test]
    fn a_draw_stays_in_the_envelope_and_the_envelope_in_the_maximum(
        backoff in backoffs(), jitter in jitters(), retry in numbers(),
        previous in prop::option::of(durations()), seed: u64,
    ) {
        let envelope = backoff.envelope(retry, previous, jitter);
        prop_assert!(envelope.start() <= envelope.end(), "{envelope:?}");
        prop_assert!(*envelope.end() <= backoff.max_delay(), "{envelope:?}");
        let drawn = backoff.draw(retry, previous, jitter, &mut seeded_jitter(seed));
        prop_assert!(envelope.contains(&drawn), "{drawn:?} outside {envelope:?}");
    }

    #[test]
    fn a_server_delay_is_never_undercut_and_little_exceeded(
        asked in 0_u64..=u64::MAX, jitter in jitters(), number in 1_u32..1_000, seed: u64,
    ) {
        let policy = RetryPolicy::builder()
            .max_attempts(u32::MAX)
            .jitter(jitter)
            .server_delays(ServerDelays::UpTo(Duration::MAX))
            .build()
            .unwrap();
        let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, asked.into())]);
        let outcome = Outcome::response(StatusCode::SERVICE_UNAVAILABLE, &headers);
        let class = RetryableMethod::Idempotent;
        let attempt = Attempt::new(number, class, &Method::GET, outcome, SystemTime::UNIX_EPOCH);
        let delay = policy.decide(&attempt, &mut seeded_jitter(seed)).delay().unwrap();
        if asked > 0 {
            let asked = Duration::from_secs(asked);
            let spread = (asked / 10).min(Duration::from_secs(5));
            prop_assert!(delay >= asked, "{delay:?}");
            prop_assert!(delay <= asked.saturating_add(spread), "{delay:?}");
        }
    }

    #[test]
    fn no_wait_ends_at_or_after_the_deadline(
        elapsed in durations(), deadline in durations(), number in 1_u32..5, seed: u64,
    ) {
        let headers = HeaderMap::new();
        let outcome = Outcome::response(StatusCode::SERVICE_UNAVAILABLE, &headers);
        let class = RetryableMethod::Idempotent;
        let attempt = Attempt::new(number, class, &Method::GET, outcome, SystemTime::UNIX_EPOCH)
            .with_elapsed(elapsed)
            .with_deadline(Some(deadline));
        let decision = RetryPolicy::default().decide(&attempt, &mut seeded_jitter(seed));
        if let RetryDecision::RetryAfter { delay, .. } = decision {
            prop_assert!(elapsed.saturating_add(delay) < deadline);
        }
    }
}
