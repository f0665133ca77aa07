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
mod sync;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// All that the runs of `model` come to: a test that asks for it notices if its threads never meet.
fn all_of_model(model: fn() -> u64) -> Vec<u64> {
    let all = Arc::new(Mutex::new(BTreeSet::new()));
    let result = Arc::clone(&all);
    loom::model(move || {
        let this = model();
        result.lock().unwrap().insert(this);
    });
    let all = all.lock().unwrap();
    all.iter().copied().collect()
}
