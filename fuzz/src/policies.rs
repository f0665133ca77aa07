//! Policies as data, so that a target knows what it built; and their decisions by a slow reading of the table in
//! the README.

use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use reqwest_typed_retry::{
    Attempt, Backoff, DelaySource, Delivery, Fault, FaultKind, FaultSet, Jitter, KeyFormat,
    RetryPolicy, RetryReason, ServerDelays, StatusCondition, StatusSet, StopReason, Verdict,
};

use crate::nanos;
use crate::profiles::{Gate, Hint, Profile, UNITS, built_in, field};

pub const FAULTS: [FaultKind; 12] = [
    FaultKind::Dns,
    FaultKind::Connect,
    FaultKind::Tls,
    FaultKind::Timeout,
    FaultKind::ConnectionLost,
    FaultKind::Network,
    FaultKind::Refused,
    FaultKind::Protocol,
    FaultKind::Body,
    FaultKind::Decode,
    FaultKind::Invalid,
    FaultKind::Other,
];

/// Of any size, mostly one that people set.
#[derive(Clone, Copy, Debug)]
pub struct Wait(pub Duration);

impl<'a> Arbitrary<'a> for Wait {
    fn arbitrary(u: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        Ok(Self(match u.int_in_range(0..=7)? {
            0 => Duration::ZERO,
            1 => Duration::from_nanos(u.arbitrary::<u8>()?.into()),
            2 => Duration::from_nanos(u.arbitrary()?),
            3 => Duration::new(u.arbitrary()?, u.int_in_range(0..=999_999_999)?),
            4 => Duration::MAX,
            5 => Duration::from_secs(u.arbitrary::<u8>()?.into()),
            _ => Duration::from_millis(u.arbitrary::<u16>()?.into()),
        }))
    }
}

/// A status that an API can answer.
#[derive(Clone, Copy, Debug)]
pub struct Status(pub u16);

impl<'a> Arbitrary<'a> for Status {
    fn arbitrary(u: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        const USUAL: [u16; 16] =
            [200, 204, 301, 400, 403, 404, 408, 409, 425, 429, 500, 502, 503, 504, 507, 529];
        Ok(Self(if u.ratio(3, 4)? { *u.choose(&USUAL)? } else { u.int_in_range(100..=999)? }))
    }
}

impl Status {
    /// The same or another one, that can be listed.
    fn listed(self) -> StatusCode {
        code(self.0.max(400))
    }
}

pub fn code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap()
}

#[derive(Arbitrary, Clone, Debug)]
pub enum Schedule {
    Constant(Wait),
    Linear(Wait, Wait),
    Exponential(Wait, Wait),
    WithFactor(Wait, Wait, u16),
    Decorrelated(Wait, Wait),
    List(Wait, Vec<Wait>),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Spread {
    None,
    Full,
    Equal,
    Share(u8),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Limits {
    Default,
    UpTo(Wait),
    Clamped(Wait),
    Ignored,
}

#[derive(Arbitrary, Clone, Debug)]
pub struct HintRow {
    field: u8,
    unit: u8,
    gate: u8,
    is_before: bool,
}

#[derive(Arbitrary, Clone, Debug)]
pub enum Api {
    BuiltIn(u8),
    Own {
        hints: Vec<HintRow>,
        verdicts: Vec<u8>,
        statuses: Vec<(Status, u8)>,
        promised: Vec<Status>,
        honours_keys: bool,
    },
}

/// What a classifier says of outcomes with this remainder of three.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Rule {
    remainder: u8,
    verdict: Option<Option<Wait>>,
}

#[derive(Arbitrary, Clone, Debug)]
pub struct Policy {
    /// `None` only with a deadline, and with waits.
    pub max_attempts: Option<u8>,
    pub backoff: Schedule,
    pub throttle_backoff: Schedule,
    pub jitter: Spread,
    pub transient: bool,
    pub statuses: Vec<Status>,
    pub faults: Option<u16>,
    pub promised: Vec<Status>,
    pub honours: Option<bool>,
    pub makes_keys: bool,
    pub assumes: bool,
    pub server_delays: Limits,
    pub deadline: Option<Wait>,
    pub api: Api,
    pub rule: Option<Rule>,
}

impl Schedule {
    fn base_and_max(one: Wait, other: Wait) -> (Duration, Duration) {
        (one.0.min(other.0), one.0.max(other.0))
    }

    fn list(first: Wait, more: &[Wait]) -> Vec<Duration> {
        let mut list = vec![first.0];
        list.extend(more.iter().map(|wait| wait.0));
        list.sort();
        list
    }

