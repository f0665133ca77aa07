//! HTTP-date (RFC 9110 5.6.7), as strict as its grammar and no stricter.
//!
//! httpdate does the calendar. It is narrower than a recipient should be in four points: it takes 70 as the
//! pivot of two-digit years, wants the weekday to agree, knows no leap second and begins in 1970. It is wider
//! in two: it trims, and it does not look at the byte before the time of an rfc850-date. What it does not read
//! as it should is levelled before it parses.

use std::fmt::{self, Write as _};
use std::iter;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httpdate::{HttpDate, parse_http_date};

/// After 400 years, 146 097 days, the Gregorian calendar repeats itself.
const CYCLE_YEARS: u16 = 400;
const CYCLE: Duration = Duration::from_secs(146_097 * 86_400);

/// A year less than fifty of its mean ones: whichever they are, fifty years are longer.
const ALMOST_FIFTY_YEARS: Duration = Duration::from_secs(49 * (CYCLE.as_secs() / 400));

/// 9999-12-31 23:59:59, the last second that httpdate can format, counted from the epoch.
const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799);

const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// The lengths of the two forms whose year has four digits; the third is longer.
const IMF_FIXDATE: usize = "Sun, 06 Nov 1994 08:49:37 GMT".len();
const ASCTIME_DATE: usize = "Sun Nov  6 08:49:37 1994".len();
/// The length of what follows the date in that one.
const RFC850_TIME: usize = " 08:49:37 GMT".len();

/// The forms after a weekday in full: rfc850-date.
const LONG_FORMS: &[&str] = &[", dd-mmm-yy tttttttt GMT"];
/// The forms after a weekday of three letters: IMF-fixdate, asctime-date with its two kinds of day.
const SHORT_FORMS: &[&str] =
    &[", dd mmm yyyy tttttttt GMT", " mmm dd tttttttt yyyy", " mmm  d tttttttt yyyy"];

/// `time` on the scale of this module: counted from 1570, one cycle before the epoch.
///
/// So a date before 1970 needs no sign, nor a `SystemTime` that reaches so far back (on wasm it
/// doesn't). A clock before 1570 counts as 1570.
pub(super) fn since_1570(time: SystemTime) -> Duration {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since_1970) => from_1970(since_1970),
        Err(before) => CYCLE.saturating_sub(before.duration()),
    }
}

/// A moment so long after the epoch, on the scale of [`since_1570`].
pub(super) fn from_1970(since_1970: Duration) -> Duration {
    since_1970.saturating_add(CYCLE)
}

/// The instant that `value` names, on the scale of [`since_1570`]. `now` places a two-digit year.
///
/// Any weekday will do: the other parts fix the instant, and no rule tells a recipient to check it.
pub(super) fn parse(value: &[u8], now: SystemTime) -> Option<Duration> {
    let text = std::str::from_utf8(value).ok()?;
    as_it_is(text, now).or_else(|| levelled(text, now))
}

/// What httpdate reads as we do, as nearly all servers write it.
fn as_it_is(text: &str, now: SystemTime) -> Option<Duration> {
    let ([first, .., last], length) = (text.as_bytes(), text.len()) else { return None };
    // It would trim.
    if !first.is_ascii_alphabetic() || !last.is_ascii_alphanumeric() {
        return None;
    }
    let date = parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok().map(from_1970)?;
    if matches!(length, IMF_FIXDATE | ASCTIME_DATE) {
        return Some(date);
    }
    // An rfc850-date, where it does not look at the byte before the time. Less than 50 years away there is only
    // one year that has these digits.
    let has_space = text.as_bytes().get(length - RFC850_TIME) == Some(&b' ');
    (has_space && date.abs_diff(since_1570(now)) < ALMOST_FIFTY_YEARS).then_some(date)
}

fn levelled(text: &str, now: SystemTime) -> Option<Duration> {
    let date = Parts::split(text)?;
    let year = date.year.parse().ok()?;
    match date.year.len() {
        2 => date.in_year(date.full_year(year, now)?),
        // RFC 5322 3.3, which defines the parts, begins in 1900.
        _ if year < 1900 => None,
        _ => date.in_year(year),
    }
}

/// What the three forms say, each in its own order.
struct Parts<'a> {
    weekday: &'a str,
    day: &'a str,
    month: &'a str,
    year: &'a str,
    time: &'a str,
}

