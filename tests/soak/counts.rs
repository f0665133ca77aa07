//! What the client's side counts: by its histories, and by an observer. (The metrics are in `recorder`.)

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};
use reqwest_typed_retry::{AttemptRecord, ObservedCall, RetryHistory, RetryObserver};

use super::ledger::{ATTEMPT, Attempts};

tokio::task_local! {
    /// The call that is being polled. The hooks run in the call itself, so they find it here.
    pub(crate) static CALL: Arc<CallCounts>;
}

/// What was told of one call, as long as it lives.
#[derive(Default)]
pub(crate) struct CallCounts {
    pub(crate) records: Mutex<Vec<AttemptRecord>>,
    pub(crate) resends: AtomicU32,
    pub(crate) held_back: AtomicU32,
    pub(crate) gave_up: AtomicU32,
    pub(crate) recovered: AtomicU32,
    pub(crate) sent: Mutex<Attempts>,
    pub(crate) sends: AtomicU32,
    /// By its own token.
    pub(crate) is_cancelled: AtomicBool,
    pub(crate) sent_after_cancel: AtomicU32,
}

fn add(count: &AtomicU32) {
    count.fetch_add(1, Ordering::SeqCst);
}

pub(crate) fn get(count: &AtomicU32) -> u64 {
    count.load(Ordering::SeqCst).into()
}

/// The observer.
pub(crate) struct Observer;

impl RetryObserver for Observer {
    fn attempt_ended(&self, _: &ObservedCall<'_>, attempt: &AttemptRecord) {
        CALL.with(|call| call.records.lock().unwrap().push(*attempt));
    }

    fn resending(&self, _: &ObservedCall<'_>, _: &AttemptRecord) {
        CALL.with(|call| add(&call.resends));
    }

    fn held_back(&self, _: &ObservedCall<'_>, _: Duration) {
        CALL.with(|call| add(&call.held_back));
    }

    fn gave_up(&self, _: &ObservedCall<'_>, _: &RetryHistory) {
        CALL.with(|call| add(&call.gave_up));
    }

    fn recovered(&self, _: &ObservedCall<'_>, _: &RetryHistory) {
        CALL.with(|call| add(&call.recovered));
    }
}

/// The innermost middleware: counts what is handed to reqwest.
pub(crate) struct Sends;

#[async_trait]
impl Middleware for Sends {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let number = request.headers()[ATTEMPT].to_str().unwrap().parse().unwrap();
        CALL.with(|call| {
            call.sent.lock().unwrap().add(number);
            add(&call.sends);
            if call.is_cancelled.load(Ordering::SeqCst) {
                add(&call.sent_after_cancel);
            }
        });
        next.run(request, extensions).await
    }
}

/// All calls that have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) calls: u64,
    /// More than calls: a shared session sends several.
    pub(crate) requests: u64,
    // By the observer
    pub(crate) attempts: u64,
    pub(crate) resends: u64,
    pub(crate) held_back: u64,
    pub(crate) gave_up: u64,
    pub(crate) recovered: u64,
    /// By the innermost middleware.
    pub(crate) sends: u64,
    // By the histories
    pub(crate) in_histories: Histories,
    // Of calls that were dropped, which have none: by the observer
    pub(crate) dropped_attempts: u64,
    pub(crate) dropped_resends: u64,
    pub(crate) dropped_told: u64,
    // How calls ended
    pub(crate) dropped_by_select: u64,
    pub(crate) dropped_by_polls: u64,
    pub(crate) aborted: u64,
    pub(crate) cancelled_by_token: u64,
    pub(crate) ended_by_deadline: u64,
    pub(crate) budget_exhausted: u64,
    pub(crate) out_of_attempts: u64,
    /// The most that a call was late, which a deadline, a timeout or a cancellation was to end.
    pub(crate) latest_of_deadline: Duration,
    /// The most that another was late.
    pub(crate) latest: Duration,
}

/// What the histories of requests that ended say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Histories {
    pub(crate) requests: u64,
    pub(crate) attempts: u64,
    pub(crate) resends: u64,
    pub(crate) decided: u64,
    pub(crate) gave_up: u64,
    pub(crate) recovered: u64,
    /// Ended for good, and neither of the two.
    pub(crate) final_at_once: u64,
    /// Ended before the first attempt, and nobody was told.
    pub(crate) never_begun: u64,
    /// Bodies that sessions called cut, and what they decided.
    pub(crate) cuts: u64,
    pub(crate) cuts_resent: u64,
    pub(crate) cuts_given_up: u64,
    /// Attempts that were not sent, as their body could not be made.
    pub(crate) not_made: u64,
}

impl std::ops::AddAssign for Histories {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.attempts += other.attempts;
        self.resends += other.resends;
        self.decided += other.decided;
        self.gave_up += other.gave_up;
        self.recovered += other.recovered;
        self.final_at_once += other.final_at_once;
        self.never_begun += other.never_begun;
        self.cuts += other.cuts;
        self.cuts_resent += other.cuts_resent;
        self.cuts_given_up += other.cuts_given_up;
        self.not_made += other.not_made;
    }
}
