//! A worker's private notes of children that its running fiber has forked.
//!
//! Used by `join/mod.rs`; its head says what a note is and how it leaves; the worker loop and the
//! contract's `suspend` meet it at two places.
#![allow(unsafe_code)] // Notes name frames of the parents.

use segue_core::scheduling::{Job, Place};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// That a child exists: how to make a job of it, and in which context. It stands at the head of the
/// child, in the parent's frame.
pub(crate) struct Note {
    pub(crate) expose: unsafe fn(NonNull<Note>) -> Job,
    pub(crate) place: Place,
}

/// A worker's private notes: a ring, indexed by the notes' numbers. Numbers are never used twice
/// once they were exposed.
pub(crate) struct Forks {
    ring: Cell<NonNull<MaybeUninit<NonNull<Note>>>>,
    mask: Cell<usize>,
    bottom: Cell<usize>,
    top: Cell<usize>,
}

/// How many notes there is room for at first; a power of two.
const ROOM: usize = 64;

impl Forks {
    pub(crate) fn new() -> Self {
        let forks =
            Self { ring: Cell::new(NonNull::dangling()), mask: Cell::new(0), bottom: Cell::new(0), top: Cell::new(0) };
        forks.set_ring(Box::new_uninit_slice(ROOM));
        forks
    }

    fn set_ring(&self, ring: Box<[MaybeUninit<NonNull<Note>>]>) {
        self.mask.set(ring.len() - 1);
        self.ring.set(NonNull::from(Box::leak(ring)).cast());
    }

    /// # Safety
    /// Another ring is set before anything else is called, or this is the end.
    unsafe fn take_ring(&self) -> Box<[MaybeUninit<NonNull<Note>>]> {
        let ring = NonNull::slice_from_raw_parts(self.ring.get(), self.mask.get() + 1);
        // SAFETY: it was leaked by `set_ring`, with this length, and is taken once.
        unsafe { Box::from_raw(ring.as_ptr()) }
    }

    /// Whether no note is private.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bottom.get() == self.top.get()
    }

    /// Notes a child, and answers with the note's number.
    ///
    /// # Safety
    /// The note stays in place, at the head of a child, until the note was [popped](Forks::pop), or
    /// was exposed and the job has run or come back.
    #[inline]
    pub(crate) unsafe fn push(&self, note: NonNull<Note>) -> usize {
        let number = self.top.get();
        if number - self.bottom.get() > self.mask.get() {
            self.grow();
        }
        // SAFETY: the index is below the ring's length, which is `mask + 1`; only the worker's
        // thread has access.
        unsafe { self.ring.get().add(number & self.mask.get()).write(MaybeUninit::new(note)) };
        self.top.set(number + 1);
        number
    }

    #[cold]
    #[inline(never)]
    fn grow(&self) {
        let mut larger = Box::new_uninit_slice((self.mask.get() + 1) * 2);
        // SAFETY: the larger one is set below; nothing in between can panic or call back.
        let ring = unsafe { self.take_ring() };
        for number in self.bottom.get()..self.top.get() {
            larger[number & (ring.len() * 2 - 1)] = ring[number & (ring.len() - 1)];
        }
        self.set_ring(larger);
    }

    /// Takes a note back, if it is still private.
    ///
    /// # Safety
    /// The number is that of a [push](Forks::push), and is popped once, after the later ones.
    #[inline]
    pub(crate) unsafe fn pop(&self, number: usize) -> bool {
        let private = number >= self.bottom.get();
        if private {
            debug_assert_eq!(self.top.get(), number + 1, "notes are popped newest first");
            self.top.set(number);
        }
        private
    }

    /// Takes the oldest private note out and makes a job of it.
    pub(crate) fn expose_oldest(&self) -> Option<Job> {
        let number = self.bottom.get();
        if number == self.top.get() {
            return None;
        }
        self.bottom.set(number + 1);
        // SAFETY: the index is in the ring, and the notes from `bottom` to `top` were written.
        let note = unsafe { self.ring.get().add(number & self.mask.get()).read().assume_init() };
        // SAFETY: the note is at the head of a child, which is in place since nobody has popped the
        // note, by the contract of `push`; this is its one exposure.
        Some(unsafe { (note.as_ref().expose)(note) })
    }
}

impl Drop for Forks {
    fn drop(&mut self) {
        // SAFETY: nothing is called after the end.
        drop(unsafe { self.take_ring() });
    }
}
