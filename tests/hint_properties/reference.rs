//! A slow second reading of the units: numbers as decimal text, dates by the count of days.

use reqwest_typed_retry::HintUnit;

/// More nanoseconds than any `Duration` or test instant has.
pub(crate) const HUGE: i128 = i128::MAX / 4;

/// When it is, or how long from now, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Asked {
    In(i128),
    At(i128),
}

pub(crate) fn read(unit: HintUnit, value: &[u8]) -> Option<Asked> {
    let text = std::str::from_utf8(value).ok()?;
    let whole = || Some(text).filter(|text| !text.contains('.'));
    match unit {
        HintUnit::Seconds => shifted(whole()?, 9).map(Asked::In),
        HintUnit::DecimalSeconds => shifted(text, 9).map(Asked::In),
        HintUnit::Millis => {
            let millis = shifted(text, 0)?;
            Some(Asked::In(millis.saturating_mul(1_000_000).min(HUGE)))
        }
        HintUnit::EpochSeconds => shifted(text, 9).map(Asked::At),
        HintUnit::EpochMillis => shifted(whole()?, 6).map(Asked::At),
        HintUnit::Rfc3339 => instant(value).map(Asked::At),
        HintUnit::GoDuration => go_duration(text).map(Asked::In),
        unit => panic!("unknown unit {unit:?}"),
    }
}

/// A decimal number with its point moved so many digits to the right, rounded up. As text: the
/// digits before the point are the result, those behind it tell whether there is more.
fn shifted(text: &str, digits: usize) -> Option<i128> {
    let (whole, fraction) = split(text)?;
    let padded = format!("{fraction}{}", "0".repeat(digits));
    let (moved, rest) = padded.split_at(digits);
    let number = format!("{whole}{moved}");
    let number = number.trim_start_matches('0');
    if number.len() > 36 {
        return Some(HUGE);
    }
    let number = if number.is_empty() { 0 } else { number.parse::<i128>().unwrap() };
    Some((number + i128::from(rest.contains(|digit| digit != '0'))).min(HUGE))
}

fn split(text: &str) -> Option<(&str, &str)> {
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    match text.split_once('.') {
        Some((whole, fraction)) => {
            (is_number(whole) && is_number(fraction)).then_some((whole, fraction))
        }
        None => is_number(text).then_some((text, "")),
    }
}

/// A decimal number so many times, as a child would write it.
fn times(text: &str, factor: u32) -> Option<String> {
    split(text)?;
    let mut carry = 0;
    let mut product = Vec::new();
    for char in text.chars().rev() {
        let Some(digit) = char.to_digit(10) else {
            product.push('.');
            continue;
        };
        let sum = digit * factor + carry;
        product.push(char::from_digit(sum % 10, 10).unwrap());
        carry = sum / 10;
    }
    Some(format!("{carry}{}", product.iter().rev().collect::<String>()))
}

fn go_duration(mut text: &str) -> Option<i128> {
    let mut sum = None;
    while !text.is_empty() {
        let (number, rest) = text.split_at(text.find(|c: char| c.is_alphabetic())?);
        let units = [
            ("ns", 1, 0),
            ("us", 1, 3),
            ("\u{b5}s", 1, 3),
            ("\u{3bc}s", 1, 3),
            ("ms", 1, 6),
            ("s", 1, 9),
            ("m", 60, 9),
            ("h", 3_600, 9),
        ];
        let word = rest.split(|c: char| c.is_ascii_digit() || c == '.').next().unwrap();
        let (unit, factor, digits) = units.into_iter().find(|(unit, ..)| *unit == word)?;
        let nanos = shifted(&times(number, factor)?, digits)?;
        sum = Some((sum.unwrap_or(0) + nanos).min(HUGE));
        text = &rest[unit.len()..];
    }
    sum
}

fn instant(value: &[u8]) -> Option<i128> {
    let digits = |from: usize, count: usize| {
        let digits = value.get(from..from + count)?;
        digits.iter().try_fold(0_i128, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + i128::from(digit - b'0'))
        })
    };
    for (place, allowed) in [(4, &b"-"[..]), (7, b"-"), (10, b"Tt"), (13, b":"), (16, b":")] {
        value.get(place).filter(|byte| allowed.contains(byte))?;
    }
    let (year, month, day) = (digits(0, 4)?, digits(5, 2)?, digits(8, 2)?);
    let (hour, minute, second) = (digits(11, 2)?, digits(14, 2)?, digits(17, 2)?);
    let in_range = year >= 1900
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour <= 23
        && minute <= 59
        && second <= 60;
    if !in_range {
        return None;
    }
    let mut place = 19;
    let mut nanos = 0;
    if value.get(place) == Some(&b'.') {
        let end = (place + 1..value.len()).find(|at| !value[*at].is_ascii_digit())?;
        let text = std::str::from_utf8(&value[place + 1..end]).unwrap();
        if text.is_empty() {
            return None;
        }
        nanos = shifted(&format!("0.{text}"), 9)?;
        place = end;
    }
    let offset = match value.get(place)? {
        b'Z' | b'z' => (value.len() == place + 1).then_some(0),
        sign @ (b'+' | b'-') => {
            let (hours, minutes) = (digits(place + 1, 2)?, digits(place + 4, 2)?);
            let is_valid = value[place + 3] == b':'
                && value.len() == place + 6
                && hours <= 23
                && minutes <= 59;
            let seconds = (hours * 60 + minutes) * 60;
            is_valid.then_some(if *sign == b'+' { seconds } else { -seconds })
        }
        _ => None,
    }?;
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset;
    // A leap second ends a day of UTC, and so begins the next one on a clock without them.
    (second < 60 || seconds.rem_euclid(86_400) == 0).then_some(seconds * 1_000_000_000 + nanos)
}

fn is_leap(year: i128) -> bool {
    year % 400 == 0 || (year % 4 == 0 && year % 100 != 0)
}

fn days_in(year: i128, month: i128) -> i128 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01, counted in years that begin in March.
fn days(year: i128, month: i128, day: i128) -> i128 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// The civil date and time of a second from the epoch, by search.
fn civil(seconds: i64) -> [i128; 6] {
    let (day, second) =
        (i128::from(seconds).div_euclid(86_400), i128::from(seconds).rem_euclid(86_400));
    let mut year = 1970 + day.div_euclid(366);
    if day < 0 {
        year = 1970 + day.div_euclid(365);
    }
    while days(year + 1, 1, 1) <= day {
        year += 1;
    }
    let month = (1..=12).rev().find(|month| days(year, *month, 1) <= day).unwrap();
    let day = day - days(year, month, 1) + 1;
    [year, month, day, second / 3_600, second / 60 % 60, second % 60]
}

/// An instant as RFC 3339 writes it, at an offset in minutes, with so many digits of its fraction.
pub(crate) fn rfc3339(seconds: i64, nanos: u32, offset: i64, digits: usize) -> String {
    let [year, month, day, hour, minute, second] = civil(seconds + offset * 60);
    let fraction = match digits {
        0 => String::new(),
        digits => format!(".{}", &format!("{nanos:09}")[..digits]),
    };
    let sign = if offset < 0 { '-' } else { '+' };
    let (hours, minutes) = (offset.abs() / 60, offset.abs() % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}\
         {sign}{hours:02}:{minutes:02}"
    )
}
