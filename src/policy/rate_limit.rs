//! The RateLimit field (draft-ietf-httpapi-ratelimit-headers-10): how long until there is quota.
//!
//! Its syntax is a List of Structured Fields (RFC 9651 4.2). Only `r` and `t` are kept; everything
//! else is checked and skipped, in one pass over the bytes.

use std::time::Duration;

use super::retry_after::{is_stored, trim_ows};

/// The longest `t`, in seconds, of the service limits that have nothing left (`r=0`).
///
/// Any exhausted quota blocks, so the longest wait binds. With quota left, `t` is no delay. A field
/// that is malformed in any place is ignored as a whole (draft, 7), and so is one on a stored
/// response (draft, 7.3), since its quota is that of an earlier moment.
///
/// Lines are read one by one. That differs from reading them joined by commas (RFC 9651 4.2) only
/// where a line is no List by itself, and such a field may be refused.
pub(super) fn rate_limit<'a>(
    values: impl IntoIterator<Item = &'a [u8]>,
    age: Option<&[u8]>,
) -> Option<Duration> {
    if is_stored(age) {
        return None;
    }
    let mut longest = None;
    for line in values {
        let mut input = Input(trim_ows(line));
        loop {
            longest = longest.max(input.service_limit()?.delay());
            input.take_while(is_ows);
            if input.0.is_empty() {
                break;
            }
            input.byte(b',')?;
            input.take_while(is_ows);
        }
    }
    longest.map(Duration::from_secs)
}

/// One member of the List (draft, 4.1).
struct ServiceLimit {
    remaining: u64,
    reset: Option<u64>,
}

impl ServiceLimit {
    fn delay(&self) -> Option<u64> {
        self.reset.filter(|_| self.remaining == 0)
    }
}

/// A value as far as it matters here.
enum BareItem {
    Integer(i64),
    Other,
}

impl BareItem {
    /// `r` and `t` are non-negative Integers (draft, 4.1.1 and 4.1.2).
    fn count(self) -> Option<u64> {
        match self {
            Self::Integer(value) => value.try_into().ok(),
            Self::Other => None,
        }
    }
}

