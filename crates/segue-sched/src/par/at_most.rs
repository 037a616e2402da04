//! The parallel iterator that bounds how many of its loop's elements are under way at once.
//!
//! Used through [`ParallelIterator::at_most`]. The bound is the loop's, wherever the adapter
//! stands: adapters around it find it by `bound`, and it tells those that it is made of by the
//! consumer.

use crate::par::iter::{IndexedParallelIterator, ParallelIterator};
use crate::par::plumbing::{Consumer, lesser};

/// See [`ParallelIterator::at_most`].
#[derive(Clone, Debug)]
#[must_use = "a parallel iterator does nothing before it is consumed"]
pub struct AtMost<I> {
    pub(crate) base: I,
    pub(crate) elements: usize,
}

impl<I: ParallelIterator> ParallelIterator for AtMost<I> {
    type Item = I::Item;

    fn drive<C: Consumer<I::Item>>(&mut self, consumer: &C) -> C::Result {
        self.base.drive(&Bounded { to: consumer, elements: self.elements })
    }

    fn exactly(&mut self) -> Option<usize> {
        self.base.exactly()
    }

    fn bound(&self) -> Option<usize> {
        lesser(Some(self.elements), self.base.bound())
    }
}

impl<I: IndexedParallelIterator> IndexedParallelIterator for AtMost<I> {
    type Pieces<'a>
        = I::Pieces<'a>
    where
        Self: 'a;

    fn pieces(&mut self) -> Self::Pieces<'_> {
        self.base.pieces()
    }
}

/// A consumer that says how many elements may be under way.
#[derive(Debug)]
pub struct Bounded<'c, C> {
    to: &'c C,
    elements: usize,
}

impl<T, C: Consumer<T>> Consumer<T> for Bounded<'_, C> {
    type Folder<'c>
        = C::Folder<'c>
    where
        Self: 'c;
    type Result = C::Result;

    fn folder(&self, at: usize) -> Self::Folder<'_> {
        self.to.folder(at)
    }

    fn combine(&self, left: C::Result, right: C::Result) -> C::Result {
        self.to.combine(left, right)
    }

    fn is_full(&self) -> bool {
        self.to.is_full()
    }

    fn at_most(&self) -> Option<usize> {
        lesser(Some(self.elements), self.to.at_most())
    }
}
