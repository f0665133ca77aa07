//! Which outcomes are sent again: the policy is asked about every one of them.

use std::time::SystemTime;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::page::Page;
use crate::policy::status::{self, StatusSet};
use crate::policy::{
    Attempt, Fault, FaultKind, Outcome, RetryPolicy, RetryableMethod, StatusCondition, StopReason,
};

/// A field of this length can stand in a label; that of a longer one is in a line of its own.
const SHORT: usize = 24;

/// What becomes of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Resend,
    IfNotProcessed,
    No(StopReason),
}

impl Cell {
    pub(super) fn label(self) -> String {
        match self {
            Self::Resend => "resend".to_owned(),
            Self::IfNotProcessed => "if not processed".to_owned(),
            Self::No(reason) => format!("no: {}", reason.as_str()),
        }
    }
}

/// What a response says besides its status, as far as a policy may listen to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Says {
    verdict: Option<bool>,
    delay: bool,
}

impl Says {
    const NOTHING: Self = Self { verdict: None, delay: false };

    /// The general before the special.
    const ALL: [Self; 6] = [
        Self::NOTHING,
        Self { verdict: None, delay: true },
        Self { verdict: Some(false), delay: false },
        Self { verdict: Some(true), delay: false },
        Self { verdict: Some(false), delay: true },
        Self { verdict: Some(true), delay: true },
    ];

    /// Whether a row for this fits a response that says `other`.
    fn fits(self, other: Self) -> bool {
        (self.verdict.is_none() || self.verdict == other.verdict) && (!self.delay || other.delay)
    }

    fn headers(self, policy: &RetryPolicy) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.delay {
            headers.append(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if let (Some(verdict), Some(field)) = (self.verdict, verdict_fields(policy).first()) {
            let value = if verdict { "true" } else { "false" };
            headers.append(field, HeaderValue::from_static(value));
        }
        headers
    }
}

/// Responses with the same fate, for each class of requests.
struct Row {
    says: Says,
    statuses: StatusSet,
    cells: Vec<Cell>,
}

/// The table: its columns are the classes that requests can have under the policy.
pub(super) struct Outcomes<'a> {
    policy: &'a RetryPolicy,
    provable: bool,
    pub(super) classes: Vec<RetryableMethod>,
    /// In the order in which they are read: the first that fits decides.
    responses: Vec<Row>,
    faults: Vec<(Vec<FaultKind>, Vec<Cell>)>,
}

impl<'a> Outcomes<'a> {
    /// `policy` must have no classifiers: they are not ours to call.
    pub(super) fn of(policy: &'a RetryPolicy, provable: bool) -> Self {
        let classes = classes(policy);
        let mut outcomes =
            Self { policy, provable, classes, responses: Vec::new(), faults: Vec::new() };
        outcomes.ask_about_responses();
        outcomes.ask_about_faults();
        outcomes
    }

    /// From the general to the special: a row only for what the rows so far do not tell.
    fn ask_about_responses(&mut self) {
        let has_verdicts = !verdict_fields(self.policy).is_empty();
        for says in Says::ALL {
            if says.verdict.is_some() && !has_verdicts {
                continue;
            }
            let headers = says.headers(self.policy);
            let mut groups: Vec<Row> = Vec::new();
            let mut told = Vec::new();
            for status in status::all() {
                let cells = self.cells(Outcome::response(status, &headers), None);
                if self.tell(status, says) == Some(cells.as_slice()) {
                    told.push((status, cells));
                } else if let Some(group) = groups.iter_mut().find(|group| group.cells == cells) {
                    group.statuses = group.statuses.with(status);
                } else {
                    let statuses = StatusSet::from_iter([status]);
                    groups.push(Row { says, statuses, cells });
                }
            }
            if says.verdict.is_some() {
                groups.iter_mut().for_each(|group| close_gaps(group, &told));
            }
            self.insert(groups);
        }
    }

    /// What the rows so far say of such a response.
    fn tell(&self, status: StatusCode, says: Says) -> Option<&[Cell]> {
        let mut rows = self.responses.iter();
        let row = rows.find(|row| row.says.fits(says) && row.statuses.contains(status))?;
        Some(&row.cells)
    }

    /// Before the first row that speaks of the same statuses; what all others are comes last.
    fn insert(&mut self, mut rows: Vec<Row>) {
        rows.sort_by_key(Row::is_rest);
        let meets = |row: &Row| {
            rows.iter().any(|new| new.statuses.iter().any(|status| row.statuses.contains(status)))
        };
        let at = self.responses.iter().take_while(|row| !meets(row)).count();
        self.responses.splice(at..at, rows);
    }

    fn ask_about_faults(&mut self) {
        for kind in FaultKind::ALL {
            let unknown = Outcome::fault(Fault::unknown(kind));
            let cells = self.cells(unknown, Some(Outcome::fault(Fault::not_processed(kind))));
            match self.faults.iter_mut().find(|(_, group)| *group == cells) {
                Some((kinds, _)) => kinds.push(kind),
                None => self.faults.push((vec![kind], cells)),
            }
        }
    }

    /// The fate of an outcome, for each class. `proving` is the same outcome where it says that the server
    /// did not act, if that makes it another one.
    fn cells(&self, outcome: Outcome<'_>, proving: Option<Outcome<'_>>) -> Vec<Cell> {
        let ask = |class, outcome, is_proven| {
            // No rule looks at the method itself, nor here at the clock.
            let attempt = Attempt::new(1, class, &Method::GET, outcome, SystemTime::UNIX_EPOCH)
                .with_sole_exchange(is_proven);
            self.policy.judge(&attempt)
        };
        let cell = |class: &RetryableMethod| {
            let proven = || ask(*class, proving.unwrap_or(outcome), true);
            match ask(*class, outcome, false) {
                Ok(_) => Cell::Resend,
                Err(_) if self.provable && proven().is_ok() => Cell::IfNotProcessed,
                Err(reason) => Cell::No(reason),
            }
        };
        self.classes.iter().map(cell).collect()
    }

