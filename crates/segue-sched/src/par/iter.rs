//! The two traits: the calls of every parallel iterator, and those of one with counted elements.
//!
//! Used by applications.

use crate::par::adapters::{Chunks, Cloned, Copied, Enumerate, Filter, FilterMap, Fold, Map, Zip};
use crate::par::at_most::AtMost;
use crate::par::collect;
use crate::par::consumers::{Each, Products, Reduce, Sums, Total};
use crate::par::convert::{FromParallelIterator, IntoParallelIterator};
use crate::par::find::Find;
use crate::par::plumbing::{Consumer, Producer};
use std::cmp::Ordering;
use std::iter::{Product, Sum};
use std::marker::PhantomData;
use std::sync::atomic::AtomicBool;

/// An iterator with elements for all workers that are idle.
///
/// Nothing happens before one of the methods is called that consume the iterator. All of these run
/// a loop, with the same [cancellation](super#cancellation) and [panics](super#panics).
///
/// The iterators are those of this module: the trait can't be implemented elsewhere.
///
/// # Examples
///
/// ```
/// use segue_sched::par::prelude::*;
///
/// let total: u64 = (1..=100u64).into_par_iter().filter(|n| n % 2 == 0).map(|n| n * n).sum();
/// assert_eq!(total, 171_700);
/// ```
pub trait ParallelIterator: Sized + Send {
    /// The elements.
    type Item: Send;

    /// Runs the loop. Called once.
    #[doc(hidden)]
    fn drive<C: Consumer<Self::Item>>(&mut self, consumer: &C) -> C::Result;

    /// How many elements there are, if each has its place, which folders are told.
    #[doc(hidden)]
    fn exactly(&mut self) -> Option<usize> {
        None
    }

    /// The bound on the elements under way, of this iterator and its parts.
    #[doc(hidden)]
    fn bound(&self) -> Option<usize> {
        None
    }

    /// The same, of which at most so many elements are under way at once: their closures were
    /// called and have not returned, since they run or wait. By default they are 16 for each
    /// worker. The bound is for the whole loop, at any place among the adapters; of several the
    /// least counts.
    ///
    /// The bound takes effect where closures [wait](super#closures-that-wait): no more of them run
    /// at once than there are workers. With 1 the elements come one after the other.
    ///
    /// The closures must not wait for each other, but for so many of them: an element that is
    /// beyond the bound is not begun before another one has returned. `usize::MAX` is no bound.
    ///
    /// # Panics
    /// If `elements` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_sched::par::prelude::*;
    ///
    /// let files = ["Cargo.toml", "src/lib.rs", "src/plain.rs"];
    /// // Two are in memory at once, however large the list is.
    /// let bytes: u64 = files.par_iter().at_most(2).map(|path| std::fs::read(path).unwrap().len() as u64).sum();
    /// assert!(bytes > 1000);
    /// ```
    #[track_caller]
    fn at_most(self, elements: usize) -> AtMost<Self> {
        assert!(elements > 0, "with no element under way a loop never ends: give it 1 or more");
        AtMost { base: self, elements }
    }

    /// The results of `f` on each element.
    fn map<R: Send, F: Fn(Self::Item) -> R + Sync + Send>(self, f: F) -> Map<Self, F> {
        Map { base: self, f }
    }

    /// The elements that references lead to, copied.
    fn copied<'t, T: Copy + Send + Sync + 't>(self) -> Copied<Self>
    where
        Self: ParallelIterator<Item = &'t T>,
    {
        Copied { base: self }
    }

    /// The elements that references lead to, cloned.
    fn cloned<'t, T: Clone + Send + Sync + 't>(self) -> Cloned<Self>
    where
        Self: ParallelIterator<Item = &'t T>,
    {
        Cloned { base: self }
    }

    /// The elements for which `f` says `true`.
    fn filter<F: Fn(&Self::Item) -> bool + Sync + Send>(self, f: F) -> Filter<Self, F> {
        Filter { base: self, f }
    }

    /// The results of `f` on those elements that have one.
    fn filter_map<R: Send, F: Fn(Self::Item) -> Option<R> + Sync + Send>(self, f: F) -> FilterMap<Self, F> {
        FilterMap { base: self, f }
    }

