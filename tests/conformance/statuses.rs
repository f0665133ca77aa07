//! Which statuses are resent: by default, where a policy lists them, and where a profile does.

use std::time::SystemTime;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, Method, StatusCode};
use reqwest_typed_retry::test_util::seeded_jitter;
use reqwest_typed_retry::{
    ApiProfile, Attempt, Outcome, RetryDecision, RetryPolicy, RetryPolicyBuilder, ServerDelays,
    StatusCondition, StatusSet, StopReason,
};
use serde::Deserialize;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::{run, same};

#[derive(Deserialize)]
struct StatusCase {
    status: u16,
    class: String,
    idempotent: String,
    non_idempotent: String,
    non_idempotent_with_key: String,
    default: bool,
}

impl StatusCase {
    fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap()
    }

    /// Each column with its request.
    fn columns(&self) -> [(&'static str, Request, &str); 3] {
        let key: HeaderName = "idempotency-key".parse().unwrap();
        let with_key = HeaderMap::from_iter([(key, "8e03978e".parse().unwrap())]);
        let plain = HeaderMap::new;
        [
            ("idempotent", (Method::GET, plain()), &self.idempotent),
            ("non_idempotent", (Method::POST, plain()), &self.non_idempotent),
            ("non_idempotent_with_key", (Method::POST, with_key), &self.non_idempotent_with_key),
        ]
    }

    /// What the answer is, in a column, to a request under this policy.
    fn decide(&self, policy: &RetryPolicy, request: &Request, answer: Answer<'_>) -> RetryDecision {
        let (method, headers) = request;
        let class = policy.method_class(method, headers);
        let fields = answer.retry_after.iter().map(|value| (RETRY_AFTER, value.parse().unwrap()));
        let fields = HeaderMap::from_iter(fields);
        let outcome = Outcome::response(self.status(), &fields);
        let attempt = Attempt::new(1, class, method, outcome, SystemTime::UNIX_EPOCH)
            .with_sole_exchange(answer.proven);
        policy.decide(&attempt, &mut seeded_jitter(1))
    }
}

type Request = (Method, HeaderMap);

#[derive(Clone, Copy, Default)]
struct Answer<'a> {
    retry_after: Option<&'a str>,
    proven: bool,
}

const PLAIN: Answer<'_> = Answer { retry_after: None, proven: false };
const PROVEN: Answer<'_> = Answer { proven: true, ..PLAIN };

fn resends(decision: RetryDecision) -> bool {
    decision.delay().is_some()
}

/// The default set, for a server that honours keys.
fn by_default() -> RetryPolicyBuilder {
    RetryPolicy::builder().honour_idempotency_keys(true)
}

#[test]
fn statuses_are_resent_where_the_table_says_so() {
    run("status.json", include_str!("../data/status.json"), |case: &StatusCase| {
        let set = StatusSet::from_iter([case.status()]);
        let default = by_default().build().unwrap();
        let listed = by_default().retry_statuses(set).build();
        // The table's further "yes" rows as a user would list them. A status below 400 is refused: it
        // can't be listed.
        let policy = if case.idempotent == "yes" { &listed.unwrap() } else { &default };
        for (column, request, expected) in case.columns() {
            let decide = |policy: &RetryPolicy, answer| case.decide(policy, &request, answer);
            // `ra` and `profile` rows depend on a profile: without one they are a no.
            for retry_after in [None, Some("7")] {
                let answer = Answer { retry_after, ..PLAIN };
                same(column, resends(decide(policy, answer)), expected == "yes")?;
            }
            if expected == "not_processed" {
                let rejects = policy.to_builder().not_processed_statuses(set).build().unwrap();
                same("listed, no proof", resends(decide(&rejects, PLAIN)), false)?;
                same("listed, with proof", resends(decide(&rejects, PROVEN)), true)?;
                same("not listed, with proof", resends(decide(policy, PROVEN)), false)?;
            }
            if expected == "yes" {
                same("by default", resends(decide(&default, PLAIN)), case.default)?;
            }
            if matches!(case.class.as_str(), "success" | "redirect") {
                let stop = decide(policy, PLAIN).stop_reason();
                same("stop", stop, Some(StopReason::Completed))?;
            }
        }
        check_with_a_profile(case)
    });
}

/// The profile that makes a row's `ra` and `profile` a yes, and the vendor's own 529.
fn profile(case: &StatusCase) -> Option<ApiProfile> {
    let mut cells = case.columns().into_iter().map(|(_, _, expected)| expected);
    match case.status {
        403 => Some(ApiProfile::github()),
        409 => Some(ApiProfile::stripe()),
        413 | 420 => Some(
            ApiProfile::standard()
                .retry_statuses([case.status()], StatusCondition::WithServerDelay),
        ),
        529 => Some(ApiProfile::openai()),
        status => {
            let is_open = cells.any(|cell| matches!(cell, "ra" | "profile"));
            assert!(!is_open, "{status} needs a profile");
            None
        }
    }
}

fn check_with_a_profile(case: &StatusCase) -> Result<(), String> {
    let Some(profile) = profile(case) else { return Ok(()) };
    let policy = by_default().profile(profile).build().unwrap();
    let deaf = policy.to_builder().server_delays(ServerDelays::Ignored).build().unwrap();
    for (column, request, expected) in case.columns() {
        for (label, policy, retry_after, has_delay) in [
            ("without a delay", &policy, None, false),
            ("with a delay", &policy, Some("7"), true),
            ("with a delay of zero", &policy, Some("0"), true),
            ("with an unusable delay", &policy, Some("soon"), false),
            ("with a delay that the policy ignores", &deaf, Some("7"), false),
        ] {
            let expected = match expected {
                "yes" | "profile" => true,
                "ra" => has_delay,
                _ => false,
            };
            let decision = case.decide(policy, &request, Answer { retry_after, ..PLAIN });
            same(&format!("{column}, profile, {label}"), resends(decision), expected)?;
        }
    }
    Ok(())
}
