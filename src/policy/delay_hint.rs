//! One field by which an API says when to send again, and the unit of its value.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, HeaderName};

use super::jitter::from_nanos;
use super::retry_after::{delay_seconds, trim_ows};
use super::{http_date, rfc3339};

/// A response field that asks for a delay, beyond the standard ones, and how its value is read.
///
/// A value that does not fit its unit is ignored, never guessed at. Of several lines the longest valid
/// delay counts; an instant that has passed is a delay of zero. It has an effect in an
/// [`ApiProfile`](crate::ApiProfile) only.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use http::{HeaderMap, HeaderName};
/// use reqwest_typed_retry::{ApiProfile, DelayHint, HintUnit};
///
/// // Discord: seconds with a fraction, and only if nothing is left of the quota.
/// let field = HeaderName::from_static("x-ratelimit-reset-after");
/// let left = HeaderName::from_static("x-ratelimit-remaining");
/// let hint = DelayHint::new(field, HintUnit::DecimalSeconds).only_if(left, "0");
/// let profile = ApiProfile::standard().hint(hint);
///
/// let mut headers = HeaderMap::new();
/// headers.insert("X-RateLimit-Reset-After", "64.57".parse().unwrap());
/// assert_eq!(profile.server_delay(&headers, SystemTime::UNIX_EPOCH), None);
/// headers.insert("X-RateLimit-Remaining", "0".parse().unwrap());
/// let delay = profile.server_delay(&headers, SystemTime::UNIX_EPOCH);
/// assert_eq!(delay, Some(Duration::from_millis(64_570)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct DelayHint {
    pub(super) field: HeaderName,
    pub(super) unit: HintUnit,
    pub(super) gate: Option<Gate>,
}

/// What the value of a [`DelayHint`] is. The unit is never guessed from the number.
///
/// A fraction is digits, a point and digits; a sign, an exponent or a missing digit is no number.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use http::{HeaderMap, HeaderName, HeaderValue};
/// use reqwest_typed_retry::{ApiProfile, DelayHint, HintUnit};
///
/// let field = HeaderName::from_static("x-reset");
/// let read = |unit, value| {
///     let headers = HeaderMap::from_iter([(field.clone(), HeaderValue::from_static(value))]);
///     let profile = ApiProfile::standard().hint(DelayHint::new(field.clone(), unit));
///     profile.server_delay(&headers, SystemTime::UNIX_EPOCH).map(|delay| delay.as_millis())
/// };
/// assert_eq!(read(HintUnit::Seconds, "2"), Some(2_000));
/// assert_eq!(read(HintUnit::Seconds, "2.5"), None);
/// assert_eq!(read(HintUnit::DecimalSeconds, "2.5"), Some(2_500));
/// assert_eq!(read(HintUnit::Millis, "2.5"), Some(3));
/// assert_eq!(read(HintUnit::GoDuration, "1m2.5s"), Some(62_500));
/// // Instants, as seen from 1970-01-01T00:00:00Z, since there is no `Date`.
/// assert_eq!(read(HintUnit::EpochSeconds, "20"), Some(20_000));
/// assert_eq!(read(HintUnit::EpochMillis, "20"), Some(20));
/// assert_eq!(read(HintUnit::Rfc3339, "1970-01-01T00:00:20Z"), Some(20_000));
///
/// assert_eq!((HintUnit::Rfc3339.as_str(), HintUnit::Seconds.to_string().as_str()), ("rfc3339", "seconds"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HintUnit {
    /// Whole seconds from now.
    Seconds,
    /// Seconds from now, with a fraction or without.
    DecimalSeconds,
    /// Milliseconds from now; a fraction is rounded up to the next one.
    Millis,
    /// An instant: seconds since 1970, with a fraction or without. Read like a date in `Retry-After`,
    /// against the response's own `Date`.
    EpochSeconds,
    /// An instant: whole milliseconds since 1970.
    EpochMillis,
    /// An instant as RFC 3339 5.6 writes it, such as `2026-11-29T12:00:20Z`.
    Rfc3339,
    /// A duration as Go prints it: `6m0s`, `1.5s`, `12ms`.
    GoDuration,
}

