//! A slow second reading of what a server says. Numbers are texts, dates are written again and compared with
//! what was read, Structured Fields are those of another crate. Instants and delays are in nanoseconds, those
//! from 1970.

use std::time::Duration;

use reqwest_typed_retry::HintUnit;

use crate::calendar::{Civil, WEEKDAYS, long_weekday, month, short_weekday};
use crate::{SECOND, nanos};

/// 1570-01-01: clocks before it count as this, and no date is before it.
const BEGIN: i128 = -146_097 * 86_400 * SECOND;
/// 9599-12-31 23:59:59: from there on, two-digit years are placed as if it were then.
const END: i128 = (253_402_300_799 - 146_097 * 86_400) * SECOND;
/// More than any `Duration`.
const HUGE: i128 = i128::MAX / 4;

fn longest() -> i128 {
    nanos(Duration::MAX)
}

pub fn trimmed(value: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let Some(start) = value.iter().position(|byte| !is_space(byte)) else { return b"" };
    let end = value.iter().rposition(|byte| !is_space(byte)).map_or(0, |last| last + 1);
    &value[start..end]
}

/// `1*DIGIT`, without noughts in front.
fn digits(value: &[u8]) -> Option<String> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| {
        value.iter().map(|byte| char::from(*byte)).skip_while(|digit| *digit == '0').collect()
    })
}

/// The number that these digits are, if it is at most `most`; else that one.
fn at_most(digits: &str, most: u64) -> i128 {
    let most_digits = most.to_string();
    let is_more = (digits.len(), digits) > (most_digits.len(), &most_digits);
    if is_more { most.into() } else { format!("0{digits}").parse().unwrap() }
}

fn seconds(value: &[u8]) -> Option<i128> {
    Some(at_most(&digits(value)?, u64::MAX) * SECOND)
}

/// Two or four digits at a place.
fn number(value: &[u8], at: usize, width: usize) -> Option<i128> {
    let part = value.get(at..at + width)?;
    part.iter().all(u8::is_ascii_digit).then(|| at_most(&digits(part).unwrap(), u64::MAX))
}

fn civil(
    value: &[u8],
    [year, month_at, day, time]: [usize; 4],
    year_width: usize,
) -> Option<Civil> {
    Some(Civil {
        year: number(value, year, year_width)?,
        month: month(value.get(month_at..month_at + 3)?)?,
        day: number(value, day, 2).or_else(|| number(value, day + 1, 1))?,
        hour: number(value, time, 2)?,
        minute: number(value, time + 3, 2)?,
        second: number(value, time + 6, 2)?,
    })
}

/// An HTTP-date. `now` places a year of two digits.
pub fn http_date(value: &[u8], now: i128) -> Option<i128> {
    let is = |text: String| text.as_bytes() == value;
    let written = short_weekday(value).and_then(|weekday| {
        let imf = civil(value, [12, 8, 5, 17], 4).filter(|it| is(it.imf_fixdate(weekday)));
        let asctime = || {
            civil(value, [20, 4, 8, 11], 4).filter(|it| {
                is(it.asctime_date(weekday, false)) || is(it.asctime_date(weekday, true))
            })
        };
        imf.or_else(asctime).filter(|it| it.year >= 1900)
    });
    let two_digits = || {
        let weekday = long_weekday(value)?;
        let after = WEEKDAYS[weekday].len();
        let places = [9, 5, 2, 12].map(|place| after + place);
        let date = civil(value, places, 2).filter(|it| is(it.rfc850_date(weekday)))?;
        // In a leap year: whether there is a 29th is for the year that is meant.
        Civil { year: 2000, ..date }.is_valid().then_some(())?;
        let now = Civil::of(now.clamp(BEGIN, END).div_euclid(SECOND));
        let latest = Civil { year: now.year + 50, ..now };
        let years = (0..100).map(|back| Civil { year: latest.year - back, ..date });
        let mut fitting = years.filter(|it| it.year.rem_euclid(100) == date.year);
        let candidate = fitting.next().unwrap();
        let year = candidate.year - if candidate > latest { 100 } else { 0 };
        Some(Civil { year, ..date })
    };
    let date = written.or_else(two_digits).filter(Civil::is_valid)?;
    let is_leap_second = date.second == 60;
    if is_leap_second && (date.hour, date.minute) != (23, 59) {
        return None;
    }
    // No date is before the scale of the crate begins.
    (date.year >= 1570).then(|| date.seconds() * SECOND)
}

