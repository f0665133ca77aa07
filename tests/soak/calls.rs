//! One call, and what is checked of it when it has ended.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join;
use http::StatusCode;
use rand::RngExt as _;
use rand::rngs::SmallRng;
use reqwest::Response;
use reqwest_middleware::RequestBuilder;
use reqwest_typed_retry::{
    AttemptRecord, RetryHistory, RetryRequestExt as _, RetryScope, RetryTracker, SharedSession,
    StopReason,
};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::clients::{Contestant, MAX_ATTEMPTS, policy};
use super::counts::{CALL, CallCounts, Histories, get};
use super::plan::{Ends, Leaving, Limit, Plan, Upload};
use super::world::World;

/// Makes one call, and checks it. The generator decides all that is this side's choice.
pub(crate) async fn call(world: &Arc<World>, rng: &mut SmallRng) {
    let contestant = world.contestants[rng.random_range(0..world.contestants.len())].clone();
    let plan = Plan::draw(rng, &contestant, world);
    let counts = Arc::new(CallCounts::default());
    let exchange = CALL.scope(counts.clone(), exchange(world.clone(), contestant.clone(), plan));
    let mut exchange = Box::pin(exchange);
    // A future that is stuck is never done; that it is late is judged by itself.
    let ever = contestant.longest * 2 + Duration::from_secs(60);
    let report = timeout(ever, async {
        match plan.leaving {
            Leaving::Never | Leaving::Token(_) => Some(exchange.await),
            Leaving::Select(after) => tokio::select! {
                report = &mut exchange => Some(report),
                () = sleep(after) => None,
            },
            Leaving::Polls(polls) => DropAfter { polls, future: Some(exchange) }.await,
            Leaving::Abort(after) => {
                let task = tokio::spawn(exchange);
                sleep(after).await;
                task.abort();
                match task.await {
                    Ok(report) => Some(report),
                    Err(error) if error.is_cancelled() => None,
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                }
            }
        }
    });
    let report = report.await.unwrap_or_else(|_| {
        world.ledger.broken(|| format!("stuck for {ever:?}: {plan:?}"));
        None
    });
    // Whatever was left of the call is gone by now.
    let records = std::mem::take(&mut *counts.records.lock().unwrap());
    let sent = *counts.sent.lock().unwrap();
    world.ledger.end(plan.operation, sent, &records);
    settle(world, &counts, plan, &records, report.as_ref());
}

/// Adds the call to the totals.
fn settle(
    world: &World,
    counts: &CallCounts,
    plan: Plan,
    records: &[AttemptRecord],
    report: Option<&Report>,
) {
    if get(&counts.sent_after_cancel) > 0 {
        world.ledger.broken(|| format!("sent after it was cancelled: {plan:?}"));
    }
    let attempts = u64::try_from(records.len()).unwrap();
    let (resends, sends) = (get(&counts.resends), get(&counts.sends));
    let (gave_up, recovered) = (get(&counts.gave_up), get(&counts.recovered));
    let totals = &mut *world.totals.lock().unwrap();
    totals.calls += 1;
    totals.attempts += attempts;
    totals.resends += resends;
    totals.sends += sends;
    totals.held_back += get(&counts.held_back);
    totals.gave_up += gave_up;
    totals.recovered += recovered;
    if let Some(report) = report {
        totals.requests += report.histories.requests;
        totals.in_histories += report.histories;
        totals.latest_of_deadline = totals.latest_of_deadline.max(report.late_of_deadline);
        totals.latest = totals.latest.max(report.late);
        for stop in &report.stops {
            match stop {
                StopReason::Cancelled => totals.cancelled_by_token += 1,
                StopReason::DeadlinePassed | StopReason::DeadlineWouldPass => {
                    totals.ended_by_deadline += 1;
                }
                StopReason::BudgetExhausted => totals.budget_exhausted += 1,
                StopReason::AttemptsExhausted => totals.out_of_attempts += 1,
                _ => {}
            }
        }
        return;
    }
    match plan.leaving {
        Leaving::Select(_) => totals.dropped_by_select += 1,
        Leaving::Polls(_) => totals.dropped_by_polls += 1,
        Leaving::Abort(_) => totals.aborted += 1,
        Leaving::Never | Leaving::Token(_) => {} // stuck
    }
    totals.dropped_attempts += attempts;
    totals.dropped_resends += resends;
    totals.dropped_told += gave_up + recovered;
    // It was dropped during an attempt, or between two; an attempt that could not be made was not sent,
    // and ends the call. What a session calls cut has ended twice, by the same number.
    let mut numbers = records.iter().map(AttemptRecord::number).collect::<Vec<_>>();
    numbers.dedup();
    let ended = u64::try_from(numbers.len()).unwrap();
    if !(ended..=ended + 1).contains(&sends) {
        world.ledger.broken(|| format!("{sends} sends, {records:?}: {plan:?}"));
    }
}