impl HintUnit {
    #[cfg(feature = "serde")]
    pub(super) const ALL: [Self; 7] = [
        Self::Seconds,
        Self::DecimalSeconds,
        Self::Millis,
        Self::EpochSeconds,
        Self::EpochMillis,
        Self::Rfc3339,
        Self::GoDuration,
    ];

    /// A stable name: that of settings files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::DecimalSeconds => "decimal_seconds",
            Self::Millis => "millis",
            Self::EpochSeconds => "epoch_seconds",
            Self::EpochMillis => "epoch_millis",
            Self::Rfc3339 => "rfc3339",
            Self::GoDuration => "go_duration",
        }
    }

    /// The delay that `value` asks for at `sent`, a moment on the scale of [`http_date::since_1570`].
    fn read(self, value: &[u8], sent: Duration) -> Option<Duration> {
        let until = |since_1970| http_date::from_1970(since_1970).saturating_sub(sent);
        match self {
            Self::Seconds => delay_seconds(value).map(Duration::from_secs),
            Self::DecimalSeconds => decimal(value, SECOND).map(from_nanos),
            Self::Millis => {
                let nanos = decimal(value, MILLI)?;
                Some(from_nanos(nanos.div_ceil(MILLI).saturating_mul(MILLI)))
            }
            Self::EpochSeconds => decimal(value, SECOND).map(from_nanos).map(until),
            Self::EpochMillis => {
                delay_seconds(value).map(|millis| until(Duration::from_millis(millis)))
            }
            Self::Rfc3339 => Some(rfc3339::parse(value)?.saturating_sub(sent)),
            Self::GoDuration => go_duration(value),
        }
    }
}

impl fmt::Display for HintUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What another field must say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Is { field: HeaderName, value: String },
    NoneLeft { field: HeaderName },
}

impl Gate {
    fn is_open(&self, headers: &HeaderMap) -> bool {
        let says = |field: &HeaderName, expected: &[u8]| {
            headers.contains_key(field)
                && headers.get_all(field).iter().all(|line| trim_ows(line.as_bytes()) == expected)
        };
        match self {
            Self::Is { field, value } => says(field, value.as_bytes()),
            Self::NoneLeft { field } => !headers.contains_key(field) || says(field, b"0"),
        }
    }
}

impl DelayHint {
    /// This field, read in this unit.
    pub fn new(field: HeaderName, unit: HintUnit) -> Self {
        Self { field, unit, gate: None }
    }

    /// Read it only in a response whose `field` has exactly this value in each of its lines, spaces around
    /// it aside. It replaces another condition. **Default**: no condition.
    pub fn only_if(mut self, field: HeaderName, value: impl Into<String>) -> Self {
        self.gate = Some(Gate::Is { field, value: value.into().trim().to_owned() });
        self
    }

    /// Read it only in a response that has no `remaining` field or whose value is 0: while there is
    /// quota, the end of a window is no delay. It replaces another condition. **Default**: no condition.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use http::{HeaderMap, HeaderName, HeaderValue};
    /// use reqwest_typed_retry::{ApiProfile, DelayHint, HintUnit};
    ///
    /// let (reset, left) = (HeaderName::from_static("x-reset"), HeaderName::from_static("x-left"));
    /// let hint = DelayHint::new(reset.clone(), HintUnit::Seconds).unless_left(left.clone());
    /// let profile = ApiProfile::standard().hint(hint);
    /// let mut headers = HeaderMap::from_iter([(reset, HeaderValue::from_static("30"))]);
    /// let asked = |headers: &_| profile.server_delay(headers, SystemTime::now());
    /// assert_eq!(asked(&headers), Some(Duration::from_secs(30)));
    /// headers.insert(left, HeaderValue::from_static("4"));
    /// assert_eq!(asked(&headers), None);
    /// ```
    pub fn unless_left(mut self, remaining: HeaderName) -> Self {
        self.gate = Some(Gate::NoneLeft { field: remaining });
        self
    }

