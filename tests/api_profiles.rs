//! What a profile adds to a policy: delays by quota, promises, and keys.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, Method, StatusCode};
use reqwest_typed_retry::test_util::seeded_jitter;
use reqwest_typed_retry::{
    ApiProfile, Attempt, DelayHint, HintUnit, IdempotencyKey, KeyFormat, Outcome, RetryPolicy,
    RetryPolicyBuilder, RetryableMethod, StatusCondition, StatusSet, StopReason,
};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const LIMITED: StatusCode = StatusCode::TOO_MANY_REQUESTS;

fn name(name: &str) -> HeaderName {
    name.parse().unwrap()
}

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    fields.iter().map(|(field, value)| (name(field), value.parse().unwrap())).collect()
}

#[test]
fn fields_are_read_in_the_order_of_the_profile_and_of_the_last_ones_the_longest_counts() {
    let hint = |field| DelayHint::new(name(field), HintUnit::Seconds);
    let profile = ApiProfile::standard()
        .hint(hint("x-after"))
        .hint_before(hint("x-before"))
        .hint(hint("x-later"))
        .hint_before(hint("x-next"));
    let mut fields = headers(&[
        ("x-later", "5"),
        ("x-after", "6"),
        ("ratelimit", "\"q\";r=0;t=4"),
        ("retry-after", "3"),
        ("x-next", "2"),
        ("x-before", "1"),
    ]);
    let delay = |fields: &HeaderMap| {
        profile.server_delay(fields, SystemTime::UNIX_EPOCH).unwrap().as_secs()
    };
    for (expected, first) in (1..).zip(["x-before", "x-next", "retry-after", "ratelimit"]) {
        assert_eq!(delay(&fields), expected, "{first} comes first");
        fields.insert(name(first), "soon".parse().unwrap());
    }
    for (after, later, expected) in
        [("6", "5", 6), ("5", "6", 6), ("soon", "5", 5), ("6", "soon", 6)]
    {
        fields.insert(name("x-after"), after.parse().unwrap());
        fields.insert(name("x-later"), later.parse().unwrap());
        assert_eq!(delay(&fields), expected, "{after} and {later}");
    }
}

#[test]
fn the_reset_of_a_quota_counts_once_the_quota_is_used_up() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_953_600);
    let instant = "2026-11-29T12:00:20Z";
    let (openai, github) = (ApiProfile::openai(), ApiProfile::github());
    // The last column: whether it counts where nothing is said of what is left.
    for (profile, reset, value, remaining, without) in [
        (&openai, "x-ratelimit-reset-requests", "20s", "x-ratelimit-remaining-requests", false),
        (&openai, "x-ratelimit-reset-tokens", "20s", "x-ratelimit-remaining-tokens", false),
        (
            &openai,
            "anthropic-ratelimit-requests-reset",
            instant,
            "anthropic-ratelimit-requests-remaining",
            false,
        ),
        (
            &openai,
            "anthropic-ratelimit-tokens-reset",
            instant,
            "anthropic-ratelimit-tokens-remaining",
            false,
        ),
        (
            &openai,
            "anthropic-ratelimit-input-tokens-reset",
            instant,
            "anthropic-ratelimit-input-tokens-remaining",
            false,
        ),
        (
            &openai,
            "anthropic-ratelimit-output-tokens-reset",
            instant,
            "anthropic-ratelimit-output-tokens-remaining",
            false,
        ),
        (&github, "x-ratelimit-reset", "1795953620", "x-ratelimit-remaining", true),
    ] {
        let mut fields = headers(&[(reset, value)]);
        for (label, left, expected) in [
            ("nothing said", None, without),
            ("nothing left", Some("0"), true),
            ("something left", Some("1"), false),
            ("no number", Some(""), false),
        ] {
            if let Some(left) = left {
                fields.insert(name(remaining), left.parse().unwrap());
            }
            let delay = profile.server_delay(&fields, now);
            let expected = expected.then_some(Duration::from_secs(20));
            assert_eq!(delay, expected, "{reset}, {label}");
        }
    }
}

