//! Instants as RFC 3339 writes them.

use std::iter;
use std::time::Duration;

use super::http_date;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The instant of a `date-time` (RFC 3339 5.6), on the scale of [`http_date::since_1570`]. As strict as
/// its grammar; years from 1900 on, as in HTTP dates, whose calendar this is. A fraction counts to the
/// nanosecond, rounded up.
pub(super) fn parse(value: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(value).ok()?;
    let (date, rest) = text.split_at_checked(10)?;
    let (time, rest) = rest.strip_prefix(['T', 't'])?.split_at_checked(8)?;
    let ([year, month, day], [hour, minute, second]) = (parts(date, '-')?, parts(time, ':')?);
    let [.., month_name] = MONTHS.get(..number(month, 2)?.into())? else { return None };
    let year = Some(number(year, 4)?).filter(|year| *year >= 1900)?;
    if [day, hour, minute, second].iter().any(|part| number(part, 2).is_none()) {
        return None;
    }
    // RFC 3339 5.7: 60 at a leap second, which ends a day of UTC, whatever the offset.
    let mut clock = <[u8; 8]>::try_from(time.as_bytes()).ok()?;
    let leap_second = u64::from(second == "60");
    if leap_second > 0 {
        clock[6..].copy_from_slice(b"59");
    }
    let clock = std::str::from_utf8(&clock).ok()?;
    let local = http_date::instant("", day, month_name, year, clock)?;

    let (fraction, offset) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?),
        None => ("0", rest),
    };
    let (sign, offset) = match offset {
        "Z" | "z" => ('+', "00:00"),
        _ => (offset.chars().next()?, offset.get(1..)?),
    };
    let [hours, minutes] = parts(offset, ':')?;
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let offset = Duration::from_secs(u64::from(hours) * 3_600 + u64::from(minutes) * 60);
    let whole = match sign {
        '+' => local.checked_sub(offset)?,
        '-' => local.checked_add(offset)?,
        _ => return None,
    };
    if leap_second > 0 && (whole.as_secs() + 1) % 86_400 != 0 {
        return None;
    }
    whole.checked_add(Duration::from_secs(leap_second))?.checked_add(below_one(fraction)?)
}

/// As many parts as there are.
fn parts<const N: usize>(text: &str, separator: char) -> Option<[&str; N]> {
    let mut parts = text.split(separator);
    let mut all = [""; N];
    for part in &mut all {
        *part = parts.next()?;
    }
    parts.next().is_none().then_some(all)
}

/// Exactly so many digits.
fn number(text: &str, width: usize) -> Option<u16> {
    (text.len() == width && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

/// The digits behind the point.
fn below_one(digits: &str) -> Option<Duration> {
    if digits.is_empty() {
        return None;
    }
    let (read, rest) = digits.split_at(digits.len().min(9));
    let nine = read.bytes().chain(iter::repeat(b'0')).take(9);
    let nanos = nine.fold(0, |nanos, digit| nanos * 10 + u64::from(digit.saturating_sub(b'0')));
    let is_more = rest.bytes().any(|digit| digit != b'0');
    Some(Duration::from_nanos(nanos + u64::from(is_more)))
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    fn nanos_since_1970(value: &str) -> Option<i128> {
        let epoch = http_date::from_1970(Duration::ZERO).as_nanos();
        let instant = parse(value.as_bytes())?.as_nanos();
        Some(i128::try_from(instant).unwrap() - i128::try_from(epoch).unwrap())
    }

    #[test]
    fn instants_have_their_place() {
        const SECOND: i128 = 1_000_000_000;
        for (value, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-29T12:00:20Z", 1_795_953_620 * SECOND),
            ("2026-11-29t12:00:20z", 1_795_953_620 * SECOND),
            ("2026-11-29T12:00:20.25Z", 1_795_953_620 * SECOND + 250_000_000),
            ("2026-11-29T12:00:20.0000000001Z", 1_795_953_620 * SECOND + 1),
            ("2026-11-29T12:00:20.9999999999Z", 1_795_953_621 * SECOND),
            ("2026-11-29T14:00:20+02:00", 1_795_953_620 * SECOND),
            ("2026-11-29T06:30:20-05:30", 1_795_953_620 * SECOND),
            ("2026-11-29T12:00:20-00:00", 1_795_953_620 * SECOND),
            ("1969-12-31T23:59:59Z", -SECOND),
            ("1900-01-01T00:00:00Z", -2_208_988_800 * SECOND),
            ("2028-02-29T00:00:00Z", 1_835_395_200 * SECOND),
            ("2016-12-31T23:59:60Z", 1_483_228_800 * SECOND),
            ("2017-01-01T01:59:60+02:00", 1_483_228_800 * SECOND),
        ] {
            assert_eq!(nanos_since_1970(value), Some(expected), "{value}");
        }
    }

    #[test]
    fn what_is_no_instant_is_ignored() {
        for value in [
            "",
            "2026-11-29",
            "2026-11-29T12:00:20",
            "2026-11-29 12:00:20Z",
            "2026-11-29T12:00Z",
            "2026-11-29T12:00:20.Z",
            "2026-11-29T12:00:20,5Z",
            "2026-11-29T12:00:20+0200",
            "2026-11-29T12:00:20+24:00",
            "2026-11-29T12:00:20+02:60",
            "2026-11-29T12:00:20ZZ",
            "2026-11-29T12:00:20 Z",
            "2026-13-29T12:00:20Z",
            "2026-00-29T12:00:20Z",
            "2026-11-31T12:00:20Z",
            "2026-02-29T12:00:20Z",
            "2026-11-29T24:00:00Z",
            "2026-11-29T12:60:00Z",
            "2026-11-29T12:00:60Z",
            "2016-12-31T23:59:61Z",
            "2016-12-31T23:59:60+01:00",
            "2026-11-29T12:00:20+02:00:00",
            "2026-11-29T12:00:20+2:00",
            "2026-11-29T12:00:20*02:00",
            "2026-011-9T12:00:20Z",
            "+026-11-29T12:00:20Z",
            "2026-+1-29T12:00:20Z",
            "2026-11-+9T12:00:20Z",
            "2026-11-29T12:00:+9Z",
            "2026-11-29T12:00:20++2:00",
            "2026-11-29T12:00:20+02:+5",
            "2026-11-2\u{661}T12:00:20Z",
            "1899-12-31T12:00:20Z",
            "026-11-29T12:00:20ZZ",
            "Sun, 29 Nov 2026 12:00:20 GMT",
        ] {
            assert_eq!(nanos_since_1970(value), None, "{value}");
        }
    }
}
