//! The wake word of a hosted fiber, and beside it the waker of the fiber's task.
//!
//! Used by `hosted.rs`: a wake, from any thread, takes note of the request to the fiber and gets
//! the waker to call; a poll sees the requests and leaves its waker.
//!
//! # States of the word
//!
//! ```text
//!   0 --first poll: puts the waker, stores--> ARMED
//!   ARMED --wake: takes the waker under LOCKED, then stores--> RESUME or INTERRUPT, and calls the waker
//!   RESUME, INTERRUPT --wake--> both               (the task is on its way already)
//!   RESUME and/or INTERRUPT --poll: puts a waker, swaps--> ARMED, and the fiber runs if it was resumed or its wait is cancelled now
//! ```
//!
//! The waker is put *before* the fiber runs. So a resume that comes during the run, or just
//! afterwards, finds and calls the waker, and the poll need not touch the word again but to look: a
//! wait costs two read-modify-writes, one of the wake and one of the poll that follows.
//!
//! The cell of the waker belongs to the polling thread while ARMED is not set, and to the holder of
//! LOCKED otherwise. LOCKED is held for a move.
//!
//! **The race to fear**: a waker thread that touches the header after the fiber has ended. For a
//! resume the store that ends LOCKED (or the exchange, if there is no waker) is the last touch; the
//! fiber runs on only after the poll has seen that. For an interrupt the canceller holds a lock of
//! a context that the fiber must leave before its end. The waker itself is called after that, from
//! the caller's own stack; and for an interrupt, after the canceller's lock.
//!
//! # Orderings
//!
//! The store or exchange that sets RESUME releases, the poll's swap acquires: the fiber sees the
//! resumer's work. The swap that sets ARMED releases the waker, the exchange to LOCKED acquires the
//! waker.
#![allow(unsafe_code)] // The waker's cell, and a fiber's word that is reached by address.

use segue_core::atomic::{AtomicU8, Ordering, spin_loop, yield_now};
use std::cell::{Cell, UnsafeCell};
use std::ptr::{self, NonNull};
use std::task::{RawWakerVTable, Waker};

/// The requests to the fiber since the last look.
pub(crate) const RESUME: u8 = 1;
pub(crate) const INTERRUPT: u8 = 2;
/// The task's waker is in its cell.
const ARMED: u8 = 4;
/// Somebody moves the waker.
const LOCKED: u8 = 8;

/// The requests to a fiber, and the waker to call about them.
pub(crate) struct Summons {
    word: AtomicU8,
    waker: UnsafeCell<Option<Waker>>,
    /// Which waker is in the cell, to be compared without the lock. Only its address and table are
    /// used, by the polling thread. They are those of the clone, which keeps its address from being
    /// used again; a task's waker that has another address than its clones may be another task's
    /// the next time.
    armed: Cell<(*const (), *const RawWakerVTable)>,
}

fn identity(waker: &Waker) -> (*const (), *const RawWakerVTable) {
    (waker.data(), waker.vtable())
}

impl Summons {
    /// Nothing was asked, and there is no waker.
    pub(crate) fn new() -> Self {
        Self { word: AtomicU8::new(0), waker: UnsafeCell::new(None), armed: Cell::new((ptr::null(), ptr::null())) }
    }

    /// Whether a request has come since the last poll armed the word.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.word.load(Ordering::Acquire) & (RESUME | INTERRUPT) != 0
    }

    /// Whether nothing was asked, and this very waker is in the cell. For the poll.
    #[inline]
    pub(crate) fn is_armed_with(&self, task: &Waker) -> bool {
        // A waker that is being taken just now is called, and this poll is not the last.
        self.word.load(Ordering::Acquire) == ARMED && self.armed.get() == identity(task)
    }

    /// Leaves the task's waker, and answers the earlier requests. For the poll.
    #[inline]
    pub(crate) fn arm(&self, task: &Waker) -> u8 {
        if self.is_armed_with(task) {
            return 0;
        }
        let bits = self.word.load(Ordering::Acquire);
        if bits & (ARMED | LOCKED) == 0 {
            let waker = task.clone();
            self.armed.set(identity(&waker));
            // SAFETY: while ARMED is not set the cell is the polling thread's, which is this one; a
            // clone that polls this future again, or drops it, is impossible, since the future is
            // borrowed.
            let before = unsafe { (*self.waker.get()).replace(waker) };
            debug_assert!(before.is_none());
            return self.word.swap(ARMED, Ordering::AcqRel);
        }
        self.rearm(task)
    }

    /// As `arm`, where there is a waker already, or was one a moment ago.
    #[cold]
    fn rearm(&self, task: &Waker) -> u8 {
        let bits = self.lock();
        // SAFETY: LOCKED is ours.
        let known = unsafe { &*self.waker.get() };
        if known.as_ref().is_some_and(|known| known.will_wake(task)) {
            self.word.store(ARMED, Ordering::Release);
            return bits;
        }
        self.word.store(bits, Ordering::Release);
        // Outside of the lock: a clone is foreign code, and so is the drop of the other.
        let waker = task.clone();
        let armed = identity(&waker);
        let mut waker = Some(waker);
        let bits = self.lock();
        // SAFETY: LOCKED is ours.
        std::mem::swap(unsafe { &mut *self.waker.get() }, &mut waker);
        self.armed.set(armed);
        self.word.store(ARMED, Ordering::Release);
        segue_core::unwind::contain(|| drop(waker));
        bits
    }

    /// Takes LOCKED, and answers the rest of the word, which stays there. For the poll, which may
    /// have the lock with or without a waker.
    fn lock(&self) -> u8 {
        let mut bits = self.word.load(Ordering::Relaxed);
        let mut looks = 0;
        loop {
            if bits & LOCKED != 0 {
                pause(&mut looks);
                bits = self.word.load(Ordering::Relaxed);
                continue;
            }
            match self.word.compare_exchange_weak(bits, bits | LOCKED, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return bits,
                Err(now) => bits = now,
            }
        }
    }

    /// Takes note of a wake; the returned waker is to be called, and the fiber not touched any
    /// more. The fiber may be gone before this has returned, hence the pointer.
    ///
    /// # Safety
    /// The fiber has not ended, and does not before this has taken note.
    pub(crate) unsafe fn wake(this: NonNull<Self>, bit: u8) -> Option<Waker> {
        // SAFETY: as the caller promises.
        let summons = unsafe { this.as_ref() };
        let mut bits = summons.word.load(Ordering::Relaxed);
        let mut looks = 0;
        loop {
            let armed = bits & ARMED != 0;
            if bits & LOCKED != 0 {
                pause(&mut looks);
                bits = summons.word.load(Ordering::Relaxed);
                continue;
            }
            // Without a waker the cell is the poll's, which may be about to fill that cell: then
            // the poll finds the bit.
            let to = bits | if armed { LOCKED } else { bit };
            match summons.word.compare_exchange_weak(bits, to, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if armed => break,
                Ok(_) => return None,
                Err(now) => bits = now,
            }
        }
        // SAFETY: LOCKED is ours.
        let waker = unsafe { (*summons.waker.get()).take() };
        summons.word.store((bits & !ARMED) | bit, Ordering::Release);
        waker
    }
}

/// Waits for the holder of LOCKED.
#[cold]
fn pause(looks: &mut u32) {
    *looks += 1;
    if *looks < 64 { spin_loop() } else { yield_now() }
}
