//! What holds for every field of a profile and for every idempotency key, whatever its bytes. The
//! single cases are in the conformance data.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails the test"
)]

mod keys;
mod profiles;
mod reference;
mod units;
mod values;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::ProptestConfig;
use proptest::test_runner::FileFailurePersistence;

fn config(cases: u32) -> ProptestConfig {
    let regressions = FileFailurePersistence::WithSource("regressions");
    ProptestConfig { cases, ..ProptestConfig::with_failure_persistence(regressions) }
}

fn at((seconds, nanos): (i64, u32)) -> SystemTime {
    let magnitude = Duration::from_secs(seconds.unsigned_abs());
    let second = if seconds < 0 { UNIX_EPOCH - magnitude } else { UNIX_EPOCH + magnitude };
    second + Duration::from_nanos(nanos.into())
}
