//! How long the waits are, and what a server can ask for.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::header::RETRY_AFTER;

use super::page::Page;
use crate::policy::delay_hint::Gate;
use crate::policy::profile::RATE_LIMIT;
use crate::policy::{Backoff, DelayHint, HintUnit, Jitter, RetryPolicy, ServerDelays, constants};

/// So many resends are shown one by one; of more only the last one besides.
const SHOWN: u32 = 5;

pub(super) fn how_long_it_waits(page: &mut Page, policy: &RetryPolicy, has_classifiers: bool) {
    page.heading("How long it waits");
    if !policy.attempts_left(1) {
        page.paragraph("Nothing is sent again, so nothing is waited for.");
        return;
    }
    waits(page, policy);
    server_delays(page, policy, has_classifiers);
}

/// One column for all waits, or a second one for those after a 429.
fn waits(page: &mut Page, policy: &RetryPolicy) {
    let rules = policy.rules();
    let mut head = vec!["before".to_owned(), "wait".to_owned()];
    let mut backoffs = vec![&rules.backoff];
    if rules.throttle_backoff != rules.backoff {
        head.push("wait after a 429".to_owned());
        backoffs.push(&rules.throttle_backoff);
    }
    let resends = policy.max_attempts().map(|max| max.get() - 1);
    let mut rows = Vec::new();
    let mut is_random = false;
    let mut row = |label: String, retry| {
        let intervals = backoffs.iter().map(|backoff| envelope(backoff, retry, rules.jitter));
        let intervals: Vec<_> = intervals.collect();
        is_random |= intervals.iter().any(|interval| interval.start() != interval.end());
        std::iter::once(label).chain(intervals.iter().map(interval_text)).collect()
    };
    let of = resends.map(|resends| format!(" of {resends}")).unwrap_or_default();
    for retry in 1..=resends.unwrap_or(SHOWN).min(SHOWN) {
        rows.push(row(format!("resend {retry}{of}"), retry));
    }
    let more = |cell: &dyn Fn(&&Backoff) -> String, label: String| -> Vec<String> {
        std::iter::once(label).chain(backoffs.iter().map(cell)).collect()
    };
    match resends {
        None => {
            let longest = |backoff: &&Backoff| format!("at most {:?}", backoff.max_delay());
            rows.push(more(&longest, "every later one".to_owned()));
        }
        Some(last) if last > SHOWN => {
            if last > SHOWN + 1 {
                rows.push(more(&|_| "...".to_owned(), "...".to_owned()));
            }
            rows.push(row(format!("resend {last}{of}"), last));
        }
        Some(_) => {}
    }
    let drawn = if is_random {
        "Each wait is drawn at random from its interval."
    } else {
        "The waits are exact, without jitter."
    };
    let columns = head.iter().skip(1).zip(&backoffs);
    let follow = columns.filter(|(_, backoff)| follows_previous(backoff));
    let follow: Vec<_> = follow.map(|(column, _)| format!("\"{column}\"")).collect();
    let follow = if follow.is_empty() {
        String::new()
    } else {
        format!(
            " In the column {} it is also at most three times as long as the wait before it, if that is more \
             than the shortest.",
            follow.join(" and the column ")
        )
    };
    page.paragraph(&format!("{drawn}{follow}"));
    page.table(&head, &rows);
}

/// The wait before it is not known: it may have been a server's, of any length.
fn envelope(backoff: &Backoff, retry: u32, jitter: Jitter) -> RangeInclusive<Duration> {
    let previous = (retry > 1).then_some(Duration::MAX);
    backoff.envelope(retry, previous, jitter)
}

fn follows_previous(backoff: &Backoff) -> bool {
    let after = |previous| backoff.envelope(2, Some(previous), Jitter::None);
    after(Duration::ZERO) != after(Duration::MAX)
}

