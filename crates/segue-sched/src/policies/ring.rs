//! A queue in a ring: policies keep fibers there in the order in which they became ready.
//!
//! Used by `fifo` and `stealing`: push, pop and look ahead are a part of each turn.
//!
//! `VecDeque` has room for any number, so that each step compares its place with the end, and in a
//! large program the compiler does not inline such a step. Here the room is a power of two: a place
//! is a count that goes on for ever, under a mask.
//!
//! The values do not panic in their drop: jobs contain that, and started fibers end the process.
//! Else the rest would be leaked.
//!
//! Invariant: the room is a power of two or nothing, `len` is at most the room, and the `len`
//! places from `first` on, under the mask, have values. No other place has one.
#![allow(unsafe_code)] // Places without a value.

use crate::worker::ebb::KEPT;
use std::fmt;
use std::mem::MaybeUninit;

pub(crate) struct Ring<T> {
    places: Box<[MaybeUninit<T>]>,
    /// Counts on when a value is taken, and back when one is put before the others. The count
    /// wraps.
    first: usize,
    len: usize,
}

/// The least room.
const LEAST: usize = 16;

impl<T> Ring<T> {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The place behind the last value, as a count that goes on for ever.
    #[inline(always)]
    pub(crate) fn end(&self) -> usize {
        self.first.wrapping_add(self.len)
    }

    /// Whether all values have been taken that lay before the former [end](Ring::end).
    #[inline(always)]
    pub(crate) fn has_passed(&self, end: usize) -> bool {
        self.first.wrapping_sub(end).cast_signed() >= 0
    }

    /// The place that lies `ahead` of the first value. There is room.
    #[inline(always)]
    fn place(&self, ahead: usize) -> usize {
        self.first.wrapping_add(ahead) & (self.places.len() - 1)
    }

    #[inline(always)]
    pub(crate) fn push_back(&mut self, value: T) {
        if self.len == self.places.len() {
            self.grow();
        }
        let place = self.place(self.len);
        // SAFETY: there is room, a power of two, so under its mask a place is inside; and this
        // place is behind the last one with a value.
        unsafe { self.places.get_unchecked_mut(place) }.write(value);
        self.len += 1;
    }

    pub(crate) fn push_front(&mut self, value: T) {
        if self.len == self.places.len() {
            self.grow();
        }
        self.first = self.first.wrapping_sub(1);
        let place = self.place(0);
        self.places[place].write(value);
        self.len += 1;
    }

    #[inline(always)]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let place = self.place(0);
        self.first = self.first.wrapping_add(1);
        self.len -= 1;
        // SAFETY: there is a value, so there is room, a power of two. The first place had a value,
        // and is none of those that have from now on.
        Some(unsafe { self.places.get_unchecked(place).assume_init_read() })
    }

    /// The value that lies `ahead` of the first one.
    #[inline(always)]
    pub(crate) fn get(&self, ahead: usize) -> Option<&T> {
        if ahead >= self.len {
            return None;
        }
        let place = self.place(ahead);
        // SAFETY: there is a value, so there is room, a power of two; and this is one of the places
        // that have values.
        Some(unsafe { self.places.get_unchecked(place).assume_init_ref() })
    }

    /// Gives up the large room of an empty ring, after a burst. The counts go on.
    #[inline]
    pub(crate) fn ebb(&mut self) {
        if self.len == 0 && self.places.len() > KEPT {
            self.places = Box::new([]);
        }
    }

    /// Twice the room. The counts go on.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let room = (2 * self.places.len()).max(LEAST);
        let mut grown = Self { places: Box::new_uninit_slice(room), first: self.first, len: 0 };
        while let Some(value) = self.pop_front() {
            grown.push_back(value);
        }
        *self = grown;
    }
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self { places: Box::new([]), first: 0, len: 0 }
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while self.pop_front().is_some() {}
    }
}

impl<T: fmt::Debug> fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..self.len).filter_map(|ahead| self.get(ahead))).finish()
    }
}

#[cfg(test)]
#[path = "../../tests/units/ring.rs"]
mod tests;
