//! What is kept of an origin of which a token was taken. (`loom/` runs this file through all interleavings.)

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::bucket::{Bucket, TOKEN};
#[cfg(loom)]
use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// Its bucket, and what says when that may go. Amounts are in thousandths of a token.
#[derive(Debug)]
pub(super) struct SickOrigin {
    bucket: Bucket,
    /// How many resends wait with a token of it.
    waiting: AtomicUsize,
    /// When a token was taken or used last. In milliseconds.
    last_debit: AtomicU64,
}

impl SickOrigin {
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            bucket: Bucket::full(capacity),
            waiting: AtomicUsize::new(0),
            last_debit: AtomicU64::new(0),
        }
    }

    /// Takes a token, if there is one, for a resend that waits.
    pub(super) fn take(&self, now: Duration) -> bool {
        let is_taken = self.bucket.take();
        if is_taken {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            self.touch(now);
        }
        is_taken
    }

    /// One that waited is sent.
    pub(super) fn use_up(&self, now: Duration) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.touch(now);
    }

    /// One that waited is not sent.
    pub(super) fn put_back(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.bucket.give(TOKEN);
    }

    pub(super) fn give(&self, amount: u64) {
        self.bucket.give(amount);
    }

    pub(super) fn level(&self) -> u64 {
        self.bucket.level()
    }

    pub(super) fn is_well(&self) -> bool {
        self.bucket.is_full() && self.waiting.load(Ordering::Relaxed) == 0
    }

    pub(super) fn is_idle(&self, now: Duration, idle_after: Duration) -> bool {
        let last_debit = Duration::from_millis(self.last_debit.load(Ordering::Relaxed));
        self.waiting.load(Ordering::Relaxed) == 0 && now.saturating_sub(last_debit) >= idle_after
    }

    fn touch(&self, now: Duration) {
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.last_debit.fetch_max(now, Ordering::Relaxed);
    }
}
