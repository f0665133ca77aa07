//! The counting of the retry budget, run through every interleaving of two or three threads. By [`loom`],
//! whose atomics and locks the files under test use in place of the standard ones where `cfg(loom)` is
//! set, as it is here by the build script.
//!
//! `cargo test --release --manifest-path loom/Cargo.toml`
//!
//! Nothing is bounded: no preemptions are left out, and a model with more branches than loom's thousand
//! fails. So the models are small: three threads, or two with a few operations each.
#![cfg(test)]

#[path = "../../src/origin/bucket.rs"]
mod bucket;
mod bucket_models;
mod key;
#[path = "../../src/origin/sick_origin.rs"]
mod sick_origin;
#[path = "../../src/origin/sick_origins.rs"]
mod sick_origins;
mod sick_origins_models;
mod sync;

use std::collections::BTreeSet;
use std::sync::Mutex;

use loom::sync::Arc;
use loom::thread;

/// All that the runs of `model` come to: a test that asks for it notices if its threads never meet.
fn all_of_model(model: fn() -> u64) -> Vec<u64> {
    let all = std::sync::Arc::new(Mutex::new(BTreeSet::new()));
    let result = std::sync::Arc::clone(&all);
    loom::model(move || {
        let this = model();
        result.lock().unwrap().insert(this);
    });
    let all = all.lock().unwrap();
    all.iter().copied().collect()
}

/// Runs all of `work` at the same time, one in this thread, and gives what each of them gave.
fn at_once<S, T, const N: usize>(shared: &Arc<S>, work: [fn(&S) -> T; N]) -> [T; N]
where
    S: Send + Sync + 'static,
    T: Copy + Send + 'static,
{
    let (ours, theirs) = work.split_last().unwrap();
    let start = |&work: &fn(&S) -> T| {
        let shared = Arc::clone(shared);
        thread::spawn(move || work(&shared))
    };
    let threads: Vec<_> = theirs.iter().map(start).collect();
    let mut results = [ours(shared); N];
    for (result, thread) in results.iter_mut().zip(threads) {
        *result = thread.join().unwrap();
    }
    results
}
