//! Slices: by reference, by chunks, and the sorts and scans that work in place.
//!
//! Used by `par_iter`, `par_iter_mut`, `par_chunks` and `par_chunks_mut`.

use crate::par::convert::IntoParallelIterator;
use crate::par::iter::IndexedParallelIterator;
use crate::par::plumbing::{Producer, indexed};
use crate::par::{scan, sort};
use std::cmp::Ordering;
use std::slice;

/// A source with pieces of its own value, taken out.
macro_rules! source {
    ($(#[$doc:meta])* $name:ident<'s, T: $bound:ident>, $piece:ty, $item:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[must_use = "a parallel iterator does nothing before it is consumed"]
        pub struct $name<'s, T>(Option<$piece>);

        indexed!(['s, T: $bound] $name<'s, T>, $item,
            |it| exactly Some(it.0.as_ref().map_or(0, Producer::len)));

        impl<'s, T: $bound> IndexedParallelIterator for $name<'s, T> {
            type Pieces<'a>
                = $piece
            where
                Self: 'a;

            fn pieces(&mut self) -> $piece {
                self.0.take().expect("an iterator is consumed once")
            }
        }
    };
}

source! {
    /// The parallel iterator over references to a slice's elements.
    Iter<'s, T: Sync>, &'s [T], &'s T
}

source! {
    /// The parallel iterator over unique references to a slice's elements.
    IterMut<'s, T: Send>, &'s mut [T], &'s mut T
}

source! {
    /// The parallel iterator over chunks of a slice: [`ParallelSlice::par_chunks`] makes this.
    ChunksIter<'s, T: Sync>, ChunkPieces<&'s [T]>, &'s [T]
}

source! {
    /// The parallel iterator over unique chunks of a slice: [`ParallelSliceMut::par_chunks_mut`]
    /// makes this.
    ChunksMut<'s, T: Send>, ChunkPieces<&'s mut [T]>, &'s mut [T]
}

impl<'s, T: Sync> Producer for &'s [T] {
    type Item = &'s T;
    type Iter = slice::Iter<'s, T>;

    fn len(&self) -> usize {
        <[T]>::len(self)
    }

    fn split_at(self, n: usize) -> (Self, Self) {
        <[T]>::split_at(self, n)
    }

    fn into_iter(self) -> Self::Iter {
        self.iter()
    }
}

impl<'s, T: Send> Producer for &'s mut [T] {
    type Item = &'s mut T;
    type Iter = slice::IterMut<'s, T>;

    fn len(&self) -> usize {
        <[T]>::len(self)
    }

    fn split_at(self, n: usize) -> (Self, Self) {
        self.split_at_mut(n)
    }

    fn into_iter(self) -> Self::Iter {
        self.iter_mut()
    }
}

/// A slice, with how many elements a chunk has.
#[derive(Debug)]
pub struct ChunkPieces<S> {
    slice: S,
    size: usize,
}

impl<'s, T: Sync> Producer for ChunkPieces<&'s [T]> {
    type Item = &'s [T];
    type Iter = slice::Chunks<'s, T>;

    fn len(&self) -> usize {
        self.slice.len().div_ceil(self.size)
    }

    fn split_at(self, n: usize) -> (Self, Self) {
        let at = n.saturating_mul(self.size).min(self.slice.len());
        let (first, second) = self.slice.split_at(at);
        (Self { slice: first, size: self.size }, Self { slice: second, size: self.size })
    }

    fn into_iter(self) -> Self::Iter {
        self.slice.chunks(self.size)
    }
}

impl<'s, T: Send> Producer for ChunkPieces<&'s mut [T]> {
    type Item = &'s mut [T];
    type Iter = slice::ChunksMut<'s, T>;

    fn len(&self) -> usize {
        self.slice.len().div_ceil(self.size)
    }

    fn split_at(self, n: usize) -> (Self, Self) {
        let at = n.saturating_mul(self.size).min(self.slice.len());
        let (first, second) = self.slice.split_at_mut(at);
        (Self { slice: first, size: self.size }, Self { slice: second, size: self.size })
    }

    fn into_iter(self) -> Self::Iter {
        self.slice.chunks_mut(self.size)
    }
}

impl<'s, T: Sync> IntoParallelIterator for &'s [T] {
    type Item = &'s T;
    type Iter = Iter<'s, T>;

    fn into_par_iter(self) -> Iter<'s, T> {
        Iter(Some(self))
    }
}

impl<'s, T: Send> IntoParallelIterator for &'s mut [T] {
    type Item = &'s mut T;
    type Iter = IterMut<'s, T>;

    fn into_par_iter(self) -> IterMut<'s, T> {
        IterMut(Some(self))
    }
}

impl<'s, T: Sync, const N: usize> IntoParallelIterator for &'s [T; N] {
    type Item = &'s T;
    type Iter = Iter<'s, T>;

    fn into_par_iter(self) -> Iter<'s, T> {
        self.as_slice().into_par_iter()
    }
}

impl<'s, T: Send, const N: usize> IntoParallelIterator for &'s mut [T; N] {
    type Item = &'s mut T;
    type Iter = IterMut<'s, T>;

    fn into_par_iter(self) -> IterMut<'s, T> {
        self.as_mut_slice().into_par_iter()
    }
}

impl<'s, T: Sync> IntoParallelIterator for &'s Vec<T> {
    type Item = &'s T;
    type Iter = Iter<'s, T>;

