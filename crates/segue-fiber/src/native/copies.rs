//! Copies of stacks, to be unwound later: of a thread that was interrupted, and of coroutines that
//! rest.
//!
//! Used by `sample`, in a signal handler, and by dumps, through [`StackCopies`]. A copy takes no
//! lock and allocates nothing, whereas to unwind does both.

#![allow(unsafe_code)] // Copies stacks.

use super::registry::{self, Label};
use super::segments;
use crate::backtrace::{Backtrace, StackOwner, StackTrace};
use crate::platform::Registers;
use crate::platform::unwind::unwind;
use segue_core::switch::{self, Resting, Root};
use std::ops::Range;

const WORD: usize = size_of::<usize>();

/// Of one stack so many words are copied at most: 64 KiB.
const MOST_WORDS: usize = 64 * 1024 / WORD;

/// One stack.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub registers: Registers,
    /// The coroutine's.
    pub label: Option<Label>,
    /// The thread's own stack.
    pub is_thread: bool,
    /// The address of the first copied word, and its place in the copy.
    pub start: usize,
    pub place: usize,
    pub count: usize,
}

impl Part {
    /// The trace of this stack. `word` gives a copied word by its place.
    pub(super) fn unwind(&self, word: impl Fn(usize) -> usize) -> StackTrace {
        let (addresses, whole) = unwind(&self.registers, |address| {
            let offset = address.checked_sub(self.start)?;
            let is_copied = offset.is_multiple_of(WORD) && offset / WORD < self.count;
            is_copied.then(|| word(self.place + offset / WORD))
        });
        let owner = match &self.label {
            Some(label) => segments::owner(label),
            None if self.is_thread => StackOwner::Thread,
            None => StackOwner::Elsewhere,
        };
        StackTrace::new(owner, addresses, whole)
    }
}

/// Room for copies of the stacks of coroutines that rest.
///
/// To copy is async-signal-safe; to make the room and to unwind a copy are not.
///
/// # Examples
///
/// ```
/// use segue_fiber::{Coroutine, StackArena, StackConfig, StackCopies, StackPool};
///
/// let mut pool = StackPool::new(StackArena::new(StackConfig::new())?);
/// let fiber = Coroutine::new(pool.take()?, (), |()| ());
/// let mut copies = StackCopies::new(1, 64 * 1024);
/// let copied = fiber.copy_stack(&mut copies).expect("there is room for one");
/// println!("{}", copies.backtrace(&copied));
/// assert!(fiber.copy_stack(&mut copies).is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct StackCopies {
    parts: Vec<Part>,
    words: Vec<usize>,
}

/// The copy of a coroutine's stacks, in its [`StackCopies`].
#[derive(Clone, Debug)]
pub struct Copied(Range<usize>);

impl StackCopies {
    /// Room for so many stacks, and so many bytes.
    #[must_use]
    pub fn new(stacks: usize, bytes: usize) -> Self {
        Self { parts: Vec::with_capacity(stacks), words: Vec::with_capacity(bytes / WORD) }
    }

    /// Makes the room empty.
    pub fn clear(&mut self) {
        self.parts.clear();
        self.words.clear();
    }

    /// The trace of a copied stack.
    #[must_use]
    pub fn backtrace(&self, copied: &Copied) -> Backtrace {
        let parts = self.parts.get(copied.0.clone()).unwrap_or_default();
        match parts.first() {
            None => Backtrace::empty("it has returned"),
            Some(first) if switch::is_in_root(first.registers.instruction) => Backtrace::empty("it has not started"),
            Some(_) => {
                let word = |place: usize| self.words.get(place).copied().unwrap_or_default();
                Backtrace::new(parts.iter().map(|part| part.unwind(word)).collect(), None)
            }
        }
    }

    /// Copies the stacks of a coroutine; `None` if there is no room. Async-signal-safe.
    ///
    /// # Safety
    /// As for `segments::of_resting`: a coroutine of this thread with this root rests there, or has
    /// returned if that is null.
    pub(super) unsafe fn push(&mut self, rests: Resting, root: *const Root) -> Option<Copied> {
        let (first, begin) = (self.parts.len(), self.words.len());
        let mut rests = rests;
        while !rests.is_null() {
            let slot = registry::find(rests.addr())?;
            if self.parts.len() == self.parts.capacity() {
                self.parts.truncate(first);
                self.words.truncate(begin);
                return None;
            }
            // SAFETY: somebody rests there, so a coroutine is on the slot.
            let (registers, label) = unsafe { (Registers::resting(rests), slot.label()) };
            let start = rests.addr().max(slot.bottom).next_multiple_of(WORD);
            let count = (slot.top.saturating_sub(start) / WORD).min(MOST_WORDS);
            let place = self.words.len();
            if self.words.capacity() - place < count {
                self.parts.truncate(first);
                self.words.truncate(begin);
                return None;
            }
            for index in 0..count {
                // SAFETY: between its guard and its top a slot in use can be read, and nobody runs
                // on that stack: see `segments.rs`.
                self.words.push(unsafe { (start as *const usize).add(index).read_volatile() });
            }
            self.parts.push(Part { registers, label: Some(label), is_thread: false, start, place, count });
            if label.root.cast_const() == root {
                break;
            }
            // SAFETY: the slot is not the last, so its coroutine is captured, and the link names
            // its resumer, which rests since.
            rests = unsafe { (*label.root).link };
        }
        Some(Copied(first..self.parts.len()))
    }
}

impl std::fmt::Debug for StackCopies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackCopies").field("stacks", &self.parts.len()).finish_non_exhaustive()
    }
}
