//! The decision as data: `tests/data/decisions.txt`, one row a case.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "support/faults.rs"]
mod faults;

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use faults::FAULTS;
use http::{HeaderMap, HeaderName, Method, StatusCode};
use reqwest_typed_retry::test_util::seeded_jitter;
use reqwest_typed_retry::{
    ApiProfile, Attempt, Fault, Outcome, RetryDecision, RetryPolicy, RetryableMethod, ServerDelays,
    StatusSet,
};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const TABLE: &str = include_str!("data/decisions.txt");
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
struct Row<'a> {
    outcome: &'a str,
    class: &'a str,
    attempt: u32,
    policy: &'a str,
    decision: &'a str,
}

fn rows() -> Vec<Row<'static>> {
    let row = |line: &'static str| {
        let [outcome, class, attempt, policy, decision] =
            line.split(" | ").collect::<Vec<_>>().try_into().unwrap();
        Row { outcome, class, attempt: attempt.parse().unwrap(), policy, decision }
    };
    TABLE.lines().filter(|line| !line.starts_with('#')).map(row).collect()
}

fn policy(name: &str) -> RetryPolicy {
    let builder = RetryPolicy::builder();
    match name {
        "default" => builder,
        "honours_keys" => builder.honour_idempotency_keys(true),
        "assumes_idempotent" => builder.assume_idempotent(true),
        "lists_rejections" => builder.not_processed_statuses(StatusSet::from_iter([
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::SERVICE_UNAVAILABLE,
        ])),
        "clamps_server_delays" => builder.server_delays(ServerDelays::ClampedTo(LIMIT)),
        "ignores_server_delays" => builder.server_delays(ServerDelays::Ignored),
        "deadline_of_1s" => builder.deadline(Duration::from_secs(1)),
        "profile" => {
            let field = HeaderName::from_static("x-should-retry");
            builder.profile(ApiProfile::standard().verdict_field(field))
        }
        name => panic!("unknown policy {name}"),
    }
    .build()
    .unwrap()
}

fn fault(kind: &str, delivery: &str) -> Fault {
    let kind = FAULTS.into_iter().find(|known| known.as_str() == kind).unwrap();
    match delivery {
        "not_processed" => Fault::not_processed(kind),
        "unknown" => Fault::unknown(kind),
        delivery => panic!("unknown delivery {delivery}"),
    }
}

impl Row<'_> {
    fn decide(&self, seed: u64) -> RetryDecision {
        let (name, proven) = match self.policy.strip_suffix("+proof") {
            Some(name) => (name, true),
            None => (self.policy, false),
        };
        let policy = policy(name);
        // The class is that of a request, except where the table fixes it.
        let (method, class) = match self.class {
            "idempotent" => (Method::GET, RetryableMethod::Idempotent),
            "token" => (Method::POST, RetryableMethod::IdempotentWithToken),
            "non_idempotent" => (Method::POST, RetryableMethod::NonIdempotent),
            class => panic!("unknown class {class}"),
        };
        let class = match name {
            "assumes_idempotent" => policy.method_class(&method, &HeaderMap::new()),
            _ => class,
        };
        let mut headers = HeaderMap::new();
        let outcome = match self.outcome.splitn(3, ' ').collect::<Vec<_>>()[..] {
            ["status", code, ref field @ ..] => {
                if let [field] = field {
                    let (name, value) = field.split_once('=').unwrap();
                    headers.insert(
                        HeaderName::from_bytes(name.as_bytes()).unwrap(),
                        value.parse().unwrap(),
                    );
                }
                Outcome::response(code.parse().unwrap(), &headers)
            }
            ["fault", kind, delivery] => Outcome::fault(fault(kind, delivery)),
            ref outcome => panic!("unknown outcome {outcome:?}"),
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_953_600);
        let elapsed = match name {
            "deadline_of_1s" => Duration::from_millis(950),
            _ => Duration::ZERO,
        };
        let attempt = Attempt::new(self.attempt, class, &method, outcome, now)
            .with_elapsed(elapsed)
            .with_sole_exchange(proven);
        policy.decide(&attempt, &mut seeded_jitter(seed))
    }

    /// The decision in the words of the table, with the drawn delay inside its interval.
    fn agrees(&self, decision: RetryDecision) -> bool {
        match (decision, self.decision.split(' ').collect::<Vec<_>>()[..].as_ref()) {
            (RetryDecision::RetryAfter { delay, source, .. }, ["retry", expected, interval]) => {
                let (least, most) = interval.split_once("..").unwrap();
                let millis = |text: &str| Duration::from_millis(text.parse().unwrap());
                source.as_str() == *expected && (millis(least)..=millis(most)).contains(&delay)
            }
            (RetryDecision::DoNotRetry { reason, .. }, ["stop", expected]) => {
                variant(format!("{reason:?}")) == *expected
            }
            _ => false,
        }
    }
}

fn variant(debug: String) -> String {
    debug.split(' ').next().unwrap_or_default().to_owned()
}

#[test]
fn every_row_of_the_table_is_decided_as_it_says() {
    let rows = rows();
    let mut wrong = Vec::new();
    for row in &rows {
        for seed in 0..5 {
            let decision = row.decide(seed);
            if !row.agrees(decision) {
                wrong.push(format!("{row:?}: {decision}"));
            }
        }
    }
    println!("{} rows decided", rows.len());
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_table_reaches_every_stop_reason_that_a_decision_gives() {
    let reached: BTreeSet<_> = rows()
        .iter()
        .filter_map(|row| row.decide(0).stop_reason())
        .map(|reason| variant(format!("{reason:?}")))
        .collect();
    let expected = [
        "AttemptsExhausted",
        "Completed",
        "DeadlineWouldPass",
        "NotIdempotent",
        "Permanent",
        "ServerDelayTooLong",
        "ServerRefused",
    ];
    assert_eq!(reached.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn no_case_stands_twice() {
    let mut seen = BTreeSet::new();
    for row in rows() {
        let case = (row.outcome, row.class, row.attempt, row.policy);
        assert!(seen.insert(case), "{case:?}");
    }
}
