//! Fields and clocks from bytes, so that a text in the input is a text in the field: mutations and dictionaries
//! of a fuzzer then meet it as it is.

use crate::SECOND;
use crate::calendar::Civil;

/// 1900-01-01 and the last second of 9999, in seconds from 1970.
const FIRST: i128 = -2_208_988_800;
const LAST: i128 = 253_402_300_799;

pub struct Source<'a>(pub &'a [u8]);

impl<'a> Source<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// 0, where nothing is left.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub fn number(&mut self, bytes: usize) -> u64 {
        (0..bytes).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// The bytes up to the next NUL, which no field can carry.
    pub fn text(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        let (text, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        text
    }

    /// A clock in nanoseconds from 1970: near to our time, at any time that has a date, or anywhere.
    pub fn clock(&mut self) -> i128 {
        let seconds = match self.byte() % 4 {
            0 => 1_795_953_600 + i128::from(self.number(2)) - 32_768,
            1 => FIRST + i128::from(self.number(5)) % (LAST - FIRST),
            2 => i128::from(self.number(8) as i64),
            _ => return i128::from(self.number(8) as i64),
        };
        seconds * SECOND + i128::from(self.number(4)) % SECOND
    }

    /// The value of a field: as it stands, or made from numbers, and then perhaps spoilt in one place.
    pub fn value(&mut self, now: i128) -> Vec<u8> {
        let kind = self.byte();
        let mut value = match kind & 0x0f {
            1 | 2 => {
                let digits = self.byte() % 48;
                (0..digits).map(|_| b'0' + self.byte() % 10).collect()
            }
            form @ 3..=8 => self.date(form, now).into_bytes(),
            9 => format!("{}.{:03}", self.number(5), self.number(4)).into_bytes(),
            10 => {
                let unit = ["ns", "us", "\u{b5}s", "\u{3bc}s", "ms", "s", "m", "h"];
                let unit = |source: &mut Self| unit[usize::from(source.byte() % 8)];
                let parts = 1 + self.byte() % 3;
                (0..parts)
                    .map(|_| format!("{}.{}{}", self.number(3), self.number(1), unit(self)))
                    .collect::<String>()
                    .into_bytes()
            }
            11 => {
                let (r, t) = (self.byte() % 2, self.number(4));
                format!("\"q\";r={r};t={t}").into_bytes()
            }
            _ => self.text().to_vec(),
        };
        if kind & 0x80 != 0 && !value.is_empty() {
            let (place, how, byte) =
                (usize::from(self.byte()) % value.len(), self.byte(), self.byte());
            match how % 3 {
                0 => value[place] = byte,
                1 => value.insert(place, byte),
                _ => drop(value.remove(place)),
            }
        }
        if kind & 0x40 != 0 {
            value = [b" \t", &value[..], b"\t"].concat();
        }
        value
    }

    /// A date in one of the forms, near to `now`, 50 years from it, or anywhere, and perhaps with a part that is
    /// out of its range.
    fn date(&mut self, form: u8, now: i128) -> String {
        let how = self.byte();
        let now = (now.div_euclid(SECOND)).clamp(FIRST, LAST);
        let mut date = match how % 4 {
            0 => Civil::of((now + i128::from(self.number(4) as i32)).clamp(FIRST, LAST)),
            1 => {
                let offset = i128::from(self.number(1) as i8);
                let date = Civil::of((now + offset).clamp(FIRST, LAST));
                Civil { year: (date.year + 50).min(9999), ..date }
            }
            _ => Civil::of(FIRST + i128::from(self.number(5)) % (LAST - FIRST)),
        };
        if how & 0x80 != 0 {
            let number = i128::from(self.byte() % 100);
            match self.byte() % 6 {
                0 => date.year = 1890 + number,
                1 => date.month = 1 + number % 12,
                2 => date.day = number % 40,
                3 => date.hour = number % 30,
                4 => (date.hour, date.minute, date.second) = (23, 59, 59 + number % 3),
                _ => date.second = number,
            }
        }
        let weekday = if how & 0x40 != 0 { date.weekday() } else { usize::from(how >> 2) % 7 };
        match form {
            3 => date.imf_fixdate(weekday),
            4 => date.rfc850_date(weekday),
            5 => date.asctime_date(weekday, false),
            6 => date.asctime_date(weekday, true),
            _ => {
                let Civil { year, month, day, hour, minute, second } = date;
                let fraction = match form {
                    7 => String::new(),
                    _ => format!(".{}", self.number(2)),
                };
                let offset = match how & 0x30 {
                    0 => "Z".to_owned(),
                    sign => {
                        let (hours, minutes) = (self.byte() % 26, self.byte() % 62);
                        let sign = if sign == 0x10 { '+' } else { '-' };
                        format!("{sign}{hours:02}:{minutes:02}")
                    }
                };
                format!(
                    "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}{offset}"
                )
            }
        }
    }
}
