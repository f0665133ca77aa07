//! One field in each unit.

use std::time::Duration;

use http::header::{AGE, DATE};
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use proptest::sample::select;
use reqwest_typed_retry::{ApiProfile, DelayHint, HintUnit};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::reference::{self, Asked};
use crate::values::{FIRST, LAST, clock, instant, offset, value};
use crate::{at, config};

const UNITS: [HintUnit; 7] = [
    HintUnit::Seconds,
    HintUnit::DecimalSeconds,
    HintUnit::Millis,
    HintUnit::EpochSeconds,
    HintUnit::EpochMillis,
    HintUnit::Rfc3339,
    HintUnit::GoDuration,
];

const FIELD: HeaderName = HeaderName::from_static("x-hint");

/// What a response with these fields asks for.
fn delay_in(unit: HintUnit, headers: &HeaderMap, now: (i64, u32)) -> Option<Duration> {
    ApiProfile::standard().hint(DelayHint::new(FIELD, unit)).server_delay(headers, at(now))
}

/// What a response whose only field is `value` asks for.
fn delay_of(unit: HintUnit, value: &[u8], now: (i64, u32)) -> Option<Duration> {
    let value = HeaderValue::from_bytes(value).unwrap();
    delay_in(unit, &HeaderMap::from_iter([(FIELD, value)]), now)
}

fn nanos(delay: Duration) -> i128 {
    delay.as_nanos().try_into().unwrap()
}

/// Nanoseconds from the epoch, below zero before it.
fn nanos_of((seconds, nanos): (i64, u32)) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanos)
}

/// The delay by the reference.
fn expected(unit: HintUnit, value: &[u8], now: (i64, u32)) -> Option<i128> {
    let trimmed = std::str::from_utf8(value).ok()?.trim_matches([' ', '\t']);
    Some(match reference::read(unit, trimmed.as_bytes())? {
        Asked::In(nanos) => nanos,
        Asked::At(instant) => (instant - nanos_of(now)).max(0),
    })
}

/// Up to here a delay is exact; one that is longer is at least so long.
fn exact_up_to(unit: HintUnit) -> i128 {
    match unit {
        HintUnit::Seconds => nanos(Duration::from_secs(u64::MAX)),
        HintUnit::EpochMillis => nanos(Duration::from_millis(u64::MAX / 2)),
        HintUnit::EpochSeconds => nanos(Duration::from_secs(u64::MAX / 2)),
        _ => nanos(Duration::MAX),
    }
}

/// How many nanoseconds more a value may come to: a fraction of an hour that is longer than 18 digits
/// is rounded up twice.
fn rounded_twice(unit: HintUnit, value: &[u8]) -> i128 {
    let fractions = value.split(|byte| *byte == b'.').skip(1);
    let is_long = |part: &&[u8]| part.iter().take_while(|byte| byte.is_ascii_digit()).count() > 18;
    match unit {
        HintUnit::GoDuration => fractions.filter(is_long).count().try_into().unwrap(),
        _ => 0,
    }
}

fn agrees(unit: HintUnit, value: &[u8], now: (i64, u32)) -> Result<(), TestCaseError> {
    let actual = delay_of(unit, value, now).map(nanos);
    let expected = expected(unit, value, now);
    let agrees = match (actual, expected) {
        (Some(actual), Some(expected)) if expected > exact_up_to(unit) => {
            actual >= exact_up_to(unit)
        }
        (Some(actual), Some(expected)) => {
            (expected..=expected + rounded_twice(unit, value)).contains(&actual)
        }
        (actual, expected) => actual == expected,
    };
    let value = value.escape_ascii();
    prop_assert!(agrees, "{unit:?} of {value} is {actual:?}, expected {expected:?}");
    Ok(())
}

/// `seconds` and `nanos` from the epoch on, in each unit that names an instant.
fn instants((seconds, nanos): (i64, u32), offset: i64) -> [(HintUnit, String, i128); 3] {
    let millis = nanos / 1_000_000;
    [
        (HintUnit::EpochSeconds, format!("{seconds}.{nanos:09}"), nanos_of((seconds, nanos))),
        (
            HintUnit::EpochMillis,
            format!("{seconds}{millis:03}"),
            nanos_of((seconds, millis * 1_000_000)),
        ),
        (
            HintUnit::Rfc3339,
            reference::rfc3339(seconds, nanos, offset, 9),
            nanos_of((seconds, nanos)),
        ),
    ]
}

/// From 1970 on, so that a number needs no sign.
fn unsigned_instant() -> impl Strategy<Value = (i64, u32)> {
    (0..=LAST - 86_400, 0..1_000_000_000_u32)
}