    /// The longest valid delay.
    pub(super) fn delay(&self, headers: &HeaderMap, sent: Duration) -> Option<Duration> {
        if self.gate.as_ref().is_some_and(|gate| !gate.is_open(headers)) {
            return None;
        }
        let lines = headers.get_all(&self.field).into_iter();
        lines.filter_map(|line| self.unit.read(trim_ows(line.as_bytes()), sent)).max()
    }
}

const SECOND: u128 = 1_000_000_000;
const MILLI: u128 = 1_000_000;

/// `1*DIGIT [ "." 1*DIGIT ]` of a unit of so many nanoseconds, rounded up to the next one. Saturates.
fn decimal(value: &[u8], unit: u128) -> Option<u128> {
    let (whole, fraction) = match value.iter().position(|byte| *byte == b'.') {
        Some(point) => (value.get(..point)?, Some(value.get(point + 1..)?)),
        None => (value, None),
    };
    let whole = digits(whole)?.saturating_mul(unit);
    let Some(fraction) = fraction else {
        return Some(whole);
    };
    // Beyond these, no unit has nanoseconds to tell.
    let (read, rest) = fraction.split_at(fraction.len().min(18));
    let numerator = digits(read)?;
    let is_more = !rest.is_empty() && digits(rest)? > 0;
    let denominator = read.iter().fold(1_u128, |product, _| product * 10);
    let part = ((numerator + u128::from(is_more)) * unit).div_ceil(denominator);
    Some(whole.saturating_add(part))
}

fn digits(value: &[u8]) -> Option<u128> {
    let value = Some(value).filter(|value| !value.is_empty())?;
    value.iter().try_fold(0_u128, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| byte - b'0')?;
        Some(number.saturating_mul(10).saturating_add(digit.into()))
    })
}

