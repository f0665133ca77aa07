//! The delays that vendors tell in fields of their own, of every absurd size.

use std::time::Duration;

use http::HeaderName;
use reqwest_typed_retry::{ApiProfile, DelayHint, HintUnit};

use crate::delays::{Asked, FOR_EVER, LONG, NOW, Row, check, seconds};

/// What a number saturates at.
const MAX: Asked = Asked::For(Duration::MAX);

/// From 1570, where our calendar begins, to now.
const SINCE_1570: u64 = 12_622_780_800 + NOW;

fn millis(millis: u64) -> Asked {
    Asked::For(Duration::from_millis(millis))
}

const NO_NUMBERS: [&str; 12] =
    ["", "-1", "-0", "+1", "1e9", "1e400", "NaN", "inf", "1,000", "0x10", "1.", ".5"];

#[test]
fn retry_after_ms() {
    let row = |value: &str, asked| Row::new([("retry-after-ms", value.to_owned())], asked);
    let rows = NO_NUMBERS.into_iter().map(|value| row(value, Asked::Nothing)).chain([
        row("0", Asked::Now),
        row("0.0", Asked::Now),
        row("0.0000000000000000000000000000001", millis(1)),
        row(&format!("1.{}", "9".repeat(LONG)), millis(2)),
        row("60000", seconds(60)),
        row("60000.0000001", millis(60_001)),
        row("2147483648", millis(1 << 31)),
        row("4294967296", millis(1 << 32)),
        row("18446744073709551615", millis(u64::MAX)),
        row("340282366920938463463374607431768211456", MAX),
        row(&"9".repeat(LONG), MAX),
        // What it does not say is for the standard field to say.
        Row::new([("retry-after", "61"), ("retry-after-ms", "1e9")], seconds(61)),
        Row::new([("retry-after", "61"), ("retry-after-ms", "7")], millis(7)),
        Row::new([("retry-after", "1"), ("retry-after-ms", "99999999")], millis(99_999_999)),
        Row::new([("retry-after-ms", "7"); 900], millis(7)),
    ]);
    let rows: Vec<_> = rows.collect();
    check(&ApiProfile::openai(), &rows);
    check(&ApiProfile::azure(), &rows);
    let row = |value: &str, asked| Row::new([("x-ms-retry-after-ms", value.to_owned())], asked);
    check(&ApiProfile::azure(), &[row("1e9", Asked::Nothing), row(&"9".repeat(400), MAX)]);
}

#[test]
fn the_durations_of_quotas_that_are_used_up() {
    let row = |value: &str, asked| {
        let left = ("x-ratelimit-remaining-requests", "0".to_owned());
        Row::new([left, ("x-ratelimit-reset-requests", value.to_owned())], asked)
    };
    let nines = "9".repeat(400);
    let rows = NO_NUMBERS.into_iter().map(|value| row(value, Asked::Nothing)).chain([
        row("1e9s", Asked::Nothing),
        row("-1s", Asked::Nothing),
        row("1d", Asked::Nothing),
        row("1w2d3h", Asked::Nothing),
        row("NaNs", Asked::Nothing),
        row("1s ", seconds(1)),
        row("0s", Asked::Now),
        row("9223372036854775807ns", Asked::For(Duration::from_nanos(i64::MAX as u64))),
        row("18446744073709551616s", MAX),
        row(&format!("{nines}h"), MAX),
        row(&format!("{nines}h{nines}h{nines}.{nines}ns"), MAX),
        row(&"1h".repeat(LONG), seconds(3_600 * LONG as u64)),
        row(&"1h.".repeat(LONG), Asked::Nothing),
        row(&format!("{}5x", "1ns".repeat(LONG)), Asked::Nothing),
        // There is quota left.
        Row::new(
            [("x-ratelimit-remaining-requests", "1"), ("x-ratelimit-reset-requests", "9h")],
            Asked::Nothing,
        ),
        Row::new(
            [("x-ratelimit-reset-requests", "9h")].into_iter().chain(
                [("x-ratelimit-remaining-requests", "0"); 500]
                    .into_iter()
                    .chain([("x-ratelimit-remaining-requests", "")]),
            ),
            Asked::Nothing,
        ),
    ]);
    check(&ApiProfile::openai(), &rows.collect::<Vec<_>>());
}

