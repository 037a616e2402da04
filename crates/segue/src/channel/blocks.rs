//! A queue in blocks, which gives back its memory as the number of values falls.
//!
//! Used for the buffer of a channel, for its front, and for the block of an exclusive receiver.
//!
//! # The idea
//!
//! `VecDeque` keeps the room of its longest day, and copies the rest to give some back, as it
//! copies everything to grow: under a channel's lock, a million values at a time. So a queue is a
//! row of short rings. A value goes to the newest ring. A ring that is full and as long as a block
//! ought to be is put behind the older ones, which are emptied first and freed one by one. No step
//! copies more than a block of values, or frees more than a block.
//!
//! ```text
//!   pop_front <-- older[0], older[1], .. <-- newest <-- push_back
//! ```
//!
//! A queue that is never longer than a block is its newest ring alone, and costs as much as that.
//! An empty one keeps this ring: [about eight kilobytes](BYTES), or room for [32 values](LEAST).
//!
//! **Invariant**: no older ring is empty; and `newest` is empty only if there is no older one.

use std::collections::VecDeque;
use std::mem;

/// A block has about so many bytes, unless so few values fit.
const BYTES: usize = 8192;
const LEAST: usize = 32;

/// Values in the order in which they came.
pub(super) struct Blocks<T> {
    older: VecDeque<VecDeque<T>>,
    /// How many values the older rings have.
    older_len: usize,
    newest: VecDeque<T>,
}

impl<T> Blocks<T> {
    /// So many values are a block.
    const BLOCK: usize = match size_of::<T>() {
        // A ring has room for any number of them.
        0 => usize::MAX,
        size if BYTES / size < LEAST => LEAST,
        size => BYTES / size,
    };

    pub(super) const fn new() -> Self {
        Self { older: VecDeque::new(), older_len: 0, newest: VecDeque::new() }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.newest.len() + self.older_len
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }

    /// Whether there is more than the newest ring.
    #[inline]
    pub(super) fn has_older(&self) -> bool {
        self.older_len != 0
    }

    /// Puts a value behind all others where there is room for it in the newest ring, else gives the
    /// value back: for [`push_with_room`](Self::push_with_room). The ring asks the same, so that
    /// this costs nothing.
    #[inline]
    pub(super) fn push_back(&mut self, value: T) -> Result<(), T> {
        if self.newest.len() == self.newest.capacity() {
            return Err(value);
        }
        self.newest.push_back(value);
        Ok(())
    }

    /// Puts a value behind all others, in a longer ring or in another one.
    pub(super) fn push_with_room(&mut self, value: T) {
        if self.newest.len() >= Self::BLOCK {
            self.close_newest(VecDeque::with_capacity(Self::BLOCK));
        }
        self.newest.push_back(value);
    }

    /// Puts the newest ring, which is not empty, behind the older ones, and another in its place.
    fn close_newest(&mut self, next: VecDeque<T>) {
        self.older_len += self.newest.len();
        self.older.push_back(mem::replace(&mut self.newest, next));
    }

    #[inline]
    pub(super) fn pop_front(&mut self) -> Option<T> {
        if self.has_older() { self.pop_older() } else { self.newest.pop_front() }
    }

    /// The same, of a caller that knows that there is no [older](Self::has_older) ring.
    #[inline]
    pub(super) fn pop_newest(&mut self) -> Option<T> {
        debug_assert!(!self.has_older());
        self.newest.pop_front()
    }

    #[inline(never)] // So that the way of a short queue is short.
    fn pop_older(&mut self) -> Option<T> {
        let oldest = self.older.front_mut()?;
        let value = oldest.pop_front();
        self.older_len -= 1;
        if oldest.is_empty() {
            self.older.pop_front();
            // The row of rings becomes shorter, too.
            if self.older.len() <= self.older.capacity() / 4 {
                self.older.shrink_to(2 * self.older.len());
            }
        }
        value
    }

    /// Puts a value before all others.
    pub(super) fn push_front(&mut self, value: T) {
        let Some(oldest) = self.older.front_mut() else {
            if self.newest.len() < Self::BLOCK {
                return self.newest.push_front(value);
            }
            self.close_newest(VecDeque::with_capacity(Self::BLOCK));
            // The last value of all: the newest ring has one again.
            let last = self.older[0].pop_back();
            self.newest.extend(last);
            self.older[0].push_front(value);
            return;
        };
        self.older_len += 1;
        if oldest.len() < oldest.capacity() {
            oldest.push_front(value);
        } else {
            self.older.push_front(VecDeque::from([value]));
        }
    }

    /// Moves all of `others` behind the values here.
    pub(super) fn append(&mut self, others: &mut Self) {
        if self.is_empty() {
            return mem::swap(self, others);
        }
        if others.is_empty() {
            return;
        }
        if self.newest.len().saturating_add(others.len()) <= Self::BLOCK && others.older_len == 0 {
            return self.newest.append(&mut others.newest);
        }
        self.close_newest(mem::take(&mut others.newest));
        // They come before the newest of the others.
        self.older.append(&mut others.older);
        self.older_len += mem::take(&mut others.older_len);
    }
}

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Takes them out, the first one first.
impl<T> Iterator for Blocks<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.pop_front()
    }
}

#[cfg(test)]
#[path = "../../tests/units/blocks.rs"]
mod tests;