/// Numbers with units, the sum of them.
fn go_duration(mut value: &[u8]) -> Option<Duration> {
    let mut sum = None;
    while !value.is_empty() {
        let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let number;
        (number, value) = value.split_at(value.iter().position(|byte| !is_number(byte))?);
        let unit;
        (unit, value) = value.split_at(value.iter().position(is_number).unwrap_or(value.len()));
        let nanos = match unit {
            b"ns" => 1,
            b"us" | b"\xc2\xb5s" | b"\xce\xbcs" => 1_000,
            b"ms" => MILLI,
            b"s" => SECOND,
            b"m" => 60 * SECOND,
            b"h" => 3_600 * SECOND,
            _ => return None,
        };
        sum = Some(decimal(number, nanos)?.saturating_add(sum.unwrap_or(0)));
    }
    sum.map(from_nanos)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    /// 2026-11-29 12:00:00.
    const NOW: u64 = 1_795_953_600;

    #[test]
    fn each_unit_reads_its_own_values_and_no_other() {
        use HintUnit::*;
        let sent = http_date::from_1970(Duration::from_secs(NOW));
        let nanos = Duration::from_nanos;
        for (unit, value, expected) in [
            (Seconds, "30", Some(nanos(30_000_000_000))),
            (Seconds, "30.0", None),
            (Seconds, "-1", None),
            (Seconds, "18446744073709551616", Some(Duration::from_secs(u64::MAX))),
            (DecimalSeconds, "30", Some(nanos(30_000_000_000))),
            (DecimalSeconds, "64.57", Some(nanos(64_570_000_000))),
            (DecimalSeconds, "0.0000000001", Some(nanos(1))),
            (DecimalSeconds, "0.0000000010000000000000000001", Some(nanos(2))),
            (DecimalSeconds, "0.0000000010000000000000000000", Some(nanos(1))),
            (DecimalSeconds, "0.000000000", Some(nanos(0))),
            (DecimalSeconds, "1.", None),
            (DecimalSeconds, ".5", None),
            (DecimalSeconds, "1e3", None),
            (DecimalSeconds, "1.5.1", None),
            (DecimalSeconds, "+1", None),
            (DecimalSeconds, "1,5", None),
            (DecimalSeconds, "1.00000000000000000000x", None),
            (DecimalSeconds, "99999999999999999999999999999999999999999", Some(Duration::MAX)),
            (Millis, "1500", Some(nanos(1_500_000_000))),
            (Millis, "0", Some(nanos(0))),
            (Millis, "250.5", Some(nanos(251_000_000))),
            (Millis, "250.0", Some(nanos(250_000_000))),
            (Millis, "soon", None),
            (Millis, "", None),
            (Millis, "-5", None),
            (Millis, "340282366920938463463374607431768211456", Some(Duration::MAX)),
            (EpochSeconds, "1795953630", Some(nanos(30_000_000_000))),
            (EpochSeconds, "1795953600.25", Some(nanos(250_000_000))),
            (EpochSeconds, "1795953590", Some(nanos(0))),
            (EpochSeconds, "30", Some(nanos(0))),
            (EpochMillis, "1795953607250", Some(nanos(7_250_000_000))),
            (EpochMillis, "1795953607250.5", None),
            (Rfc3339, "2026-11-29T12:00:20Z", Some(nanos(20_000_000_000))),
            (Rfc3339, "2026-11-29T11:00:20Z", Some(nanos(0))),
            (Rfc3339, "1795953630", None),
            (GoDuration, "6m0s", Some(Duration::from_secs(360))),
            (GoDuration, "12ms", Some(nanos(12_000_000))),
            (GoDuration, "1h2m3.5s", Some(nanos(3_723_500_000_000))),
            (GoDuration, "7us5ns", Some(nanos(7_005))),
            (GoDuration, "7\u{b5}s", Some(nanos(7_000))),
            (GoDuration, "7\u{3bc}s", Some(nanos(7_000))),
            (GoDuration, "0.0000000002h", Some(nanos(720))),
            (GoDuration, "0s", Some(nanos(0))),
            (GoDuration, "0", None),
            (GoDuration, "5", None),
            (GoDuration, "s", None),
            (GoDuration, "5 s", None),
            (GoDuration, "-5s", None),
            (GoDuration, "5d", None),
            (GoDuration, ".5s", None),
            (GoDuration, "", None),
            (GoDuration, "99999999999999999999999999999999999h1ns", Some(Duration::MAX)),
        ] {
            assert_eq!(unit.read(value.as_bytes(), sent), expected, "{unit:?} {value:?}");
        }
    }

    #[test]
    fn a_gate_opens_by_what_the_other_field_says() {
        let field = HeaderName::from_static("x-remaining");
        let hint = DelayHint::new(HeaderName::from_static("x-reset"), HintUnit::Seconds);
        let only_if = hint.clone().only_if(field.clone(), " 0 ");
        let unless_left = hint.clone().unless_left(field.clone());
        for (label, lines, is, none_left) in [
            ("absent", &[][..], false, true),
            ("zero", &["0"], true, true),
            ("zero with space", &[" 0\t"], true, true),
            ("quota left", &["1"], false, false),
            ("another spelling", &["00"], false, false),
            ("both", &["0", "1"], false, false),
            ("zero twice", &["0", "0"], true, true),
            ("empty", &[""], false, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("x-reset", HeaderValue::from_static("7"));
            for line in lines {
                headers.append(&field, line.parse().unwrap());
            }
            let delay = |hint: &DelayHint| hint.delay(&headers, Duration::ZERO);
            let seven = Some(Duration::from_secs(7));
            assert_eq!(delay(&hint), seven, "{label}");
            assert_eq!(delay(&only_if), seven.filter(|_| is), "{label}");
            assert_eq!(delay(&unless_left), seven.filter(|_| none_left), "{label}");
        }
    }

    #[test]
    fn of_several_lines_the_longest_valid_one_counts() {
        let hint = DelayHint::new(HeaderName::from_static("x-ms"), HintUnit::Millis);
        let mut headers = HeaderMap::new();
        for line in ["5", "soon", " 70\t", "6"] {
            headers.append("x-ms", HeaderValue::from_static(line));
        }
        assert_eq!(hint.delay(&headers, Duration::ZERO), Some(Duration::from_millis(70)));
    }
}