impl<'a> Parts<'a> {
    /// Cuts `text` by the form that it has; what is in the parts is for httpdate to judge.
    fn split(text: &'a str) -> Option<Self> {
        let (rest, forms) = WEEKDAYS.iter().find_map(|weekday| {
            let long = text.strip_prefix(weekday).map(|rest| (rest, LONG_FORMS));
            long.or_else(|| Some((text.strip_prefix(weekday.get(..3)?)?, SHORT_FORMS)))
        })?;
        let form = forms.iter().find(|form| fits(rest, form))?;
        let part = |letter| rest.get(form.find(letter)?..=form.rfind(letter)?);
        let (weekday, day, month) = (text.get(..3)?, part('d')?, part('m')?);
        Some(Self { weekday, day, month, year: part('y')?, time: part('t')? })
    }

    /// The year meant by two digits: the latest one that puts the date not more than 50 years after
    /// `now` (RFC 9110 5.6.7, which leaves open how far back it may be).
    fn full_year(&self, digits: u16, now: SystemTime) -> Option<u16> {
        // One cycle ahead, so that httpdate can format a clock before 1970 too;
        // a clock past 9599 counts as 9599.
        let ahead = UNIX_EPOCH.checked_add(since_1570(now).min(LAST_SECOND))?;
        let mut today = Text::default();
        write!(today, "{}", HttpDate::from(ahead)).ok()?;
        let today = Parts::split(std::str::from_utf8(&today.bytes).ok()?)?;
        let latest = today.year.parse::<u16>().ok()? - CYCLE_YEARS + 50;
        let year = latest - (latest - digits) % 100;
        // The 50th year ends with today's date and time. Compared in 2000: any leap year would do.
        let too_late = year == latest && self.in_year(2000)? > today.in_year(2000)?;
        Some(if too_late { year - 100 } else { year })
    }

    fn in_year(&self, year: u16) -> Option<Duration> {
        instant(self.weekday, self.day, self.month, year, self.time)
    }
}

/// The instant of this date, on the scale of [`since_1570`]. Any `weekday` will do; the right one, in three
/// letters, is the fastest.
pub(super) fn instant(
    weekday: &str,
    day: &str,
    month: &str,
    year: u16,
    time: &str,
) -> Option<Duration> {
    // The grammar ends at 23:59:60: on a clock without leap seconds, the next midnight.
    let (time, leap_second) = if time == "23:59:60" { ("23:59:59", 1) } else { (time, 0) };
    let (year, cycles) = if year < 1970 { (year + CYCLE_YEARS, 0) } else { (year, 1) };
    let mut text = *b"www, 00 mmm yyyy tttttttt GMT";
    let (two_digits, digits) = (2_usize.checked_sub(day.len())?, [1_000, 100, 10, 1]);
    put(&mut text, 5 + two_digits, day)?;
    put(&mut text, 8, Some(month).filter(|month| month.len() == 3)?)?;
    for (byte, unit) in text.iter_mut().skip(12).zip(digits) {
        *byte = b'0' + u8::try_from(year / unit % 10).ok()?;
    }
    put(&mut text, 17, Some(time).filter(|time| time.len() == 8)?)?;
    let date = iter::once(weekday).chain(WEEKDAYS).find_map(|weekday| {
        put(&mut text, 0, weekday.get(..3)?)?;
        parse_http_date(std::str::from_utf8(&text).ok()?).ok()
    })?;
    let since_epoch = date.duration_since(UNIX_EPOCH).ok()?;
    Some(since_epoch + cycles * CYCLE + Duration::from_secs(leap_second))
}

/// An IMF-fixdate that is being written, so that no memory is asked for.
#[derive(Default)]
struct Text {
    bytes: [u8; 29],
    length: usize,
}

impl fmt::Write for Text {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        put(&mut self.bytes, self.length, part).ok_or(fmt::Error)?;
        self.length += part.len();
        Ok(())
    }
}

/// Writes `part` over `text` from `at` on: for a date, no memory is asked for.
fn put(text: &mut [u8], at: usize, part: &str) -> Option<()> {
    text.get_mut(at..)?.get_mut(..part.len())?.copy_from_slice(part.as_bytes());
    Some(())
}