    fn into_par_iter(self) -> Iter<'s, T> {
        self.as_slice().into_par_iter()
    }
}

impl<'s, T: Send> IntoParallelIterator for &'s mut Vec<T> {
    type Item = &'s mut T;
    type Iter = IterMut<'s, T>;

    fn into_par_iter(self) -> IterMut<'s, T> {
        self.as_mut_slice().into_par_iter()
    }
}

/// Slices, shared.
pub trait ParallelSlice<T: Sync> {
    /// Chunks of `size` elements; the last one may have fewer.
    ///
    /// # Panics
    /// If `size` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_sched::par::prelude::*;
    ///
    /// let sums: Vec<u32> = [1, 2, 3, 4, 5].par_chunks(2).map(|chunk| chunk.iter().sum()).collect();
    /// assert_eq!(sums, [3, 7, 5]);
    /// ```
    fn par_chunks(&self, size: usize) -> ChunksIter<'_, T>;
}

impl<T: Sync> ParallelSlice<T> for [T] {
    #[track_caller]
    fn par_chunks(&self, size: usize) -> ChunksIter<'_, T> {
        assert!(size > 0, "a chunk has at least one element");
        ChunksIter(Some(ChunkPieces { slice: self, size }))
    }
}

/// Slices, to be changed in place.
///
/// A comparison that panics, or that is no order, leaves the elements in some order, each of them
/// once. Comparisons run on several workers and may wait.
pub trait ParallelSliceMut<T: Send> {
    /// Chunks of `size` elements; the last one may have fewer.
    ///
    /// # Panics
    /// If `size` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_sched::par::prelude::*;
    ///
    /// let mut rows = [3, 1, 2, 9, 8, 7];
    /// rows.par_chunks_mut(3).for_each(|row| row.sort());
    /// assert_eq!(rows, [1, 2, 3, 7, 8, 9]);
    /// ```
    fn par_chunks_mut(&mut self, size: usize) -> ChunksMut<'_, T>;

    /// Sorts, and keeps equal elements in their order. Needs room for as many elements.
    ///
    /// # Panics
    /// If a comparison does; the call may panic if the order is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_sched::par::prelude::*;
    ///
    /// let mut words = ["par", "allel"];
    /// words.par_sort();
    /// assert_eq!(words, ["allel", "par"]);
    /// ```
    fn par_sort(&mut self)
    where
        T: Ord,
    {
        self.par_sort_by(T::cmp);
    }

    /// As [`par_sort`](ParallelSliceMut::par_sort), by this comparison.
    ///
    /// # Panics
    /// As for [`par_sort`](ParallelSliceMut::par_sort).
    fn par_sort_by(&mut self, compare: impl Fn(&T, &T) -> Ordering + Sync);

    /// As [`par_sort`](ParallelSliceMut::par_sort), by this key, which is asked for at each
    /// comparison.
    ///
    /// # Panics
    /// As for [`par_sort`](ParallelSliceMut::par_sort).
    fn par_sort_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K + Sync) {
        self.par_sort_by(|a, b| key(a).cmp(&key(b)));
    }

    /// Sorts in place, and may change the order of equal elements.
    ///
    /// # Panics
    /// As for [`par_sort`](ParallelSliceMut::par_sort).
    fn par_sort_unstable(&mut self)
    where
        T: Ord,
    {
        self.par_sort_unstable_by(T::cmp);
    }

    /// As [`par_sort_unstable`](ParallelSliceMut::par_sort_unstable), by this comparison.
    ///
    /// # Panics
    /// As for [`par_sort`](ParallelSliceMut::par_sort).
    fn par_sort_unstable_by(&mut self, compare: impl Fn(&T, &T) -> Ordering + Sync);

    /// As [`par_sort_unstable`](ParallelSliceMut::par_sort_unstable), by this key.
    ///
    /// # Panics
    /// As for [`par_sort`](ParallelSliceMut::par_sort).
    fn par_sort_unstable_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K + Sync) {
        self.par_sort_unstable_by(|a, b| key(a).cmp(&key(b)));
    }

    /// Puts in the place of each element the result of `op` on all up to there: with `+`, the sums.
    ///
    /// `op` is to be associative: the order of its calls is left open. The closure is called up to
    /// twice for each element, or a few times more with many workers.
    ///
    /// # Panics
    /// If `op` does. Then some elements are done and others not.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_sched::par::prelude::*;
    ///
    /// let mut numbers = [1, 2, 3, 4];
    /// numbers.par_scan(|before, number| before + number);
    /// assert_eq!(numbers, [1, 3, 6, 10]);
    /// ```
    fn par_scan(&mut self, op: impl Fn(&T, &T) -> T + Sync)
    where
        T: Sync;
}

impl<T: Send> ParallelSliceMut<T> for [T] {
    #[track_caller]
    fn par_chunks_mut(&mut self, size: usize) -> ChunksMut<'_, T> {
        assert!(size > 0, "a chunk has at least one element");
        ChunksMut(Some(ChunkPieces { slice: self, size }))
    }

    fn par_sort_by(&mut self, compare: impl Fn(&T, &T) -> Ordering + Sync) {
        sort::stable(self, &compare);
    }

    fn par_sort_unstable_by(&mut self, compare: impl Fn(&T, &T) -> Ordering + Sync) {
        sort::unstable(self, &compare);
    }

    fn par_scan(&mut self, op: impl Fn(&T, &T) -> T + Sync)
    where
        T: Sync,
    {
        scan::scan(self, &op);
    }
}
