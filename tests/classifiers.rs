//! Rules of the application's own: a verdict on an outcome, and nothing more.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, Method, StatusCode};
use reqwest_typed_retry::test_util::seeded_jitter;
use reqwest_typed_retry::{
    ApiProfile, Attempt, Backoff, Classifier, DelaySource, Jitter, Outcome, RetryDecision,
    RetryPolicy, RetryPolicyBuilder, RetryReason, RetryableMethod, StopReason, Verdict,
};

const SECOND: Duration = Duration::from_secs(1);

/// A rule that is a type of its own: the same verdict on everything.
struct Always(Option<Verdict>);

impl Classifier for Always {
    fn classify(&self, _: &Attempt<'_>) -> Option<Verdict> {
        self.0
    }
}

const AGAIN: Always = Always(Some(Verdict::Transient { delay: None }));

fn after(delay: Duration) -> Always {
    Always(Some(Verdict::Transient { delay: Some(delay) }))
}

fn policy() -> RetryPolicyBuilder {
    RetryPolicy::builder().backoff(Backoff::constant(SECOND)).jitter(Jitter::None)
}

/// The end of an attempt; everything else is as harmless as it gets.
#[derive(Clone, Copy)]
struct End {
    number: u32,
    class: RetryableMethod,
    status: u16,
    elapsed: Duration,
    field: Option<(&'static str, &'static str)>,
}

const BUSY: End = End {
    number: 1,
    class: RetryableMethod::Idempotent,
    status: 503,
    elapsed: Duration::ZERO,
    field: None,
};
const FINE: End = End { status: 200, ..BUSY };

fn decide(policy: RetryPolicyBuilder, end: End) -> RetryDecision {
    let headers: HeaderMap = end
        .field
        .into_iter()
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .collect();
    let outcome = Outcome::response(StatusCode::from_u16(end.status).unwrap(), &headers);
    let method = Method::POST; // no rule looks at it: the class counts
    let now = SystemTime::UNIX_EPOCH;
    let attempt =
        Attempt::new(end.number, end.class, &method, outcome, now).with_elapsed(end.elapsed);
    policy.build().unwrap().decide(&attempt, &mut seeded_jitter(1))
}

#[test]
fn who_calls_everything_transient_lifts_neither_method_safety_nor_a_limit() {
    let non_idempotent = RetryableMethod::NonIdempotent;
    let with_token = RetryableMethod::IdempotentWithToken;
    let minute = Duration::from_secs(60);
    for (label, policy, end, expected) in [
        (
            "an unmarked POST",
            policy().classifier(AGAIN),
            End { class: non_idempotent, ..BUSY },
            "not_idempotent",
        ),
        (
            "that ended well, too",
            policy().classifier(AGAIN),
            End { class: non_idempotent, ..FINE },
            "not_idempotent",
        ),
        (
            "with a delay",
            policy().classifier(after(SECOND)),
            End { class: non_idempotent, ..BUSY },
            "not_idempotent",
        ),
        (
            "a key that is not honoured",
            policy().classifier(AGAIN),
            End { class: with_token, ..BUSY },
            "not_idempotent",
        ),
        (
            "the last attempt",
            policy().classifier(AGAIN),
            End { number: 3, ..BUSY },
            "attempts_exhausted",
        ),
        ("one send", policy().max_attempts(1).classifier(AGAIN), BUSY, "attempts_exhausted"),
        (
            "a delay beyond what servers may ask",
            policy().classifier(after(minute + SECOND)),
            BUSY,
            "server_delay_too_long",
        ),
        (
            "a wait that would pass the deadline",
            policy().deadline(5 * SECOND).classifier(AGAIN),
            End { elapsed: 4 * SECOND, ..BUSY },
            "deadline_would_pass",
        ),
        (
            "a delay that would",
            policy().deadline(5 * SECOND).classifier(after(5 * SECOND)),
            BUSY,
            "deadline_would_pass",
        ),
    ] {
        let stop = decide(policy, end).stop_reason();
        assert_eq!(stop.map(StopReason::as_str), Some(expected), "{label}");
    }
    // The message has both numbers.
    let stop = decide(policy().classifier(after(minute + SECOND)), BUSY).stop_reason();
    assert_eq!(stop.unwrap().to_string(), "server_delay_too_long (asked 61s, allowed 60s)");
}

