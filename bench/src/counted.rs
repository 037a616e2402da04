//! The allocator of this program: the system's, which counts while it is asked to. Used by the
//! workloads that are about memory; at other times an allocation looks at a flag more.

#![allow(unsafe_code)] // An allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

struct Counts;

#[global_allocator]
static COUNTS: Counts = Counts;

static COUNTING: AtomicBool = AtomicBool::new(false);
static NUMBER: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
/// Those that are there, without those from before.
static NOW: AtomicI64 = AtomicI64::new(0);
static MOST: AtomicI64 = AtomicI64::new(0);

/// What the allocations of some work were.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// How many there were.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test counts them"))]
    pub number: u64,
    /// The sum of their sizes.
    pub bytes: u64,
    /// The most that was there at a time.
    pub most: u64,
}

/// Counts the allocations of some work, and of all that runs meanwhile.
pub fn counted(work: impl FnOnce()) -> Counted {
    NUMBER.store(0, Relaxed);
    BYTES.store(0, Relaxed);
    NOW.store(0, Relaxed);
    MOST.store(0, Relaxed);
    COUNTING.store(true, Relaxed);
    work();
    COUNTING.store(false, Relaxed);
    Counted { number: NUMBER.load(Relaxed), bytes: BYTES.load(Relaxed), most: MOST.load(Relaxed) as u64 }
}

#[cold]
fn note(more: usize, less: usize) {
    if more > 0 {
        NUMBER.fetch_add(1, Relaxed);
        BYTES.fetch_add(more as u64, Relaxed);
    }
    let change = more as i64 - less as i64;
    MOST.fetch_max(NOW.fetch_add(change, Relaxed) + change, Relaxed);
}

// SAFETY: all is handed on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counts {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTING.load(Relaxed) {
            note(layout.size(), 0);
        }
        // SAFETY: the contract of this function is the same.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if COUNTING.load(Relaxed) {
            note(layout.size(), 0);
        }
        // SAFETY: the contract of this function is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if COUNTING.load(Relaxed) {
            note(size, layout.size());
        }
        // SAFETY: the contract of this function is the same.
        unsafe { System.realloc(at, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if COUNTING.load(Relaxed) {
            note(0, layout.size());
        }
        // SAFETY: the contract of this function is the same.
        unsafe { System.dealloc(at, layout) }
    }
}