pub fn is_stored(age: Option<&[u8]>) -> bool {
    age.and_then(|age| digits(trimmed(age))).is_some_and(|digits| !digits.is_empty())
}

/// The moment against which instants are read.
pub fn sent(date: Option<&[u8]>, age: Option<&[u8]>, now: i128) -> i128 {
    let date = date.filter(|_| !is_stored(age)).and_then(|date| http_date(trimmed(date), now));
    date.unwrap_or(now.max(BEGIN))
}

pub fn retry_after<'a>(
    lines: impl IntoIterator<Item = &'a [u8]>,
    date: Option<&[u8]>,
    age: Option<&[u8]>,
    now: i128,
) -> Option<i128> {
    let delays = lines.into_iter().map(trimmed).map(|line| {
        let until = || Some((http_date(line, now)? - sent(date, age, now)).max(0));
        seconds(line).or_else(until)
    });
    delays.fold(None, Option::max)
}

/// The least and the most that a value may come to: one nanosecond more for each fraction that is rounded twice.
pub type Bounds = (i128, i128);

fn exactly(nanos: i128) -> Bounds {
    (nanos, nanos)
}

/// `1*DIGIT [ "." 1*DIGIT ]` of so many `parts`, rounded up to the next one; as a child multiplies.
fn decimal(value: &[u8], parts: u64) -> Option<i128> {
    let mut halves = value.splitn(2, |byte| *byte == b'.');
    let whole = halves.next().unwrap();
    let fraction = halves.next();
    digits(whole)?;
    digits(fraction.unwrap_or(b"0"))?;
    let fraction = fraction.unwrap_or_default();
    let mut carry = 0;
    let mut product = Vec::new();
    for digit in [whole, fraction].concat().iter().rev() {
        let sum = u64::from(digit - b'0') * parts + carry;
        product.push(b'0' + (sum % 10) as u8);
        carry = sum / 10;
    }
    product.extend(carry.to_string().bytes().rev());
    let dropped = product.drain(..fraction.len()).any(|digit| digit != b'0');
    product.reverse();
    let product = digits(&product).unwrap();
    if product.len() > 36 {
        return Some(HUGE);
    }
    Some(format!("0{product}").parse::<i128>().unwrap() + i128::from(dropped))
}