    fn factor(raw: u16) -> f64 {
        1.0 + f64::from(raw) / 256.0
    }

    pub fn build(&self) -> Backoff {
        let backoff = match self {
            Self::Constant(wait) => Ok(Backoff::constant(wait.0)),
            Self::Linear(one, other) => {
                let (base, max) = Self::base_and_max(*one, *other);
                Backoff::linear(base, max)
            }
            Self::Exponential(one, other) => {
                let (base, max) = Self::base_and_max(*one, *other);
                Backoff::exponential(base, max)
            }
            Self::WithFactor(one, other, factor) => {
                let (base, max) = Self::base_and_max(*one, *other);
                Backoff::exponential(base, max)
                    .and_then(|backoff| backoff.with_factor(Self::factor(*factor)))
            }
            Self::Decorrelated(one, other) => {
                let (base, max) = Self::base_and_max(*one, *other);
                Backoff::decorrelated(base, max)
            }
            Self::List(first, more) => Backoff::schedule(Self::list(*first, more)),
        };
        backoff.expect("base and maximum are in order, a list is not empty and sorted")
    }

    fn max(&self) -> Duration {
        match self {
            Self::Constant(wait) => wait.0,
            Self::Linear(one, other)
            | Self::Exponential(one, other)
            | Self::WithFactor(one, other, _)
            | Self::Decorrelated(one, other) => one.0.max(other.0),
            Self::List(first, more) => *Self::list(*first, more).last().unwrap(),
        }
    }

    /// The least and the most that the wait before this retry may be, by going through all of them.
    fn envelope(&self, retry: u32, previous: Option<Duration>, jitter: Spread) -> (i128, i128) {
        let max = nanos(self.max());
        let step_by_step = |base: Duration, step: &dyn Fn(i128) -> i128| {
            (1..retry)
                .fold(nanos(base), |wait, _| if wait < max { step(wait).min(max) } else { max })
        };
        let exact = match self {
            Self::Constant(wait) => nanos(wait.0),
            Self::Linear(one, other) => {
                let (base, _) = Self::base_and_max(*one, *other);
                step_by_step(base, &|wait| wait + nanos(base))
            }
            Self::Exponential(one, other) => {
                let (base, _) = Self::base_and_max(*one, *other);
                step_by_step(base, &|wait| wait * 2)
            }
            Self::WithFactor(one, other, factor) => {
                let (base, _) = Self::base_and_max(*one, *other);
                // As exact as it can be said: 256ths, which a number of that many bits holds for some steps.
                let factor = Self::factor(*factor);
                let grown = nanos(base) as f64 * factor.powi(retry as i32 - 1);
                let near = if grown >= max as f64 { max } else { grown as i128 };
                let slack = 1 + near / 1_000_000_000;
                let (least, most) = (near - slack, (near + slack).min(max));
                return (spread(jitter, least, max).0, spread(jitter, most, max).1);
            }
            Self::Decorrelated(one, other) => {
                let (base, _) = Self::base_and_max(*one, *other);
                let previous = previous.map_or(nanos(base), nanos);
                return (nanos(base), (previous * 3).min(max).max(nanos(base)));
            }
            Self::List(first, more) => {
                let list = Self::list(*first, more);
                nanos(*list.get(retry as usize - 1).unwrap_or(list.last().unwrap()))
            }
        };
        spread(jitter, exact, max)
    }
}

/// The interval around a nominal delay.
fn spread(jitter: Spread, delay: i128, max: i128) -> (i128, i128) {
    match jitter {
        Spread::None => (delay, delay),
        Spread::Full => (0, delay),
        Spread::Equal => (delay / 2, delay),
        Spread::Share(share) => {
            let width = delay * i128::from(share) / 255;
            let slack = 1 + width / 1_000_000_000;
            ((delay - width - slack).max(0), (delay + width + slack).min(max))
        }
    }
}

impl Spread {
    fn build(self) -> Jitter {
        match self {
            Self::None => Jitter::None,
            Self::Full => Jitter::Full,
            Self::Equal => Jitter::Equal,
            Self::Share(share) => {
                Jitter::proportional(f64::from(share) / 255.0).expect("between 0 and 1")
            }
        }
    }
}

impl Limits {
    fn build(self) -> ServerDelays {
        match self {
            Self::Default => ServerDelays::UpTo(Duration::from_secs(60)),
            Self::UpTo(limit) => ServerDelays::UpTo(limit.0),
            Self::Clamped(limit) => ServerDelays::ClampedTo(limit.0.max(Duration::from_nanos(1))),
            Self::Ignored => ServerDelays::Ignored,
        }
    }
}

impl Api {
    fn profile(&self) -> Profile {
        let (hints, verdicts, statuses, promised, honours_keys) = match self {
            Self::BuiltIn(at) => return built_in(*at).1,
            Self::Own { hints, verdicts, statuses, promised, honours_keys } => {
                (hints, verdicts, statuses, promised, honours_keys)
            }
        };
        let hint = |row: &HintRow| Hint {
            field: field(row.field),
            unit: UNITS[usize::from(row.unit) % UNITS.len()],
            gate: match row.gate {
                gate @ 0..64 => Gate::OnlyIf(field(gate), "0".to_owned()),
                gate @ 64..128 => Gate::UnlessLeft(field(gate)),
                _ => Gate::Open,
            },
        };
        let (before, after): (Vec<_>, Vec<_>) = hints.iter().partition(|row| row.is_before);
        let condition = |how: u8| match how % 3 {
            0 => StatusCondition::Always,
            1 => StatusCondition::WithServerDelay,
            _ => StatusCondition::WithHonouredKey,
        };
        let statuses: Vec<_> = statuses
            .iter()
            .map(|(status, how)| (status.listed().as_u16(), condition(*how)))
            .collect();
        let names_keys = statuses.iter().any(|(_, it)| *it == StatusCondition::WithHonouredKey);
        Profile {
            before: before.into_iter().map(hint).collect(),
            after: after.into_iter().map(hint).collect(),
            verdicts: verdicts.iter().map(|at| field(*at)).collect(),
            statuses,
            promised: promised.iter().map(|status| status.listed().as_u16()).collect(),
            honours_keys: *honours_keys || names_keys,
        }
    }
}

/// The field for keys, by default.
const KEY: HeaderName = HeaderName::from_static("idempotency-key");

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Verb {
    Get,
    Post,
    PostWithKey,
    PostWithEmptyKey,
    PatchWithKey,
    PutWithKey,
    Delete,
    Lock,
    LockWithKey,
}

impl Verb {
    pub fn request(self) -> (Method, HeaderMap) {
        let (method, key) = match self {
            Self::Get => ("GET", None),
            Self::Post => ("POST", None),
            Self::PostWithKey => ("POST", Some("\"k\"")),
            Self::PostWithEmptyKey => ("POST", Some("\"\"")),
            Self::PatchWithKey => ("PATCH", Some("k")),
            Self::PutWithKey => ("PUT", Some("k")),
            Self::Delete => ("DELETE", None),
            Self::Lock => ("LOCK", None),
            Self::LockWithKey => ("LOCK", Some("k")),
        };
        let key = key.map(|key| (KEY, HeaderValue::from_static(key)));
        (method.parse().unwrap(), key.into_iter().collect())
    }

