//! A session under any valid policy, driven by any outcomes: each decision is that of the slow reading, and the
//! promises of the crate hold for the session as a whole.

#![no_main]

use std::time::Duration;

use arbitrary::Arbitrary;
use fuzz::policies::{Api, End, FAULTS, Policy, Seen, Status, Verb, Wait, code};
use fuzz::profiles::{built_in, field};
use fuzz::{SECOND, at, nanos, nanos_of};
use http::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;
use reqwest_typed_retry::test_util::seeded_jitter;
use reqwest_typed_retry::{
    Attempt, DelaySource, Delivery, Fault, Outcome, RetryDecision, RetrySession, StopReason,
};

#[derive(Arbitrary, Debug)]
enum Says {
    Seconds(u16),
    Date(i16),
    Millis(u32),
    Epoch(i16),
    Quota(u16),
    Zero,
    Word(bool),
    Bytes(Vec<u8>),
}

#[derive(Arbitrary, Debug)]
enum Outcomes {
    Response { status: Status, fields: Vec<(u8, Says)> },
    Fault { kind: u8, is_not_processed: bool },
}

#[derive(Arbitrary, Debug)]
struct Step {
    outcome: Outcomes,
    took: Wait,
    deadline: Option<Wait>,
    is_proven: bool,
    seed: u64,
    asks_twice: bool,
}

#[derive(Arbitrary, Debug)]
struct Run {
    policy: Policy,
    verb: Verb,
    clock: i64,
    steps: Vec<Step>,
    far: u32,
}

impl Says {
    fn value(&self, now: i128) -> Vec<u8> {
        let seconds = now.div_euclid(SECOND);
        match self {
            Self::Seconds(seconds) => seconds.to_string().into_bytes(),
            Self::Date(offset) => {
                let date = (seconds + i128::from(*offset)).clamp(0, 253_402_300_799);
                let date = fuzz::calendar::Civil::of(date);
                date.imf_fixdate(date.weekday()).into_bytes()
            }
            Self::Millis(millis) => format!("{millis}").into_bytes(),
            Self::Epoch(offset) => (seconds + i128::from(*offset)).to_string().into_bytes(),
            Self::Quota(seconds) => format!("\"q\";r=0;t={seconds}").into_bytes(),
            Self::Zero => b"0".to_vec(),
            Self::Word(word) => word.to_string().into_bytes(),
            Self::Bytes(bytes) => bytes.clone(),
        }
    }
}

/// Mostly in a field that the profile reads.
fn name(api: &Api, at: u8) -> HeaderName {
    HeaderName::from_static(match (api, at) {
        (_, 0..64) => "retry-after",
        (Api::BuiltIn(profile), 64..192) => {
            let profile = built_in(*profile).1;
            let hints = profile.before.iter().chain(&profile.after).map(|hint| hint.field);
            let fields: Vec<_> = hints.chain(profile.verdicts.iter().copied()).collect();
            fields.get(usize::from(at) % fields.len().max(1)).copied().unwrap_or("date")
        }
        (_, at) => field(at),
    })
}

fn end(outcome: &Outcomes, api: &Api, now: i128) -> End {
    match outcome {
        Outcomes::Response { status, fields } => {
            let mut headers = HeaderMap::new();
            for (at, says) in fields.iter().take(8) {
                let (name, value) = (name(api, *at), says.value(now));
                let is_unclear = name == "ratelimit" && fuzz::reading::is_partly_padded(&value);
                if let (Ok(value), false) = (HeaderValue::from_bytes(&value), is_unclear) {
                    headers.append(name, value);
                }
            }
            End::Response(code(status.0), headers)
        }
        Outcomes::Fault { kind, is_not_processed } => {
            let kind = FAULTS[usize::from(*kind) % FAULTS.len()];
            End::Fault(if *is_not_processed {
                Fault::not_processed(kind)
            } else {
                Fault::unknown(kind)
            })
        }
    }
}