    /// Folds the elements of each piece into one value that begins with `identity`, and yields
    /// these.
    ///
    /// How many there are depends on how often idle workers have asked for work: with none there is
    /// one. They come in the order of the elements, and each has elements that follow each other.
    ///
    /// ```
    /// use segue_sched::par::prelude::*;
    /// use std::collections::HashMap;
    ///
    /// let counts = "to be or not to be".split(' ').collect::<Vec<_>>().par_iter()
    ///     .fold(HashMap::new, |mut counts, word| {
    ///         *counts.entry(*word).or_insert(0) += 1;
    ///         counts
    ///     })
    ///     .reduce(HashMap::new, |mut counts, others| {
    ///         others.into_iter().for_each(|(word, n)| *counts.entry(word).or_insert(0) += n);
    ///         counts
    ///     });
    /// assert_eq!(counts["be"], 2);
    /// ```
    fn fold<U: Send, Z: Fn() -> U + Sync + Send, F: Fn(U, Self::Item) -> U + Sync + Send>(
        self,
        identity: Z,
        f: F,
    ) -> Fold<Self, Z, F> {
        Fold { base: self, identity, f }
    }

    /// Calls `f` with each element.
    ///
    /// # Cancellation
    /// *No effect*: `f` sees the cancellation at its waits.
    ///
    /// # Panics
    /// If `f` does, when no closure of the loop is running any more.
    fn for_each<F: Fn(Self::Item) + Sync + Send>(mut self, f: F) {
        self.drive(&Each(&f));
    }

    /// Calls `f` with the elements until a failure, and yields one of the errors.
    ///
    /// Elements that other workers have begun with run to their ends.
    ///
    /// # Cancellation
    /// *No effect*: `f` sees the cancellation at its waits.
    ///
    /// # Errors
    /// An error of `f`.
    ///
    /// # Panics
    /// If `f` does.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_sched::par::prelude::*;
    ///
    /// let found = ["1", "x"].par_iter().try_for_each(|text| text.parse::<i32>().map(drop));
    /// assert!(found.is_err());
    /// ```
    fn try_for_each<E: Send, F: Fn(Self::Item) -> Result<(), E> + Sync + Send>(self, f: F) -> Result<(), E> {
        collect::while_ok(self.map(f), |oks| oks.for_each(|()| ()))
    }

    /// Puts the elements together by `op`, with `identity` wherever there are none.
    ///
    /// `op` is to be associative: elements keep their order, and the first pair to be put together
    /// is left open.
    ///
    /// # Panics
    /// If `op` or `identity` does.
    fn reduce<Z, F>(mut self, identity: Z, op: F) -> Self::Item
    where
        Z: Fn() -> Self::Item + Sync + Send,
        F: Fn(Self::Item, Self::Item) -> Self::Item + Sync + Send,
    {
        self.drive(&Reduce { identity, fold: &op, combine: &op })
    }

    /// Puts the elements together by `op`; `None` if there are none.
    ///
    /// # Panics
    /// If `op` does.
    fn reduce_with<F>(mut self, op: F) -> Option<Self::Item>
    where
        F: Fn(Self::Item, Self::Item) -> Self::Item + Sync + Send,
    {
        let with = |before: Option<Self::Item>, item| {
            Some(match before {
                Some(before) => op(before, item),
                None => item,
            })
        };
        let both = |left, right: Option<Self::Item>| match right {
            Some(right) => with(left, right),
            None => left,
        };
        self.drive(&Reduce { identity: || None, fold: &with, combine: &both })
    }

    /// Adds the elements up. The order of the additions is left open, which floating-point numbers
    /// show.
    ///
    /// # Panics
    /// If an addition does.
    fn sum<S: Send + Sum<Self::Item> + Sum<S>>(mut self) -> S {
        self.drive(&Total(Sums, PhantomData))
    }

    /// Multiplies the elements.
    ///
    /// # Panics
    /// If a multiplication does.
    fn product<S: Send + Product<Self::Item> + Product<S>>(mut self) -> S {
        self.drive(&Total(Products, PhantomData))
    }

    /// How many there are, all of which are gone through.
    fn count(mut self) -> usize {
        self.drive(&Reduce { identity: || 0, fold: &|n, _| n + 1, combine: &|left, right| left + right })
    }

    /// The least; the first of these if several are.
    fn min(self) -> Option<Self::Item>
    where
        Self::Item: Ord,
    {
        self.min_by(Ord::cmp)
    }

    /// The greatest; the last of these if several are.
    fn max(self) -> Option<Self::Item>
    where
        Self::Item: Ord,
    {
        self.max_by(Ord::cmp)
    }

    /// As [`min`](ParallelIterator::min), by this comparison.
    fn min_by<F: Fn(&Self::Item, &Self::Item) -> Ordering + Sync + Send>(self, compare: F) -> Option<Self::Item> {
        self.reduce_with(|a, b| if compare(&a, &b) == Ordering::Greater { b } else { a })
    }

    /// As [`max`](ParallelIterator::max), by this comparison.
    fn max_by<F: Fn(&Self::Item, &Self::Item) -> Ordering + Sync + Send>(self, compare: F) -> Option<Self::Item> {
        self.reduce_with(|a, b| if compare(&a, &b) == Ordering::Greater { a } else { b })
    }

