//! What a row states: the fault, what is sent again, what has reached the server, what comes back.

use reqwest_typed_retry::{
    AttemptOutcome, AttemptRecord, Delivery, Fault, FaultKind, RetryHistory, StopReason,
};

use crate::scene::Kind;
use crate::servers::Seen;

/// A number for each of the four requests: GET, POST, POST with a key, POST of a stream.
pub(crate) type Counts = [usize; 4];

pub(crate) fn unknown(kind: FaultKind) -> AttemptOutcome {
    AttemptOutcome::Fault(Fault::unknown(kind))
}

pub(crate) fn proven(kind: FaultKind) -> AttemptOutcome {
    AttemptOutcome::Fault(Fault::not_processed(kind))
}

pub(crate) fn status(code: u16) -> AttemptOutcome {
    AttemptOutcome::Status(http::StatusCode::from_u16(code).unwrap())
}

/// How many attempts there are.
#[derive(Clone, Debug)]
enum Attempts {
    Are(Counts, [StopReason; 4]),
    /// The fault shows in several ways, by timing; what each of them allows is the rule.
    FollowTheFault,
}

/// Requests that the server has read.
#[derive(Clone, Copy, Debug)]
enum Reached {
    Are(Counts),
    /// The first attempt's, at least. The second can be handed to the connection that has just
    /// failed, and end with it before it reaches anybody.
    FirstAtLeast(Counts),
    /// One for each attempt.
    EachAttempt,
    /// At most one for each attempt that is not proven unprocessed, none for the others.
    UnprovenAtMost,
}

#[derive(Clone, Debug)]
pub(crate) struct Expect {
    ends: Vec<AttemptOutcome>,
    attempts: Attempts,
    heads: Reached,
    whole: Reached,
    errors: Vec<&'static str>,
}

/// What may be sent twice without a proof.
pub(crate) const SAFE: Counts = [2, 1, 2, 1];
/// What may be sent twice with one. A stream never is: it can't be.
pub(crate) const PROVEN: Counts = [2, 2, 2, 1];
pub(crate) const ONCE: Counts = [1; 4];
pub(crate) const NEVER: Counts = [0; 4];

impl Expect {
    fn new(ends: impl IntoIterator<Item = AttemptOutcome>, attempts: Attempts) -> Self {
        Self {
            ends: ends.into_iter().collect(),
            attempts,
            heads: Reached::Are(NEVER),
            whole: Reached::Are(NEVER),
            errors: Vec::new(),
        }
    }

    /// Whole requests that the server has read, which is as many heads.
    pub(crate) fn read(self, counts: Counts) -> Self {
        self.heads(counts).whole(counts)
    }

    pub(crate) fn heads(self, counts: Counts) -> Self {
        Self { heads: Reached::Are(counts), ..self }
    }

    pub(crate) fn whole(self, counts: Counts) -> Self {
        Self { whole: Reached::Are(counts), ..self }
    }

    pub(crate) fn first_read_at_least(self, counts: Counts) -> Self {
        let reached = Reached::FirstAtLeast(counts);
        Self { heads: reached, whole: reached, ..self }
    }

    pub(crate) fn heads_each_attempt(self) -> Self {
        Self { heads: Reached::EachAttempt, ..self }
    }

    pub(crate) fn heads_unproven_at_most(self) -> Self {
        Self { heads: Reached::UnprovenAtMost, ..self }
    }

    pub(crate) fn read_unproven_at_most(self) -> Self {
        Self { whole: Reached::UnprovenAtMost, ..self.heads_unproven_at_most() }
    }

    /// What reqwest says of the error that comes back: the names of its `is_…` that hold. Where the
    /// row accepts several errors, any of these. Without it no error may come back.
    pub(crate) fn errors(self, flags: impl IntoIterator<Item = &'static str>) -> Self {
        Self { errors: flags.into_iter().collect(), ..self }
    }

    /// What of this is not as expected.
    pub(crate) fn check(
        &self,
        kind: Kind,
        history: &RetryHistory,
        seen: Seen,
    ) -> Result<(), String> {
        let at = kind as usize;
        let alike = if matches!(self.heads, Reached::FirstAtLeast(_)) { 1 } else { usize::MAX };
        for attempt in history.attempts().iter().take(alike) {
            ensure(self.ends.contains(&attempt.outcome()), || {
                format!("no attempt may end so; accepted: {:?}", self.ends)
            })?;
        }
        match &self.attempts {
            Attempts::Are(counts, stops) => {
                let expected = (counts[at], Some(stops[at]));
                let found = (history.attempts().len(), Some(history.stop_reason()));
                ensure(found == expected, || format!("attempts and stop: not {expected:?}"))?;
            }
            Attempts::FollowTheFault => {
                for attempt in history.attempts() {
                    let expected = stop_by_the_rules(kind, attempt);
                    ensure(attempt.decision().stop_reason() == expected, || {
                        format!("after attempt {}: not {expected:?}", attempt.number())
                    })?;
                }
            }
        }
        self.heads.check("heads", at, seen.heads, history)?;
        self.whole.check("whole requests", at, seen.whole, history)
    }