    /// Labels and cells.
    pub(super) fn rows(&self, page: &Page) -> Vec<Vec<String>> {
        let responses = self.responses.iter().map(|row| (row.label(self.policy, page), &row.cells));
        let faults = self.faults.iter().map(|(kinds, cells)| {
            let kinds: Vec<_> = kinds.iter().map(|kind| kind.as_str()).collect();
            (format!("fault: {}", kinds.join(", ")), cells)
        });
        let row = |(label, cells): (String, &Vec<Cell>)| {
            std::iter::once(label).chain(cells.iter().map(|cell| cell.label())).collect()
        };
        responses.chain(faults).map(row).collect()
    }

    /// The cells that there are, each once: the resends, then the rest in the order in which they are met.
    pub(super) fn kinds_of_cells(&self) -> Vec<Cell> {
        let responses = self.responses.iter().map(|row| &row.cells);
        let faults = self.faults.iter().map(|(_, cells)| cells);
        let mut kinds = Vec::new();
        for cell in responses.chain(faults).flatten() {
            if !kinds.contains(cell) {
                kinds.push(*cell);
            }
        }
        kinds.sort_by_key(|cell| match cell {
            Cell::Resend => 0,
            Cell::IfNotProcessed => 1,
            Cell::No(_) => 2,
        });
        kinds
    }

    /// The statuses that are sent again on proof alone.
    pub(super) fn on_proof(&self) -> StatusSet {
        let rows = self.responses.iter();
        let rows = rows.filter(|row| row.cells.contains(&Cell::IfNotProcessed));
        rows.fold(StatusSet::empty(), |set, row| set.union(row.statuses))
    }

    /// Whether a row asks for a server delay.
    pub(super) fn needs_delay(&self) -> bool {
        self.responses.iter().any(|row| row.says.delay)
    }
}

impl Row {
    /// What is not listed anywhere.
    fn is_rest(&self) -> bool {
        self.says == Says::NOTHING
            && self.cells.iter().all(|cell| *cell == Cell::No(StopReason::Permanent))
    }

    fn label(&self, policy: &RetryPolicy, page: &Page) -> String {
        if self.is_rest() {
            return "every other status".to_owned();
        }
        let statuses = ranges(self.statuses);
        let verdict = self.says.verdict.map(|verdict| verdict_label(policy, page, verdict));
        match (self.says.delay, verdict) {
            (false, None) => statuses,
            (true, None) => format!("{statuses} with a server delay"),
            (false, Some(verdict)) => format!("{statuses} with {verdict}"),
            (true, Some(verdict)) => format!("{statuses} with a server delay and {verdict}"),
        }
    }
}

/// Takes in what lies between the statuses of `group` and has the same fate, so that they are one range.
fn close_gaps(group: &mut Row, told: &[(StatusCode, Vec<Cell>)]) {
    let (first, last) = (group.statuses.iter().next(), group.statuses.iter().last());
    for (status, cells) in told {
        if Some(*status) > first && Some(*status) < last && *cells == group.cells {
            group.statuses = group.statuses.with(*status);
        }
    }
}

/// The classes that the policy gives to requests: without a key field none has a key.
fn classes(policy: &RetryPolicy) -> Vec<RetryableMethod> {
    let keyed = policy.rules().idempotency_key_fields.first();
    let keyed = keyed.map(|field| (field.clone(), HeaderValue::from_static("key")));
    let requests = [
        (Method::GET, HeaderMap::new()),
        (Method::POST, keyed.into_iter().collect()),
        (Method::POST, HeaderMap::new()),
    ];
    let mut classes = Vec::new();
    for (method, headers) in requests {
        let class = policy.method_class(&method, &headers);
        let is_alike = class == RetryableMethod::IdempotentWithToken
            && policy.rules().assume_idempotent
            && !has_rows_of_keys(policy);
        if !(is_alike || classes.contains(&class)) {
            classes.push(class);
        }
    }
    classes
}

/// Whether it makes a difference to a request that is repeatable anyway if it carries a key.
pub(super) fn has_rows_of_keys(policy: &RetryPolicy) -> bool {
    let mut statuses = policy.rules().profile.statuses.iter();
    statuses.any(|(_, condition)| *condition == StatusCondition::WithHonouredKey)
}

pub(super) fn verdict_fields(policy: &RetryPolicy) -> &[HeaderName] {
    &policy.rules().profile.verdict_fields
}

/// The one field of verdicts, if it is short enough to stand in the table.
pub(super) fn short_verdict_field(policy: &RetryPolicy) -> Option<&HeaderName> {
    match verdict_fields(policy) {
        [field] if field.as_str().len() <= SHORT => Some(field),
        _ => None,
    }
}

fn verdict_label(policy: &RetryPolicy, page: &Page, verdict: bool) -> String {
    match short_verdict_field(policy) {
        Some(field) => page.code(&format!("{field}: {verdict}")),
        None => format!("a verdict of {verdict}"),
    }
}

/// Three in a row and more are a range; one that begins with the first status is all below its end.
pub(super) fn ranges(statuses: StatusSet) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for code in statuses.iter().map(|status| status.as_u16()) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == code => *last = code,
            _ => runs.push((code, code)),
        }
    }
    let run = |(first, last): (u16, u16)| match last - first {
        0 => first.to_string(),
        _ if first == status::FIRST => format!("below {}", last + 1),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    runs.into_iter().map(run).collect::<Vec<_>>().join(", ")
}
