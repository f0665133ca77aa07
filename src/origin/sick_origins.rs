//! Buckets for the origins that need one, and for no others. (`loom/` runs this file through all
//! interleavings.)

use std::collections::HashMap;
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

#[cfg(loom)]
use loom::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::bucket::TOKEN;
use super::key::Key;
use super::sick_origin::SickOrigin;
#[cfg(loom)]
use crate::sync::{AtomicUsize, Ordering};

/// How many origins have a bucket of their own at the same time, at most.
pub(super) const MAX_ORIGINS: usize = if cfg!(loom) { 1 } else { 1_024 };

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
    own: HashMap<Key, SickOrigin>,
    shared: Option<SickOrigin>,
    next_sweep: Duration,
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
        if let Some(sick) =
            self.read().own.get(&key).filter(|sick| !sick.is_idle(now, self.idle_after))
        {
            return sick.take(now).then_some(Home::Own);
        }
        let mut buckets = self.write();
        self.sweep(&mut buckets, now);
        let is_new = !buckets.own.contains_key(&key);
        let (sick, home) = if is_new && buckets.own.len() >= MAX_ORIGINS {
            (buckets.shared.get_or_insert_with(|| SickOrigin::new(self.capacity)), Home::Shared)
        } else {
            (buckets.own.entry(key).or_insert_with(|| SickOrigin::new(self.capacity)), Home::Own)
        };
        if sick.is_idle(now, self.idle_after) {
            *sick = SickOrigin::new(self.capacity);
        }
        let is_taken = sick.take(now);
        self.recount(&buckets);
        is_taken.then_some(home)
    }

    /// The resend is sent: its token is used now.
    pub(super) fn use_up(&self, key: Key, home: Home, now: Duration) {
        self.change(key, home, now, |sick| sick.use_up(now));
    }

    /// The resend is not sent: its token goes back.
    pub(super) fn put_back(&self, key: Key, home: Home, now: Duration) {
        self.change(key, home, now, SickOrigin::put_back);
    }

    /// Gives `amount`, in thousandths of a token, to a bucket, if there is one.
    pub(super) fn give(&self, key: Key, home: Home, amount: u64, now: Duration) {
        if self.count() > 0 {
            self.change(key, home, now, |sick| sick.give(amount));
        }
    }

    fn change(&self, key: Key, home: Home, now: Duration, change: impl Fn(&SickOrigin)) {
        let buckets = self.read();
        let sick = buckets.find(key, home);
        sick.map(change);
        let is_well = sick.is_some_and(SickOrigin::is_well);
        let is_due = buckets.next_sweep <= now;
        drop(buckets);
        if is_well || is_due {
            let buckets = &mut *self.write();
            if buckets.find(key, home).is_some_and(SickOrigin::is_well) {
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
    #[cfg(not(loom))]
    pub(super) fn count_at(&self, now: Duration) -> usize {
        let buckets = self.read();
        let all = buckets.own.values().chain(&buckets.shared);
        all.filter(|sick| !sick.is_well() && !sick.is_idle(now, self.idle_after)).count()
    }

    /// What a debit would find, in thousandths of a token.
    pub(super) fn level(&self, key: Key, now: Duration) -> u64 {
        let buckets = self.read();
        let sick = match buckets.own.get(&key) {
            None if !self.has_room(&buckets, now) => buckets.shared.as_ref(),
            own => own,
        };
        match sick {
            Some(sick) if !sick.is_idle(now, self.idle_after) => sick.level(),
            _ => self.capacity,
        }
    }

    /// Whether there is room for another, or will be after the sweep that is due.
    fn has_room(&self, buckets: &Buckets, now: Duration) -> bool {
        let is_due = buckets.next_sweep <= now;
        buckets.own.len() < MAX_ORIGINS
            || (is_due && buckets.own.values().any(|sick| sick.is_idle(now, self.idle_after)))
    }

    fn sweep(&self, buckets: &mut Buckets, now: Duration) {
        if buckets.next_sweep <= now {
            let stays = |sick: &SickOrigin| !sick.is_well() && !sick.is_idle(now, self.idle_after);
            buckets.own.retain(|_, sick| stays(sick));
            buckets.shared.take_if(|sick| !stays(sick));
            buckets.next_sweep = now.saturating_add(self.idle_after / SWEEPS);
        }
    }

    fn recount(&self, buckets: &Buckets) {
        self.sick.store(buckets.count(), Ordering::Relaxed);
    }

    /// What [`count`](Self::count) must come to.
    #[cfg(any(test, loom))]
    pub(super) fn recounted(&self) -> usize {
        self.read().count()
    }

    fn read(&self) -> RwLockReadGuard<'_, Buckets> {
        self.buckets.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Buckets> {
        self.buckets.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buckets {
    fn count(&self) -> usize {
        self.own.len() + usize::from(self.shared.is_some())
    }

    fn find(&self, key: Key, home: Home) -> Option<&SickOrigin> {
        match home {
            Home::Own => self.own.get(&key),
            Home::Shared => self.shared.as_ref(),
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    #[cfg(not(target_arch = "wasm32"))]
    use std::thread;

    #[cfg(not(target_arch = "wasm32"))]
    use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::super::key::Keys;
    use super::*;

    const IDLE_AFTER: Duration = Duration::from_secs(60);
    const NOW: Duration = Duration::from_secs(100);
    const REFILL: u64 = TOKEN / 5;

    fn keys<const N: usize>() -> [Key; N] {
        let keys = Keys::default();
        std::array::from_fn(|number| keys.of(&number.to_string()))
    }

    /// A resend that is sent.
    fn send(origins: &SickOrigins, key: Key, now: Duration) -> Option<Home> {
        let home = origins.take(key, now)?;
        origins.use_up(key, home, now);
        Some(home)
    }

    fn send_all(origins: &SickOrigins, key: Key, now: Duration) -> u64 {
        const ENOUGH: usize = 100; // no bucket here has more: what gives for ever fails, and does not hang
        (0..ENOUGH).take_while(|_| send(origins, key, now).is_some()).count() as u64
    }

    /// Two origins are far from empty and from full, so that the order of what happens to them does
    /// not matter. The tokens of two others always come back, so that their buckets come and go.
    #[cfg(not(target_arch = "wasm32"))] // it has no threads
    #[test]
    fn threads_leave_an_exact_balance() {
        const THREADS: u64 = 8;
        const OPERATIONS: u64 = 10_000;
        const CAPACITY: u64 = 2 * (THREADS * OPERATIONS + 1) * TOKEN;
        let keys @ [one, other, ..] = keys::<4>();
        let origins = SickOrigins::new(CAPACITY, IDLE_AFTER);
        let missing = CAPACITY / 2;
        for key in [one, other] {
            for _ in 0..missing / TOKEN {
                assert!(send(&origins, key, NOW).is_some());
            }
        }
        let work = |seed| {
            let mut random = SmallRng::seed_from_u64(seed);
            let (mut taken, mut given) = ([0; 2], [0; 2]);
            for _ in 0..OPERATIONS {
                let random = random.next_u32() as usize;
                let (which, gives) = (random % 4, random & 4 > 0);
                match keys[which] {
                    key if which > 1 => {
                        let home = origins.take(key, NOW).unwrap();
                        assert_eq!(home, Home::Own);
                        origins.put_back(key, home, NOW);
                    }
                    key if gives => {
                        origins.give(key, Home::Own, REFILL, NOW);
                        given[which] += REFILL;
                    }
                    key => {
                        assert_eq!(send(&origins, key, NOW), Some(Home::Own));
                        taken[which] += TOKEN;
                    }
                }
            }
            (taken, given)
        };
        let mut levels = [CAPACITY - missing; 2];
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..THREADS).map(|seed| scope.spawn(move || work(seed))).collect();
            for thread in threads {
                let (taken, given) = thread.join().unwrap();
                for which in [0, 1] {
                    levels[which] = levels[which] + given[which] - taken[which];
                }
            }
        });
        assert_eq!([one, other].map(|key| origins.level(key, NOW)), levels);
        assert_eq!((origins.count(), origins.recounted()), (2, 2));
        for (key, level) in [(one, levels[0]), (other, levels[1])] {
            origins.give(key, Home::Own, CAPACITY - level, NOW);
        }
        assert_eq!((origins.count(), origins.recounted()), (0, 0));
    }

    #[test]
    fn a_million_origins_share_what_a_thousand_and_one_have() {
        const CAPACITY: u64 = 2;
        let keys = Keys::default();
        let origins = SickOrigins::new(CAPACITY * TOKEN, IDLE_AFTER);
        let mut taken = 0;
        for number in 0..1_000_000 {
            taken += send_all(&origins, keys.of(&number.to_string()), NOW);
            assert!(origins.count() <= MAX_ORIGINS + 1);
        }
        assert_eq!(taken, (MAX_ORIGINS as u64 + 1) * CAPACITY);
        assert_eq!(origins.read().own.len(), MAX_ORIGINS);
        assert_eq!((origins.count(), origins.recounted()), (MAX_ORIGINS + 1, MAX_ORIGINS + 1));

        // One token that comes back is there for whoever comes next, once.
        let stranger = keys.of("stranger");
        origins.give(stranger, Home::Shared, TOKEN, NOW);
        assert_eq!(origins.level(stranger, NOW), TOKEN);
        assert_eq!(send(&origins, stranger, NOW), Some(Home::Shared));
        assert_eq!(origins.take(stranger, NOW), None);

        // Where there is room again, whoever is new has a bucket of its own.
        origins.give(keys.of("0"), Home::Own, CAPACITY * TOKEN, NOW);
        assert_eq!(origins.level(stranger, NOW), CAPACITY * TOKEN);

        // All of them have been idle by then.
        let later = NOW + IDLE_AFTER;
        assert_eq!(origins.level(stranger, later), CAPACITY * TOKEN);
        assert_eq!(origins.take(stranger, later), Some(Home::Own));
        assert_eq!((origins.count(), origins.recounted()), (1, 1));
    }

    #[test]
    fn the_level_is_what_a_debit_finds() {
        let keys = Keys::default();
        let origins = SickOrigins::new(2 * TOKEN, IDLE_AFTER);
        for number in 0..MAX_ORIGINS {
            assert_eq!(send(&origins, keys.of(&number.to_string()), NOW), Some(Home::Own));
        }
        let (known, stranger) = (keys.of("0"), keys.of("stranger"));
        let busy = NOW + IDLE_AFTER / 2;
        assert_eq!(send(&origins, stranger, busy), Some(Home::Shared));
        assert_eq!((origins.level(known, busy), origins.level(stranger, busy)), (TOKEN, TOKEN));

        // All others are idle by then, but nobody looks for them before the next sweep.
        let swept = NOW + IDLE_AFTER - Duration::from_millis(1);
        origins.give(known, Home::Own, 1, swept);
        let idle = NOW + IDLE_AFTER;
        assert_eq!(origins.level(stranger, idle), TOKEN);
        assert_eq!(send(&origins, stranger, idle), Some(Home::Shared));
        let due = swept + IDLE_AFTER / SWEEPS;
        assert_eq!(origins.level(stranger, due), 2 * TOKEN);
        assert_eq!(send(&origins, stranger, due), Some(Home::Own));
    }

    #[test]
    fn an_idle_origin_is_full_again_and_goes() {
        let [idle, other] = keys();
        let origins = SickOrigins::new(3 * TOKEN, IDLE_AFTER);
        assert_eq!(send_all(&origins, idle, NOW), 3);
        let last = NOW + Duration::from_secs(5);
        origins.give(idle, Home::Own, TOKEN, NOW);
        assert_eq!(send_all(&origins, idle, last), 1);

        // A debit that found nothing does not count, nor does what is given.
        let almost = last + IDLE_AFTER - Duration::from_millis(1);
        origins.give(idle, Home::Own, REFILL, almost);
        assert_eq!(origins.take(idle, almost), None);
        assert_eq!((origins.level(idle, almost), origins.count()), (REFILL, 1));

        let then = last + IDLE_AFTER;
        assert_eq!(origins.level(idle, then), 3 * TOKEN);
        assert_eq!(origins.count(), 1, "it goes with the next sweep");
        origins.give(other, Home::Own, REFILL, then + IDLE_AFTER / SWEEPS);
        assert_eq!((origins.count(), origins.recounted()), (0, 0));
    }

    /// Or the resends of several buckets could come together.
    #[test]
    fn as_long_as_a_token_waits_its_bucket_is_not_filled_by_time() {
        let [key, other] = keys();
        let origins = SickOrigins::new(2 * TOKEN, IDLE_AFTER);
        let home = origins.take(key, NOW).unwrap();
        assert_eq!(send(&origins, key, NOW), Some(Home::Own));
        let later = NOW + 10 * IDLE_AFTER;
        origins.give(other, Home::Own, REFILL, later); // sweeps
        assert_eq!((origins.take(key, later), origins.level(key, later)), (None, 0));
        origins.use_up(key, home, later);
        assert_eq!(origins.level(key, later + IDLE_AFTER - Duration::from_millis(1)), 0);
        assert_eq!(origins.level(key, later + IDLE_AFTER), 2 * TOKEN);

        // Nor does it go because answers fill it: what waits may still come back.
        let home = origins.take(key, later + IDLE_AFTER).unwrap();
        origins.give(key, Home::Own, 2 * TOKEN, later + IDLE_AFTER);
        assert_eq!(origins.recounted(), 1);
        origins.put_back(key, home, later + IDLE_AFTER);
        assert_eq!((origins.count(), origins.recounted()), (0, 0));
    }

    #[test]
    fn a_resend_to_an_idle_origin_finds_all_tokens_but_does_not_make_more() {
        let [key] = keys();
        let origins = SickOrigins::new(3 * TOKEN, IDLE_AFTER);
        assert_eq!(send_all(&origins, key, NOW), 3);
        assert_eq!(send_all(&origins, key, NOW + IDLE_AFTER), 3);
        // A clock that was read before another's does no harm.
        assert_eq!(send_all(&origins, key, NOW), 0);
        assert_eq!(send_all(&origins, key, NOW + IDLE_AFTER), 0);
    }

    #[test]
    fn a_clock_that_was_read_before_anothers_makes_an_origin_idle_no_sooner() {
        let [key] = keys();
        let origins = SickOrigins::new(3 * TOKEN, IDLE_AFTER);
        let later = NOW + Duration::from_secs(1);
        for now in [later, NOW] {
            assert_eq!(send(&origins, key, now), Some(Home::Own));
        }
        assert_eq!(origins.level(key, NOW + IDLE_AFTER), TOKEN);
        assert_eq!(origins.level(key, later + IDLE_AFTER), 3 * TOKEN);
    }
}