#[test]
fn the_instants_of_quotas_that_are_used_up() {
    let row = |value: &str, asked| {
        let left = ("anthropic-ratelimit-tokens-remaining", "0".to_owned());
        Row::new([left, ("anthropic-ratelimit-tokens-reset", value.to_owned())], asked)
    };
    const LAST: u64 = 253_402_300_799;
    let rows = NO_NUMBERS.into_iter().map(|value| row(value, Asked::Nothing)).chain([
        row("0000-01-01T00:00:00Z", Asked::Nothing),
        row("1899-12-31T23:59:59Z", Asked::Nothing),
        row("10000-01-01T00:00:00Z", Asked::Nothing),
        row("275760-09-13T00:00:00Z", Asked::Nothing),
        row("+275760-09-13T00:00:00Z", Asked::Nothing),
        row("2026-11-29T12:00:60Z", Asked::Nothing),
        row("2026-11-29T12:00:20+99:99", Asked::Nothing),
        row("2026-11-2\u{e9}T12:00:20Z", Asked::Nothing),
        row("1900-01-01T00:00:00+23:59", Asked::Now),
        row("1969-12-31T23:59:60Z", Asked::Now),
        row("2026-11-29T23:59:60Z", seconds(12 * 3_600)),
        row("9999-12-31T23:59:59Z", seconds(LAST - NOW)),
        row("9999-12-31T23:59:60Z", seconds(LAST + 1 - NOW)),
        row("9999-12-31T23:59:59-23:59", seconds(LAST - NOW + 86_340)),
        row(&format!("2026-11-29T12:00:20.{}Z", "9".repeat(LONG)), seconds(21)),
        row(&format!("2026-11-29T12:00:20.{}", "9".repeat(LONG)), Asked::Nothing),
    ]);
    check(&ApiProfile::openai(), &rows.collect::<Vec<_>>());
}

#[test]
fn the_seconds_and_millis_since_1970() {
    let row = |value: &str, asked| Row::new([("x-ratelimit-reset", value.to_owned())], asked);
    let longest = Asked::For(Duration::MAX - Duration::from_secs(SINCE_1570));
    let rows = NO_NUMBERS.into_iter().map(|value| row(value, Asked::Nothing)).chain([
        row("0", Asked::Now),
        row("1795953600", Asked::Now),
        row("1795953600.000000000000000000000", Asked::Now),
        row("1795953600.001", millis(1)),
        row("1795953661", seconds(61)),
        row("4294967296", seconds((1 << 32) - NOW)),
        row("9223372036854775808", seconds((1 << 63) - NOW)),
        row("18446744073709551616", longest),
        row(&"9".repeat(LONG), longest),
        Row::new(
            [("x-ratelimit-remaining", "5000"), ("x-ratelimit-reset", "9999999999")],
            Asked::Nothing,
        ),
    ]);
    check(&ApiProfile::github(), &rows.collect::<Vec<_>>());

    let hint = DelayHint::new(HeaderName::from_static("x-ratelimit-reset"), HintUnit::EpochMillis);
    let profile = ApiProfile::standard().hint(hint);
    let longest = Asked::For(Duration::from_millis(u64::MAX) - Duration::from_secs(NOW));
    let rows = [
        row("-1", Asked::Nothing),
        row("1795953661000.5", Asked::Nothing),
        row("1795953661000", seconds(61)),
        row("18446744073709551616", longest),
        row(&"9".repeat(LONG), longest),
    ];
    check(&profile, &rows);
}

#[test]
fn the_rate_limit_field() {
    let row = |value: &str, asked| Row::new([("ratelimit", value.to_owned())], asked);
    let limits = |count, last: &str| {
        let list = vec![r#""q";r=0;t=1"#; count].join(", ");
        format!("{list}, {last}")
    };
    let params = (0..10_000).map(|number| format!(";p{number}=?1")).collect::<String>();
    let rows = [
        row(r#""q";r=0;t=0"#, Asked::Now),
        row(r#""q";r=0;t=61"#, seconds(61)),
        row(r#""q";r=0;t=999999999999999"#, seconds(999_999_999_999_999)),
        row(r#""q";r=0;t=9999999999999999"#, Asked::Nothing),
        row(&format!(r#""q";r=0;t={}"#, "9".repeat(LONG)), Asked::Nothing),
        row(r#""q";r=0;t=-1"#, Asked::Nothing),
        row(r#""q";r=0;t=1.5"#, Asked::Nothing),
        row(r#""q";r=0;t=NaN"#, Asked::Nothing),
        row(r#""q";r=1;t=61"#, Asked::Nothing),
        row(r#""q";r=0;t=61,"#, Asked::Nothing),
        row("\"q\u{e9}\";r=0;t=61", Asked::Nothing),
        row(&limits(10_000, r#""q";r=0;t=7"#), seconds(7)),
        row(&limits(10_000, r#""q";r=0;t=7;"#), Asked::Nothing),
        row(&format!(r#""q";r=0;t=7{params}"#), seconds(7)),
        row(&format!(r#""{}";r=0;t=7"#, "q".repeat(LONG)), seconds(7)),
        row(&format!(r#""q";r=0;t=7;x=:{}:"#, "QUJD".repeat(LONG)), seconds(7)),
        row(&"(".repeat(LONG), Asked::Nothing),
        Row::new([("ratelimit", r#""q";r=0;t=7"#); 900], seconds(7)),
        Row::new([("ratelimit", r#""q";r=0;t=999999999999999"#), ("retry-after", "7")], seconds(7)),
        Row::new(
            [("ratelimit", r#""q";r=0;t=7"#), ("retry-after", "99999999999999999999")],
            FOR_EVER,
        ),
    ];
    check(&ApiProfile::standard(), &rows);
}
