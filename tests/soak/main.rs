//! The soak: thousands of concurrent calls over HTTP/1.1 and HTTP/2 against servers that fail in every way
//! they can, left by their callers in every way they can, for as long as one likes.
//!
//! - **No leak**: what lives in the last third of the time is no more than in the first, under load and at
//!   rest; at the end no task is left.
//! - **No stuck future**: each call ends within its deadline, or within what its policy allows.
//! - **No duplicate effect**: an unmarked POST or PATCH takes effect at most once, always; one with a key, too.
//! - **Counters add up**: histories, observer, metrics, and what the servers saw.
//!
//! `SOAK_MINUTES=10 cargo test --release --test soak -- --ignored --nocapture` (`SOAK_SEED=17` for one seed,
//! `SOAK_IN_FLIGHT=4000`).

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod calls;
mod clients;
mod counts;
mod fates;
#[path = "../support/faulty_server.rs"]
mod faulty_server;
mod ledger;
mod memory;
mod plan;
mod recorder;
mod sums;
mod world;

use std::alloc::System;
use std::time::{Duration, Instant};

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::sync::Mutex;

use memory::{Third, of_process};
use recorder::Metrics;
use world::{Size, World, alive_tasks, assert_tasks_end};

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocator and metrics are of the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

async fn soak(size: Size) {
    let _alone = ONE_AT_A_TIME.lock().await;
    let seed = setting("SOAK_SEED", 1);
    println!("seed {seed}, {size:?}");
    let (started, tasks) = (Instant::now(), alive_tasks());
    let metrics = Metrics::new();
    let world = World::start(seed, size).await;
    for number in 0..=size.rounds {
        world.round(number, size).await;
        world.samples.at_rest(world.calls());
        sums::assert_add_up(&world.totals.lock().unwrap(), &metrics);
    }
    let totals = world.totals.lock().unwrap().clone();
    let tally = world.ledger.settle();
    let rounds = world.samples.rounds();
    let thirds = rounds[1..].chunks(rounds.len() / 3).map(Third::of).collect::<Vec<_>>();
    println!("seconds                | {}", started.elapsed().as_secs());
    sums::print(&world, &totals, &tally, &thirds);
    world.ledger.assert_nothing_is_broken();
    sums::assert_arrivals_add_up(&world.ledger, &totals, &tally);
    sums::assert_no_idle_run(&world.ledger, &totals, &tally);
    sums::assert_flat(&thirds);
    world.end();
    assert_tasks_end(tasks, size.attempt_timeout).await;
    println!("alive tasks at the end | {} (at the start {tasks})", alive_tasks());
    println!("peak resident set      | {} KiB", of_process("VmHWM") / 1_024);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_leaks_hangs_doubles_or_goes_uncounted() {
    let size = Size {
        in_flight: 200,
        round: (Duration::ZERO, 900),
        rounds: 3,
        attempt_timeout: Duration::from_millis(300),
        connection_odds: 300,
        slots: 1 << 11,
        sample_every: Duration::from_millis(5),
    };
    soak(size).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes, in release"]
async fn a_long_soak() {
    let rounds = 9;
    let time = Duration::from_secs(60 * setting("SOAK_MINUTES", 3)) / (rounds + 1);
    let size = Size {
        in_flight: setting("SOAK_IN_FLIGHT", 4_000),
        round: (time, 1_000),
        rounds,
        attempt_timeout: Duration::from_secs(1),
        connection_odds: 5_000,
        slots: 1 << 17,
        sample_every: Duration::from_millis(100),
    };
    soak(size).await;
}