    fn is_idempotent(self) -> bool {
        matches!(self, Self::Get | Self::PutWithKey | Self::Delete)
    }

    fn has_key(self) -> bool {
        matches!(self, Self::PostWithKey | Self::PatchWithKey)
    }
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub enum End {
    Response(StatusCode, HeaderMap),
    Fault(Fault),
}

/// One attempt, as the slow reading sees it.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    pub number: u32,
    pub verb: Verb,
    pub end: &'a End,
    pub now: i128,
    pub not_processed: bool,
    pub elapsed: Duration,
    pub previous: Option<Duration>,
    pub deadline: Option<Duration>,
}

/// What may be decided.
#[derive(Clone, Debug)]
pub enum Expected {
    Retry {
        reason: RetryReason,
        source: DelaySource,
        delay: (i128, i128),
    },
    Stop(&'static [&'static str]),
    /// Where the wait decides and was not drawn yet.
    RetryOrDeadline {
        reason: RetryReason,
        source: DelaySource,
        delay: (i128, i128),
    },
}

impl Policy {
    fn has_limit(&self) -> bool {
        let has_waits =
            [&self.backoff, &self.throttle_backoff].iter().all(|backoff| !backoff.max().is_zero());
        self.max_attempts.is_some() || self.deadline().is_none() || !has_waits
    }

    pub fn max_attempts(&self) -> Option<u32> {
        self.has_limit().then(|| u32::from(self.max_attempts.unwrap_or(3)).max(1))
    }