    /// The faults that a row with this documents, and whether a GET, a POST and a POST with a key are
    /// sent again after each. Not among them is the call that hangs: it is a fault of its own.
    pub(crate) fn documents(&self) -> Vec<(Fault, [bool; 3])> {
        let faults = self.ends.iter().filter_map(|end| end.fault());
        match &self.attempts {
            Attempts::Are([get, post, keyed, _], _) => {
                faults.map(|fault| (fault, [*get > 1, *post > 1, *keyed > 1])).collect()
            }
            Attempts::FollowTheFault => faults
                .filter(|fault| fault.kind() != FaultKind::Timeout)
                .map(|fault| {
                    let end = AttemptOutcome::Fault(fault);
                    (
                        fault,
                        [Kind::Get, Kind::Post, Kind::KeyedPost]
                            .map(|kind| is_transient(end) && may_repeat(kind, end)),
                    )
                })
                .collect(),
        }
    }

    pub(crate) fn check_error(&self, flags: &str) -> Result<(), String> {
        ensure(self.errors.contains(&flags), || {
            format!("the error is \"{flags}\"; accepted: {:?}", self.errors)
        })
    }
}

/// A fault that a resend would meet again: nothing is sent twice.
pub(crate) fn permanent(ends: impl IntoIterator<Item = AttemptOutcome>) -> Expect {
    Expect::new(ends, Attempts::Are(ONCE, [StopReason::Permanent; 4]))
}

/// An answer.
pub(crate) fn completes(ends: impl IntoIterator<Item = AttemptOutcome>) -> Expect {
    Expect::new(ends, Attempts::Are(ONCE, [StopReason::Completed; 4]))
}

/// A transient failure that proves nothing: sent again is what does no harm.
pub(crate) fn transient(ends: impl IntoIterator<Item = AttemptOutcome>) -> Expect {
    use StopReason::{AttemptsExhausted, NotIdempotent};
    let stops = [AttemptsExhausted, NotIdempotent, AttemptsExhausted, NotIdempotent];
    Expect::new(ends, Attempts::Are(SAFE, stops))
}

/// A failure that proves that the server did not act. No proof covers a stream: the observer sees no
/// exchange of a body that can't be cloned.
pub(crate) fn not_processed(ends: impl IntoIterator<Item = AttemptOutcome>) -> Expect {
    use StopReason::{AttemptsExhausted, NotIdempotent};
    let stops = [AttemptsExhausted, AttemptsExhausted, AttemptsExhausted, NotIdempotent];
    Expect::new(ends, Attempts::Are(PROVEN, stops))
}

/// One fault that shows in several ways, by timing, with different consequences.
pub(crate) fn by_timing(ends: impl IntoIterator<Item = AttemptOutcome>) -> Expect {
    Expect::new(ends, Attempts::FollowTheFault)
}

/// A connection that ends before its first use: the fault shows in several ways, by timing, one of
/// them that the call hangs ([`Scene::may_hang`](crate::scene::Scene::may_hang)).
pub(crate) fn unused(ends: impl IntoIterator<Item = AttemptOutcome>) -> Expect {
    by_timing(ends.into_iter().chain([unknown(FaultKind::Timeout)])).errors([
        "request+connect",
        "request",
        "timeout+request",
    ])
}

impl Reached {
    fn check(
        self,
        what: &str,
        at: usize,
        found: usize,
        history: &RetryHistory,
    ) -> Result<(), String> {
        let attempts = history.attempts();
        let accepted = match self {
            Self::Are(counts) => counts[at]..=counts[at],
            Self::FirstAtLeast(counts) => 1..=counts[at],
            Self::EachAttempt => attempts.len()..=attempts.len(),
            Self::UnprovenAtMost => {
                0..=attempts.iter().filter(|attempt| !is_proven(attempt.outcome())).count()
            }
        };
        ensure(accepted.contains(&found), || format!("{found} {what}, not {accepted:?}"))
    }
}

/// The rules once more, for attempts of one exchange.
fn stop_by_the_rules(kind: Kind, attempt: &AttemptRecord) -> Option<StopReason> {
    match (is_transient(attempt.outcome()), may_repeat(kind, attempt.outcome()), attempt.number()) {
        (false, ..) => Some(StopReason::Permanent),
        (true, false, _) => Some(StopReason::NotIdempotent),
        (true, true, 1) => None,
        (true, true, _) => Some(StopReason::AttemptsExhausted),
    }
}

fn is_transient(end: AttemptOutcome) -> bool {
    match end {
        AttemptOutcome::Fault(fault) => !matches!(
            fault.kind(),
            FaultKind::Tls | FaultKind::Decode | FaultKind::Invalid | FaultKind::Other
        ),
        AttemptOutcome::Status(status) => matches!(status.as_u16(), 408 | 503),
        _ => false,
    }
}

fn may_repeat(kind: Kind, end: AttemptOutcome) -> bool {
    kind.is_safe_to_repeat() || (kind == Kind::Post && is_proven(end))
}

fn is_proven(end: AttemptOutcome) -> bool {
    end.fault().is_some_and(|fault| fault.delivery() == Delivery::NotProcessed)
}

pub(crate) fn ensure(holds: bool, complaint: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(complaint()) }
}
