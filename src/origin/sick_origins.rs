//! Buckets for the origins that need one, and for no others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use super::bucket::{Bucket, TOKEN};
use super::key::Key;

/// How many origins have a bucket of their own at the same time, at most.
pub(super) const MAX_ORIGINS: usize = 1_024;

/// Idle buckets are looked for so often within the time after which they are.
const SWEEPS: u32 = 8;

/// A token's way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// The bucket of the origin.
    Own,
    /// The one that all share for which there was no room.
    Shared,
}

/// A healthy origin has no bucket, which is the same as a full one. A debit makes it; it goes when it is
/// full again, or after some time without a debit. As long as a resend waits with a token of it, it stays: or
/// the resends of several buckets could come together.
///
/// Whoever changes a level holds the lock for reading; whoever makes or removes a bucket holds it
/// for writing, so that no change is lost in a bucket that goes. `now` is the time since the budget
/// was made.
#[derive(Debug)]
pub(super) struct SickOrigins {
    /// In thousandths of a token.
    capacity: u64,
    idle_after: Duration,
    /// How many buckets there are: all that a healthy client reads.
    sick: AtomicUsize,
    buckets: RwLock<Buckets>,
}

#[derive(Debug, Default)]
struct Buckets {
    own: HashMap<Key, Sick>,
    shared: Option<Sick>,
    next_sweep: Duration,
}

#[derive(Debug)]
struct Sick {
    bucket: Bucket,
    /// How many resends wait with a token of it.
    waiting: AtomicUsize,
    /// When a token was taken or used last. In milliseconds.
    last_debit: AtomicU64,
}

impl SickOrigins {
    pub(super) fn new(capacity: u64, idle_after: Duration) -> Self {
        Self { capacity, idle_after, sick: AtomicUsize::new(0), buckets: RwLock::default() }
    }

    /// How many buckets there are. Relaxed: a success that comes as an origin becomes sick may or may not
    /// count.
    pub(super) fn count(&self) -> usize {
        self.sick.load(Ordering::Relaxed)
    }

    /// Takes a token.
    pub(super) fn take(&self, key: Key, now: Duration) -> Option<Home> {
        if self.capacity < TOKEN {
            return None; // nor is there a bucket for nothing
        }
        if let Some(sick) = self.read().own.get(&key).filter(|sick| !self.is_idle(sick, now)) {
            return sick.take(now).then_some(Home::Own);
        }
        let mut buckets = self.write();
        self.sweep(&mut buckets, now);
        let is_new = !buckets.own.contains_key(&key);
        let (sick, home) = if is_new && buckets.own.len() >= MAX_ORIGINS {
            (buckets.shared.get_or_insert_with(|| Sick::new(self.capacity)), Home::Shared)
        } else {
            (buckets.own.entry(key).or_insert_with(|| Sick::new(self.capacity)), Home::Own)
        };
        if self.is_idle(sick, now) {
            *sick = Sick::new(self.capacity);
        }
        let is_taken = sick.take(now);
        self.recount(&buckets);
        is_taken.then_some(home)
    }

    /// The resend is sent: its token is used now.
    pub(super) fn use_up(&self, key: Key, home: Home, now: Duration) {
        if let Some(sick) = self.read().find(key, home) {
            sick.waiting.fetch_sub(1, Ordering::Relaxed);
            sick.touch(now);
        }
    }

    /// The resend is not sent: its token goes back.
    pub(super) fn put_back(&self, key: Key, home: Home, now: Duration) {
        self.change(key, home, now, |sick| {
            sick.waiting.fetch_sub(1, Ordering::Relaxed);
            sick.bucket.give(TOKEN);
        });
    }

    /// Gives `amount`, in thousandths of a token, to a bucket, if there is one.
    pub(super) fn give(&self, key: Key, home: Home, amount: u64, now: Duration) {
        if self.count() > 0 {
            self.change(key, home, now, |sick| {
                sick.bucket.give(amount);
            });
        }
    }

    fn change(&self, key: Key, home: Home, now: Duration, change: impl Fn(&Sick)) {
        let buckets = self.read();
        let sick = buckets.find(key, home);
        sick.map(change);
        let is_well = sick.is_some_and(Sick::is_well);
        let is_due = buckets.next_sweep <= now;
        drop(buckets);
        if is_well || is_due {
            let buckets = &mut *self.write();
            if buckets.find(key, home).is_some_and(Sick::is_well) {
                match home {
                    Home::Own => drop(buckets.own.remove(&key)),
                    Home::Shared => buckets.shared = None,
                }
            }
            self.sweep(buckets, now);
            self.recount(buckets);
        }
    }

    /// How many origins are less than full now.
    pub(super) fn count_at(&self, now: Duration) -> usize {
        let buckets = self.read();
        let all = buckets.own.values().chain(&buckets.shared);
        all.filter(|sick| !sick.is_well() && !self.is_idle(sick, now)).count()
    }

    /// What a debit would find, in thousandths of a token.
    pub(super) fn level(&self, key: Key, now: Duration) -> u64 {
        let buckets = self.read();
        let sick = match buckets.own.get(&key) {
            None if buckets.own.len() >= MAX_ORIGINS => buckets.shared.as_ref(),
            own => own,
        };
        match sick {
            Some(sick) if !self.is_idle(sick, now) => sick.bucket.level(),
            _ => self.capacity,
        }
    }

    fn sweep(&self, buckets: &mut Buckets, now: Duration) {
        if buckets.next_sweep <= now {
            let stays = |sick: &Sick| !sick.is_well() && !self.is_idle(sick, now);
            buckets.own.retain(|_, sick| stays(sick));
            buckets.shared.take_if(|sick| !stays(sick));
            buckets.next_sweep = now.saturating_add(self.idle_after / SWEEPS);
        }
    }

    fn recount(&self, buckets: &Buckets) {
        let count = buckets.own.len() + usize::from(buckets.shared.is_some());
        self.sick.store(count, Ordering::Relaxed);
    }

    fn is_idle(&self, sick: &Sick, now: Duration) -> bool {
        let last_debit = Duration::from_millis(sick.last_debit.load(Ordering::Relaxed));
        sick.waiting.load(Ordering::Relaxed) == 0
            && now.saturating_sub(last_debit) >= self.idle_after
    }

    fn read(&self) -> RwLockReadGuard<'_, Buckets> {
        self.buckets.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Buckets> {
        self.buckets.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buckets {
    fn find(&self, key: Key, home: Home) -> Option<&Sick> {
        match home {
            Home::Own => self.own.get(&key),
            Home::Shared => self.shared.as_ref(),
        }
    }
}

impl Sick {
    fn new(capacity: u64) -> Self {
        Self {
            bucket: Bucket::full(capacity),
            waiting: AtomicUsize::new(0),
            last_debit: AtomicU64::new(0),
        }
    }

    fn take(&self, now: Duration) -> bool {
        let is_taken = self.bucket.take();
        if is_taken {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            self.touch(now);
        }
        is_taken
    }

    fn touch(&self, now: Duration) {
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.last_debit.fetch_max(now, Ordering::Relaxed);
    }

    fn is_well(&self) -> bool {
        self.bucket.is_full() && self.waiting.load(Ordering::Relaxed) == 0
    }
}
