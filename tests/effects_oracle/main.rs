//! The effects oracle: thousands of operations of mixed methods against servers that act, and fail in
//! every way they can, by seeded chance. The servers record each effect by operation; they are the
//! only witness.
//!
//! - An unmarked POST or PATCH takes effect **at most once, always**.
//! - An operation that may be repeated ends well, or has used all of its attempts.
//!
//! `cargo test --release --test effects_oracle -- --ignored --nocapture` runs a million operations.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod workload;

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_typed_retry::{
    Backoff, DeliveryProof, RetryMiddleware, RetryPolicy, RetryPolicyBuilder, RetryTracker,
    StatusSet, StopReason,
};
use workload::{Protocol, Workload, may_be_repeated};

const MAX_ATTEMPTS: u32 = 8;
/// Ends the attempts that hang; whoever is cut off by it on a slow machine is an ordinary timeout.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Built by `DeliveryProof::build`.
    Proven,
    /// With a proof that belongs to another client: it sees nothing, and so proves nothing.
    ForeignProof,
    /// Without a proof, and without resends below us.
    NoProof,
    /// Without a proof, and with the resends that reqwest makes by default, below us.
    NoProofDefaultRetry,
}

fn client(kind: Kind, workload: &Workload) -> ClientWithMiddleware {
    let policy = RetryPolicy::builder()
        .max_attempts(MAX_ATTEMPTS)
        .backoff(Backoff::constant(Duration::ZERO))
        .throttle_backoff(Backoff::constant(Duration::ZERO))
        .honour_idempotency_keys(true)
        .attempt_timeout(ATTEMPT_TIMEOUT);
    // These servers reject before they act; but a redirect may lead to a 429, too.
    let rejections = StatusSet::empty().with(StatusCode::TOO_MANY_REQUESTS);
    // Every repeatable operation must come to its end, however many fail.
    let unbounded = |policy: RetryPolicyBuilder| {
        RetryMiddleware::builder(policy.build().unwrap()).without_budget()
    };
    let (http, retry) = match kind {
        Kind::Proven | Kind::ForeignProof => {
            let (observed, proof) = DeliveryProof::build(workload.http()).unwrap();
            let blind = || workload.http().retry(reqwest::retry::never()).build().unwrap();
            let http = if kind == Kind::Proven { observed } else { blind() };
            let policy = policy.not_processed_statuses(rejections);
            (http, unbounded(policy).delivery_proof(proof))
        }
        Kind::NoProof => {
            let http = workload.http().retry(reqwest::retry::never()).build().unwrap();
            (http, unbounded(policy))
        }
        Kind::NoProofDefaultRetry => (workload.http().build().unwrap(), unbounded(policy)),
    };
    ClientBuilder::new(http).with(retry.build().unwrap()).build()
}

#[derive(Default)]
struct Tally {
    operations: usize,
    effects: u32,
    resends: usize,
    /// Operations that may not be repeated, and were sent again by proof.
    proven: usize,
    /// Of those that may not be repeated.
    twice: usize,
    exhausted: usize,
    lost: Vec<String>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations, effects, resends, proven, twice, exhausted, lost } = self;
        write!(
            f,
            "{operations} operations, {effects} effects, {resends} resends; {proven} POST and PATCH \
             sent again by proof, {twice} took effect twice; {exhausted} used all attempts, {} lost",
            lost.len()
        )
    }
}

async fn run(kind: Kind, protocol: Protocol, seed: u64, operations: usize) -> Tally {
    let workload = Workload::start(protocol, seed, operations).await;
    let client = client(kind, &workload);
    let ended = workload.run(&client, |request| {
        let tracker = RetryTracker::new();
        (request.with_extension(tracker.clone()), tracker)
    });
    let mut tally = Tally { operations, ..Tally::default() };
    for ended in ended.await {
        let history = ended.note.history().unwrap();
        tally.resends += history.resends();
        let exhausted = history.stop_reason() == StopReason::AttemptsExhausted;
        tally.exhausted += usize::from(exhausted);
        if may_be_repeated(ended.operation) {
            let all = history.attempts().len() == usize::try_from(MAX_ATTEMPTS).unwrap();
            let served = matches!(ended.result, Ok(StatusCode::OK));
            let accounted_for = served || (exhausted && all);
            if !accounted_for {
                let (operation, result) = (ended.operation, ended.result);
                tally.lost.push(format!("operation {operation}: {result:?}\n{history}"));
            }
        } else {
            tally.proven += usize::from(history.resends() > 0);
        }
    }
    for (operation, effects) in workload.effects().into_iter().enumerate() {
        tally.effects += effects;
        tally.twice += usize::from(!may_be_repeated(operation) && effects > 1);
    }
    let arrivals = workload.arrivals();
    println!("{kind:?}, {protocol:?}, seed {seed}: {tally}; {arrivals} requests arrived");
    tally
}

/// The two rules, and that the run was no idle one.
fn check(kind: Kind, tally: &Tally) {
    assert_eq!(tally.twice, 0, "took effect twice: {tally}");
    assert!(tally.lost.is_empty(), "{tally}; the first: {}", tally.lost[0]);
    assert!(tally.resends > tally.operations / 10, "{tally}");
    let proofs = kind == Kind::Proven;
    assert_eq!(tally.proven > 0, proofs, "{tally}");
    assert!(tally.exhausted * 20 < tally.operations, "{tally}");
}

async fn runs(operations: usize, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        // Side by side: most of the time somebody waits for a server that stays silent.
        let kinds = [Kind::Proven, Kind::ForeignProof, Kind::NoProof];
        let runs = kinds.into_iter().flat_map(|kind| {
            let run = move |protocol| async move {
                check(kind, &run(kind, protocol, seed, operations).await);
            };
            [run(Protocol::Http1), run(Protocol::Http2)]
        });
        futures_util::future::join_all(runs).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_unmarked_post_takes_effect_twice_and_no_repeatable_operation_is_lost() {
    runs(700, 1..4).await;
}

/// What reqwest resends by default, below any middleware, is its own: counted apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_reqwests_own_resends_below_nothing_repeatable_is_lost_either() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let tally = run(Kind::NoProofDefaultRetry, protocol, 1, 1_000).await;
        assert!(tally.lost.is_empty(), "{tally}; the first: {}", tally.lost[0]);
        if protocol == Protocol::Http1 {
            assert_eq!(tally.twice, 0, "over HTTP/1.1 it resends nothing: {tally}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a million operations: minutes, in release"]
async fn a_million_operations() {
    runs(17_000, 1..11).await;
}
