//! The list of a worker's living fibers, which can be read between any two instructions of the
//! worker's.
//!
//! Used by the worker, which enrols and strikes off, and by dumps, which read the list between two
//! turns, or in a signal handler of the worker's thread (`snapshot.rs`).
//!
//! # The race to fear
//!
//! The thread is interrupted in the middle of a change, and the handler reads a half of that. Each
//! change is a few stores, in an order that the compiler keeps (`compiler_fence`; the processor
//! shows a thread its own stores in order), and after each of them the list is one that can be
//! read:
//!
//! | change | stores | the handler in between sees |
//! | --- | --- | --- |
//! | enrol | the place behind the last; then the length | the list without the new one |
//! | enrol, when full | a larger block with the same; then the block's address | either |
//! | strike | the last into the gap; then the length | the last one twice, the struck one not |
//!
//! A fiber that is struck off has returned, and its header is in place until after that. A reader
//! tells doubles by the fibers' numbers.
#![allow(unsafe_code)] // Places of a block are written by address.

use crate::worker::header::Header;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};

type Entry = NonNull<Header>;

/// The living fibers of one worker.
pub(crate) struct Roll {
    /// A block of `capacity` entries, of which the first `len` are written.
    block: AtomicPtr<Entry>,
    capacity: AtomicUsize,
    len: AtomicUsize,
}

/// The capacity to begin with.
const FIRST: usize = 8;

impl Roll {
    pub(crate) const fn new() -> Self {
        Self { block: AtomicPtr::new(ptr::dangling_mut()), capacity: AtomicUsize::new(0), len: AtomicUsize::new(0) }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry at this place, which is below the length. For the worker's thread.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<Entry> {
        // SAFETY: the first `len` entries of the block are written, and nobody else changes them.
        (at < self.len()).then(|| unsafe { *self.block.load(Relaxed).add(at) })
    }

    /// All entries. For the worker's thread, which enrols and strikes nobody meanwhile.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// Puts an entry behind the last, and answers its place.
    #[inline]
    pub(crate) fn push(&self, entry: Entry) -> usize {
        let at = self.len();
        if at == self.capacity.load(Relaxed) {
            self.set_capacity((at * 2).max(FIRST));
        }
        // SAFETY: the place is inside of the block, and nobody reads there before the length says
        // so.
        unsafe { self.block.load(Relaxed).add(at).write(entry) };
        compiler_fence(SeqCst);
        self.len.store(at + 1, Relaxed);
        at
    }

    /// Takes the entry at this place out; the last one gets its place, and is the answer.
    #[inline]
    pub(crate) fn swap_remove(&self, at: usize) -> Option<Entry> {
        let last = self.len() - 1;
        assert!(at <= last, "a fiber is struck off once");
        let block = self.block.load(Relaxed);
        // SAFETY: both places are below the length, and so written, in a block of this thread's.
        let moved = unsafe {
            let moved = *block.add(last);
            block.add(at).write(moved);
            moved
        };
        compiler_fence(SeqCst);
        self.len.store(last, Relaxed);
        (at != last).then_some(moved)
    }

    /// Gives up most of the room if that is a burst's.
    pub(crate) fn ebb(&self, kept: usize) {
        let (len, capacity) = (self.len(), self.capacity.load(Relaxed));
        if capacity > kept && len < capacity / 4 {
            self.set_capacity((2 * len).max(kept));
        }
    }

    #[cold]
    fn set_capacity(&self, capacity: usize) {
        let mut room = Vec::<Entry>::with_capacity(capacity);
        room.extend(self.iter());
        let (block, old) = (room.as_mut_ptr(), self.block.load(Relaxed));
        let capacity_before = self.capacity.swap(room.capacity(), Relaxed);
        std::mem::forget(room);
        compiler_fence(SeqCst);
        self.block.store(block, Relaxed);
        compiler_fence(SeqCst);
        // SAFETY: made of a vector of this capacity, or dangling with none.
        drop(unsafe { Vec::from_raw_parts(old, 0, capacity_before) });
    }
}

impl Drop for Roll {
    fn drop(&mut self) {
        // SAFETY: made of a vector of this capacity, as in `set_capacity`.
        drop(unsafe { Vec::from_raw_parts(*self.block.get_mut(), 0, *self.capacity.get_mut()) });
    }
}
