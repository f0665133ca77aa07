//! The built-in profiles on any fields.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use reqwest_typed_retry::test_util::seeded_jitter;
use reqwest_typed_retry::{
    ApiProfile, Attempt, DelaySource, Outcome, RetryDecision, RetryPolicy, RetryableMethod,
    ServerDelays, StatusSet, StopReason,
};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::values::{clock, value};
use crate::{at, config};

fn profiles() -> [ApiProfile; 5] {
    [
        ApiProfile::standard(),
        ApiProfile::openai(),
        ApiProfile::azure(),
        ApiProfile::stripe(),
        ApiProfile::github(),
    ]
}

/// What any of them reads, and a field that none does.
const FIELDS: [&str; 24] = [
    "age",
    "anthropic-ratelimit-input-tokens-remaining",
    "anthropic-ratelimit-input-tokens-reset",
    "anthropic-ratelimit-output-tokens-remaining",
    "anthropic-ratelimit-output-tokens-reset",
    "anthropic-ratelimit-requests-remaining",
    "anthropic-ratelimit-requests-reset",
    "anthropic-ratelimit-tokens-remaining",
    "anthropic-ratelimit-tokens-reset",
    "date",
    "ratelimit",
    "retry-after",
    "retry-after",
    "retry-after-ms",
    "stripe-should-retry",
    "x-ms-retry-after-ms",
    "x-other",
    "x-ratelimit-remaining",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset",
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "x-should-retry",
];

const KNOWN: [&str; 10] = [
    "0",
    "0",
    "0",
    "1",
    "30",
    "6m0s",
    "\"q\";r=0;t=30",
    "Sun, 29 Nov 2026 12:00:00 GMT",
    "false",
    "true",
];

fn headers() -> impl Strategy<Value = HeaderMap> {
    let value =
        prop_oneof![value(), select(&KNOWN[..]).prop_map(|value| value.as_bytes().to_vec()),];
    vec((select(&FIELDS[..]), value), 0..8).prop_map(|lines| {
        let mut headers = HeaderMap::new();
        for (field, value) in lines {
            let value = HeaderValue::from_bytes(&value).unwrap();
            headers.append(HeaderName::from_static(field), value);
        }
        headers
    })
}

proptest! {
    #![proptest_config(config(1_000))]

    #[test]
    fn whatever_the_fields_say_a_wait_is_as_long_as_asked_and_no_post_is_sent_twice(
        headers in headers(),
        status in 400..=599_u16,
        now in clock(),
        proven in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let status = StatusCode::from_u16(status).unwrap();
        for profile in profiles() {
            let asked = profile.server_delay(&headers, at(now));
            let policy = RetryPolicy::builder()
                .profile(profile)
                .retry_statuses(StatusSet::from_iter([status]))
                .server_delays(ServerDelays::UpTo(Duration::MAX))
                .build()
                .unwrap();
            let decide = |class, method: Method| {
                let outcome = Outcome::response(status, &headers);
                let attempt = Attempt::new(1, class, &method, outcome, at(now))
                    .with_sole_exchange(proven);
                policy.decide(&attempt, &mut seeded_jitter(seed))
            };
            let get = decide(RetryableMethod::Idempotent, Method::GET);
            match get {
                RetryDecision::RetryAfter { delay, source, .. } => {
                    let asked = asked.filter(|asked| !asked.is_zero());
                    prop_assert_eq!(source == DelaySource::Server, asked.is_some());
                    prop_assert!(Some(delay) >= asked);
                }
                stop => prop_assert_eq!(stop.stop_reason(), Some(StopReason::ServerRefused)),
            }
            let post = decide(RetryableMethod::NonIdempotent, Method::POST).stop_reason();
            let expected = get.stop_reason().or(Some(StopReason::NotIdempotent));
            prop_assert_eq!(post, expected);
        }
    }

    #[test]
    fn a_profile_asks_for_what_the_standard_fields_do_unless_a_field_of_its_own_comes_first(
        headers in headers(),
        now in clock(),
    ) {
        let standard = ApiProfile::standard().server_delay(&headers, at(now));
        let [_, openai, azure, stripe, github] = profiles();
        let delay = |profile: &ApiProfile, headers: &HeaderMap| profile.server_delay(headers, at(now));
        prop_assert_eq!(delay(&stripe, &headers), standard);
        if standard.is_some() {
            prop_assert_eq!(delay(&github, &headers), standard);
        }
        let mut without = headers.clone();
        without.remove("retry-after-ms");
        without.remove("x-ms-retry-after-ms");
        prop_assert_eq!(delay(&azure, &without), standard);
        if standard.is_some() {
            prop_assert_eq!(delay(&openai, &without), standard);
        }
    }
}
