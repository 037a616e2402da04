//! [`Ring`]: the words that a worker has written last, which any thread may copy meanwhile.
//!
//! Written by the worker's pen alone, read by snapshots.
//!
//! # The idea
//!
//! The writer puts word `i` into slot `i` modulo the number of slots, and then counts it in `end`.
//! A reader looks at `end`, copies the slots, looks at `end` again, and throws away the words in
//! slots that the writer may have used anew in between. Neither waits for the other. All of that is
//! atomic, so a word is never torn, and there is no race of data.
//!
//! # Invariant
//!
//! The writer writes word `j` only after `end` was `j`, and `end` only grows. With `n` slots, word
//! `j` takes the place of word `j - n`.
//!
//! **The race to fear**: a reader takes a new word for the old one of the slot. Say that the reader
//! loads word `j` in place of word `i = j - n`. The load acquires the store of `j`, before which
//! the writer has stored `j` in `end`; so the reader's second look at `end`, which comes after that
//! load, finds `j` or more, and the reader throws word `i` away, as `i + n` is not over that. And a
//! word before the first look's `end` was written before, and so is found, or a later one.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | the store of `end` | the first load of `end` | the words before |
//! | the store of word `j` | the load of word `j` | that `end` was `j`, for the second load |

#![allow(unsafe_code)] // Words have come out of words, and a ring is made of zeros.

use super::word::Word;
use segue_core::atomic::{AtomicU64, Ordering};

/// The last words of one worker.
pub(crate) struct Ring {
    /// How many words there ever were.
    end: AtomicU64,
    /// Each is zero, or has the bits of a word. Their number is a power of two.
    slots: Box<[AtomicU64]>,
}

impl Ring {
    /// A ring for so many words, rounded up to a power of two.
    pub(crate) fn new(words: usize) -> Self {
        Self { end: AtomicU64::new(0), slots: zeros(words.next_power_of_two()) }
    }

    /// Writes a word. For one thread at a time, the worker's: words of two would be lost.
    #[inline]
    pub(crate) fn push(&self, word: Word) {
        let end = self.end.load(Ordering::Relaxed);
        self.slot(end).store(word.bits(), Ordering::Release);
        self.end.store(end + 1, Ordering::Release);
    }

    /// The words that are in place now, the oldest first.
    pub(crate) fn copy(&self) -> Vec<Word> {
        let size = self.slots.len() as u64;
        let end = self.end.load(Ordering::Acquire);
        let begin = end.saturating_sub(size);
        let load = |at| self.slot(at).load(Ordering::Acquire);
        // SAFETY: a slot is made of zero, and `push` stores the bits of words.
        let mut words: Vec<_> = (begin..end).map(|at| unsafe { Word::from_bits(load(at)) }).collect();
        let now = self.end.load(Ordering::Acquire);
        // Word `at` is the one that was looked for if `at + size > now`.
        let lost = (now + 1).saturating_sub(size).saturating_sub(begin);
        words.drain(..words.len().min(lost as usize));
        words
    }

    #[inline]
    fn slot(&self, at: u64) -> &AtomicU64 {
        &self.slots[at as usize & (self.slots.len() - 1)]
    }
}

/// Slots in memory that the system has not had to give yet.
#[cfg(not(loom))]
fn zeros(slots: usize) -> Box<[AtomicU64]> {
    // SAFETY: an atomic number of zeros is valid.
    unsafe { Box::new_zeroed_slice(slots).assume_init() }
}

#[cfg(loom)]
fn zeros(slots: usize) -> Box<[AtomicU64]> {
    (0..slots).map(|_| AtomicU64::new(0)).collect()
}