    pub fn deadline(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.0.max(Duration::from_nanos(1)))
    }

    fn statuses(&self) -> StatusSet {
        let listed: StatusSet = self.statuses.iter().map(|status| status.listed()).collect();
        if self.transient { StatusSet::transient().union(listed) } else { listed }
    }

    fn retries(&self, status: StatusCode) -> bool {
        const TRANSIENT: [u16; 7] = [408, 425, 429, 500, 502, 503, 504];
        self.statuses.iter().any(|listed| listed.listed() == status)
            || (self.transient && TRANSIENT.contains(&status.as_u16()))
    }

    fn fault_is_transient(&self, kind: FaultKind) -> bool {
        let at = FAULTS.iter().position(|known| *known == kind).unwrap();
        match self.faults {
            Some(bits) => bits & 1 << at != 0,
            None => !matches!(
                kind,
                FaultKind::Tls | FaultKind::Decode | FaultKind::Invalid | FaultKind::Other
            ),
        }
    }

    fn honours(&self) -> Option<bool> {
        // Who makes keys must not say that nobody honours them.
        self.honours.filter(|honours| *honours || !self.makes_keys)
    }

    fn honours_keys(&self) -> bool {
        self.honours().unwrap_or(self.makes_keys || self.api.profile().honours_keys)
    }

    pub fn build(&self) -> RetryPolicy {
        let faults = match self.faults {
            Some(_) => FAULTS.into_iter().filter(|kind| self.fault_is_transient(*kind)).collect(),
            None => FaultSet::transient(),
        };
        let api = match &self.api {
            Api::BuiltIn(at) => built_in(*at).0,
            own => own.profile().build(),
        };
        let mut builder = RetryPolicy::builder()
            .backoff(self.backoff.build())
            .throttle_backoff(self.throttle_backoff.build())
            .jitter(self.jitter.build())
            .retry_statuses(self.statuses())
            .retry_faults(faults)
            .not_processed_statuses(self.promised.iter().map(|status| status.listed()).collect())
            .assume_idempotent(self.assumes)
            .server_delays(self.server_delays.build())
            .deadline(self.deadline())
            .profile(api);
        builder = match self.max_attempts() {
            Some(max) => builder.max_attempts(max),
            None => builder.unlimited_attempts(),
        };
        if let Some(honours) = self.honours() {
            builder = builder.honour_idempotency_keys(honours);
        }
        if self.makes_keys {
            builder = builder.generate_idempotency_keys(KeyFormat::Bare);
        }
        if let Some(rule) = self.rule {
            builder = builder.classifier(move |attempt: &Attempt<'_>| {
                let number = match attempt.outcome() {
                    reqwest_typed_retry::Outcome::Response { status, .. } => status.as_u16(),
                    _ => 0,
                };
                rule.verdict(number)
            });
        }
        builder.build().expect("made of what is valid together")
    }

    /// Whether two sends are harmless.
    pub fn is_repeatable(&self, verb: Verb) -> bool {
        verb.is_idempotent() || self.assumes || (verb.has_key() && self.honours_keys())
    }

    /// Whether it is proven that the server did not act.
    fn is_proven(&self, seen: &Seen) -> bool {
        seen.not_processed
            && match seen.end {
                End::Response(status, _) => {
                    let own = self.promised.iter().any(|listed| listed.listed() == *status);
                    own || self.api.profile().promised.contains(&status.as_u16())
                }
                End::Fault(fault) => fault.delivery() == Delivery::NotProcessed,
            }
    }

    /// The README's table.
    pub fn expect(&self, seen: &Seen) -> Expected {
        let profile = self.api.profile();
        let listens = !matches!(self.server_delays, Limits::Ignored);
        let asked = match seen.end {
            End::Response(_, headers) if listens => profile.server_delay(headers, seen.now),
            _ => None,
        };
        // 1. Verdict.
        let status = match seen.end {
            End::Response(status, _) => Some(*status),
            End::Fault(_) => None,
        };
        let ruled = self.rule.and_then(|rule| rule.verdict(status.map_or(0, |it| it.as_u16())));
        let (reason, wanted) = match (ruled, seen.end) {
            (Some(Verdict::Permanent), _) => return Expected::Stop(&["permanent"]),
            (Some(Verdict::Transient { delay }), _) => (RetryReason::Classifier, delay),
            (Some(other), _) => panic!("unknown verdict {other:?}"),
            (None, End::Response(status, _)) if status.as_u16() < 400 => {
                return Expected::Stop(&["completed"]);
            }
            (None, End::Response(status, headers)) => {
                let says = profile.verdicts.iter().flat_map(|field| headers.get_all(*field));
                let word = says.filter_map(|value| match value.as_bytes() {
                    b"true" => Some(true),
                    b"false" => Some(false),
                    _ => None,
                });
                let word = word.take(1).next().filter(|_| status.as_u16() < 600);
                let has_key = seen.verb.has_key() && self.honours_keys();
                let holds = |condition: &StatusCondition| match condition {
                    StatusCondition::Always => true,
                    StatusCondition::WithServerDelay => asked.is_some(),
                    _ => has_key,
                };
                let by_profile = profile
                    .statuses
                    .iter()
                    .any(|(listed, condition)| listed == &status.as_u16() && holds(condition));
                let is_listed = self.retries(*status) || by_profile;
                match word {
                    Some(true) => (RetryReason::ServerDirective, None),
                    Some(false) if is_listed => return Expected::Stop(&["server_refused"]),
                    None if is_listed => (RetryReason::Status(*status), None),
                    _ => return Expected::Stop(&["permanent"]),
                }
            }
            (None, End::Fault(fault)) if self.fault_is_transient(fault.kind()) => {
                (RetryReason::Fault(fault.kind()), None)
            }
            (None, End::Fault(_)) => return Expected::Stop(&["permanent"]),
        };
        // 2. Method safety.
        if !self.is_repeatable(seen.verb) && !self.is_proven(seen) {
            return Expected::Stop(&["not_idempotent"]);
        }
        // 3. Attempts.
        if self.max_attempts().is_some_and(|max| seen.number >= max) {
            return Expected::Stop(&["attempts_exhausted"]);
        }
        // 4. Delay. A bound of zero may be one nanosecond more: either way round is right.
        let wanted = wanted
            .filter(|delay| !delay.is_zero())
            .map(|delay| (DelaySource::Classifier, (nanos(delay), nanos(delay))));
        let asked = asked.filter(|(_, most)| *most > 0).map(|asked| (DelaySource::Server, asked));
        let (source, delay) = match wanted.or(asked) {
            Some((source, (least, most))) => {
                // 5. The server's limit.
                let (least, most) = match self.server_delays.build() {
                    ServerDelays::UpTo(limit) if least > nanos(limit) => {
                        return Expected::Stop(&["server_delay_too_long"]);
                    }
                    ServerDelays::ClampedTo(limit) => {
                        (least.min(nanos(limit)), most.min(nanos(limit)))
                    }
                    _ => (least, most),
                };
                let stretch = match self.jitter {
                    Spread::None => 0,
                    _ => (most / 10).min(nanos(Duration::from_secs(5))),
                };
                (source, (least, (most + stretch).min(nanos(Duration::MAX))))
            }
            None => {
                let (backoff, source) = if status == Some(StatusCode::TOO_MANY_REQUESTS) {
                    (&self.throttle_backoff, DelaySource::ThrottleBackoff)
                } else {
                    (&self.backoff, DelaySource::Backoff)
                };
                (source, backoff.envelope(seen.number, seen.previous, self.jitter))
            }
        };
        // 6. The deadline.
        let deadline = [self.deadline(), seen.deadline].into_iter().flatten().min();
        match deadline.map(|deadline| nanos(deadline) - nanos(seen.elapsed)) {
            Some(left) if delay.0 >= left => Expected::Stop(&["deadline_would_pass"]),
            Some(left) if delay.1 >= left => {
                let delay = (delay.0, left - 1);
                Expected::RetryOrDeadline { reason, source, delay }
            }
            _ => Expected::Retry { reason, source, delay },
        }
    }
}

impl Rule {
    fn verdict(&self, number: u16) -> Option<Verdict> {
        (number % 3 == u16::from(self.remainder) % 3).then(|| match self.verdict {
            Some(delay) => Verdict::Transient { delay: delay.map(|delay| delay.0) },
            None => Verdict::Permanent,
        })
    }
}

impl Expected {
    pub fn holds(&self, decision: &reqwest_typed_retry::RetryDecision) -> bool {
        let is_stop = |labels: &[&str]| {
            decision.stop_reason().is_some_and(|reason| labels.contains(&reason.as_str()))
        };
        let is_retry = |reason, source, delay: &(i128, i128)| {
            decision.retry_reason() == Some(reason)
                && decision.delay_source() == Some(source)
                && decision.delay().is_some_and(|it| (delay.0..=delay.1).contains(&nanos(it)))
        };
        match self {
            Self::Stop(labels) => is_stop(labels),
            Self::Retry { reason, source, delay } => is_retry(*reason, *source, delay),
            Self::RetryOrDeadline { reason, source, delay } => {
                let stop = Some(StopReason::DeadlineWouldPass);
                decision.stop_reason() == stop || is_retry(*reason, *source, delay)
            }
        }
    }
}