/// Whether `text` has the widths and separators of `form`. In a form `d` and `y` stand for a digit,
/// `m` and `t` for any byte of the month and the time, everything else for itself.
fn fits(text: &str, form: &str) -> bool {
    text.len() == form.len()
        && text.bytes().zip(form.bytes()).all(|(byte, form)| match form {
            b'd' | b'y' => byte.is_ascii_digit(),
            b'm' | b't' => true,
            separator => byte == separator,
        })
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    /// Seconds since the epoch, below zero before it; `now` is 2026-11-29 12:00:00.
    fn parsed(value: &str) -> Option<i64> {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_953_600);
        let seconds = parse(value.as_bytes(), now)?.as_secs();
        Some(i64::try_from(seconds).unwrap() - i64::try_from(CYCLE.as_secs()).unwrap())
    }

    #[test]
    fn dates_name_their_instant() {
        for (label, value, expected) in [
            ("imf-fixdate", "Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("rfc850-date", "Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
            ("asctime-date", "Sun Nov  6 08:49:37 1994", 784_111_777),
            ("asctime-date, two digits", "Sun Nov 06 08:49:37 1994", 784_111_777),
            ("weekday disagrees", "Tue, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("long weekday disagrees", "Wednesday, 06-Nov-94 08:49:37 GMT", 784_111_777),
            ("asctime weekday disagrees", "Sat Nov  6 08:49:37 1994", 784_111_777),
            ("the epoch", "Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("a second before the epoch", "Wed, 31 Dec 1969 23:59:59 GMT", -1),
            ("a leap day before the epoch", "Mon, 29 Feb 1904 00:00:00 GMT", -2_077_747_200),
            ("the first year", "Mon, 01 Jan 1900 00:00:00 GMT", -2_208_988_800),
            ("the last second", "Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799),
            ("a leap second", "Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_800),
            ("a leap second at the epoch", "Wed, 31 Dec 1969 23:59:60 GMT", 0),
            ("a leap second at the very end", "Fri, 31 Dec 9999 23:59:60 GMT", 253_402_300_800),
        ] {
            assert_eq!(parsed(value), Some(expected), "{label}: {value}");
        }
    }

    #[test]
    fn what_is_no_date_is_ignored() {
        for (label, value) in [
            ("empty", ""),
            ("weekday alone", "Sun"),
            ("no such weekday", "Xyz, 06 Nov 1994 08:49:37 GMT"),
            ("short weekday, long form", "Sun, 06-Nov-94 08:49:37 GMT"),
            ("long weekday, short form", "Sunday, 06 Nov 1994 08:49:37 GMT"),
            ("long weekday, asctime form", "Sunday Nov  6 08:49:37 1994"),
            ("mixed separators", "Sunday, 06-Nov 94 08:49:37 GMT"),
            ("space in the day", "Sun,  6 Nov 1994 08:49:37 GMT"),
            ("day zero", "Sun Nov  0 08:49:37 1994"),
            ("day thirty-one of thirty", "Sun, 31 Nov 1994 08:49:37 GMT"),
            ("no such leap day", "Mon, 29 Feb 1900 00:00:00 GMT"),
            ("two-digit leap day in a common year", "Sunday, 29-Feb-27 12:00:00 GMT"),
            ("the year before the first", "Sun, 31 Dec 1899 23:59:59 GMT"),
            ("four digits, no century", "Sun, 06 Nov 0094 08:49:37 GMT"),
            ("signed year", "Sun, 06 Nov +994 08:49:37 GMT"),
            ("signed two-digit year", "Sunday, 06-Nov-+4 08:49:37 GMT"),
            ("second 60 at noon", "Sun, 06 Nov 1994 12:00:60 GMT"),
            ("second 60 at 23:58", "Sun, 06 Nov 1994 23:58:60 GMT"),
            ("second 61", "Sat, 31 Dec 2016 23:59:61 GMT"),
            ("hour 24", "Sat, 31 Dec 2016 24:00:00 GMT"),
            ("a multi-byte character across a cut", "Sun, 06 No\u{e9}1994 08:49:37 GMT"),
            ("other month", "Sun, 06 nov 1994 08:49:37 GMT"),
            ("more after the date", "Sun, 06 Nov 1994 08:49:37 GMT GMT"),
            ("less than a date", "Sun, 06 Nov 1994 08:49:37"),
            ("other zone", "Sun, 06 Nov 1994 08:49:37 UTC"),
            ("no space before the time", "Sunday, 06-Nov-94x08:49:37 GMT"),
            ("no space, weekday disagrees", "Monday, 06-Nov-94x08:49:37 GMT"),
            ("a line feed around", "Sun, 06 Nov 1994 08:49:37 GMT\n"),
            ("as long as another form with it", "Sun Nov  6 08:49:37 1994\n\n\n\n\n"),
            ("a line feed before", "\nSunday, 06-Nov-94 08:49:37 GMT"),
        ] {
            assert_eq!(parsed(value), None, "{label}: {value}");
        }
        assert_eq!(parse(b"Sun, 06 Nov 199\xff 08:49:37 GMT", UNIX_EPOCH), None);
    }

    #[test]
    fn a_two_digit_year_reaches_fifty_years_ahead_and_no_second_more() {
        let at = |text| parse_http_date(text).unwrap();
        let noon = at("Sun, 29 Nov 2026 12:00:00 GMT");
        let leap_noon = at("Tue, 29 Feb 2028 12:00:00 GMT");
        let year_end = at("Thu, 31 Dec 2026 23:59:59 GMT");
        let half_a_second = Duration::from_millis(500);
        for (label, value, now, is_ahead) in [
            ("fifty years", "Sunday, 29-Nov-76 12:00:00 GMT", noon, true),
            ("and a fraction less", "Sunday, 29-Nov-76 12:00:00 GMT", noon + half_a_second, true),
            ("and a second", "Sunday, 29-Nov-76 12:00:01 GMT", noon, false),
            ("and half a second", "Sunday, 29-Nov-76 12:00:01 GMT", noon + half_a_second, false),
            ("earlier in that year", "Friday, 28-Feb-76 12:00:00 GMT", noon, true),
            ("leap day of that year", "Saturday, 29-Feb-76 12:00:00 GMT", noon, true),
            ("a month later in that year", "Tuesday, 29-Dec-76 12:00:00 GMT", noon, false),
            ("the year before", "Sunday, 29-Dec-75 12:00:00 GMT", noon, true),
            ("the year after", "Monday, 29-Jan-77 12:00:00 GMT", noon, false),
            ("from a leap day, to the 28th", "Monday, 28-Feb-78 23:59:59 GMT", leap_noon, true),
            ("from a leap day, to the 1st", "Tuesday, 01-Mar-78 00:00:00 GMT", leap_noon, false),
            ("last second of the year", "Thursday, 31-Dec-76 23:59:59 GMT", year_end, true),
            ("its leap second", "Thursday, 31-Dec-76 23:59:60 GMT", year_end, false),
        ] {
            let date = parse(value.as_bytes(), now).unwrap();
            assert_eq!(date > since_1570(now), is_ahead, "{label}: {value} from {now:?}");
        }
    }

    /// On wasm no `SystemTime` shows it.
    #[cfg(not(target_arch = "wasm32"))]
    #[test]
    fn a_two_digit_year_reaches_as_far_from_a_clock_before_1970() {
        let in_1950 = UNIX_EPOCH - Duration::from_secs(631_152_000); // its first second
        let is_ahead = |value: &[u8]| parse(value, in_1950).unwrap() > since_1570(in_1950);
        assert!(is_ahead(b"Saturday, 01-Jan-00 00:00:00 GMT"));
        assert!(!is_ahead(b"Saturday, 01-Jan-00 00:00:01 GMT"));
    }

    #[test]
    fn no_clock_is_too_far_away() {
        let far = [u64::MAX, u64::MAX / 2, 1 << 50, 253_402_300_800].map(Duration::from_secs);
        let ahead = far.iter().filter_map(|by| UNIX_EPOCH.checked_add(*by));
        let back = far.iter().filter_map(|by| UNIX_EPOCH.checked_sub(*by));
        for now in ahead.chain(back) {
            for value in ["Friday, 29-Nov-99 12:00:00 GMT", "Friday, 01-Jan-00 00:00:00 GMT"] {
                let _ = (parse(value.as_bytes(), now), since_1570(now));
            }
        }
    }
}
