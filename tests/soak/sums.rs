//! The sums that have to come out, and the table.

use std::sync::atomic::{AtomicU64, Ordering};

use super::counts::Totals;
use super::ledger::{Ledger, Tally};
use super::memory::Third;
use super::recorder::Metrics;
use super::world::World;

fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::SeqCst)
}

/// The client's own counters, at rest: what was told to the observer, counted by the metrics, and left in
/// the histories is the same. Calls that were dropped left none: of them the observer knows.
pub(crate) fn assert_add_up(totals: &Totals, metrics: &Metrics) {
    let Totals { in_histories: told, .. } = totals;
    let dropped = totals.dropped_by_select + totals.dropped_by_polls + totals.aborted;
    // Attempts: a cut that a session tells ends its attempt once more.
    assert_eq!(totals.attempts, told.attempts + told.cuts + totals.dropped_attempts, "{totals:?}");
    assert_eq!(metrics.sum("attempts_total"), totals.attempts, "{totals:?}");
    // Resends that were decided on, and their waits.
    let resends = told.decided + told.cuts_resent + totals.dropped_resends;
    assert_eq!(totals.resends, resends, "{totals:?}");
    assert_eq!(metrics.sum("resends_total"), totals.resends, "{totals:?}");
    assert_eq!(metrics.sum("wait_seconds"), totals.resends, "{totals:?}");
    assert_eq!(metrics.sum("held_back_seconds"), totals.held_back, "{totals:?}");
    // Ends: each is one of four. A cut that a session gives up is one, too.
    let ends = told.gave_up + told.recovered + told.final_at_once + told.never_begun;
    assert_eq!(ends, told.requests, "{totals:?}");
    let given_up = told.gave_up + told.recovered + told.cuts_given_up + totals.dropped_told;
    assert_eq!(totals.gave_up + totals.recovered, given_up, "{totals:?}");
    assert_eq!(metrics.sum("given_up_total"), totals.gave_up, "{totals:?}");
    assert_eq!(metrics.sum("recovered_total"), totals.recovered, "{totals:?}");
    // What was decided on was sent, but for the resend in whose wait a call ended.
    let ended_in_a_wait = told.decided - told.resends;
    assert!(ended_in_a_wait <= told.gave_up, "{totals:?}");
    // Sends: an attempt of a call that ended was sent, if its body could be made; one more is on its way
    // when a call is dropped, at most.
    let sent = told.attempts - told.not_made;
    assert!(totals.sends >= sent, "{totals:?}");
    assert!(totals.sends - sent <= totals.dropped_attempts + dropped, "{totals:?}");
}

/// What was sent against what the servers saw. All is settled: nothing is on its way any more.
pub(crate) fn assert_arrivals_add_up(ledger: &Ledger, totals: &Totals, tally: &Tally) {
    let lost = tally.never_arrived.values().flatten().sum::<u64>();
    assert_eq!(tally.operations, totals.calls);
    assert_eq!(tally.sent, totals.sends, "each attempt is sent once");
    assert_eq!(tally.sent, tally.arrived + lost);
    // By the servers' own counts.
    assert_eq!(get(&ledger.strays), 0);
    assert_eq!(get(&ledger.arrivals), tally.arrived + tally.again);
    assert_eq!(get(&ledger.effects), tally.effects);
    assert_eq!(get(&ledger.duplicates), 0);
}

/// Everything that is counted has happened.
pub(crate) fn assert_no_idle_run(ledger: &Ledger, totals: &Totals, tally: &Tally) {
    for (what, count) in [
        ("resends", totals.resends),
        ("held back", totals.held_back),
        ("given up", totals.gave_up),
        ("recovered", totals.recovered),
        ("dropped by select", totals.dropped_by_select),
        ("dropped by polls", totals.dropped_by_polls),
        ("aborted", totals.aborted),
        ("cancelled", totals.cancelled_by_token),
        ("deadlines", totals.ended_by_deadline),
        ("all attempts used", totals.out_of_attempts),
        ("budgets", totals.budget_exhausted),
        ("cuts", totals.in_histories.cuts),
        ("bodies that were not made", totals.in_histories.not_made),
        ("proven", tally.proven),
        ("deduplicated by key", get(&ledger.deduplicated)),
        ("closed unread", get(&ledger.closed_unread)),
    ] {
        assert!(count > 0, "{what}: {totals:?}");
    }
}