#[test]
fn the_first_opinion_counts_and_without_one_the_policy_decides() {
    let directive = HeaderName::from_static("x-should-retry");
    let listens = policy().profile(ApiProfile::standard().verdict_field(directive));
    let says = |value| Some(("x-should-retry", value));
    let again = Ok(RetryReason::Classifier);
    let permanent = Err(StopReason::Permanent);
    for (label, policy, end, expected) in [
        ("transient, a 200 too", policy().classifier(AGAIN), FINE, again),
        ("transient, a 404 too", policy().classifier(AGAIN), End { status: 404, ..BUSY }, again),
        (
            "permanent, a 503 too",
            policy().classifier(Always(Some(Verdict::Permanent))),
            BUSY,
            permanent,
        ),
        (
            "no opinion",
            policy().classifier(Always(None)),
            BUSY,
            Ok(RetryReason::Status(StatusCode::SERVICE_UNAVAILABLE)),
        ),
        (
            "no opinion on a 200",
            policy().classifier(Always(None)),
            FINE,
            Err(StopReason::Completed),
        ),
        (
            "the second, where the first has none",
            policy().classifier(Always(None)).classifier(AGAIN),
            FINE,
            again,
        ),
        (
            "the first of two",
            policy().classifier(Always(Some(Verdict::Permanent))).classifier(AGAIN),
            BUSY,
            permanent,
        ),
        (
            "before the server's directive",
            listens.clone().classifier(AGAIN),
            End { field: says("false"), ..BUSY },
            again,
        ),
        (
            "and the other way round",
            listens.classifier(Always(Some(Verdict::Permanent))),
            End { field: says("true"), ..BUSY },
            permanent,
        ),
        (
            "a closure",
            policy().classifier(|attempt: &Attempt<'_>| {
                (attempt.number() == 1).then_some(Verdict::Transient { delay: None })
            }),
            FINE,
            again,
        ),
    ] {
        let decision = decide(policy, end);
        let actual = decision.retry_reason().ok_or_else(|| decision.stop_reason().unwrap());
        assert_eq!(actual, expected, "{label}");
    }
}

#[test]
fn a_delay_of_a_rule_comes_before_the_servers_and_zero_leaves_it_to_that() {
    let asked = End { field: Some(("retry-after", "7")), ..BUSY };
    let (rules, servers, own) =
        (DelaySource::Classifier, DelaySource::Server, DelaySource::Backoff);
    for (label, rule, end, expected) in [
        ("a delay", after(3 * SECOND), asked, (3 * SECOND, rules)),
        ("zero", after(Duration::ZERO), asked, (7 * SECOND, servers)),
        ("none", AGAIN, asked, (7 * SECOND, servers)),
        ("zero, and the server says nothing", after(Duration::ZERO), BUSY, (SECOND, own)),
        ("none, and the server says nothing", AGAIN, BUSY, (SECOND, own)),
    ] {
        let decision = decide(policy().classifier(rule), end);
        let actual = (decision.delay().unwrap(), decision.delay_source().unwrap());
        assert_eq!(actual, expected, "{label}");
    }
}

#[test]
fn a_rule_sees_the_attempt_as_its_driver_describes_it() {
    let headers = HeaderMap::new();
    let outcome = Outcome::response(StatusCode::OK, &headers);
    let now = SystemTime::UNIX_EPOCH + 9 * SECOND;
    let bare = Attempt::new(2, RetryableMethod::Idempotent, &Method::PUT, outcome, now);
    let described = bare
        .with_target("api.test", "/orders/17")
        .with_sole_exchange(true)
        .with_elapsed(3 * SECOND)
        .with_previous_delay(Some(2 * SECOND))
        .with_deadline(Some(60 * SECOND));
    for (attempt, target, is_sole_exchange, elapsed, [previous, deadline]) in [
        (bare, ("", ""), false, Duration::ZERO, [None, None]),
        (
            described,
            ("api.test", "/orders/17"),
            true,
            3 * SECOND,
            [Some(2 * SECOND), Some(60 * SECOND)],
        ),
    ] {
        let rule = move |seen: &Attempt<'_>| {
            assert_eq!((seen.number(), seen.class()), (2, RetryableMethod::Idempotent));
            assert_eq!((seen.method(), seen.now()), (&Method::PUT, now));
            assert_eq!(seen.outcome().status(), Some(StatusCode::OK));
            assert_eq!((seen.host(), seen.path()), target);
            assert_eq!((seen.is_sole_exchange(), seen.elapsed()), (is_sole_exchange, elapsed));
            assert_eq!((seen.previous_delay(), seen.deadline()), (previous, deadline));
            Some(Verdict::Permanent)
        };
        let policy = policy().classifier(rule).build().unwrap();
        let decision = policy.decide(&attempt, &mut seeded_jitter(1));
        assert_eq!(decision.stop_reason(), Some(StopReason::Permanent), "nobody asked the rule");
    }
}