/// Drops its future after so many polls.
struct DropAfter<F> {
    polls: u32,
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for DropAfter<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(left) = self.polls.checked_sub(1) else {
            self.future = None;
            return Poll::Ready(None);
        };
        self.polls = left;
        match self.future.as_mut().unwrap().as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => {
                self.future = None;
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

/// What a call that came to its end has to say.
#[derive(Default)]
struct Report {
    histories: Histories,
    stops: Vec<StopReason>,
    late_of_deadline: Duration,
    late: Duration,
}

async fn exchange(world: Arc<World>, contestant: Arc<Contestant>, plan: Plan) -> Report {
    let (token, leaves) = match plan.leaving {
        Leaving::Token(after) => (Some(CancellationToken::new()), after),
        _ => (None, Duration::ZERO),
    };
    let mut scope = RetryScope::new();
    if let Limit::OfScope(deadline) = plan.limit {
        scope = scope.deadline_in(deadline);
    }
    if plan.shares_token {
        scope = scope.cancel_on(world.token.clone());
    }
    if let Some(token) = &token {
        scope = scope.cancel_on(token.clone());
    }
    let mut report = Report::default();
    let work = async {
        if plan.is_session {
            session(&world, &contestant, plan, &mut report).await;
        } else {
            single(&world, &contestant, plan, &mut report).await;
        }
    };
    let work = async {
        let is_limited = plan.shares_token || token.is_some() || plan.limit != Limit::None;
        if is_limited { scope.run(work).await } else { work.await }
    };
    match &token {
        None => work.await,
        Some(token) => {
            let cancel = async {
                sleep(leaves).await;
                CALL.with(|call| call.is_cancelled.store(true, Ordering::SeqCst));
                token.cancel();
            };
            join(work, cancel).await;
        }
    }
    report
}

async fn single(world: &World, contestant: &Contestant, plan: Plan, report: &mut Report) {
    let request = plan.request(contestant, world);
    let own = contestant.deadline.filter(|_| plan.ends == Ends::Policy);
    let bound = match plan.limit {
        Limit::None => own,
        Limit::OfRequest(deadline) => Some(deadline), // in place of the policy's
        Limit::OfScope(deadline) => Some(own.unwrap_or(deadline).min(deadline)),
    };
    let bound = match bound {
        // It ends the wait, or what follows the attempt.
        None if plan.ends == Ends::Token => {
            let Leaving::Token(after) = plan.leaving else { unreachable!() };
            Bound { time: after + world.attempt_timeout, attempts: 1 }
        }
        Some(deadline) => Bound { time: deadline, attempts: 1 }, // it cuts the last one
        None => Bound { time: contestant.longest, attempts: MAX_ATTEMPTS },
    };
    let result = send(request, bound, world, plan, report).await;
    if let (Some(response), true) = (result, plan.reads_body) {
        let started = Instant::now();
        drop(response.bytes().await); // it may be cut
        // reqwest counts from the beginning of the attempt.
        report.is_late(started, Bound { time: world.attempt_timeout, attempts: 1 }, world, plan);
    }
}

/// Reads to the end, or gives up.
async fn session(world: &World, contestant: &Contestant, plan: Plan, report: &mut Report) {
    let deadline = match plan.limit {
        Limit::None => 3 * world.attempt_timeout,
        Limit::OfRequest(deadline) | Limit::OfScope(deadline) => deadline,
    };
    // These bodies are short: a limit may hold for them, too.
    let limit = world.attempt_timeout.min(deadline);
    let policy = policy().head_timeout(limit).attempt_timeout(limit).deadline(deadline);
    let session = SharedSession::new(policy.build().unwrap());
    let started = Instant::now();
    loop {
        let request = plan.request(contestant, world).retry_session(&session);
        let left = deadline.saturating_sub(started.elapsed());
        let left = Bound { time: left, attempts: 1 };
        let Some(response) = send(request, left, world, plan, report).await else { break };
        if response.status() != StatusCode::OK {
            break;
        }
        let reading = Instant::now();
        let read = response.bytes().await;
        report.is_late(reading, Bound { time: world.attempt_timeout, attempts: 1 }, world, plan);
        let Err(cut) = read else { break };
        let before = CALL.with(|call| get(&call.resends));
        report.histories.cuts += 1;
        let goes_on = session.resend_after(cut).await.is_ok();
        let is_decided = CALL.with(|call| get(&call.resends)) - before;
        report.histories.cuts_resent += is_decided;
        if goes_on && is_decided != 1 {
            world.ledger.broken(|| format!("a resend that nobody was told of: {plan:?}"));
        }
        if !goes_on {
            report.histories.cuts_given_up += 1;
            break;
        }
    }
}

/// Sends, and holds what was told against the history.
async fn send(
    request: RequestBuilder,
    bound: Bound,
    world: &World,
    plan: Plan,
    report: &mut Report,
) -> Option<Response> {
    let counts = CALL.with(Arc::clone);
    let told = || (get(&counts.gave_up), get(&counts.recovered));
    let known = counts.records.lock().unwrap().len();
    let (sends, resends, before) = (get(&counts.sends), get(&counts.resends), told());
    let tracker = RetryTracker::new();
    let started = Instant::now();
    let result = request.with_extension(tracker.clone()).send().await;
    report.is_late(started, bound, world, plan);

    let history = tracker.history().unwrap();
    let stop = history.stop_reason();
    let broken = |what: &str| {
        world.ledger.broken(|| format!("{what}: {plan:?}\n{result:?}\n{history}"));
    };
    if counts.records.lock().unwrap()[known..] != *history.attempts() {
        broken("the observer was told of other attempts than the history");
    }
    let after = told();
    let told = (after.0 - before.0, after.1 - before.1);
    let expected = expected(&history);
    // Where nothing was sent, it depends on how far it came.
    if told != expected && !(history.attempts().is_empty() && told.1 == 0) {
        broken("(given up, recovered) was told otherwise");
    }
    let decided = history.attempts().iter().filter(|attempt| attempt.decision().delay().is_some());
    let decided = u64::try_from(decided.count()).unwrap();
    if get(&counts.resends) - resends != decided {
        broken("other resends were told of");
    }
    let attempts = u64::try_from(history.attempts().len()).unwrap();
    let sends = get(&counts.sends) - sends;
    let not_made = attempts.saturating_sub(sends);
    let has_factory = matches!(plan.upload, Upload::Factory { .. });
    if sends > attempts || not_made > u64::from(has_factory) {
        broken("not every attempt was sent once");
    }
    if let Ok(response) = &result {
        let last = history.attempts().last().and_then(|last| last.outcome().status());
        if last != Some(response.status()) {
            broken("the response is not the last attempt's");
        }
        if response.status() == StatusCode::OK && world.ledger.effects_of(plan.operation) == 0 {
            broken("it was served, and took no effect");
        }
    }
    let is_told = told != (0, 0);
    report.stops.push(stop);
    report.histories += Histories {
        requests: 1,
        attempts,
        resends: history.resends().try_into().unwrap(),
        decided,
        gave_up: told.0,
        recovered: told.1,
        final_at_once: u64::from(!is_told && attempts > 0),
        never_begun: u64::from(!is_told && attempts == 0),
        not_made,
        ..Histories::default()
    };
    result.ok()
}

/// Whether the end is told as given up, and as recovered.
fn expected(history: &RetryHistory) -> (u64, u64) {
    let last = history.attempts().last().and_then(|last| last.outcome().status());
    let is_well = last.is_some_and(|status| {
        !status.is_server_error() && !matches!(status.as_u16(), 408 | 425 | 429)
    });
    let gives_up = history.stop_reason().is_giving_up();
    (u64::from(gives_up), u64::from(!gives_up && is_well && history.resends() > 0))
}

/// How long something may take, and how many attempts that covers.
#[derive(Clone, Copy)]
struct Bound {
    time: Duration,
    attempts: u32,
}

impl Report {
    fn is_late(&mut self, started: Instant, bound: Bound, world: &World, plan: Plan) {
        let late = started.elapsed().saturating_sub(bound.time);
        let known = if bound.attempts == 1 { &mut self.late_of_deadline } else { &mut self.late };
        *known = late.max(*known);
        // On a busy machine everything is late, an attempt and its wait a few times.
        let slack = Duration::from_secs(1) + 3 * bound.attempts * world.lag();
        if late > slack {
            world.ledger.broken(|| format!("{late:?} late, of {slack:?}: {plan:?}"));
        }
    }
}
