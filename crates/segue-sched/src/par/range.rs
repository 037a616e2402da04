//! Ranges of integers.
//!
//! Used by `(0..n).into_par_iter()`.

use crate::par::convert::IntoParallelIterator;
use crate::par::iter::{IndexedParallelIterator, ParallelIterator};
use crate::par::plumbing::{Producer, indexed};
use std::ops::{Range, RangeInclusive};

/// The parallel iterator over a range of integers, `R`: `into_par_iter` makes it.
#[derive(Clone, Debug)]
#[must_use = "a parallel iterator does nothing before it is consumed"]
pub struct RangeIter<R>(R);

/// A range whose elements may be too many, and which is a piece if they are not.
pub trait Countable: Producer + Clone {
    /// Whether there are at most `usize::MAX`.
    fn is_countable(&self) -> bool;
}

indexed!([R: Countable<Item: Send>] RangeIter<R>, R::Item, |it| exactly Some(it.0.len()));

impl<R: Countable<Item: Send>> IndexedParallelIterator for RangeIter<R> {
    type Pieces<'a>
        = R
    where
        Self: 'a;

    fn pieces(&mut self) -> R {
        self.0.clone()
    }
}

macro_rules! into_par_iter {
    ($($range:ident),*) => {$(
        // Generic, so that integers without a type are `i32`, as they are in a `for`.
        impl<T> IntoParallelIterator for $range<T>
        where
            Self: Countable,
            RangeIter<Self>: ParallelIterator<Item = T>,
            T: Send,
        {
            type Item = T;
            type Iter = RangeIter<Self>;

            /// # Panics
            /// If the range has more than `usize::MAX` elements.
            #[track_caller]
            fn into_par_iter(self) -> RangeIter<Self> {
                assert!(self.is_countable(), "a parallel loop over a range has at most usize::MAX elements");
                RangeIter(self)
            }
        }
    )*};
}

into_par_iter!(Range, RangeInclusive);

/// The number of elements that an element lies behind another one.
macro_rules! distance {
    ($int:ty, $unsigned:ty, $first:expr, $end:expr) => {
        usize::try_from($end.wrapping_sub($first) as $unsigned)
    };
}

macro_rules! ranges {
    ($($int:ident by $unsigned:ident),*) => {$(
        impl Producer for Range<$int> {
            type Item = $int;
            type Iter = Self;

            #[inline]
            fn len(&self) -> usize {
                // It has been looked at that it fits.
                if self.start < self.end { self.end.wrapping_sub(self.start) as $unsigned as usize } else { 0 }
            }

            #[inline]
            fn split_at(self, n: usize) -> (Self, Self) {
                let middle = self.start.wrapping_add(n as $unsigned as $int);
                (self.start..middle, middle..self.end)
            }

            #[inline]
            fn into_iter(self) -> Self {
                self
            }
        }

        impl Countable for Range<$int> {
            fn is_countable(&self) -> bool {
                self.start >= self.end || distance!($int, $unsigned, self.start, self.end).is_ok()
            }
        }

        impl Producer for RangeInclusive<$int> {
            type Item = $int;
            type Iter = Self;

            #[inline]
            fn len(&self) -> usize {
                match self.is_empty() {
                    true => 0,
                    // It has been looked at that it fits.
                    false => (self.end().wrapping_sub(*self.start()) as $unsigned as usize).wrapping_add(1),
                }
            }

            #[inline]
            fn split_at(self, n: usize) -> (Self, Self) {
                #[allow(clippy::reversed_empty_ranges)] // It is to be empty.
                const EMPTY: RangeInclusive<$int> = 1..=0;
                match n {
                    0 => (EMPTY, self),
                    _ => {
                        let (start, end) = self.into_inner();
                        let last = start.wrapping_add((n - 1) as $unsigned as $int);
                        (start..=last, if last == end { EMPTY } else { last.wrapping_add(1)..=end })
                    }
                }
            }

            #[inline]
            fn into_iter(self) -> Self {
                self
            }
        }

        impl Countable for RangeInclusive<$int> {
            fn is_countable(&self) -> bool {
                self.is_empty()
                    || distance!($int, $unsigned, *self.start(), self.end()).is_ok_and(|n| n != usize::MAX)
            }
        }
    )*};
}

ranges!(u8 by u8, u16 by u16, u32 by u32, u64 by u64, u128 by u128, usize by usize);
ranges!(i8 by u8, i16 by u16, i32 by u32, i64 by u64, i128 by u128, isize by usize);
