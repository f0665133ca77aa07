//! Profiles as data, and what they ask for by the slow reading.

use http::header::{AGE, DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest_typed_retry::{ApiProfile, DelayHint, HintUnit, StatusCondition};

use crate::reading::{self, Bounds};

pub const UNITS: [HintUnit; 7] = [
    HintUnit::Seconds,
    HintUnit::DecimalSeconds,
    HintUnit::Millis,
    HintUnit::EpochSeconds,
    HintUnit::EpochMillis,
    HintUnit::Rfc3339,
    HintUnit::GoDuration,
];

/// What the profiles here read, and a field that none does.
pub const FIELDS: [&str; 24] = [
    "x-reset",
    "x-left",
    "date",
    "age",
    "retry-after",
    "ratelimit",
    "retry-after-ms",
    "x-ms-retry-after-ms",
    "x-ratelimit-reset",
    "x-ratelimit-remaining",
    "x-ratelimit-reset-requests",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-tokens",
    "x-ratelimit-remaining-tokens",
    "anthropic-ratelimit-requests-reset",
    "anthropic-ratelimit-requests-remaining",
    "anthropic-ratelimit-tokens-reset",
    "anthropic-ratelimit-tokens-remaining",
    "anthropic-ratelimit-input-tokens-reset",
    "anthropic-ratelimit-input-tokens-remaining",
    "anthropic-ratelimit-output-tokens-reset",
    "anthropic-ratelimit-output-tokens-remaining",
    "x-should-retry",
    "stripe-should-retry",
];

pub fn field(at: u8) -> &'static str {
    FIELDS[usize::from(at) % FIELDS.len()]
}

#[derive(Clone, Debug)]
pub enum Gate {
    Open,
    OnlyIf(&'static str, String),
    UnlessLeft(&'static str),
}

#[derive(Clone, Debug)]
pub struct Hint {
    pub field: &'static str,
    pub unit: HintUnit,
    pub gate: Gate,
}

#[derive(Clone, Debug, Default)]
pub struct Profile {
    pub before: Vec<Hint>,
    pub after: Vec<Hint>,
    pub verdicts: Vec<&'static str>,
    pub statuses: Vec<(u16, StatusCondition)>,
    pub promised: Vec<u16>,
    pub honours_keys: bool,
}

fn hint(field: &'static str, unit: HintUnit) -> Hint {
    Hint { field, unit, gate: Gate::Open }
}

fn used_up(reset: &'static str, remaining: &'static str, unit: HintUnit) -> Hint {
    Hint { gate: Gate::OnlyIf(remaining, "0".to_owned()), ..hint(reset, unit) }
}

/// Those of the crate, and what their documentation says of them.
pub fn built_in(at: u8) -> (ApiProfile, Profile) {
    use StatusCondition::{Always, WithHonouredKey, WithServerDelay};

    let standard = Profile::default();
    match at % 5 {
        0 => (ApiProfile::standard(), standard),
        1 => {
            let go = [10, 12].map(|at| used_up(FIELDS[at], FIELDS[at + 1], HintUnit::GoDuration));
            let rfc =
                [14, 16, 18, 20].map(|at| used_up(FIELDS[at], FIELDS[at + 1], HintUnit::Rfc3339));
            let openai = Profile {
                before: vec![hint("retry-after-ms", HintUnit::Millis)],
                after: [&go[..], &rfc].concat(),
                verdicts: vec!["x-should-retry"],
                statuses: vec![(529, Always)],
                ..standard
            };
            (ApiProfile::openai(), openai)
        }
        2 => {
            let before = ["retry-after-ms", "x-ms-retry-after-ms"];
            let before = before.map(|field| hint(field, HintUnit::Millis)).to_vec();
            (ApiProfile::azure(), Profile { before, ..standard })
        }
        3 => {
            let stripe = Profile {
                verdicts: vec!["stripe-should-retry"],
                statuses: vec![(409, WithHonouredKey)],
                honours_keys: true,
                ..standard
            };
            (ApiProfile::stripe(), stripe)
        }
        _ => {
            let gate = Gate::UnlessLeft("x-ratelimit-remaining");
            let reset = Hint { gate, ..hint("x-ratelimit-reset", HintUnit::EpochSeconds) };
            let github = Profile {
                after: vec![reset],
                statuses: vec![(403, WithServerDelay), (429, WithServerDelay)],
                ..standard
            };
            (ApiProfile::github(), github)
        }
    }
}

impl Hint {
    fn build(&self) -> DelayHint {
        let hint = DelayHint::new(HeaderName::from_static(self.field), self.unit);
        match &self.gate {
            Gate::Open => hint,
            Gate::OnlyIf(field, value) => hint.only_if(HeaderName::from_static(field), value),
            Gate::UnlessLeft(field) => hint.unless_left(HeaderName::from_static(field)),
        }
    }

    fn bounds(&self, headers: &HeaderMap, sent: i128) -> Option<Bounds> {
        let lines = |field: &str| {
            let lines = headers.get_all(field).iter().map(|line| reading::trimmed(line.as_bytes()));
            lines.map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        let is_open = match &self.gate {
            Gate::Open => true,
            Gate::OnlyIf(field, value) => {
                let says = lines(field);
                !says.is_empty() && says.iter().all(|line| line == value.trim().as_bytes())
            }
            Gate::UnlessLeft(field) => lines(field).iter().all(|line| line == b"0"),
        };
        let values = lines(self.field).into_iter().filter(|_| is_open);
        values.map(|value| reading::hint(self.unit, &value, sent)).fold(None, later)
    }
}

fn later(one: Option<Bounds>, other: Option<Bounds>) -> Option<Bounds> {
    match (one, other) {
        (Some(one), Some(other)) => Some((one.0.max(other.0), one.1.max(other.1))),
        (one, other) => one.or(other),
    }
}

impl Profile {
    pub fn build(&self) -> ApiProfile {
        let status = |status: u16| StatusCode::from_u16(status).unwrap();
        let mut profile = ApiProfile::standard();
        for hint in &self.before {
            profile = profile.hint_before(hint.build());
        }
        for hint in &self.after {
            profile = profile.hint(hint.build());
        }
        for field in &self.verdicts {
            profile = profile.verdict_field(HeaderName::from_static(field));
        }
        for (listed, condition) in &self.statuses {
            profile = profile.retry_statuses([status(*listed)], *condition);
        }
        if self.honours_keys {
            profile = profile.honours_idempotency_keys();
        }
        profile.not_processed_statuses(self.promised.iter().map(|listed| status(*listed)))
    }

    /// The delay that these fields ask for.
    pub fn server_delay(&self, headers: &HeaderMap, now: i128) -> Option<Bounds> {
        let lines = |name: &HeaderName| {
            headers.get_all(name).into_iter().map(HeaderValue::as_bytes).collect::<Vec<_>>()
        };
        let first = |name| lines(name).first().copied();
        let (date, age) = (first(&DATE), first(&AGE));
        let sent = reading::sent(date, age, now);
        let exactly = |delay| (delay, delay);
        let before = self.before.iter().find_map(|hint| hint.bounds(headers, sent));
        let retry_after = || reading::retry_after(lines(&RETRY_AFTER), date, age, now).map(exactly);
        let rate_limit = || {
            let field = HeaderName::from_static("ratelimit");
            reading::rate_limit(lines(&field), age).map(exactly)
        };
        let after = || self.after.iter().map(|hint| hint.bounds(headers, sent)).fold(None, later);
        before.or_else(retry_after).or_else(rate_limit).or_else(after)
    }
}
