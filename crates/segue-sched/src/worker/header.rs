//! The header of a worker's fiber, at the top of the fiber's stack.
//!
//! Used by the worker, which makes and resumes fibers by their headers, by policies, which order
//! headers without a look into them, and by wakes from other threads, which post the letter.
#![allow(unsafe_code)] // The letter is posted by the header's address.

use crate::worker::inbox::{Letter, Post};
use segue_core::Fiber;
use std::cell::Cell;
use std::mem::offset_of;
use std::ptr::NonNull;

/// A fiber of a worker.
pub(crate) type Coroutine = segue_fiber::Coroutine<Header>;

/// What a letter says: resume the fiber, or look whether a cancellation interrupts its wait.
pub(crate) const RESUME: u8 = 1;
pub(crate) const INTERRUPT: u8 = 2;

/// The block at the top of a fiber's stack.
///
/// The fiber's host pointer leads here. A waker on another thread reads the first of the three
/// lines, and writes the letter, on the last. The fiber's own turns read the first and write the
/// second.
#[repr(C)]
pub(crate) struct Header {
    /// The address of the worker's `Common`, which the worker alone casts: the types of a worker
    /// know this header.
    pub(crate) worker: Cell<*const ()>,
    pub(crate) fiber: Fiber,
    /// Its place in its worker's list of the living.
    pub(crate) seat: Cell<usize>,
    pub(crate) letter: Letter<Header>,
}

/// With the coroutine's own line these are the four lines that `segue_fiber::prefetch` fetches. One
/// line more cost a turn among a thousand fibers a quarter; a debug build has one.
const _: () = assert!(cfg!(debug_assertions) || size_of::<Header>() <= 3 * 64);
const _: () = assert!(offset_of!(Header, letter) >= 2 * 64);

// SAFETY: the answer is the one field.
unsafe impl Post for Header {
    #[inline]
    fn letter(&self) -> &Letter<Self> {
        &self.letter
    }
}

/// The header around a fiber.
///
/// # Safety
/// It is a fiber of a worker of this crate's, and has run.
#[inline]
pub(crate) unsafe fn header_of(fiber: &Fiber) -> NonNull<Header> {
    // SAFETY: `start` sets the host to the address of the header before the fiber runs.
    unsafe { NonNull::new_unchecked(fiber.host().cast_mut().cast()) }
}