fuzz_target!(|run: Run| {
    let policy = run.policy.build();
    let (method, request) = run.verb.request();
    let class = policy.method_class(&method, &request);
    let mut session = RetrySession::new(policy.clone(), class);
    let start = nanos_of(at(i128::from(run.clock) * SECOND));
    let (mut elapsed, mut previous, mut sends) = (Duration::ZERO, None, 1_u32);
    for step in run.steps.iter().take(64) {
        elapsed = elapsed.saturating_add(step.took.0);
        let now = at(start.saturating_add(nanos(elapsed)));
        let deadline = step.deadline.map(|deadline| deadline.0);
        let end = end(&step.outcome, &run.policy.api, nanos_of(now));
        let outcome = match &end {
            End::Response(status, headers) => Outcome::response(*status, headers),
            End::Fault(fault) => Outcome::fault(*fault),
        };
        let attempt = session
            .attempt_ended(&method, outcome, now)
            .with_elapsed(elapsed)
            .with_deadline(deadline)
            .with_sole_exchange(step.is_proven);
        let seen = Seen {
            number: sends,
            verb: run.verb,
            end: &end,
            now: nanos_of(now),
            not_processed: step.is_proven,
            elapsed,
            previous,
            deadline,
        };
        assert_eq!(session.attempts(), sends, "{run:?}");
        let may_resend = session.may_resend(step.is_proven);

        let mut other = session.clone();
        let decision = session.decide(&attempt, &mut seeded_jitter(step.seed));
        let again = other.decide(&attempt, &mut seeded_jitter(step.seed));
        assert_eq!(again, decision, "the same question and generator: {run:?}");
        let by_policy = policy.decide(&attempt, &mut seeded_jitter(step.seed));
        assert_eq!(by_policy, decision, "asked without a session: {run:?}");

        let expected = run.policy.expect(&seen);
        assert!(
            expected.holds(&decision),
            "{decision:?} about {seen:?}, expected {expected:?}, in {run:?}"
        );
        match decision {
            RetryDecision::RetryAfter { delay, source, .. } => {
                let most = run.policy.max_attempts();
                assert!(most.is_none_or(|most| sends < most), "too many sends: {run:?}");
                let evidence = match &end {
                    End::Response(status, _) => policy.not_processed_statuses().contains(*status),
                    End::Fault(fault) => fault.delivery() == Delivery::NotProcessed,
                };
                let is_safe = run.policy.is_repeatable(run.verb) || (step.is_proven && evidence);
                assert!(is_safe && may_resend, "sent twice: {run:?}");
                let ends = elapsed.saturating_add(delay);
                let limits = [deadline, run.policy.deadline()];
                assert!(limits.into_iter().flatten().all(|limit| ends < limit), "late: {run:?}");
                if source == DelaySource::Server && step.asks_twice {
                    // A second draw is no shorter than what was asked, either.
                    let second = policy.decide(&attempt, &mut seeded_jitter(!step.seed));
                    assert!(expected.holds(&second), "{second:?}, expected {expected:?}: {run:?}");
                }
                sends += 1;
                previous = Some(delay);
                elapsed = ends;
            }
            RetryDecision::DoNotRetry { reason, .. } => {
                assert_eq!(session.attempts(), sends, "{run:?}");
                // A stop is final, unless it is the head of a response whose body may yet be cut.
                if reason != StopReason::Completed {
                    let refused = Outcome::fault(Fault::not_processed(FAULTS[1]));
                    let later = session.attempt_ended(&method, refused, now);
                    let later = session.decide(&later, &mut seeded_jitter(step.seed));
                    assert_eq!(later.stop_reason(), Some(reason), "a stop that was none: {run:?}");
                    assert!(!session.may_resend(true), "{run:?}");
                    break;
                }
            }
            other => panic!("unknown decision {other:?}"),
        }
    }

    // Any number of an attempt.
    let refused = Fault::not_processed(FAULTS[1]);
    let attempt = Attempt::new(run.far, class, &method, Outcome::fault(refused), at(start))
        .with_sole_exchange(true)
        .with_previous_delay(previous);
    let far = policy.decide(&attempt, &mut seeded_jitter(1));
    if let Some(most) = run.policy.max_attempts() {
        assert!(run.far < most || far.delay().is_none(), "attempt {}: {run:?}", run.far);
    }
});
