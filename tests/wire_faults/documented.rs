//! The table in the documentation of `fault_source` is that of the rows: no fault is in one of them
//! alone, and they say the same of each.

use std::collections::BTreeSet;
use std::time::SystemTime;

use http::Method;
use reqwest_typed_retry::{
    Attempt, Delivery, Fault, FaultSet, Outcome, RetryPolicy, RetryableMethod,
};

use crate::table::Row;

const DOCUMENTATION: &str = include_str!("../../src/fault_source/faults.md");

/// One line for each fault: `label: kind, delivery, transient, GET, POST, with a proof, with a key`.
type Lines = BTreeSet<String>;

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

fn line(label: &str, fault: Fault, resent: [&str; 4]) -> String {
    let is_transient = yes(FaultSet::transient().contains(fault.kind()));
    let delivery = match fault.delivery() {
        Delivery::NotProcessed => "not processed",
        _ => "unknown",
    };
    format!("{label}: {}, {delivery}, {is_transient}, {}", fault.kind(), resent.join(", "))
}

/// The one column that no row runs: every client there has a proof.
fn is_resent_unproven(fault: Fault) -> bool {
    let post = RetryableMethod::NonIdempotent;
    let (outcome, now) = (Outcome::fault(fault), SystemTime::UNIX_EPOCH);
    let attempt = Attempt::new(1, post, &Method::POST, outcome, now);
    RetryPolicy::default().decide(&attempt, &mut rand::rng()).delay().is_some()
}

fn of_rows(rows: &[Row]) -> Lines {
    let mut lines = Lines::new();
    for row in rows {
        for (fault, [get, proven, keyed]) in row.documents() {
            let resent = [yes(get), yes(is_resent_unproven(fault)), yes(proven), yes(keyed)];
            lines.insert(line(row.label(), fault, resent));
        }
        if let Some(kind) = row.cut_kind() {
            // The response has been handed out.
            lines.insert(line(row.label(), Fault::unknown(kind), ["–"; 4]));
        }
    }
    lines
}

fn of_documentation() -> Lines {
    let mut lines = Lines::new();
    for text in DOCUMENTATION.lines().filter(|line| line.starts_with('|')).skip(2) {
        let cells = text.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
        for label in cells[0].split(';').map(str::trim) {
            let is_new =
                lines.insert(format!("{label}: {}", cells[1..].join(", ").replace('`', "")));
            assert!(is_new, "{label} is there twice");
        }
    }
    lines
}

pub(crate) fn check(rows: &[Row]) {
    let (rows, documentation) = (of_rows(rows), of_documentation());
    let missing = rows.difference(&documentation).cloned().collect::<Vec<_>>();
    let wrong = documentation.difference(&rows).cloned().collect::<Vec<_>>();
    assert!(
        missing.is_empty() && wrong.is_empty(),
        "not in the documentation:\n{}\n\nin no row:\n{}",
        missing.join("\n"),
        wrong.join("\n")
    );
}