/// No more lives in the last third than in the first.
pub(crate) fn assert_flat(thirds: &[Third]) {
    let (first, last) = (thirds[0], thirds[thirds.len() - 1]);
    let calls = i64::try_from(last.calls - first.calls).unwrap();
    let grown = last.at_rest.live - first.at_rest.live;
    // At rest there are no calls and no connections: nothing is left, of however many calls.
    assert!(grown <= SPARE, "{grown} bytes in {calls} calls: {thirds:#?}");
    assert!(last.at_rest.tasks <= first.at_rest.tasks, "{thirds:#?}");
    // Under load it is what the load happens to be.
    for (first, last) in [(first.mean, last.mean), (first.max, last.max)] {
        let most = |first: i64| first + first / 4 + 1_024 * 1_024;
        assert!(last.live <= most(first.live), "{thirds:#?}");
        assert!(last.tasks <= first.tasks + first.tasks / 4 + 50, "{thirds:#?}");
    }
}

/// What maps and buffers may grow by, at some time.
const SPARE: i64 = 8 * 1_024;

pub(crate) fn print(world: &World, totals: &Totals, tally: &Tally, thirds: &[Third]) {
    let Totals { in_histories: told, .. } = totals;
    let never_arrived = &tally.never_arrived;
    println!("calls                  | {}", totals.calls);
    println!("requests that ended    | {} (sessions send several)", totals.requests);
    println!("attempts that ended    | {}", totals.attempts);
    println!("sends                  | {}", totals.sends);
    println!(
        "resends decided on     | {} ({} sent, of calls that ended)",
        totals.resends, told.resends
    );
    println!("given up, recovered    | {}, {}", totals.gave_up, totals.recovered);
    println!("final, never begun     | {}, {}", told.final_at_once, told.never_begun);
    println!("held back              | {}", totals.held_back);
    println!("session cuts           | {} ({} resent)", told.cuts, told.cuts_resent);
    println!("bodies not made        | {}", told.not_made);
    println!("dropped by select      | {}", totals.dropped_by_select);
    println!("dropped by polls       | {}", totals.dropped_by_polls);
    println!("aborted                | {}", totals.aborted);
    println!("cancelled by a token   | {}", totals.cancelled_by_token);
    println!("ended by a deadline    | {}", totals.ended_by_deadline);
    println!("budget exhausted       | {}", totals.budget_exhausted);
    println!("all attempts used      | {}", totals.out_of_attempts);
    println!("arrivals               | {} + {} by reqwest itself", tally.arrived, tally.again);
    println!("never arrived (h1, h2) | {never_arrived:?}");
    println!("proven                 | {}", tally.proven);
    println!("effects                | {}", tally.effects);
    println!("deduplicated by key    | {}", get(&world.ledger.deduplicated));
    println!("duplicates             | {}", get(&world.ledger.duplicates));
    println!("connections unread     | {}", get(&world.ledger.closed_unread));
    println!("latest of a deadline   | {:?}", totals.latest_of_deadline);
    println!("latest without one     | {:?}", totals.latest);
    println!("timers late by up to   | {:?}", world.lag());
    for (number, third) in thirds.iter().enumerate() {
        let Third { mean, max, at_rest, .. } = third;
        println!(
            "third {}: live KiB      | mean {}, max {}, at rest {}; resident mean {}, at rest {}; \
             tasks mean {}, at rest {}",
            number + 1,
            mean.live / 1_024,
            max.live / 1_024,
            at_rest.live / 1_024,
            mean.resident / 1_024,
            at_rest.resident / 1_024,
            mean.tasks,
            at_rest.tasks
        );
    }
}
