//! Decisions about anything: no panic, the same answer to the same question, never past a limit, never
//! sooner than the server asked, and a stop that is final.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "support/faults.rs"]
mod faults;
#[path = "support/waits.rs"]
mod waits;

use std::time::{Duration, SystemTime};

use faults::FAULTS;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use reqwest_typed_retry::test_util::seeded_jitter;
use reqwest_typed_retry::{
    ApiProfile, Attempt, DelaySource, Fault, FaultKind, FaultSet, Outcome, RetryDecision,
    RetryPolicy, RetrySession, RetryableMethod, ServerDelays, StatusSet, StopReason,
};
use waits::{backoffs, durations, jitters, numbers};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// Those that some profile reads, and one that none does.
const FIELDS: [&str; 8] = [
    "retry-after",
    "retry-after-ms",
    "x-ratelimit-reset",
    "x-ratelimit-remaining",
    "x-ms-retry-after-ms",
    "ratelimit",
    "x-should-retry",
    "x-other",
];

#[derive(Clone, Debug)]
enum End {
    Response(StatusCode, HeaderMap),
    Fault(Fault),
}

impl End {
    fn outcome(&self) -> Outcome<'_> {
        match self {
            Self::Response(status, headers) => Outcome::response(*status, headers),
            Self::Fault(fault) => Outcome::fault(*fault),
        }
    }
}

/// All that a decision looks at, but for the number of the attempt.
#[derive(Clone, Debug)]
struct Seen {
    end: End,
    class: RetryableMethod,
    now: SystemTime,
    elapsed: Duration,
    deadline: Option<Duration>,
    previous_delay: Option<Duration>,
    not_processed: bool,
}

impl Seen {
    fn attempt(&self, number: u32) -> Attempt<'_> {
        Attempt::new(number, self.class, &Method::POST, self.end.outcome(), self.now)
            .with_elapsed(self.elapsed)
            .with_deadline(self.deadline)
            .with_previous_delay(self.previous_delay)
            .with_sole_exchange(self.not_processed)
    }
}

fn values() -> BoxedStrategy<Vec<u8>> {
    let seconds = prop_oneof![0_u64..100, any::<u64>()].prop_map(|it| it.to_string().into_bytes());
    let dates = (0_u64..253_402_300_800).prop_map(|secs| {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(secs);
        httpdate::fmt_http_date(at).into_bytes()
    });
    let words = select(vec!["true", "false", "0", "-1", "1e9", "\"q\";r=0;t=30"]);
    prop_oneof![seconds, dates, words.prop_map(|word| word.into()), vec(any::<u8>(), 0..40)].boxed()
}

fn headers() -> impl Strategy<Value = HeaderMap> {
    vec((select(FIELDS.to_vec()), values()), 0..5).prop_map(|fields| {
        let value = |value: Vec<u8>| HeaderValue::from_bytes(&value).ok();
        let fields = fields.into_iter().filter_map(|(name, it)| Some((name, value(it)?)));
        fields.map(|(name, value)| (HeaderName::from_static(name), value)).collect()
    })
}

fn statuses() -> impl Strategy<Value = StatusCode> {
    let usual = [200, 304, 404, 408, 409, 425, 429, 500, 502, 503, 504, 529];
    prop_oneof![select(usual.to_vec()), 100_u16..1000]
        .prop_map(|status| StatusCode::from_u16(status).unwrap())
}

fn ends() -> impl Strategy<Value = End> {
    let faults = (select(FAULTS.to_vec()), any::<bool>()).prop_map(|(kind, proven)| {
        End::Fault(if proven { Fault::not_processed(kind) } else { Fault::unknown(kind) })
    });
    let responses = (statuses(), headers()).prop_map(|(it, headers)| End::Response(it, headers));
    prop_oneof![2 => responses, 1 => faults]
}

fn classes() -> impl Strategy<Value = RetryableMethod> {
    select(vec![
        RetryableMethod::Idempotent,
        RetryableMethod::IdempotentWithToken,
        RetryableMethod::NonIdempotent,
    ])
}

