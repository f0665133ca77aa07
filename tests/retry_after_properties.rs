//! What holds for every Retry-After field, whatever its bytes: `retry_after` against random fields,
//! dates and clocks. The single cases are in the conformance data.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails the test"
)]

use std::slice;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::FileFailurePersistence;
use reqwest_typed_retry::retry_after;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// 1900-01-01 and 9999-12-31 23:59:59, in seconds from the epoch.
#[cfg(not(target_arch = "wasm32"))]
const FIRST: i64 = -2_208_988_800;
/// No `SystemTime` of wasm is earlier.
#[cfg(target_arch = "wasm32")]
const FIRST: i64 = 0;
const LAST: i64 = 253_402_300_799;

fn at(seconds: i64, nanos: u32) -> SystemTime {
    let magnitude = Duration::from_secs(seconds.unsigned_abs());
    let second = if seconds < 0 { UNIX_EPOCH - magnitude } else { UNIX_EPOCH + magnitude };
    second + Duration::from_nanos(nanos.into())
}

fn clock() -> impl Strategy<Value = SystemTime> {
    (FIRST..=LAST, 0..1_000_000_000_u32).prop_map(|(seconds, nanos)| at(seconds, nanos))
}

/// A date from 1970 on in its three forms, made from the one that httpdate can write.
fn forms(seconds: i64) -> [String; 3] {
    let imf_fixdate = httpdate::fmt_http_date(at(seconds, 0));
    let words: Vec<&str> = imf_fixdate.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let &[weekday, day, month, year, time, zone] = &words[..] else { panic!("{words:?}") };
    let rest_of_weekday = match weekday {
        "Tue" => "s",
        "Wed" => "nes",
        "Thu" => "rs",
        "Sat" => "ur",
        _ => "",
    };
    let day_of_month: u8 = day.parse().unwrap();
    [
        format!("{weekday}{rest_of_weekday}day, {day}-{month}-{} {time} {zone}", &year[2..]),
        format!("{weekday} {month} {day_of_month:2} {time} {year}"),
        imf_fixdate,
    ]
}

/// Bytes of any kind, and near misses: valid values with one byte changed, put in or taken out.
fn line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..40),
        "[0-9 \t+.,-]{0,24}".prop_map(String::into_bytes),
        valid_line(),
        (valid_line(), any::<Index>(), any::<u8>(), 0..3_u8).prop_map(mangle),
    ]
}

fn valid_line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[0-9]{1,24}".prop_map(String::into_bytes),
        (0..=LAST, 0..3_usize)
            .prop_map(|(seconds, form)| forms(seconds)[form].clone().into_bytes()),
    ]
}

fn mangle((mut line, place, byte, how): (Vec<u8>, Index, u8, u8)) -> Vec<u8> {
    let place = place.index(line.len());
    match how {
        0 => line[place] = byte,
        1 => line.insert(place, byte),
        _ => drop(line.remove(place)),
    }
    line
}

fn delay_of(lines: &[Vec<u8>], now: SystemTime) -> Option<Duration> {
    retry_after(lines.iter().map(Vec::as_slice), None, None, now)
}

proptest! {
    #![proptest_config(ProptestConfig::with_failure_persistence(
        FileFailurePersistence::WithSource("regressions")
    ))]

    #[test]
    fn any_bytes_are_read_or_ignored(
        lines in vec(line(), 0..4),
        date in option::of(line()),
        age in option::of(line()),
        now in clock(),
    ) {
        let lines = lines.iter().map(Vec::as_slice);
        let _ = retry_after(lines, date.as_deref(), age.as_deref(), now);
    }

    #[test]
    fn a_string_of_digits_is_so_many_seconds(digits in "0{0,30}[0-9]{1,40}", now in clock()) {
        let significant = digits.trim_start_matches('0');
        let seconds = match significant.len() {
            0 => 0,
            1..=38 => significant.parse::<u128>().unwrap().try_into().unwrap_or(u64::MAX),
            _ => u64::MAX,
        };
        prop_assert_eq!(delay_of(&[digits.into_bytes()], now), Some(Duration::from_secs(seconds)));
    }

    #[test]
    fn the_three_forms_of_a_date_ask_for_the_same_delay(
        now in 0..240_000_000_000_i64, // to about 9575
        nanos in 0..1_000_000_000_u32,
        // Just inside 50 years to both sides.
        distance in -49 * 31_556_952_i64..49 * 31_556_952,
    ) {
        let date = (now + distance).max(0);
        let expected = at(date, 0).duration_since(at(now, nanos)).unwrap_or_default();
        for form in forms(date) {
            let delay = delay_of(&[form.clone().into_bytes()], at(now, nanos));
            prop_assert_eq!(delay, Some(expected), "{}", form);
        }
    }

    #[test]
    fn a_date_counts_from_the_date_of_the_response_whatever_the_clock_says(
        date in 0..=LAST,
        seconds in 0..=LAST,
        form in 1..3_usize, // not the one of two digits, whose century is the clock's
        age in option::of(prop_oneof![Just("0"), Just("-1"), Just("soon"), Just("")]),
        now in clock(),
    ) {
        let seconds = seconds.min(LAST - date);
        let (value, sent) = (&forms(date + seconds)[form], &forms(date)[form]);
        let age = age.map(str::as_bytes);
        let delay = retry_after([value.as_bytes()], Some(sent.as_bytes()), age, now);
        prop_assert_eq!(delay, Some(Duration::from_secs(seconds.unsigned_abs())));
    }

    #[test]
    fn the_longest_line_counts_in_any_order(
        (lines, shuffled) in vec(line(), 0..6).prop_flat_map(|lines| {
            (Just(lines.clone()), Just(lines).prop_shuffle())
        }),
        now in clock(),
    ) {
        let longest = lines.iter().filter_map(|line| delay_of(slice::from_ref(line), now)).max();
        prop_assert_eq!(delay_of(&lines, now), longest);
        prop_assert_eq!(delay_of(&shuffled, now), longest);
    }

    #[test]
    fn a_line_that_is_invalid_alone_changes_nothing(
        mut lines in vec(line(), 0..4),
        other in line(),
        place in any::<Index>(),
        now in clock(),
    ) {
        prop_assume!(delay_of(slice::from_ref(&other), now).is_none());
        let without = delay_of(&lines, now);
        lines.insert(place.index(lines.len() + 1), other);
        prop_assert_eq!(delay_of(&lines, now), without);
    }

    #[test]
    fn space_around_a_value_is_not_part_of_it(
        line in line(),
        before in "[ \t]{0,4}",
        after in "[ \t]{0,4}",
        now in clock(),
    ) {
        let padded = [before.as_bytes(), line.as_slice(), after.as_bytes()].concat();
        prop_assert_eq!(delay_of(&[padded], now), delay_of(&[line], now));
    }
}
