//! Loom's atomics, with no interleaving left out.
//!
//! Loom 0.7 leaves some out where a variable is loaded and then changed (its issues 166 and 392): it
//! looks for conflicts with the last access alone, and for loads it takes that to be none. So here a
//! load is an exchange that changes nothing, and any two accesses of a variable are a conflict. It
//! sees the newest value. That it might see an older one is no loss: as far as one variable goes, that is
//! the same as a load at an earlier moment, which is tried too. And a store is an exchange as well, as loom
//! has no order between a plain one and such a load (see its issue 282).

use loom::sync::atomic as loom_atomic;
pub(crate) use loom::sync::atomic::Ordering;

macro_rules! atomic {
    ($name:ident, $int:ty) => {
        #[derive(Debug)]
        pub(crate) struct $name(loom_atomic::$name);

        #[allow(dead_code, reason = "not each type has a use for each operation")]
        impl $name {
            pub(crate) fn new(value: $int) -> Self {
                Self(loom_atomic::$name::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $int {
                self.0.fetch_add(0, order)
            }

            pub(crate) fn store(&self, value: $int, order: Ordering) {
                self.0.swap(value, order);
            }

            pub(crate) fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                self.0.fetch_add(value, order)
            }

            pub(crate) fn fetch_sub(&self, value: $int, order: Ordering) -> $int {
                self.0.fetch_sub(value, order)
            }

            pub(crate) fn fetch_max(&self, value: $int, order: Ordering) -> $int {
                self.0.fetch_max(value, order)
            }

            pub(crate) fn compare_exchange_weak(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                self.0.compare_exchange_weak(current, new, success, failure)
            }
        }
    };
}

atomic!(AtomicU64, u64);
atomic!(AtomicUsize, usize);
