//! What the targets share: slow second readings that know nothing of the crate, policies as data, and memory
//! that counts itself.

pub mod calendar;
pub mod memory;
pub mod policies;
pub mod profiles;
pub mod reading;
pub mod source;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub const SECOND: i128 = 1_000_000_000;

/// A wall clock so many nanoseconds from 1970. The epoch, if the platform has none.
pub fn at(nanos: i128) -> SystemTime {
    let magnitude = duration(nanos.abs());
    let time = if nanos < 0 {
        UNIX_EPOCH.checked_sub(magnitude)
    } else {
        UNIX_EPOCH.checked_add(magnitude)
    };
    time.unwrap_or(UNIX_EPOCH)
}

/// How far from 1970 a wall clock is.
pub fn nanos_of(time: SystemTime) -> i128 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => nanos(after),
        Err(before) => -nanos(before.duration()),
    }
}

pub fn nanos(duration: Duration) -> i128 {
    duration.as_nanos() as i128
}

/// At most what a `Duration` holds, at least nothing.
pub fn duration(nanos: i128) -> Duration {
    let seconds = nanos.max(0) / SECOND;
    match u64::try_from(seconds) {
        Ok(seconds) => Duration::new(seconds, (nanos.max(0) % SECOND) as u32),
        Err(_) => Duration::MAX,
    }
}