/// Any that a clock can show.
fn instants() -> impl Strategy<Value = SystemTime> {
    let year_2026 = SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_000_000);
    (any::<bool>(), durations()).prop_map(move |(later, by)| {
        let at = if later { year_2026.checked_add(by) } else { year_2026.checked_sub(by) };
        at.unwrap_or(year_2026)
    })
}

fn seen() -> impl Strategy<Value = Seen> {
    let times = (instants(), durations(), option::of(durations()), option::of(durations()));
    (ends(), classes(), times, any::<bool>()).prop_map(|(end, class, times, not_processed)| {
        let (now, elapsed, deadline, previous_delay) = times;
        Seen { end, class, now, elapsed, deadline, previous_delay, not_processed }
    })
}

/// A policy, and what of it the limits of a decision are.
#[derive(Clone, Debug)]
struct Given {
    policy: RetryPolicy,
    max_attempts: u32,
    deadline: Option<Duration>,
    server_delays: ServerDelays,
    honours_keys: bool,
    /// That a 429 was not processed.
    promises: bool,
}

fn given() -> BoxedStrategy<Given> {
    let waits = (backoffs(), backoffs(), jitters());
    let server_delays = prop_oneof![
        Just(ServerDelays::Ignored),
        Just(ServerDelays::UpTo(Duration::MAX)),
        durations().prop_map(ServerDelays::UpTo),
        durations().prop_map(|it| ServerDelays::ClampedTo(it.max(Duration::from_nanos(1)))),
    ];
    let profiles = select(vec![
        ApiProfile::standard(),
        ApiProfile::openai(),
        ApiProfile::azure(),
        ApiProfile::stripe(),
        ApiProfile::github(),
    ]);
    let limits = (prop_oneof![1_u32..6, Just(u32::MAX)], option::of(durations()));
    let rules = (any::<[bool; 2]>(), option::of(vec(select(FAULTS.to_vec()), 0..5)));
    (waits, server_delays, profiles, limits, rules)
        .prop_map(|(waits, server_delays, profile, (max_attempts, deadline), rules)| {
            let (backoff, throttle_backoff, jitter) = waits;
            let ([honours_keys, promises], faults) = rules;
            let deadline = deadline.map(|it| it.max(Duration::from_nanos(1)));
            let promised = promises.then_some(StatusCode::TOO_MANY_REQUESTS);
            let policy = RetryPolicy::builder()
                .max_attempts(max_attempts)
                .backoff(backoff)
                .throttle_backoff(throttle_backoff)
                .jitter(jitter)
                .server_delays(server_delays)
                .profile(profile)
                .honour_idempotency_keys(honours_keys)
                .not_processed_statuses(StatusSet::from_iter(promised))
                .retry_faults(faults.map_or(FaultSet::transient(), FaultSet::from_iter))
                .deadline(deadline)
                .build()
                .unwrap();
            Given { policy, max_attempts, deadline, server_delays, honours_keys, promises }
        })
        .boxed()
}

impl Given {
    /// By the table in the README.
    fn may_be_sent_again(&self, seen: &Seen) -> bool {
        let end_says_so = match &seen.end {
            End::Response(status, _) => self.promises && status.as_u16() == 429,
            End::Fault(fault) => *fault == Fault::not_processed(fault.kind()),
        };
        match seen.class {
            RetryableMethod::Idempotent => true,
            RetryableMethod::IdempotentWithToken if self.honours_keys => true,
            _ => seen.not_processed && end_says_so,
        }
    }

    /// The least wait that the server asked for and the policy listens to.
    fn server_delay(&self, seen: &Seen) -> Option<Duration> {
        let End::Response(_, headers) = &seen.end else { return None };
        let asked = self.policy.server_delay(headers, seen.now)?;
        match self.server_delays {
            ServerDelays::ClampedTo(limit) => Some(asked.min(limit)),
            _ => Some(asked),
        }
    }

