//! Which statuses are resent, by default, listed, and by a profile.

use std::time::SystemTime;

use http::{HeaderMap, HeaderName, Method, StatusCode};
use reqwest_typed_retry::test_util::seeded_jitter;
use reqwest_typed_retry::{Attempt, Outcome, RetryDecision, RetryPolicy, StopReason};
use serde::Deserialize;

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

#[test]
fn statuses_are_resent_where_the_table_says_so() {
    let key: HeaderName = "idempotency-key".parse().unwrap();
    let with_key = HeaderMap::from_iter([(key, "8e03978e".parse().unwrap())]);
    let check = |case: &StatusCase| {
        let status = StatusCode::from_u16(case.status).unwrap();
        // The default set, and the table's further "yes" rows as a user would list them.
        let default = RetryPolicy::builder().honour_idempotency_keys(true).build().unwrap();
        let listed = default.to_builder().retry_statuses([status].into_iter().collect()).build();
        // A status below 400 is refused: it can't be listed.
        let policy = if case.idempotent == "yes" { &listed.unwrap() } else { &default };
        for (column, method, headers, expected) in [
            ("idempotent", Method::GET, &HeaderMap::new(), &case.idempotent),
            ("non_idempotent", Method::POST, &HeaderMap::new(), &case.non_idempotent),
            ("non_idempotent_with_key", Method::POST, &with_key, &case.non_idempotent_with_key),
        ] {
            let decide = |policy: &RetryPolicy, proven: bool| {
                let class = policy.method_class(&method, headers);
                let fields = HeaderMap::new();
                let outcome = Outcome::response(status, &fields);
                let attempt = Attempt::new(1, class, &method, outcome, SystemTime::UNIX_EPOCH)
                    .with_not_processed(proven);
                policy.decide(&attempt, &mut seeded_jitter(1))
            };
            let resends = |decision: RetryDecision| decision.delay().is_some();
            // `ra` and `profile` rows depend on a profile, which comes later: they are a no here.
            same(column, resends(decide(policy, false)), expected == "yes")?;
            if expected == "not_processed" {
                let rejects = policy
                    .to_builder()
                    .not_processed_statuses([status].into_iter().collect())
                    .build()
                    .unwrap();
                same("listed, no proof", resends(decide(&rejects, false)), false)?;
                same("listed, with proof", resends(decide(&rejects, true)), true)?;
                same("not listed, with proof", resends(decide(policy, true)), false)?;
            }
            if expected == "yes" {
                same("by default", resends(decide(&default, false)), case.default)?;
            }
            if matches!(case.class.as_str(), "success" | "redirect") {
                let stop = decide(policy, false).stop_reason();
                same("stop", stop, Some(StopReason::Completed))?;
            }
        }
        Ok(())
    };
    run("status.json", include_str!("../data/status.json"), check);
}
