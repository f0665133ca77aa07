//! The retry storm of `examples/retry_storm`, on a small fleet: it is repeatable, and goes as
//! `docs/fleets.md` says.

#[path = "../examples/retry_storm/storm/mod.rs"]
#[expect(dead_code, reason = "the example also prints")]
mod storm;

use storm::claims;
use storm::contenders::Kind;
use storm::fleets::{Case, Fleet};
use storm::outcome::Outcome;
use storm::world::{Sickness, World};

/// The example's world at an eighth of the load, in one process.
fn small_world(seed: u64) -> World {
    World {
        clients: 500,
        processes: 1,
        offered: 24.0,
        capacity: 37.0,
        queue: 74.0,
        outage: 3..23,
        measured: 38,
        tail: 12,
        ..World::new(seed)
    }
}

#[test]
fn one_seed_gives_one_result_and_one_picture() {
    let kinds = [Kind::WithoutBudget, Kind::Budget, Kind::CooldownDeadline];
    let run = |seed| {
        let world = small_world(seed);
        let outcome = Outcome::of(&world, &kinds).unwrap();
        let picture = outcome.chart(&world).unwrap();
        (outcome, picture)
    };
    let (outcome, picture) = run(1);
    assert_eq!(run(1), (outcome.clone(), picture.clone()));
    let (others, other_picture) = run(2);
    for kind in kinds {
        assert_ne!(others.measures(kind).unwrap(), outcome.measures(kind).unwrap(), "{kind:?}");
    }
    assert_ne!(other_picture, picture);
}

#[test]
fn a_slow_server_is_kept_down_by_all_resends_that_nothing_bounds() {
    let world = small_world(1);
    let outcome = Outcome::of(&world, &Kind::ALL).unwrap();
    assert_eq!(claims::broken(&world, &outcome).unwrap(), Vec::<String>::new());
}

#[test]
fn a_server_that_refuses_comes_back_if_nothing_waits_for_it() {
    let world = World { sickness: Sickness::Refusing(1.0), ..small_world(1) };
    let outcome = Outcome::of(&world, &Kind::ALL).unwrap();
    assert_eq!(claims::broken(&world, &outcome).unwrap(), Vec::<String>::new());
}

/// Storms that outlive their outage need a queue that is longer than the clients' patience.
#[test]
fn behind_a_short_queue_the_service_comes_back_under_every_policy() {
    let world = small_world(1);
    let world = World { queue: world.capacity / 2.0, ..world };
    let kinds = [Kind::FixedWait, Kind::Peer, Kind::NoJitter, Kind::WithoutBudget];
    let outcome = Outcome::of(&world, &kinds).unwrap();
    for kind in kinds {
        let measures = outcome.measures(kind).unwrap();
        assert!(measures.recovery.is_some_and(|seconds| seconds <= 10), "{kind:?}: {measures:?}");
    }
}

/// A whole outage of half a minute, a budget a client.
const CASE: Case = Case { clients: 1, requests: 10, outage: 30, refused: 1.0, processes: None };

fn run(case: Case) -> anyhow::Result<Fleet> {
    let fleet = case.run(1)?;
    anyhow::ensure!(fleet.failed as f64 <= fleet.bound, "{case:?}: {fleet:?}");
    Ok(fleet)
}

#[test]
fn budgets_of_clients_with_few_requests_bound_nothing() {
    let Fleet { load_without, load, .. } = run(Case { clients: 30, ..CASE }).unwrap();
    assert_eq!(Some(load), load_without);
    assert!(load > 2.9, "{load}");
}

#[test]
fn clients_with_many_requests_add_a_full_budget_each() {
    let Fleet { load_without, load, failed, bound } =
        run(Case { clients: 3, requests: 1_000, ..CASE }).unwrap();
    assert!(load_without > Some(2.9), "{load_without:?}");
    assert!((1.09..1.11).contains(&load), "{load}");
    assert_eq!(failed, 300);
    // Those of the two healthy seconds before are the only answers that count for more.
    assert!(bound < 300.0 + 0.2 * 3.0 * 80.0, "{bound}");
}

#[test]
fn clients_of_one_process_can_share_what_one_may_add() {
    let Fleet { load_without, load, failed, .. } =
        run(Case { clients: 60, processes: Some(2), ..CASE }).unwrap();
    assert!(load_without > Some(2.9), "{load_without:?}");
    assert!(load < 1.4, "{load}");
    assert_eq!(failed, 200);
}

#[test]
fn answers_refill_a_budget_by_a_fifth() {
    let many = Case { requests: 1_000, ..CASE };
    let Fleet { failed, bound, .. } = run(Case { refused: 0.8, ..many }).unwrap();
    assert!(failed > 130, "more than a full budget: {failed}");
    assert!(failed as f64 > 0.8 * bound, "{failed} of {bound}");
}

#[test]
fn a_budget_is_full_again_after_each_minute_without_a_debit() {
    let many = Case { requests: 300, ..CASE };
    let Fleet { failed, bound, .. } = run(Case { outage: 150, ..many }).unwrap();
    assert_eq!(failed, 300);
    assert!(bound >= 300.0, "{bound}");
}