    fn check(&self, seen: &Seen, number: u32, decision: RetryDecision) {
        let RetryDecision::RetryAfter { delay, source, .. } = decision else {
            return;
        };
        assert!(number < self.max_attempts, "one attempt too many: {decision:?}");
        assert!(self.may_be_sent_again(seen), "may take effect twice: {decision:?}");
        let wakes = seen.elapsed.saturating_add(delay);
        let deadlines = [self.deadline, seen.deadline];
        assert!(deadlines.into_iter().flatten().all(|deadline| wakes < deadline), "{decision:?}");
        let asked = self.server_delay(seen).filter(|asked| !asked.is_zero());
        assert_eq!(source == DelaySource::Server, asked.is_some(), "{decision:?}, {asked:?}");
        assert!(asked.is_none_or(|asked| delay >= asked), "sooner than {asked:?}: {decision:?}");
        if let (ServerDelays::UpTo(limit), Some(asked)) = (self.server_delays, asked) {
            assert!(asked <= limit, "longer than {limit:?}: {decision:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn any_attempt_has_one_answer_and_it_keeps_to_every_limit(
        given in given(), seen in seen(), number in numbers(), seed: u64,
    ) {
        let attempt = seen.attempt(number);
        let decision = given.policy.decide(&attempt, &mut seeded_jitter(seed));
        given.check(&seen, number.max(1), decision);
        let again = given.policy.decide(&attempt, &mut seeded_jitter(seed));
        prop_assert_eq!(again, decision);
        // What it says can be shown, and asked for by each of its parts.
        prop_assert!(!decision.to_string().is_empty());
        prop_assert_eq!(decision.delay().is_some(), decision.stop_reason().is_none());
    }

    #[test]
    fn a_session_never_passes_its_attempts_and_its_stop_is_final(
        given in given(), ends in vec((seen(), any::<u64>()), 1..12), class in classes(),
    ) {
        let mut session = RetrySession::new(given.policy.clone(), class);
        let (mut sends, mut stop) = (1, None);
        for (seen, seed) in ends {
            let seen = Seen { class, ..seen };
            let attempt = session
                .attempt_ended(&Method::POST, seen.end.outcome(), seen.now)
                .with_elapsed(seen.elapsed)
                .with_deadline(seen.deadline)
                .with_sole_exchange(seen.not_processed);
            prop_assert_eq!(attempt.number(), sends);
            let could_resend = session.may_resend(true);
            let decision = session.decide(&attempt, &mut seeded_jitter(seed));
            if let Some(reason) = stop {
                prop_assert_eq!(decision.stop_reason(), Some(reason));
                prop_assert!(!could_resend);
            }
            given.check(&seen, sends, decision);
            match decision.stop_reason() {
                None => {
                    prop_assert!(could_resend);
                    sends += 1;
                }
                // The head of a response: its body may yet be cut.
                Some(StopReason::Completed) => {}
                reason => stop = reason,
            }
            prop_assert_eq!(session.attempts(), sends);
        }
    }
}

#[test]
fn after_the_head_of_a_response_its_body_may_yet_be_cut() {
    let headers = HeaderMap::new();
    let cut = Outcome::fault(Fault::unknown(FaultKind::Body));
    let rows = [
        (StatusCode::OK, StopReason::Completed, None),
        (StatusCode::NOT_FOUND, StopReason::Permanent, Some(StopReason::Permanent)),
    ];
    for (status, first, then) in rows {
        let mut session = RetrySession::new(RetryPolicy::default(), RetryableMethod::Idempotent);
        for (outcome, stop) in [(Outcome::response(status, &headers), Some(first)), (cut, then)] {
            let attempt = session.attempt_ended(&Method::GET, outcome, SystemTime::UNIX_EPOCH);
            let decision = session.decide(&attempt, &mut seeded_jitter(1));
            assert_eq!(decision.stop_reason(), stop, "{outcome:?}, {status} first");
        }
    }
}
