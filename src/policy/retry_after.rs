//! The Retry-After field.

use std::time::{Duration, SystemTime};

use super::http_date;

/// The delay that `Retry-After` asks for (RFC 9110 10.2.3): bytes in, delay out.
///
/// `values` are the field's lines, none to many; `date` and `age` the response's `Date` and `Age`;
/// `now` the client's wall clock when the response came in. `None` means that nothing usable was
/// asked; zero that the moment is already there, which is no call for a tight loop.
///
/// | value | delay |
/// |---|---|
/// | `delay-seconds` (`1*DIGIT`) | so many seconds from receipt, at most `u64::MAX` of them |
/// | `HTTP-date` in any of its three forms (5.6.7) | from the response's `Date` to that instant, zero if it is past |
/// | anything else | ignored: a fraction, a sign, a unit, a comma, another date format |
///
/// - A valid `Date` is the server's own clock, so the difference holds whatever the client's clock
///   says. `now` takes its place, to the nanosecond, if there is none or if the response was stored
///   (a valid `Age` above zero): its `Date` is that of an earlier moment.
/// - Dates are as strict as their grammar: case, widths, single spaces, a year from 1900 on. Yet
///   the weekday may disagree, 23:59:60 is the next midnight, and a two-digit year is the latest
///   one that is not more than 50 years after `now`.
/// - Spaces and tabs around a value are not part of it (5.5).
/// - The field is a singleton. If it comes in several lines all the same, the longest valid delay
///   counts: too early is the worse mistake.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use reqwest_typed_retry::retry_after;
///
/// let now = SystemTime::now();
/// let secs = |secs| Some(Duration::from_secs(secs));
/// assert_eq!(retry_after([&b"120"[..]], None, None, now), secs(120));
///
/// // The server's clock is wrong by decades, its difference isn't.
/// let date = Some(&b"Thu, 01 Jan 1970 00:00:10 GMT"[..]);
/// let value = &b"Thu, 01 Jan 1970 00:01:10 GMT"[..];
/// assert_eq!(retry_after([value], date, None, now), secs(60));
///
/// assert_eq!(retry_after([&b"soon"[..], b"60", b"30"], None, None, now), secs(60));
/// assert_eq!(retry_after([&b"1.5"[..]], None, None, now), None);
/// ```
#[must_use]
pub fn retry_after<'a>(
    values: impl IntoIterator<Item = &'a [u8]>,
    date: Option<&[u8]>,
    age: Option<&[u8]>,
    now: SystemTime,
) -> Option<Duration> {
    let delay = |value| {
        let seconds = delay_seconds(value).map(Duration::from_secs);
        seconds.or_else(|| Some(http_date::parse(value, now)?.saturating_sub(sent(date, age, now))))
    };
    values.into_iter().map(trim_ows).filter_map(delay).max()
}

/// The moment against which the response's dates are read, on the scale of [`http_date::since_1570`].
pub(super) fn sent(date: Option<&[u8]>, age: Option<&[u8]>, now: SystemTime) -> Duration {
    let date = date.filter(|_| !is_stored(age));
    let sent = date.and_then(|date| http_date::parse(trim_ows(date), now));
    sent.unwrap_or_else(|| http_date::since_1570(now))
}

/// Whether `Age` says that the response comes from a cache (RFC 9111 5.1), so that what it tells
/// about "now" is out of date. An `Age` that does not parse is ignored.
pub(super) fn is_stored(age: Option<&[u8]>) -> bool {
    age.and_then(|age| delay_seconds(trim_ows(age))).is_some_and(|seconds| seconds > 0)
}