fn go_duration(mut value: &[u8]) -> Option<Bounds> {
    const UNITS: [(&str, u64); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("\u{b5}s", 1_000),
        ("\u{3bc}s", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    if value.is_empty() {
        return None;
    }
    let (mut sum, mut rounded_twice) = (0, 0);
    while !value.is_empty() {
        let end = value.iter().position(|byte| !b"0123456789.".contains(byte))?;
        let (number, rest) = value.split_at(end);
        let is_number = |byte: &u8| b"0123456789.".contains(byte);
        let end = rest.iter().position(is_number).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        let (_, parts) = UNITS.into_iter().find(|(unit, _)| unit.as_bytes() == word)?;
        sum = (sum + decimal(number, parts)?).min(HUGE);
        let fraction =
            number.iter().position(|byte| *byte == b'.').map_or(0, |at| end_of(number, at));
        rounded_twice += i128::from(fraction > 18);
        value = rest;
    }
    Some((sum.min(longest()), (sum + rounded_twice).min(longest())))
}

/// How many digits come after the point.
fn end_of(number: &[u8], point: usize) -> usize {
    number.len() - point - 1
}

/// An instant of RFC 3339.
fn rfc3339(value: &[u8]) -> Option<i128> {
    let date = Civil {
        year: number(value, 0, 4)?,
        month: number(value, 5, 2)?,
        day: number(value, 8, 2)?,
        hour: number(value, 11, 2)?,
        minute: number(value, 14, 2)?,
        second: number(value, 17, 2)?,
    };
    for (place, allowed) in [(4, "-"), (7, "-"), (10, "Tt"), (13, ":"), (16, ":")] {
        allowed.as_bytes().contains(&value[place]).then_some(())?;
    }
    if date.year < 1900 || !date.is_valid() {
        return None;
    }
    let rest = &value[19..];
    let zone = rest.iter().position(|byte| !b".0123456789".contains(byte))?;
    let (fraction, zone) = rest.split_at(zone);
    let fraction = match fraction {
        [] => 0,
        [b'.', digits @ ..] => decimal(&[b"0.", digits].concat(), SECOND as u64)?,
        _ => return None,
    };
    let offset = match zone {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let (hours, minutes) = (number(zone, 1, 2)?, number(zone, 4, 2)?);
            (hours < 24 && minutes < 60).then_some(())?;
            (hours * 3_600 + minutes * 60) * if *sign == b'+' { 1 } else { -1 }
        }
        _ => return None,
    };
    let seconds = date.seconds() - offset;
    // A leap second ends a day of UTC.
    if date.second == 60 && seconds.rem_euclid(86_400) != 0 {
        return None;
    }
    Some(seconds * SECOND + fraction)
}

/// How long `value` says to wait, at `sent`.
pub fn hint(unit: HintUnit, value: &[u8], sent: i128) -> Option<Bounds> {
    // Instants are counted from 1570, and end where a `Duration` does.
    let until = |instant: i128| exactly(((instant - BEGIN).min(longest()) - (sent - BEGIN)).max(0));
    match unit {
        HintUnit::Seconds => seconds(value).map(exactly),
        HintUnit::DecimalSeconds => {
            decimal(value, 1_000_000_000).map(|delay| exactly(delay.min(longest())))
        }
        HintUnit::Millis => {
            // A fraction is rounded up to the next whole one.
            let millis = decimal(value, 1)?;
            Some(exactly(millis.min(HUGE / 1_000_000).saturating_mul(1_000_000).min(longest())))
        }
        HintUnit::EpochSeconds => {
            decimal(value, 1_000_000_000).map(|instant| until(instant.min(longest())))
        }
        HintUnit::EpochMillis => {
            digits(value).map(|millis| until(at_most(&millis, u64::MAX) * 1_000_000))
        }
        HintUnit::Rfc3339 => rfc3339(value).map(until),
        HintUnit::GoDuration => go_duration(value),
        other => panic!("unknown unit {other:?}"),
    }
}

/// The IETF RateLimit field, read by another implementation of Structured Fields.
pub fn rate_limit<'a>(
    lines: impl IntoIterator<Item = &'a [u8]>,
    age: Option<&[u8]>,
) -> Option<i128> {
    if is_stored(age) {
        return None;
    }
    let mut longest = None;
    for line in lines {
        let list: sfv::List = sfv::Parser::new(trimmed(line)).parse().ok()?;
        if list.is_empty() {
            return None;
        }
        for entry in list {
            let sfv::ListEntry::Item(item) = entry else { return None };
            item.bare_item.as_string()?;
            let count = |value: &sfv::BareItem| {
                let value = i128::from(i64::from(value.as_integer()?));
                Some(value).filter(|value| *value >= 0)
            };
            let parameter = |name: &str| item.params.get(name);
            let remaining = count(parameter("r")?)?;
            let reset = match parameter("t") {
                Some(reset) => Some(count(reset)?),
                None => None,
            };
            longest = longest.max(reset.filter(|_| remaining == 0));
        }
    }
    longest.map(|seconds| seconds * SECOND)
}

/// Whether something looks like bytes in base64 with a part of their padding, which the two parsers judge
/// differently.
pub fn is_partly_padded(line: &[u8]) -> bool {
    let starts = line.iter().enumerate().filter(|(_, byte)| **byte == b':');
    starts.map(|(at, _)| &line[at + 1..]).any(|rest| {
        let end =
            rest.iter().position(|byte| !(byte.is_ascii_alphanumeric() || b"+/".contains(byte)));
        let (data, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let padding = rest.iter().take_while(|byte| **byte == b'=').count();
        let is_whole = matches!((data.len() % 4, padding), (_, 0) | (2, 2) | (3, 1));
        rest.get(padding) == Some(&b':') && !is_whole
    })
}