    /// As [`min`](ParallelIterator::min), by this key, which is asked for once for each element.
    fn min_by_key<K: Ord + Send, F: Fn(&Self::Item) -> K + Sync + Send>(self, key: F) -> Option<Self::Item> {
        self.map(|item| (key(&item), item)).min_by(|a, b| a.0.cmp(&b.0)).map(|(_, item)| item)
    }

    /// As [`max`](ParallelIterator::max), by this key, which is asked for once for each element.
    fn max_by_key<K: Ord + Send, F: Fn(&Self::Item) -> K + Sync + Send>(self, key: F) -> Option<Self::Item> {
        self.map(|item| (key(&item), item)).max_by(|a, b| a.0.cmp(&b.0)).map(|(_, item)| item)
    }

    /// Some element for which `f` says `true`, if there is one: not the first one, as a rule.
    ///
    /// # Panics
    /// If `f` does.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_sched::par::prelude::*;
    ///
    /// assert_eq!((0..1000).into_par_iter().find_any(|n| n % 999 == 998), Some(998));
    /// ```
    fn find_any<F: Fn(&Self::Item) -> bool + Sync + Send>(mut self, f: F) -> Option<Self::Item> {
        self.drive(&Find { is_it: &f, found: AtomicBool::new(false) })
    }

    /// Whether `f` says `true` for any element. After one was found, few others are looked at.
    ///
    /// # Panics
    /// If `f` does.
    fn any<F: Fn(Self::Item) -> bool + Sync + Send>(self, f: F) -> bool {
        self.map(f).find_any(|&is_it| is_it).is_some()
    }

    /// Whether `f` says `true` for all elements. After another answer, few others are looked at.
    ///
    /// # Panics
    /// If `f` does.
    fn all<F: Fn(Self::Item) -> bool + Sync + Send>(self, f: F) -> bool {
        self.map(f).find_any(|&is_it| !is_it).is_none()
    }

    /// Collects the elements: into a vector, in their order; or into a `Result` or an `Option` of
    /// one, which the first error ends.
    ///
    /// The elements of an indexed iterator are written straight to their places in the vector.
    ///
    /// # Cancellation
    /// *No effect*: closures see the cancellation at their waits. One that fails then ends the
    /// loop, if that collects into a `Result`.
    ///
    /// # Panics
    /// If a closure does. The collected elements are dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_sched::par::prelude::*;
    ///
    /// let numbers: Result<Vec<i32>, _> = ["1", "2"].par_iter().map(|text| text.parse()).collect();
    /// assert_eq!(numbers, Ok(vec![1, 2]));
    /// ```
    fn collect<V: FromParallelIterator<Self::Item>>(self) -> V {
        V::from_par_iter(self)
    }
}

/// A parallel iterator that knows the number of its elements, and the place of each.
///
/// # Examples
///
/// ```
/// use segue_sched::par::prelude::*;
///
/// let mut totals = [0; 3];
/// totals.par_iter_mut().zip(&[1, 2, 3]).enumerate().for_each(|(n, (total, add))| *total = n + add);
/// assert_eq!(totals, [1, 3, 5]);
/// ```
pub trait IndexedParallelIterator: ParallelIterator {
    /// The container of its elements.
    #[doc(hidden)]
    type Pieces<'a>: Producer<Item = Self::Item>
    where
        Self: 'a;

    /// All of them. Called once.
    #[doc(hidden)]
    fn pieces(&mut self) -> Self::Pieces<'_>;

    /// Each element with its index.
    fn enumerate(self) -> Enumerate<Self> {
        Enumerate { base: self }
    }

    /// Pairs with the elements of another one, as long as both have some.
    fn zip<J: IntoParallelIterator<Iter: IndexedParallelIterator>>(self, other: J) -> Zip<Self, J::Iter> {
        Zip { first: self, second: other.into_par_iter() }
    }

    /// Vectors of `size` elements each; the last one may have fewer.
    ///
    /// # Panics
    /// If `size` is zero.
    #[track_caller]
    fn chunks(self, size: usize) -> Chunks<Self> {
        assert!(size > 0, "a chunk has at least one element");
        Chunks { base: self, size }
    }

    /// Collects into this vector, using its memory again; the old elements are dropped before.
    ///
    /// # Panics
    /// If a closure does. Then the vector is empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_sched::par::prelude::*;
    ///
    /// let mut squares = Vec::with_capacity(10);
    /// (0..10).into_par_iter().map(|n| n * n).collect_into_vec(&mut squares);
    /// assert_eq!(squares[9], 81);
    /// ```
    fn collect_into_vec(mut self, vec: &mut Vec<Self::Item>) {
        vec.clear();
        let len = self.exactly().expect("an indexed iterator knows its length");
        collect::append(&mut self, len, vec);
    }
}
