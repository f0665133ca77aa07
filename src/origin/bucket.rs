//! A bucket of tokens. (`loom/` runs this file through all interleavings.)

#[cfg(loom)]
use crate::sync::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// One token, in the unit in which buckets count: thousandths, so that parts of a token are exact.
pub(crate) const TOKEN: u64 = 1_000;

/// Holds between nothing and its capacity; both in thousandths of a token. Exact, whoever takes and
/// gives at the same time: every change is one compare-and-swap.
#[derive(Debug)]
pub(crate) struct Bucket {
    level: AtomicU64,
    capacity: u64,
}

impl Bucket {
    pub(crate) fn full(capacity: u64) -> Self {
        Self { level: AtomicU64::new(capacity), capacity }
    }

    /// Takes one token, if there is one.
    pub(crate) fn take(&self) -> bool {
        self.update(|level| level.checked_sub(TOKEN)).is_some()
    }

    /// Puts `amount` in; what does not fit is lost. Whether it is full now.
    pub(crate) fn give(&self, amount: u64) -> bool {
        let level = self.update(|level| Some(level.saturating_add(amount).min(self.capacity)));
        level == Some(self.capacity)
    }

    pub(crate) fn level(&self) -> u64 {
        self.level.load(Ordering::Relaxed)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.level() == self.capacity
    }

    /// The new level, if `change` gives one. Relaxed: the level guards no other memory.
    fn update(&self, change: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let mut level = self.level();
        loop {
            let new = change(level)?;
            let swap =
                self.level.compare_exchange_weak(level, new, Ordering::Relaxed, Ordering::Relaxed);
            match swap {
                Ok(_) => return Some(new),
                Err(now) => level = now,
            }
        }
    }
}