/// What is left to parse. The methods consume what they accept; `None` means malformed.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// An Item whose value is a String, with its Parameters; `r` is required, `t` optional, others
    /// are comments. Of a repeated key the last value counts (RFC 9651 4.2.3.2).
    fn service_limit(&mut self) -> Option<ServiceLimit> {
        self.string()?;
        let (mut remaining, mut reset) = (None, None);
        while self.byte(b';').is_some() {
            self.take_while(|byte| byte == b' ');
            let key = self.key()?;
            // A key alone is the Boolean true.
            let value = match self.byte(b'=') {
                Some(_) => self.bare_item()?,
                None => BareItem::Other,
            };
            match key {
                b"r" => remaining = Some(value),
                b"t" => reset = Some(value),
                _ => {}
            }
        }
        let reset = match reset {
            Some(value) => Some(value.count()?),
            None => None,
        };
        Some(ServiceLimit { remaining: remaining?.count()?, reset })
    }

    /// RFC 9651 4.2.3.3.
    fn key(&mut self) -> Option<&'a [u8]> {
        let key = self.take_while(
            |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'),
        );
        matches!(key, [b'a'..=b'z' | b'*', ..]).then_some(key)
    }

    /// RFC 9651 4.2.3.1: the first byte tells the type.
    fn bare_item(&mut self) -> Option<BareItem> {
        match self.0.first()? {
            b'-' | b'0'..=b'9' => return self.number(),
            b'"' => self.string()?,
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => self.token(),
            b':' => self.byte_sequence()?,
            b'?' => self.boolean()?,
            b'@' => self.date()?,
            b'%' => self.display_string()?,
            _ => return None,
        }
        Some(BareItem::Other)
    }

    /// An Integer of up to 15 digits, or a Decimal of up to 12 and 3 (RFC 9651 4.2.4).
    fn number(&mut self) -> Option<BareItem> {
        let sign = if self.byte(b'-').is_some() { -1 } else { 1 };
        let whole = self.take_while(|byte| byte.is_ascii_digit());
        if self.byte(b'.').is_some() {
            let fraction = self.take_while(|byte| byte.is_ascii_digit());
            let fits = matches!((whole.len(), fraction.len()), (1..=12, 1..=3));
            return fits.then_some(BareItem::Other);
        }
        let fits = matches!(whole.len(), 1..=15);
        fits.then(|| {
            let value = whole.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
            BareItem::Integer(sign * value)
        })
    }

    /// RFC 9651 4.2.5.
    fn string(&mut self) -> Option<()> {
        self.byte(b'"')?;
        loop {
            match self.any()? {
                b'"' => return Some(()),
                b'\\' => self.one_of(b"\"\\")?,
                b' '..=b'~' => {}
                _ => return None,
            }
        }
    }

    /// RFC 9651 4.2.6, its first byte already looked at.
    fn token(&mut self) {
        self.take_while(|byte| {
            byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
        });
    }

    /// RFC 9651 4.2.7. Padding may be missing, yet not wrong; the last bits are not looked at.
    fn byte_sequence(&mut self) -> Option<()> {
        self.byte(b':')?;
        let data = self.take_while(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte));
        let padding = self.take_while(|byte| byte == b'=');
        self.byte(b':')?;
        matches!((data.len() % 4, padding.len()), (0 | 2 | 3, 0) | (2, 2) | (3, 1)).then_some(())
    }

    /// RFC 9651 4.2.8.
    fn boolean(&mut self) -> Option<()> {
        self.byte(b'?')?;
        self.one_of(b"01")
    }

    /// RFC 9651 4.2.9.
    fn date(&mut self) -> Option<()> {
        self.byte(b'@')?;
        matches!(self.number()?, BareItem::Integer(_)).then_some(())
    }

    /// RFC 9651 4.2.10: UTF-8, each byte either printable ASCII or `%` and two lowercase digits.
    fn display_string(&mut self) -> Option<()> {
        self.byte(b'%')?;
        self.byte(b'"')?;
        let mut text = Vec::new();
        loop {
            match self.any()? {
                b'"' => return std::str::from_utf8(&text).ok().map(|_| ()),
                b'%' => text.push(self.hex_digit()? * 16 + self.hex_digit()?),
                byte @ b' '..=b'~' => text.push(byte),
                _ => return None,
            }
        }
    }

    fn hex_digit(&mut self) -> Option<u8> {
        match self.any()? {
            digit @ b'0'..=b'9' => Some(digit - b'0'),
            letter @ b'a'..=b'f' => Some(letter - b'a' + 10),
            _ => None,
        }
    }

    fn any(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self, expected: u8) -> Option<()> {
        self.one_of(&[expected])
    }

    fn one_of(&mut self, expected: &[u8]) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        expected.contains(first).then(|| self.0 = rest)
    }

    fn take_while(&mut self, accept: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|byte| !accept(*byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end); // a position in the slice, or its length
        self.0 = rest;
        taken
    }
}