proptest! {
    #![proptest_config(config(4_000))]

    #[test]
    fn each_unit_reads_any_bytes_as_the_reference_does(value in value(), now in clock()) {
        for unit in UNITS {
            agrees(unit, &value, now)?;
        }
    }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn an_instant_in_rfc_3339_is_so_far_away_whatever_its_offset(
        (seconds, nanos) in instant(),
        offset in offset(),
        digits in 0..=9_usize,
        distance in -1_000_000_000..1_000_000_000_i64,
        now_nanos in 0..1_000_000_000_u32,
    ) {
        let unit = 10_u32.pow(u32::try_from(9 - digits).unwrap());
        let now = (seconds.saturating_add(distance).max(FIRST), now_nanos);
        let expected = nanos_of((seconds, nanos / unit * unit)) - nanos_of(now);
        let expected = u128::try_from(expected).unwrap_or(0);
        let text = reference::rfc3339(seconds, nanos, offset, digits);
        let delay = |text: &str| delay_of(HintUnit::Rfc3339, text.as_bytes(), now).map(|d| d.as_nanos());
        prop_assert_eq!(delay(&text), Some(expected), "{}", text);
        if let Some(text) = text.strip_suffix("+00:00") {
            prop_assert_eq!(delay(&format!("{text}z")), Some(expected), "{}z", text);
        }
    }

    #[test]
    fn a_later_instant_never_asks_for_a_shorter_delay(
        one in unsigned_instant(),
        other in prop_oneof![
            unsigned_instant().prop_map(Err),
            (-3_000_000_000..3_000_000_000_i64).prop_map(Ok),
        ],
        offsets in (offset(), offset()),
        now in clock(),
    ) {
        let other = match other {
            Ok(near) => {
                let near = (nanos_of(one) + i128::from(near)).max(0);
                let nanos = u32::try_from(near % 1_000_000_000).unwrap();
                (i64::try_from(near / 1_000_000_000).unwrap(), nanos)
            }
            Err(far) => far,
        };
        let (earlier, later) = (one.min(other), one.max(other));
        let pairs = instants(earlier, offsets.0).into_iter().zip(instants(later, offsets.1));
        for ((unit, earlier, _), (_, later, _)) in pairs {
            let delay = |value: &str| delay_of(unit, value.as_bytes(), now);
            prop_assert!(delay(&earlier).is_some());
            prop_assert!(delay(&earlier) <= delay(&later), "{} and {}", earlier, later);
        }
    }

    #[test]
    fn a_greater_number_never_asks_for_a_shorter_delay(
        one in "[0-9]{1,45}(\\.[0-9]{1,30})?",
        digit in "[0-9]",
        now in clock(),
    ) {
        // Ten times and more, or somewhat more behind the point.
        let greater = format!("{one}{digit}");
        for unit in [HintUnit::DecimalSeconds, HintUnit::Millis, HintUnit::EpochSeconds] {
            let delay = |value: &str| delay_of(unit, value.as_bytes(), now);
            prop_assert!(delay(&one) <= delay(&greater), "{:?} {} and {}", unit, one, greater);
        }
    }

    #[test]
    fn an_instant_counts_from_the_date_of_a_fresh_response_and_else_from_the_clock(
        instant in unsigned_instant(),
        offset in offset(),
        date in 0..=LAST,
        now in clock(),
        age in select(vec![None, Some("0"), Some("soon"), Some("1"), Some("40")]),
    ) {
        let is_stored = matches!(age, Some("1" | "40"));
        let sent = if is_stored { now } else { (date, 0) };
        for (unit, value, nanos_from_1970) in instants(instant, offset) {
            let mut headers = HeaderMap::from_iter([(FIELD, value.parse().unwrap())]);
            headers.insert(DATE, httpdate::fmt_http_date(at((date, 0))).parse().unwrap());
            if let Some(age) = age {
                headers.insert(AGE, HeaderValue::from_static(age));
            }
            let expected = (nanos_from_1970 - nanos_of(sent)).max(0);
            prop_assert_eq!(delay_in(unit, &headers, now).map(nanos), Some(expected));
        }
    }

    #[test]
    fn a_delay_is_the_same_whatever_the_clock_says(
        value in value(),
        clocks in (clock(), clock()),
    ) {
        for unit in
            [HintUnit::Seconds, HintUnit::DecimalSeconds, HintUnit::Millis, HintUnit::GoDuration]
        {
            prop_assert_eq!(delay_of(unit, &value, clocks.0), delay_of(unit, &value, clocks.1));
        }
    }
}

#[test]
fn a_number_that_no_duration_holds_is_a_very_long_time() {
    let powers = [
        "4294967295",
        "4294967296",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551614",
        "18446744073709551615",
        "18446744073709551616",
        "340282366920938463463374607431768211455",
        "340282366920938463463374607431768211456",
        "340282366920938463463374607431768211456000000000",
        // Where 128 bits begin anew: by the last digit, then as a count of nanoseconds, by unit.
        "340282366920938463463374607431768211460",
        "41538374868278621028243970633760768",
        "166153499473114484112975882535043072",
        "664613997892457936451903530140172288",
        "5316911983139663491615228241121378304",
    ];
    let clocks = [(0, 0), (FIRST, 1), (LAST, 999_999_999)];
    for number in powers {
        for (before, after) in
            [("", ""), ("", ".999999999"), ("", ".9999999999999999999999999999"), ("000", ".0")]
        {
            let number = format!("{before}{number}{after}");
            for now in clocks {
                for unit in UNITS {
                    agrees(unit, number.as_bytes(), now).unwrap();
                }
                for unit in ["ns", "us", "ms", "s", "m", "h", "h999999999999s", "h1ns"] {
                    let value = format!("{number}{unit}");
                    agrees(HintUnit::GoDuration, value.as_bytes(), now).unwrap();
                }
            }
        }
    }
}
