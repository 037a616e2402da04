//! The copy that a signal handler makes: the registers and the stacks below them, a bounded part of
//! each.
//!
//! Used by `watch`; its head says which side may touch a sample when. The taking of a sample is
//! async-signal-safe: no allocation, no lock, no call of the C library.

#![allow(unsafe_code)] // Copies stacks.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::copies::Part;
use super::registry;
use crate::backtrace::Backtrace;
use crate::platform::Registers;
use segue_core::switch::Root;

/// How many stacks are followed. More than a few are coroutines that resume each other in each
/// other's frames.
const STACKS: usize = 16;

/// How much is copied in all, in words: 128 KiB. Each stack may take half of the rest, so that
/// there is room for those below.
const WORDS: usize = 16 * 1024;

const WORD: usize = size_of::<usize>();

pub(super) struct Sample {
    parts: [MaybeUninit<Part>; STACKS],
    count: usize,
    words: [MaybeUninit<usize>; WORDS],
    /// Whether there are more stacks than were copied.
    more: bool,
}

impl Sample {
    /// An empty one, on the heap. Memory is taken by the pages that are written.
    pub fn new() -> Box<UnsafeCell<Sample>> {
        let mut sample = Box::<UnsafeCell<Sample>>::new_uninit();
        let at = sample.as_mut_ptr().cast::<Sample>();
        // SAFETY: the cell is laid out as its content; the rest are arrays of possibly
        // uninitialised words.
        unsafe {
            (&raw mut (*at).count).write(0);
            (&raw mut (*at).more).write(false);
            sample.assume_init()
        }
    }

    /// Copies the stack on which this thread was interrupted and those of its resumers.
    /// Async-signal-safe.
    ///
    /// # Safety
    ///
    /// The registers are those of code that this thread was interrupted in, or is interrupted in
    /// since the start of the handler that calls this. `thread` is the thread's own stack.
    pub unsafe fn take(&mut self, mut registers: Registers, thread: &Range<usize>) {
        (self.count, self.more) = (0, false);
        let mut used = 0;
        loop {
            let at = registers.stack;
            // The thread's own stack first: the addresses of an arena that is gone may have become
            // it.
            let is_thread = thread.contains(&at);
            let slot = registry::find(at).filter(|_| !is_thread);
            // SAFETY: the thread runs on the slot, or a resumer rests there that the running code
            // has to come back to.
            let label = slot.as_ref().map(|slot| unsafe { slot.label() });
            let part = match &slot {
                Some(slot) => at.max(slot.bottom)..slot.top,
                None if is_thread => at..thread.end,
                None => 0..0,
            };
            let start = part.start.next_multiple_of(WORD);
            let count = (part.end.saturating_sub(start) / WORD).min((WORDS - used) / 2);
            for (index, place) in self.words[used..used + count].iter_mut().enumerate() {
                // SAFETY: from its stack pointer on, and above its guard, a stack that is in use is
                // mapped; for that use, see above. The code on that stack belongs to this thread,
                // which is here.
                place.write(unsafe { (start as *const usize).add(index).read_volatile() });
            }
            self.parts[self.count].write(Part { registers, label, is_thread, start, place: used, count });
            self.count += 1;
            used += count;
            let Some(label) = label else { return };
            if self.count == STACKS {
                self.more = true;
                return;
            }
            // SAFETY: code runs on the slot's stack, or rests there and was resumed through. So the
            // coroutine runs, and its link names its resumer, which rests since: the link is stored
            // before the stack pointer gets there, and stays until that has left.
            registers = unsafe { Registers::resting((*label.root).link) };
        }
    }

    /// Whether the thread runs in the coroutine with this root, or in one that this has resumed.
    /// `None` if that is not known.
    pub fn runs_in(&self, root: *const Root) -> Option<bool> {
        let is_there = self.parts[..self.count].iter().any(|part| {
            // SAFETY: `take` has written the first `count` parts.
            let label = unsafe { part.assume_init_ref() }.label;
            label.is_some_and(|label| label.root.cast_const() == root)
        });
        (is_there || !self.more).then_some(is_there)
    }

    /// Unwinds the copies.
    pub fn unwind(&self) -> Backtrace {
        let stacks = self.parts[..self.count].iter().map(|part| {
            // SAFETY: `take` has written the first `count` parts.
            let part = unsafe { part.assume_init_ref() };
            // SAFETY: `take` has written the words of each part.
            part.unwind(|place| unsafe { self.words[place].assume_init() })
        });
        Backtrace::new(stacks.collect(), self.more.then_some("there are more stacks below, which were not copied"))
    }
}
