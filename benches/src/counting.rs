//! An allocator that counts.
//!
//! ```ignore
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting;
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::Sub;

/// Counts what its thread allocates. A reallocation is one allocation of the new size.
pub struct Counting;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub allocations: usize,
    pub bytes: usize,
}

impl Memory {
    /// Of this thread, so far.
    #[must_use]
    pub fn so_far() -> Self {
        ALLOCATED.get()
    }
}

/// The bytes that this thread has allocated and not freed: below zero if it freed those of others.
#[must_use]
pub fn alive() -> isize {
    ALIVE.get()
}

impl Sub for Memory {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            allocations: self.allocations - before.allocations,
            bytes: self.bytes - before.bytes,
        }
    }
}

thread_local! {
    static ALLOCATED: Cell<Memory> = const { Cell::new(Memory { allocations: 0, bytes: 0 }) };
    static ALIVE: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    // A thread that ends has no counter any more.
    let _ = ALLOCATED.try_with(|counter| {
        let before = counter.get();
        let (allocations, bytes) = (before.allocations + 1, before.bytes + bytes);
        counter.set(Memory { allocations, bytes });
    });
    let _ = ALIVE.try_with(|alive| alive.set(alive.get().wrapping_add_unsigned(bytes)));
}

fn count_freed(bytes: usize) {
    let _ = ALIVE.try_with(|alive| alive.set(alive.get().wrapping_sub_unsigned(bytes)));
}

// SAFETY: everything is the system's; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count_freed(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        count_freed(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