fn interval_text(interval: &RangeInclusive<Duration>) -> String {
    let (start, end) = (interval.start(), interval.end());
    match (start == end, start.is_zero()) {
        (true, true) => "0s".to_owned(),
        (true, false) => format!("{end:?}"),
        (false, true) => format!("0s to {end:?}"),
        (false, false) => format!("{start:?} to {end:?}"),
    }
}

fn server_delays(page: &mut Page, policy: &RetryPolicy, has_classifiers: bool) {
    let rules = policy.rules();
    let spread = spread(rules.jitter);
    let beyond = match rules.server_delays {
        ServerDelays::Ignored => {
            page.paragraph(
                "A delay that the server asks for is ignored: no response field is read for it.",
            );
            if has_classifiers {
                page.paragraph(&format!(
                    "A delay that a classifier asks for takes the place of these waits, whatever its length: \
                     {spread}."
                ));
            }
            return;
        }
        ServerDelays::UpTo(limit) => format!(
            "If it is longer than {limit:?}, the request is not sent again (server_delay_too_long)."
        ),
        ServerDelays::ClampedTo(limit) => format!(
            "If it is longer than {limit:?}, only {limit:?} are waited, so that the resend may come too \
             early."
        ),
    };
    page.paragraph(&format!(
        "A delay that the server asks for takes the place of these waits: {spread}. {beyond} Zero, or an \
         instant that has passed, sets no minimum: the waits above hold."
    ));
    if has_classifiers {
        page.paragraph(
            "A delay that a classifier asks for comes before it and is treated like it.",
        );
    }
    page.paragraph("The delay is that of the first of these response fields that has a valid one:");
    let hint = |hint: &DelayHint| hint_text(page, hint);
    let mut fields: Vec<_> = rules.profile.hints_before.iter().map(hint).collect();
    fields.push(format!("{}: whole seconds, or an HTTP date", page.code(RETRY_AFTER.as_str())));
    let quota = page.code(RATE_LIMIT.as_str());
    fields.push(format!("{quota}: whole seconds, of a quota that is used up (IETF draft)"));
    fields.extend(rules.profile.hints_after.iter().map(hint));
    page.numbered(&fields);
    let (last, count) = (fields.len(), rules.profile.hints_after.len());
    if count > 1 {
        page.paragraph(&format!("Of those from {} on, the longest counts.", last - count + 1));
    }
}

fn spread(jitter: Jitter) -> String {
    let asked = constants::MAX_SERVER_DELAY;
    if jitter.stretch(asked) == (asked..=asked) {
        return "it is waited exactly".to_owned();
    }
    let percent = 100 / constants::SERVER_DELAY_SPREAD_DIVISOR;
    let most = constants::MAX_SERVER_DELAY_SPREAD;
    format!("it is waited in full, and up to {percent}% more at random (at most {most:?} more)")
}

fn hint_text(page: &Page, hint: &DelayHint) -> String {
    let condition = match &hint.gate {
        None => String::new(),
        Some(Gate::Is { field, value }) => {
            let value = page.code(&format!("\"{}\"", value.escape_default()));
            format!("; only if {} is {value}", page.code(field.as_str()))
        }
        Some(Gate::NoneLeft { field }) => {
            format!("; only if {} is 0 or absent", page.code(field.as_str()))
        }
    };
    format!("{}: {}{condition}", page.code(hint.field.as_str()), unit_text(hint.unit))
}

fn unit_text(unit: HintUnit) -> &'static str {
    match unit {
        HintUnit::Seconds => "whole seconds",
        HintUnit::DecimalSeconds => "seconds, with a fraction or without",
        HintUnit::Millis => "milliseconds",
        HintUnit::EpochSeconds => "an instant in seconds since 1970",
        HintUnit::EpochMillis => "an instant in milliseconds since 1970",
        HintUnit::Rfc3339 => "an instant as RFC 3339 writes it",
        HintUnit::GoDuration => "a duration as Go prints it, such as 6m0s",
    }
}