/// A value without the spaces and tabs around it (RFC 9110 5.5). Nothing else is whitespace there.
pub(super) fn trim_ows(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// `1*DIGIT`. Saturates: who asks for more than fits asks for a very long time, not for none.
pub(super) fn delay_seconds(value: &[u8]) -> Option<u64> {
    let digits = Some(value).filter(|value| !value.is_empty())?;
    digits.iter().try_fold(0_u64, |seconds, byte| {
        let digit = byte.is_ascii_digit().then(|| byte - b'0')?;
        Some(seconds.saturating_mul(10).saturating_add(digit.into()))
    })
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    /// 2026-11-29 12:00:00 and a quarter of a second.
    const NOW: Duration = Duration::from_millis(1_795_953_600_250);

    fn asked(values: &[&str], date: Option<&str>, age: Option<&str>) -> Option<Duration> {
        retry_after(
            values.iter().map(|value| value.as_bytes()),
            date.map(str::as_bytes),
            age.map(str::as_bytes),
            SystemTime::UNIX_EPOCH + NOW,
        )
    }

    #[test]
    fn each_value_gives_its_delay() {
        for (label, value, expected) in [
            ("seconds", "120", Some(120_000)),
            ("zero", "0", Some(0)),
            ("leading zeros", "0120", Some(120_000)),
            ("space and tab around", "\t 120 \t", Some(120_000)),
            ("date", "Sun, 29 Nov 2026 12:02:00 GMT", Some(119_750)),
            ("date with space around", " Sun, 29 Nov 2026 12:02:00 GMT ", Some(119_750)),
            ("rfc850 date", "Sunday, 29-Nov-26 12:02:00 GMT", Some(119_750)),
            ("asctime date", "Sun Nov 29 12:02:00 2026", Some(119_750)),
            ("past date", "Sun, 29 Nov 2026 12:00:00 GMT", Some(0)),
            ("date before the epoch", "Wed, 31 Dec 1969 23:59:59 GMT", Some(0)),
            ("empty", "", None),
            ("blank", " \t ", None),
            ("plus", "+1", None),
            ("minus", "-1", None),
            ("fraction", "1.5", None),
            ("list", "1, 2", None),
            ("inner space", "1 2", None),
            ("line feed is no OWS", "1\n", None),
            ("nor is it before the value", "\n1", None),
            ("no-break space is no OWS", "\u{a0}1", None),
            ("other digits", "\u{661}", None),
        ] {
            assert_eq!(
                asked(&[value], None, None),
                expected.map(Duration::from_millis),
                "{label}: {value:?}"
            );
        }
    }

    #[test]
    fn seconds_saturate() {
        for value in ["18446744073709551615", "18446744073709551616", &"9".repeat(400)] {
            assert_eq!(asked(&[value], None, None), Some(Duration::from_secs(u64::MAX)), "{value}");
        }
    }

    #[test]
    fn the_longest_valid_line_counts() {
        for (label, values, expected) in [
            ("no line", &[][..], None),
            ("ascending", &["120", "240"], Some(240_000)),
            ("descending", &["240", "120"], Some(240_000)),
            ("one bad", &["soon", "60"], Some(60_000)),
            ("all bad", &["soon", "-5"], None),
            ("seconds and a date", &["30", "Sun, 29 Nov 2026 12:01:30 GMT"], Some(89_750)),
        ] {
            assert_eq!(
                asked(values, None, None),
                expected.map(Duration::from_millis),
                "{label}: {values:?}"
            );
        }
    }

    #[test]
    fn a_date_counts_from_the_date_of_a_fresh_response() {
        let value = "Sun, 29 Nov 2026 12:10:30 GMT";
        let date = "Sun, 29 Nov 2026 12:10:00 GMT";
        for (label, date, age, expected) in [
            ("no date", None, None, 629_750),
            ("date", Some(date), None, 30_000),
            ("date with space around", Some("\tSun, 29 Nov 2026 12:10:00 GMT "), None, 30_000),
            ("rfc850 date", Some("Sunday, 29-Nov-26 12:10:00 GMT"), None, 30_000),
            ("later date", Some("Sun, 29 Nov 2026 13:10:00 GMT"), None, 0),
            (
                "date before the epoch",
                Some("Mon, 01 Jan 1900 00:00:00 GMT"),
                None,
                4_004_943_030_000,
            ),
            ("invalid date", Some("1796000000"), None, 629_750),
            ("age", Some(date), Some("300"), 629_750),
            ("age with space around", Some(date), Some(" 300\t"), 629_750),
            ("age of more than fits", Some(date), Some("99999999999999999999"), 629_750),
            ("age zero", Some(date), Some("00"), 30_000),
            ("invalid age", Some(date), Some("soon"), 30_000),
            ("negative age", Some(date), Some("-1"), 30_000),
            ("age without a date", None, Some("300"), 629_750),
        ] {
            assert_eq!(
                asked(&[value], date, age),
                Some(Duration::from_millis(expected)),
                "{label}: {date:?} {age:?}"
            );
        }
    }

    #[test]
    fn both_dates_may_be_before_the_epoch() {
        let delay =
            asked(&["Thu, 01 Jan 1970 00:01:00 GMT"], Some("Wed, 31 Dec 1969 23:59:00 GMT"), None);
        assert_eq!(delay, Some(Duration::from_secs(120)));
    }

    #[test]
    fn seconds_count_from_receipt_whatever_date_and_age_say() {
        let delay = asked(&["90"], Some("Sun, 29 Nov 2026 09:00:00 GMT"), Some("600"));
        assert_eq!(delay, Some(Duration::from_secs(90)));
    }
}
