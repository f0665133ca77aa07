//! The policy against conformance data that was drawn from the standards, registries and vendor
//! pages: `tests/data/*.json`. Every case runs; a case that the data marks as open may be decided
//! otherwise only if it is listed here with the reason.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, Method, StatusCode};
use reqwest_typed_retry::test_util::seeded_jitter;
use reqwest_typed_retry::{
    Attempt, Backoff, Jitter, Outcome, PolicyError, RetryDecision, RetryPolicy, RetryableMethod,
    StopReason, retry_after,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Open cases that we decide otherwise than the data: id and reason. None so far.
const DECIDED_OTHERWISE: &[(&str, &str)] = &[];

/// Runs `check` on each case of a file, and says how many ran.
fn run<T: DeserializeOwned>(file: &str, json: &str, check: impl Fn(&T) -> Result<(), String>) {
    #[derive(Deserialize)]
    struct Common {
        id: String,
        #[serde(default)]
        open: bool,
    }
    let cases: Vec<serde_json::Value> = serde_json::from_str(json).unwrap();
    let mut failures = Vec::new();
    let (mut binding, mut open, mut otherwise) = (0, 0, 0);
    for case in &cases {
        let Common { id, open: is_open } = Common::deserialize(case).unwrap();
        let listed = DECIDED_OTHERWISE.iter().any(|(listed, _)| *listed == id);
        assert!(is_open || !listed, "{file}: {id} is binding, it can't be decided otherwise");
        let result = check(&T::deserialize(case).unwrap());
        match (result, listed) {
            (Ok(()), false) if is_open => open += 1,
            (Ok(()), false) => binding += 1,
            (Err(_), true) => otherwise += 1,
            (Ok(()), true) => failures.push(format!("{id}: is listed as decided otherwise")),
            (Err(difference), false) => failures.push(format!("{id}: {difference}")),
        }
    }
    println!(
        "{file}: {} cases ran: {binding} binding, {open} open, {otherwise} open and decided otherwise",
        cases.len()
    );
    assert!(!cases.is_empty(), "{file} has no cases");
    assert!(failures.is_empty(), "{file}: {} differ:\n{}", failures.len(), failures.join("\n"));
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, actual: T, expected: T) -> Result<(), String> {
    if actual == expected {
        Ok(())
    } else {
        Err(format!("{what} is {actual:?}, expected {expected:?}"))
    }
}

#[derive(Deserialize)]
struct MethodCase {
    method: String,
    idempotent: bool,
    auto_retry_default: bool,
}

#[test]
fn methods_have_the_class_of_the_registry() {
    run("method_safety.json", include_str!("data/method_safety.json"), |case: &MethodCase| {
        let method: Method = case.method.parse().unwrap();
        let class = RetryPolicy::default().method_class(&method, &HeaderMap::new());
        let repeatable = class == RetryableMethod::Idempotent;
        same("repeatable", repeatable, case.auto_retry_default)?;
        // The only method that is registered as idempotent and never sent again.
        same("idempotent", repeatable || case.method == "PRI", case.idempotent)
    });
}

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
    run("status.json", include_str!("data/status.json"), check);
}

#[derive(Deserialize)]
struct BackoffCase {
    kind: String,
    base_ms: u64,
    factor: f64,
    max_ms: u64,
    retry: u32,
    jitter: String,
    prev_ms: Option<u64>,
    #[serde(default)]
    tolerance_ms: u64,
    expected: ExpectedDelay,
}

#[derive(Deserialize)]
struct ExpectedDelay {
    #[serde(default)]
    invalid_config: bool,
    delay_ms: Option<u64>,
    envelope_ms: Option<(u64, u64)>,
}

impl BackoffCase {
    fn backoff(&self) -> Result<Backoff, PolicyError> {
        let (base, max) = (Duration::from_millis(self.base_ms), Duration::from_millis(self.max_ms));
        match self.kind.as_str() {
            "exponential" => Backoff::exponential(base, max)?.with_factor(self.factor),
            "linear" => Backoff::linear(base, max),
            "constant" => Ok(Backoff::constant(base)),
            "decorrelated" => Backoff::decorrelated(base, max),
            kind => panic!("unknown kind {kind}"),
        }
    }

