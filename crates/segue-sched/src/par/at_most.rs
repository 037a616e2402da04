//! The parallel iterator that bounds how many of its loop's elements are under way at once.
//!
//! Used through [`ParallelIterator::at_most`]. The bound is the loop's, wherever the adapter
//! stands: adapters around it find it by `bound`, and it tells those that it is made of by the
//! consumer.

use crate::par::iter::{IndexedParallelIterator, ParallelIterator};
use crate::par::plumbing::{Consumer, Step, Through, lesser};

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
        self.base.drive(&Through { step: Bounded(self.elements), to: consumer })
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

/// Says how many elements may be under way.
struct Bounded(usize);

impl<T> Step<T> for Bounded {
    type Output = T;

    fn on(&self, items: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        items
    }

    fn at_most(&self) -> Option<usize> {
        Some(self.0)
    }
}
