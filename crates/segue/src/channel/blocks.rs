//! A queue in blocks, which gives back its memory as the number of values falls.
//!
//! Used for the buffer of a channel. The front of the channel, and an exclusive receiver, take all
//! values over at once, as a [`Supply`].
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
//! An empty one keeps this ring, and a supply keeps two: each of [about eight kilobytes](BYTES), or
//! with room for [32 values](LEAST).
//!
//! **Invariant**: no older ring is empty; and `newest` is empty only if there is no older one.

use std::collections::VecDeque;
use std::mem;

/// A block has about so many bytes, unless so few values fit.
const BYTES: usize = 8192;
const LEAST: usize = 32;

/// Values in the order in which they came.
///
/// Mostly there are no older rings. They lie elsewhere, so that a channel's lock, its waiters and
/// its buffer share two cache lines, which each message takes from one processor to another.
pub(super) struct Blocks<T> {
    newest: VecDeque<T>,
    older: Option<Box<Older<T>>>,
}

/// At least one ring.
struct Older<T> {
    rings: VecDeque<VecDeque<T>>,
    /// How many values these rings have.
    len: usize,
}

impl<T> Older<T> {
    fn new() -> Box<Self> {
        Box::new(Self { rings: VecDeque::new(), len: 0 })
    }
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
        Self { newest: VecDeque::new(), older: None }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.newest.len() + self.older.as_ref().map_or(0, |older| older.len)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }

    /// Whether there is more than the newest ring.
    #[inline]
    pub(super) fn has_older(&self) -> bool {
        self.older.is_some()
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
        let closed = mem::replace(&mut self.newest, next);
        let older = self.older.get_or_insert_with(Older::new);
        older.len += closed.len();
        older.rings.push_back(closed);
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
        let older = self.older.as_mut()?;
        let oldest = older.rings.front_mut()?;
        let value = oldest.pop_front();
        older.len -= 1;
        if oldest.is_empty() {
            self.take_oldest();
        }
        value
    }

    /// Takes out the oldest of the older rings.
    fn take_oldest(&mut self) -> Option<VecDeque<T>> {
        let older = self.older.as_mut()?;
        let oldest = older.rings.pop_front()?;
        older.len -= oldest.len();
        if older.rings.is_empty() {
            self.older = None;
        } else if older.rings.len() <= older.rings.capacity() / 4 {
            // The row of rings becomes shorter, too.
            older.rings.shrink_to(2 * older.rings.len());
        }
        Some(oldest)
    }

    /// Puts a ring before all others.
    fn put_before(&mut self, ring: VecDeque<T>) {
        if self.is_empty() {
            self.newest = ring;
        } else if !ring.is_empty() {
            let older = self.older.get_or_insert_with(Older::new);
            older.len += ring.len();
            older.rings.push_front(ring);
        }
    }

    /// Puts a value before all others.
    pub(super) fn push_front(&mut self, value: T) {
        let Some(older) = &mut self.older else {
            if self.newest.len() < Self::BLOCK {
                return self.newest.push_front(value);
            }
            self.close_newest(VecDeque::with_capacity(Self::BLOCK));
            let Some(older) = &mut self.older else { unreachable!("a ring was put there") };
            // The last value of all: the newest ring has one again.
            self.newest.extend(older.rings[0].pop_back());
            return older.rings[0].push_front(value);
        };
        older.len += 1;
        match older.rings.front_mut() {
            Some(oldest) if oldest.len() < oldest.capacity() => oldest.push_front(value),
            _ => older.rings.push_front(VecDeque::from([value])),
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
        if self.newest.len().saturating_add(others.len()) <= Self::BLOCK && !others.has_older() {
            return self.newest.append(&mut others.newest);
        }
        self.close_newest(mem::take(&mut others.newest));
        // They come before the newest of the others.
        if let (Some(older), Some(mut others)) = (&mut self.older, others.older.take()) {
            older.len += others.len;
            older.rings.append(&mut others.rings);
        }
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

/// Values that were taken over from a queue in blocks, to be given out one by one.
///
/// Their oldest ring lies open here, so that each value costs as much as in a ring, however many
/// rings there are.
pub(super) struct Supply<T> {
    oldest: VecDeque<T>,
    others: Blocks<T>,
}

impl<T> Supply<T> {
    pub(super) const fn new() -> Self {
        Self { oldest: VecDeque::new(), others: Blocks::new() }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.oldest.len() + self.others.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.oldest.is_empty() && self.others.is_empty()
    }

    /// Takes all `values` over, in exchange for an empty ring. There are none here.
    #[inline]
    pub(super) fn load(&mut self, values: &mut Blocks<T>) {
        debug_assert!(self.is_empty());
        match values.has_older() {
            true => mem::swap(&mut self.others, values),
            false => mem::swap(&mut self.oldest, &mut values.newest),
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        let value = self.pop_open();
        if value.is_none() && !self.others.is_empty() { self.pop_of_the_next() } else { value }
    }

    /// Takes the first value of the ring that lies open.
    #[inline]
    pub(super) fn pop_open(&mut self) -> Option<T> {
        self.oldest.pop_front()
    }

    /// Opens the next ring, if there is one, for its first value.
    #[inline(never)] // As `pop_older`.
    pub(super) fn pop_of_the_next(&mut self) -> Option<T> {
        match self.others.take_oldest() {
            Some(next) => self.oldest = next,
            None => mem::swap(&mut self.oldest, &mut self.others.newest),
        }
        self.oldest.pop_front()
    }

    /// Puts a value before all others.
    pub(super) fn push_front(&mut self, value: T) {
        if self.oldest.len() >= Blocks::<T>::BLOCK {
            self.others.put_before(mem::take(&mut self.oldest));
        }
        self.oldest.push_front(value);
    }

    /// Gives all values back.
    pub(super) fn take_all(&mut self) -> Blocks<T> {
        let mut all = mem::take(&mut self.others);
        all.put_before(mem::take(&mut self.oldest));
        all
    }
}

#[cfg(test)]
#[path = "../../tests/units/blocks.rs"]
mod tests;
