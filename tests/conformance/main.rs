//! The policy against conformance data that was drawn from the standards, registries and vendor
//! pages: `tests/data/*.json`. Every case runs; a case that the data marks as open may be decided
//! otherwise only if it is listed here with the reason.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod backoff;
mod hints;
mod methods;
mod retry_after;
mod statuses;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde::de::DeserializeOwned;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// Open cases that we decide otherwise than the data: file, id and reason.
const DECIDED_OTHERWISE: &[(&str, &str, &str)] = &[
    (
        "server_hints.json",
        "gh-secondary-no-header",
        "the limit is told in the body alone, which a profile does not read: a classifier can",
    ),
    (
        "server_hints.json",
        "openai-go-duration",
        "the reset of a quota says how long, not whether: 429 is transient by the policy's own list",
    ),
    ("server_hints.json", "openai-go-duration-ms", "as openai-go-duration"),
    ("server_hints.json", "anthropic-rfc3339", "as openai-go-duration"),
    (
        "server_hints.json",
        "anthropic-429-no-hint",
        "a field that is missing is a weak sign of a spent budget, and the vendor's own SDK retries",
    ),
];

/// Runs `check` on each case of a file, and says how many ran.
fn run<T: DeserializeOwned>(file: &str, json: &str, check: impl Fn(&T) -> Result<(), String>) {
    #[derive(Deserialize)]
    struct Common {
        id: String,
        #[serde(default)]
        open: bool,
    }
    let cases: Vec<serde_json::Value> = serde_json::from_str(json).unwrap();
    let mut expected_otherwise: BTreeSet<_> =
        DECIDED_OTHERWISE.iter().filter(|(of, ..)| *of == file).map(|(_, id, _)| *id).collect();
    let mut failures = Vec::new();
    let (mut binding, mut open, mut otherwise) = (0, 0, 0);
    for case in &cases {
        let Common { id, open: is_open } = Common::deserialize(case).unwrap();
        let listed = expected_otherwise.remove(id.as_str());
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
    assert!(expected_otherwise.is_empty(), "{file} has no {expected_otherwise:?}");
    assert!(failures.is_empty(), "{file}: {} differ:\n{}", failures.len(), failures.join("\n"));
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, actual: T, expected: T) -> Result<(), String> {
    if actual == expected {
        Ok(())
    } else {
        Err(format!("{what} is {actual:?}, expected {expected:?}"))
    }
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

/// RFC 3339 in UTC, read by way of the HTTP-date of the same second.
fn instant(text: &str) -> SystemTime {
    let (date, time) = text.trim_end_matches('Z').split_once('T').unwrap();
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

#[test]
fn the_files_are_those_we_think_they_are() {
    let count = |json: &str| serde_json::from_str::<Vec<serde_json::Value>>(json).unwrap().len();
    let counts = BTreeMap::from([
        ("backoff", count(include_str!("../data/backoff.json"))),
        ("method_safety", count(include_str!("../data/method_safety.json"))),
        ("retry_after", count(include_str!("../data/retry_after.json"))),
        ("server_hints", count(include_str!("../data/server_hints.json"))),
        ("status", count(include_str!("../data/status.json"))),
    ]);
    let expected = [
        ("backoff", 66),
        ("method_safety", 63),
        ("retry_after", 174),
        ("server_hints", 67),
        ("status", 70),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
}