    fn jitter(&self) -> Jitter {
        match self.jitter.as_str() {
            "none" => Jitter::None,
            "full" => Jitter::Full,
            "equal" => Jitter::Equal,
            "proportional20" => Jitter::proportional(0.2).unwrap(),
            jitter => panic!("unknown jitter {jitter}"),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

#[test]
fn delays_follow_the_schedule_and_stay_in_its_envelope() {
    run("backoff.json", include_str!("data/backoff.json"), |case: &BackoffCase| {
        let backoff = case.backoff();
        same("refused", backoff.is_err(), case.expected.invalid_config)?;
        let Ok(backoff) = backoff else { return Ok(()) };
        let near = |what: &str, actual: Duration, expected: u64| {
            let off = millis(actual).abs_diff(expected);
            if off <= case.tolerance_ms {
                Ok(())
            } else {
                Err(format!("{what} is {actual:?}, expected {expected} ms"))
            }
        };
        if let Some(expected) = case.expected.delay_ms {
            near("delay", backoff.delay(case.retry), expected)?;
        }
        let previous = case.prev_ms.map(Duration::from_millis);
        let envelope = backoff.envelope(case.retry, previous, case.jitter());
        let (least, most) = case.expected.envelope_ms.unwrap();
        near("least", *envelope.start(), least)?;
        near("most", *envelope.end(), most)?;
        for seed in 0..50 {
            let rng = &mut seeded_jitter(seed);
            let drawn = backoff.draw(case.retry, previous, case.jitter(), rng);
            same("drawn inside", envelope.contains(&drawn), true)?;
        }
        Ok(())
    });
}

#[derive(Deserialize)]
struct RetryAfterCase {
    retry_after: Vec<String>,
    date: Option<String>,
    age: Option<String>,
    now: String,
    encoding: Option<String>,
    expected: ExpectedRetryAfter,
}

#[derive(Deserialize)]
struct ExpectedRetryAfter {
    delay_ms: Option<u64>,
    #[serde(default)]
    ignored: bool,
}

impl RetryAfterCase {
    fn bytes(&self, text: &str) -> Vec<u8> {
        match self.encoding.as_deref() {
            Some("latin1") => text.chars().map(|char| u8::try_from(char).unwrap()).collect(),
            Some(encoding) => panic!("unknown encoding {encoding}"),
            None => text.as_bytes().to_vec(),
        }
    }

    /// RFC 3339 in UTC, read by way of the HTTP-date of the same second.
    fn now(&self) -> SystemTime {
        let (date, time) = self.now.trim_end_matches('Z').split_once('T').unwrap();
        let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
        let [year, month, day] = date.split('-').collect::<Vec<_>>().try_into().unwrap();
        let months = "JanFebMarAprMayJunJulAugSepOctNovDec";
        let month = 3 * (month.parse::<usize>().unwrap() - 1);
        let weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
        let seconds = weekdays.iter().find_map(|weekday| {
            let month = months.get(month..month + 3)?;
            httpdate::parse_http_date(&format!("{weekday}, {day} {month} {year} {time} GMT")).ok()
        });
        let fraction = format!("0.{fraction}").parse().unwrap();
        seconds.unwrap() + Duration::from_secs_f64(fraction)
    }
}

#[test]
fn retry_after_is_read_as_the_standards_say() {
    run("retry_after.json", include_str!("data/retry_after.json"), |case: &RetryAfterCase| {
        let lines: Vec<_> = case.retry_after.iter().map(|line| case.bytes(line)).collect();
        let field = |text: &Option<String>| text.as_ref().map(|text| case.bytes(text));
        let delay = retry_after(
            lines.iter().map(Vec::as_slice),
            field(&case.date).as_deref(),
            field(&case.age).as_deref(),
            case.now(),
        );
        assert_eq!(case.expected.ignored, case.expected.delay_ms.is_none());
        same("delay in ms", delay.map(millis), case.expected.delay_ms)
    });
}

#[test]
fn the_files_are_those_we_think_they_are() {
    let count = |json: &str| serde_json::from_str::<Vec<serde_json::Value>>(json).unwrap().len();
    let counts = BTreeMap::from([
        ("backoff", count(include_str!("data/backoff.json"))),
        ("method_safety", count(include_str!("data/method_safety.json"))),
        ("retry_after", count(include_str!("data/retry_after.json"))),
        ("status", count(include_str!("data/status.json"))),
    ]);
    let expected = [("backoff", 66), ("method_safety", 63), ("retry_after", 174), ("status", 70)];
    assert_eq!(counts, BTreeMap::from(expected));
}
