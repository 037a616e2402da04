//! Who has locked: the caller's number, into the owner's word of a lock or a cell.
//!
//! Used by structures that one fiber holds at a time; `primitives/waits_for.rs` says what the word
//! is worth.
#![allow(unsafe_code)] // The current header is reached by its address.

use crate::contract::current::{current, with_running};
use crate::contract::fiber::Fiber;
use crate::primitives::atomic::plain_thread_local;
use crate::primitives::waits_for::Owner;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// In the numbers of plain threads.
const THREAD: u64 = 1 << 63;

static THREADS: AtomicU64 = AtomicU64::new(THREAD + 1);

plain_thread_local! {
    static NUMBER: Cell<u64> = Cell::new(0);
}

/// The number of the calling thread, which no other thread and no fiber of the process ever has.
#[cold]
#[inline(never)]
pub(crate) fn thread_number() -> u64 {
    if NUMBER.get() == 0 {
        NUMBER.set(THREADS.fetch_add(1, Relaxed));
    }
    NUMBER.get()
}

impl Owner {
    /// Notes the running fiber; nobody on a plain thread, which may poll a task.
    #[inline(always)] // A few instructions, on the fast way of a lock.
    pub fn note(&self) {
        with_running(|fiber| self.set(fiber.map_or(0, Fiber::number)));
    }

    /// Notes the calling fiber or thread, in a debug build with the place of the call.
    #[inline(always)] // As `note`.
    #[track_caller]
    pub fn note_caller(&self) {
        // Not by `with_running`, since its closure may become a function.
        // SAFETY: null, or the header of the fiber that runs this (clauses 3 and 4).
        match unsafe { current().as_ref() } {
            Some(fiber) => self.set(fiber.number()),
            None => self.note_thread(),
        }
        self.set_place();
    }

    #[cold]
    #[inline(never)]
    fn note_thread(&self) {
        self.set(thread_number());
    }

    /// Notes that the lock is free, if the caller is still noted. For an unlock with waiters.
    #[cold]
    pub fn clear_own(&self) {
        self.clear(with_running(|fiber| fiber.map_or_else(thread_number, Fiber::number)));
    }

    /// Notes that the lock is free.
    #[inline]
    pub fn forget(&self) {
        self.set(0);
    }
}