#[test]
fn keys_are_honoured_where_the_policy_or_the_profile_says_so_or_makes_them() {
    let build = |change: fn(RetryPolicyBuilder) -> RetryPolicyBuilder| {
        change(RetryPolicy::builder()).build().unwrap()
    };
    let listed = |condition| {
        let profile = ApiProfile::standard().retry_statuses([LIMITED], condition);
        RetryPolicy::builder().profile(profile).build().unwrap()
    };
    let of = |profile| RetryPolicy::builder().profile(profile).build().unwrap();
    for (label, policy, expected) in [
        ("nobody", RetryPolicy::default(), false),
        ("the policy", build(|it| it.honour_idempotency_keys(true)), true),
        (
            "a policy that makes keys",
            build(|it| it.generate_idempotency_keys(KeyFormat::Bare)),
            true,
        ),
        ("a policy that makes none", build(|it| it.generate_idempotency_keys(None)), false),
        (
            "the profile, and the policy says no",
            build(|it| it.profile(ApiProfile::stripe()).honour_idempotency_keys(false)),
            false,
        ),
        ("a profile's own word", of(ApiProfile::standard().honours_idempotency_keys()), true),
        ("a status on the condition of a key", listed(StatusCondition::WithHonouredKey), true),
        ("a status on that of a delay", listed(StatusCondition::WithServerDelay), false),
        ("a status on none", listed(StatusCondition::Always), false),
        ("openai", of(ApiProfile::openai()), false),
        ("azure", of(ApiProfile::azure()), false),
        ("stripe", of(ApiProfile::stripe()), true),
        ("github", of(ApiProfile::github()), false),
    ] {
        assert_eq!(policy.honours_idempotency_keys(), expected, "{label}");
        // So a POST with a key is sent again there, and nowhere else.
        let class = policy.method_class(&Method::POST, &headers(&[("idempotency-key", "k")]));
        let fields = headers(&[("retry-after", "1")]);
        let outcome = Outcome::response(LIMITED, &fields);
        let attempt = Attempt::new(1, class, &Method::POST, outcome, SystemTime::UNIX_EPOCH);
        let stop = policy.decide(&attempt, &mut seeded_jitter(1)).stop_reason();
        assert_eq!(stop, (!expected).then_some(StopReason::NotIdempotent), "{label}");
    }
}

#[test]
fn promises_of_the_policy_and_of_the_profile_add_up() {
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    for (by_policy, by_profile) in [
        (vec![], vec![]),
        (vec![LIMITED], vec![]),
        (vec![], vec![LIMITED]),
        (vec![LIMITED], vec![unavailable]),
        (vec![LIMITED], vec![LIMITED]),
    ] {
        let profile = ApiProfile::standard().not_processed_statuses(by_profile.clone());
        let policy = RetryPolicy::builder()
            .profile(profile)
            .not_processed_statuses(by_policy.iter().copied().collect())
            .build()
            .unwrap();
        let expected: StatusSet = by_policy.iter().chain(&by_profile).copied().collect();
        let label = format!("{by_policy:?} and {by_profile:?}");
        assert_eq!(policy.not_processed_statuses(), expected, "{label}");
        for status in [LIMITED, unavailable] {
            for proven in [false, true] {
                let fields = HeaderMap::new();
                let outcome = Outcome::response(status, &fields);
                let class = RetryableMethod::NonIdempotent;
                let attempt =
                    Attempt::new(1, class, &Method::POST, outcome, SystemTime::UNIX_EPOCH)
                        .with_sole_exchange(proven);
                let decision = policy.decide(&attempt, &mut seeded_jitter(1));
                let expected = proven && expected.contains(status);
                assert_eq!(decision.delay().is_some(), expected, "{label}: {status}, {proven}");
            }
        }
    }
}

#[test]
fn a_new_key_goes_to_a_post_or_patch_that_has_no_field_for_one() {
    let fields = ["idempotency-key", "x-request-id"].map(name);
    let policy = |format: Option<KeyFormat>| {
        RetryPolicy::builder()
            .idempotency_key_fields(fields.clone())
            .generate_idempotency_keys(format)
            .build()
            .unwrap()
    };
    for (label, method, present, expected) in [
        ("POST", Method::POST, &[][..], true),
        ("PATCH", Method::PATCH, &[], true),
        ("PUT", Method::PUT, &[], false),
        ("GET", Method::GET, &[], false),
        ("LOCK", "LOCK".parse().unwrap(), &[], false),
        ("POST with another field", Method::POST, &[("x-other", "k")], true),
        ("POST with a key", Method::POST, &[("idempotency-key", "k")], false),
        ("POST with an empty key", Method::POST, &[("idempotency-key", "")], false),
        ("POST with a key in the second field", Method::POST, &[("x-request-id", "k")], false),
        ("PATCH with an empty one there", Method::PATCH, &[("x-request-id", "")], false),
    ] {
        let present = headers(present);
        for format in [KeyFormat::Bare, KeyFormat::Quoted] {
            let key =
                policy(Some(format)).new_idempotency_key(&method, &present, &mut seeded_jitter(7));
            let drawn = IdempotencyKey::generate(format, &mut seeded_jitter(7));
            let expected = expected.then(|| (fields[0].clone(), drawn));
            assert_eq!(key, expected, "{label}, {format:?}");
        }
        let none = policy(None).new_idempotency_key(&method, &present, &mut seeded_jitter(7));
        assert_eq!(none, None, "{label}, of a policy that makes none");
    }
}