/// Around the commas of a List, unlike after a semicolon, a tab is allowed too (RFC 9651 4.2.1).
fn is_ows(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    fn seconds(lines: &[&str], age: Option<&str>) -> Option<u64> {
        let lines = lines.iter().map(|line| line.as_bytes());
        rate_limit(lines, age.map(str::as_bytes)).map(|delay| delay.as_secs())
    }

    /// Where a row is named after Retry-After, that one takes precedence: this is what it takes
    /// precedence over.
    #[test]
    fn conformance_rows_give_the_delay_of_this_field() {
        for (label, lines, age, expected) in [
            ("rl-r0-t30", &[r#""default";r=0;t=30"#][..], None, Some(30)),
            ("rl-vs-ra-longer", &[r#""default";r=0;t=30"#], None, Some(30)),
            ("rl-vs-ra-shorter", &[r#""default";r=0;t=30"#], None, Some(30)),
            ("rl-ra-malformed", &[r#""default";r=0;t=30"#], None, Some(30)),
            ("rl-remaining-positive", &[r#""default";r=5;t=30"#], None, None),
            ("rl-two-exhausted", &[r#""burst";r=0;t=5, "daily";r=0;t=3600"#], None, Some(3600)),
            ("rl-one-exhausted", &[r#""burst";r=0;t=5"#, r#""daily";r=900;t=3600"#], None, Some(5)),
            ("rl-no-t", &[r#""default";r=0"#], None, None),
            ("rl-negative-t", &[r#""default";r=0;t=-1"#], None, None),
            ("rl-decimal-t", &[r#""default";r=0;t=1.5"#], None, None),
            ("rl-old-dict", &["limit=100, remaining=0, reset=30"], None, None),
            ("rl-cached", &[r#""default";r=0;t=30"#], Some("40"), None),
            ("rl-policy-only", &[], None, None),
        ] {
            assert_eq!(seconds(lines, age), expected, "{label}: {lines:?}");
        }
    }

    #[test]
    fn well_formed_fields_give_the_longest_delay_of_an_exhausted_limit() {
        for (label, line, expected) in [
            ("t first", r#""a";t=30;r=0"#, Some(30)),
            ("longest first", r#""a";r=0;t=30,"b";r=0;t=5"#, Some(30)),
            ("one without t", r#""a";r=0,"b";r=0;t=5"#, Some(5)),
            ("zero", r#""a";r=0;t=0"#, Some(0)),
            ("negative zero", r#""a";r=-0;t=-0"#, Some(0)),
            ("leading zeros", r#""a";r=00;t=030"#, Some(30)),
            ("15 digits", r#""a";r=0;t=999999999999999"#, Some(999_999_999_999_999)),
            ("spaces after semicolons", r#""a";  r=0; t=30"#, Some(30)),
            ("OWS around commas", "\"a\";r=0;t=1 \t,\t \"b\";r=0;t=2", Some(2)),
            ("OWS around the line", "\t\"a\";r=0;t=1 ", Some(1)),
            ("empty string", r#""";r=0;t=1"#, Some(1)),
            ("string with a list in it", r#""b\";r=0;t=9, \\";r=0;t=1"#, Some(1)),
            ("repeated key, last counts", r#""a";r=5;t=9;r=0;t=1"#, Some(1)),
            ("repeated key, of another type", r#""a";r=0;t=soon;t=1"#, Some(1)),
            ("repeated key, exhausted no more", r#""a";r=0;t=1;r=5"#, None),
            ("partition key", r#""a";r=0;pk=:cHsdsRa894==:;t=1"#, Some(1)),
            ("unpadded and empty bytes", r#""a";x=:QQ:;y=::;z=:QUE=:;r=0;t=1"#, Some(1)),
            ("key alone", r#""a";flag;r=0;t=1"#, Some(1)),
            ("odd keys", r#""a";*k_-.9*=1;rr=5;r.=5;r=0;t=1"#, Some(1)),
            ("booleans", r#""a";x=?0;y=?1;r=0;t=1"#, Some(1)),
            ("string", r#""a";x=";t=9, \"\\";r=0;t=1"#, Some(1)),
            ("tokens", r#""a";x=*a:/!#$%&'*+-.^_`|~9;y=Z;r=0;t=1"#, Some(1)),
            ("decimals", r#""a";x=-1.5;y=999999999999.999;r=0;t=1"#, Some(1)),
            ("negative integer", r#""a";x=-999999999999999;r=0;t=1"#, Some(1)),
            ("dates", r#""a";x=@1659578233;y=@-1;r=0;t=1"#, Some(1)),
            ("display string", r#""a";x=%"50%25 f%c3%bc\";r=0;t=1"#, Some(1)),
        ] {
            assert_eq!(seconds(&[line], None), expected, "{label}: {line}");
        }
    }

    #[test]
    fn a_fault_anywhere_spoils_the_whole_field() {
        for (label, line) in [
            ("empty", ""),
            ("blank", " \t"),
            ("a comma alone", ","),
            ("trailing comma", r#""a";r=0;t=1,"#),
            ("leading comma", r#","a";r=0;t=1"#),
            ("empty member", r#""a";r=0;t=1,,"b";r=0;t=1"#),
            ("no comma", r#""a";r=0;t=1 "b";r=0;t=1"#),
            ("other separator", r#""a";r=0;t=1."b";r=0;t=1"#),
            ("token as the item", "default;r=0;t=1"),
            ("integer as the item", "1;r=0;t=1"),
            ("inner list", r#"("a");r=0;t=1"#),
            ("no item", ";r=0;t=1"),
            ("unclosed string", r#""a;r=0;t=1"#),
            ("bad escape", r#""\a";r=0;t=1"#),
            ("unclosed escape", r#""a\"#),
            ("tab in a string", "\"a\tb\";r=0;t=1"),
            ("delete in a string", "\"a\u{7f}\";r=0;t=1"),
            ("non-ASCII in a string", "\"\u{e9}\";r=0;t=1"),
            ("no r", r#""a";t=1"#),
            ("negative r", r#""a";r=-1;t=1"#),
            ("decimal r", r#""a";r=0.0;t=1"#),
            ("r alone", r#""a";r;t=1"#),
            ("t alone", r#""a";r=0;t"#),
            ("t as a string", r#""a";r=0;t="1""#),
            ("t as a boolean", r#""a";r=0;t=?1"#),
            ("t as a date", r#""a";r=0;t=@1"#),
            ("plus", r#""a";r=0;t=+1"#),
            ("minus alone", r#""a";r=0;t=-"#),
            ("16 digits", r#""a";r=0;t=1000000000000000"#),
            ("no fraction", r#""a";r=0;t=1;x=1."#),
            ("no whole", r#""a";r=0;t=1;x=.1"#),
            ("a sign for the whole", r#""a";r=0;t=1;x=-.1"#),
            ("13 digits before the point", r#""a";r=0;t=1;x=1000000000000.0"#),
            ("4 digits after the point", r#""a";r=0;t=1;x=0.0001"#),
            ("two points", r#""a";r=0;t=1;x=0.1.1"#),
            ("no value", r#""a";r=0;t="#),
            ("no value in the middle", r#""a";x=;r=0;t=1"#),
            ("no key", r#""a";r=0;t=1;"#),
            ("key in capitals", r#""a";R=0;r=0;t=1"#),
            ("key of a digit", r#""a";1=0;r=0;t=1"#),
            ("space before a semicolon", r#""a" ;r=0;t=1"#),
            ("space before the value", r#""a";r= 0;t=1"#),
            ("space after the key", r#""a";r =0;t=1"#),
            ("tab after a semicolon", "\"a\";\tr=0;t=1"),
            ("boolean out of range", r#""a";x=?2;r=0;t=1"#),
            ("boolean without a value", r#""a";r=0;t=1;x=?"#),
            ("unclosed bytes", r#""a";r=0;t=1;x=:QQ=="#),
            ("bad base64", r#""a";x=:Q-Q=:;r=0;t=1"#),
            ("a sextet alone", r#""a";x=:Q:;r=0;t=1"#),
            ("wrong padding", r#""a";x=:QQ=:;r=0;t=1"#),
            ("padding alone", r#""a";x=:==:;r=0;t=1"#),
            ("padding too long", r#""a";x=:QUFB====:;r=0;t=1"#),
            ("padding in the middle", r#""a";x=:QQ==QQ==:;r=0;t=1"#),
            ("decimal date", r#""a";x=@1.5;r=0;t=1"#),
            ("date of no number", r#""a";x=@now;r=0;t=1"#),
            ("display string in capitals", r#""a";x=%"%C3%BC";r=0;t=1"#),
            ("display string not UTF-8", r#""a";x=%"%c3%28";r=0;t=1"#),
            ("display string of half a byte", r#""a";x=%"%c";r=0;t=1"#),
            ("display string with a tab", "\"a\";x=%\"\t\";r=0;t=1"),
            ("display string without a quote", r#""a";x=%a;r=0;t=1"#),
            ("unclosed display string", r#""a";r=0;t=1;x=%"a"#),
            ("unknown type", r#""a";x={};r=0;t=1"#),
        ] {
            assert_eq!(seconds(&[line], None), None, "{label}: {line}");
            let after_a_good_one = format!(r#""good";r=0;t=9,{line}"#);
            assert_eq!(seconds(&[&after_a_good_one], None), None, "{label}: {after_a_good_one}");
        }
    }

    #[test]
    fn a_fault_in_one_line_spoils_the_others() {
        let good = r#""a";r=0;t=1"#;
        for lines in [[good, "bad"], ["bad", good], [good, ""], ["", good]] {
            assert_eq!(seconds(&lines, None), None, "{lines:?}");
        }
    }

    #[test]
    fn only_a_valid_age_above_zero_makes_a_stored_response() {
        for (age, expected) in [("1", None), ("0", Some(30)), ("soon", Some(30))] {
            assert_eq!(seconds(&[r#""a";r=0;t=30"#], Some(age)), expected, "{age}");
        }
    }

    #[test]
    fn a_long_field_takes_linear_time() {
        let line = vec![r#""a";r=0;t=1;pk=:QUFB:;x="\\\\""#; 20_000].join(", ");
        assert_eq!(seconds(&[&line], None), Some(1));
    }
}
