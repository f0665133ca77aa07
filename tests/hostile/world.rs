//! Clients, calls and what became of them.

use std::time::Duration;

use allocation_counter::AllocationInfo;
use reqwest::{Client, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, RequestBuilder, Result};
use reqwest_typed_retry::{
    AttemptOutcome, Backoff, FaultKind, Jitter, RetryErrorExt as _, RetryHistory, RetryMiddleware,
    RetryMiddlewareBuilder, RetryPolicy, RetryPolicyBuilder, RetryTracker, StopReason,
};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::held_clock::in_time;

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const KIB: u64 = 1_024;
pub(crate) const MIB: u64 = 1_024 * KIB;

/// Every wait that no server sets.
pub(crate) const WAIT: Duration = Duration::from_millis(100);

/// Three attempts.
pub(crate) fn policy() -> RetryPolicyBuilder {
    RetryPolicy::builder()
        .backoff(Backoff::constant(WAIT))
        .throttle_backoff(Backoff::constant(WAIT))
        .jitter(Jitter::None)
}

pub(crate) fn retrying(policy: RetryPolicyBuilder) -> RetryMiddlewareBuilder {
    RetryMiddleware::builder(policy.build().unwrap())
}

/// For servers of the tests' own, whatever the environment says of proxies.
pub(crate) fn http() -> reqwest::ClientBuilder {
    Client::builder().no_proxy()
}

pub(crate) fn chain(
    http: reqwest::ClientBuilder,
    retry: RetryMiddlewareBuilder,
    clock: &Clock,
) -> ClientWithMiddleware {
    ClientBuilder::new(http.build().unwrap())
        .with(retry.observer(clock.clone()).build().unwrap())
        .with(clock.clone())
        .build()
}

pub(crate) fn client(policy: RetryPolicyBuilder, clock: &Clock) -> ClientWithMiddleware {
    chain(http(), retrying(policy), clock)
}

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Back {
    Status(u16),
    /// reqwest's own error, as the policy reads it.
    Fault(FaultKind),
    HeadTimeout,
    Deadline,
    Closed,
    Cancelled,
    Body,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) back: Back,
    pub(crate) attempts: usize,
    pub(crate) stop: StopReason,
    /// In the client's time.
    pub(crate) after: Duration,
}

/// Sends it, and gives the response too, if there is one.
pub(crate) async fn send(request: RequestBuilder) -> (End, Result<Response>, RetryHistory) {
    let tracker = RetryTracker::new();
    let started = Instant::now();
    let result = request.with_extension(tracker.clone()).send().await;
    let after = started.elapsed();
    let history = tracker.history().unwrap();
    let back = back(&result, &history);
    let (attempts, stop) = (history.attempts().len(), history.stop_reason());
    (End { back, attempts, stop, after }, result, history)
}

pub(crate) async fn end(request: RequestBuilder) -> End {
    send(request).await.0
}

fn back(result: &Result<Response>, history: &RetryHistory) -> Back {
    let error = match result {
        Ok(response) => return Back::Status(response.status().as_u16()),
        Err(error) => error,
    };
    match error.retry_error() {
        Some(ours) if ours.is_cancelled() => Back::Cancelled,
        Some(ours) if ours.is_deadline() => Back::Deadline,
        Some(ours) if ours.is_held_back() => Back::Closed,
        Some(ours) if ours.is_body() => Back::Body,
        Some(ours) if ours.is_timeout() => Back::HeadTimeout,
        _ => match history.attempts().last().map(|last| last.outcome()) {
            Some(AttemptOutcome::Fault(fault)) => Back::Fault(fault.kind()),
            other => panic!("{error:?} after {other:?}"),
        },
    }
}

/// Lets go of the clock in the end, whatever the end is.
struct Passes<'a>(&'a Clock);

impl Drop for Passes<'_> {
    fn drop(&mut self) {
        self.0.pass();
    }
}

/// Runs what a client does, its clock paused, and counts the memory that its thread takes.
pub(crate) fn run<T>(clock: &Clock, test: impl Future<Output = T>) -> (T, AllocationInfo) {
    let mut output = None;
    let memory = allocation_counter::measure(|| {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().start_paused(true).build().unwrap();
        output = Some(runtime.block_on(async {
            let _passes = Passes(clock);
            in_time(test).await
        }));
    });
    (output.unwrap(), memory)
}

/// The same in real time, for what never lets a clock stand still.
pub(crate) fn run_in_real_time<T>(test: impl Future<Output = T>) -> (T, AllocationInfo) {
    const AT_MOST: Duration = Duration::from_secs(120);
    let mut output = None;
    let memory = allocation_counter::measure(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        output = Some(runtime.block_on(async { tokio::time::timeout(AT_MOST, test).await }));
    });
    (output.unwrap().unwrap(), memory)
}

/// What a client takes at most for itself, its connections and what hyper reads ahead: about half of it.
pub(crate) const A_CLIENT: u64 = 2 * MIB;

pub(crate) fn assert_bounded(label: &str, memory: AllocationInfo, most: u64) {
    println!("{label}: {} KiB at most", memory.bytes_max / KIB);
    assert!(memory.bytes_max <= most, "{label}: {} bytes", memory.bytes_max);
}
