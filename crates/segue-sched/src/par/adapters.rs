//! Parallel iterators that are made of others.
//!
//! Used through the methods of [`ParallelIterator`] and [`IndexedParallelIterator`], which say what
//! each does. Those that keep the number of elements wrap pieces; those that need not are a step
//! before the consumer of the elements.

use crate::par::iter::{IndexedParallelIterator, ParallelIterator};
use crate::par::plumbing::{Consumer, Folder, Producer, Step, Through, indexed, lesser};
use std::iter;
use std::ops::Range;

/// Declares an adapter.
macro_rules! adapter {
    ($(#[$doc:meta])* $name:ident<$($of:ident),*> { $($field:ident: $type:ty),* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[must_use = "a parallel iterator does nothing before it is consumed"]
        pub struct $name<$($of),*> {
            $(pub(crate) $field: $type,)*
        }
    };
}

adapter! {
    /// See [`ParallelIterator::map`].
    Map<I, F> { base: I, f: F }
}
adapter! {
    /// See [`ParallelIterator::copied`].
    Copied<I> { base: I }
}
adapter! {
    /// See [`ParallelIterator::cloned`].
    Cloned<I> { base: I }
}
adapter! {
    /// See [`ParallelIterator::filter`].
    Filter<I, F> { base: I, f: F }
}
adapter! {
    /// See [`ParallelIterator::filter_map`].
    FilterMap<I, F> { base: I, f: F }
}
adapter! {
    /// See [`ParallelIterator::fold`].
    Fold<I, Z, F> { base: I, identity: Z, f: F }
}
adapter! {
    /// See [`IndexedParallelIterator::enumerate`].
    Enumerate<I> { base: I }
}
adapter! {
    /// See [`IndexedParallelIterator::zip`].
    Zip<I, J> { first: I, second: J }
}
adapter! {
    /// See [`IndexedParallelIterator::chunks`].
    Chunks<I> { base: I, size: usize }
}

/// A piece, with the closure of [`Map`].
#[derive(Debug)]
pub struct With<'f, B, F> {
    base: B,
    f: &'f F,
}

impl<I: ParallelIterator, R: Send, F: Fn(I::Item) -> R + Sync + Send> ParallelIterator for Map<I, F> {
    type Item = R;

    fn drive<C: Consumer<R>>(&mut self, consumer: &C) -> C::Result {
        self.base.drive(&Through { step: Mapping(&self.f), to: consumer })
    }

    fn exactly(&mut self) -> Option<usize> {
        self.base.exactly()
    }

    fn bound(&self) -> Option<usize> {
        self.base.bound()
    }
}

impl<I: IndexedParallelIterator, R: Send, F: Fn(I::Item) -> R + Sync + Send> IndexedParallelIterator for Map<I, F> {
    type Pieces<'a>
        = With<'a, I::Pieces<'a>, F>
    where
        Self: 'a;

    fn pieces(&mut self) -> Self::Pieces<'_> {
        With { base: self.base.pieces(), f: &self.f }
    }
}

impl<'f, P: Producer, R, F: Fn(P::Item) -> R + Sync> Producer for With<'f, P, F> {
    type Item = R;
    type Iter = iter::Map<P::Iter, &'f F>;

    fn len(&self) -> usize {
        self.base.len()
    }

    fn split_at(self, n: usize) -> (Self, Self) {
        let (first, second) = self.base.split_at(n);
        (With { base: first, f: self.f }, With { base: second, f: self.f })
    }

    fn into_iter(self) -> Self::Iter {
        self.base.into_iter().map(self.f)
    }
}

/// Feeds what a closure makes of the elements.
#[derive(Debug)]
pub(crate) struct Mapping<'f, F>(&'f F);

impl<T, R, F: Fn(T) -> R + Sync> Step<T> for Mapping<'_, F> {
    type Output = R;

    fn on(&self, items: impl Iterator<Item = T>) -> impl Iterator<Item = R> {
        items.map(self.0)
    }
}

impl<I: ParallelIterator, F: Fn(&I::Item) -> bool + Sync + Send> ParallelIterator for Filter<I, F> {
    type Item = I::Item;

    fn drive<C: Consumer<I::Item>>(&mut self, consumer: &C) -> C::Result {
        self.base.drive(&Through { step: Filtering(&self.f), to: consumer })
    }
}

/// Feeds some of the elements.
struct Filtering<'f, F>(&'f F);

impl<T, F: Fn(&T) -> bool + Sync> Step<T> for Filtering<'_, F> {
    type Output = T;

    fn on(&self, items: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        items.filter(self.0)
    }
}

impl<I: ParallelIterator, R: Send, F: Fn(I::Item) -> Option<R> + Sync + Send> ParallelIterator for FilterMap<I, F> {
    type Item = R;

    fn drive<C: Consumer<R>>(&mut self, consumer: &C) -> C::Result {
        self.base.drive(&Through { step: FilterMapping(&self.f), to: consumer })
    }
}

/// Feeds what a closure makes of some of the elements.
struct FilterMapping<'f, F>(&'f F);

impl<T, R, F: Fn(T) -> Option<R> + Sync> Step<T> for FilterMapping<'_, F> {
    type Output = R;

    fn on(&self, items: impl Iterator<Item = T>) -> impl Iterator<Item = R> {
        items.filter_map(self.0)
    }
}

impl<I, U, Z, F> ParallelIterator for Fold<I, Z, F>
where
    I: ParallelIterator,
    U: Send,
    Z: Fn() -> U + Sync + Send,
    F: Fn(U, I::Item) -> U + Sync + Send,
{
    type Item = U;

    fn drive<C: Consumer<U>>(&mut self, consumer: &C) -> C::Result {
        self.base.drive(&Folding { to: consumer, identity: &self.identity, f: &self.f })
    }
}

/// A consumer that feeds another one with one element for each piece.
#[derive(Debug)]
pub struct Folding<'c, C, Z, F> {
    to: &'c C,
    identity: &'c Z,
    f: &'c F,
}

impl<T, U, Z, F, C> Consumer<T> for Folding<'_, C, Z, F>
where
    Z: Fn() -> U + Sync,
    F: Fn(U, T) -> U + Sync,
    C: Consumer<U>,
{
    type Folder<'c>
        = FoldingFolder<'c, C::Folder<'c>, U, F>
    where
        Self: 'c;
    type Result = C::Result;

    fn folder(&self, at: usize) -> Self::Folder<'_> {
        FoldingFolder { to: self.to.folder(at), folded: Some((self.identity)()), f: self.f }
    }

    fn combine(&self, left: C::Result, right: C::Result) -> C::Result {
        self.to.combine(left, right)
    }

    fn is_full(&self) -> bool {
        self.to.is_full()
    }

    fn at_most(&self) -> Option<usize> {
        self.to.at_most()
    }
}

/// See [`Folding`]. What is folded is away while a closure has it.
#[derive(Debug)]
pub struct FoldingFolder<'c, G, U, F> {
    to: G,
    folded: Option<U>,
    f: &'c F,
}

impl<T, U, F: Fn(U, T) -> U, G: Folder<U>> Folder<T> for FoldingFolder<'_, G, U, F> {
    type Result = G::Result;

    fn consume_iter(&mut self, items: impl Iterator<Item = T>) {
        self.folded = self.folded.take().map(|folded| items.fold(folded, self.f));
    }

    fn is_full(&self) -> bool {
        self.to.is_full()
    }

    fn complete(mut self) -> G::Result {
        self.to.consume_iter(self.folded.into_iter());
        self.to.complete()
    }
}

/// The adapters of references, to what lies there.
macro_rules! of_references {
    ($name:ident, $bound:ident, $method:ident) => {
        impl<'t, T: $bound + Send + Sync + 't, I: ParallelIterator<Item = &'t T>> ParallelIterator for $name<I> {
            type Item = T;

            fn drive<C: Consumer<T>>(&mut self, consumer: &C) -> C::Result {
                self.base.drive(&Through { step: Mapping(&|element: &'t T| element.clone()), to: consumer })
            }

            fn exactly(&mut self) -> Option<usize> {
                self.base.exactly()
            }

            fn bound(&self) -> Option<usize> {
                self.base.bound()
            }
        }

        impl<'t, T: $bound + Send + Sync + 't, I: IndexedParallelIterator<Item = &'t T>> IndexedParallelIterator
            for $name<I>
        {
            type Pieces<'a>
                = $name<I::Pieces<'a>>
            where
                Self: 'a;

            fn pieces(&mut self) -> Self::Pieces<'_> {
                $name { base: self.base.pieces() }
            }
        }

        impl<'t, T: $bound + 't, P: Producer<Item = &'t T>> Producer for $name<P> {
            type Item = T;
            type Iter = iter::$name<P::Iter>;

            fn len(&self) -> usize {
                self.base.len()
            }

            fn split_at(self, n: usize) -> (Self, Self) {
                let (first, second) = self.base.split_at(n);
                (Self { base: first }, Self { base: second })
            }

            fn into_iter(self) -> Self::Iter {
                self.base.into_iter().$method()
            }
        }
    };
}

of_references!(Copied, Copy, copied);
of_references!(Cloned, Clone, cloned);

indexed!([I: IndexedParallelIterator] Enumerate<I>, (usize, I::Item),
    |it| exactly it.base.exactly(), bound it.base.bound());
indexed!([I: IndexedParallelIterator, J: IndexedParallelIterator] Zip<I, J>, (I::Item, J::Item),
    |it| exactly Some(it.first.exactly()?.min(it.second.exactly()?)), bound lesser(it.first.bound(), it.second.bound()));
indexed!([I: IndexedParallelIterator] Chunks<I>, Vec<I::Item>,
    |it| exactly Some(it.base.exactly()?.div_ceil(it.size)), bound it.base.bound());

impl<I: IndexedParallelIterator> IndexedParallelIterator for Enumerate<I> {
    type Pieces<'a>
        = Enumerated<I::Pieces<'a>>
    where
        Self: 'a;

    fn pieces(&mut self) -> Self::Pieces<'_> {
        Enumerated { base: self.base.pieces(), at: 0 }
    }
}

/// A piece, and the index of its first element.
#[derive(Debug)]
pub struct Enumerated<P> {
    base: P,
    at: usize,
}

impl<P: Producer> Producer for Enumerated<P> {
    type Item = (usize, P::Item);
    type Iter = iter::Zip<Range<usize>, P::Iter>;

    fn len(&self) -> usize {
        self.base.len()
    }

    fn split_at(self, n: usize) -> (Self, Self) {
        let (first, second) = self.base.split_at(n);
        (Self { base: first, at: self.at }, Self { base: second, at: self.at + n })
    }

    fn into_iter(self) -> Self::Iter {
        let indices = self.at..self.at + self.base.len();
        indices.zip(self.base.into_iter())
    }
}

impl<I: IndexedParallelIterator, J: IndexedParallelIterator> IndexedParallelIterator for Zip<I, J> {
    type Pieces<'a>
        = Zipped<I::Pieces<'a>, J::Pieces<'a>>
    where
        Self: 'a;

    fn pieces(&mut self) -> Self::Pieces<'_> {
        let (first, second) = (self.first.pieces(), self.second.pieces());
        let len = first.len().min(second.len());
        // What has no partner is dropped here, before there is something to return: that would leak
        // if a drop panics.
        let (first, others) = first.split_at(len);
        drop(others);
        let (second, others) = second.split_at(len);
        drop(others);
        Zipped(first, second)
    }
}

/// Two pieces of the same length.
#[derive(Debug)]
pub struct Zipped<P, Q>(P, Q);

impl<P: Producer, Q: Producer> Producer for Zipped<P, Q> {
    type Item = (P::Item, Q::Item);
    type Iter = iter::Zip<P::Iter, Q::Iter>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn split_at(self, n: usize) -> (Self, Self) {
        let (first, second) = (self.0.split_at(n), self.1.split_at(n));
        (Self(first.0, second.0), Self(first.1, second.1))
    }

    fn into_iter(self) -> Self::Iter {
        self.0.into_iter().zip(self.1.into_iter())
    }
}

impl<I: IndexedParallelIterator> IndexedParallelIterator for Chunks<I> {
    type Pieces<'a>
        = Chunked<I::Pieces<'a>>
    where
        Self: 'a;

    fn pieces(&mut self) -> Self::Pieces<'_> {
        Chunked { base: self.base.pieces(), size: self.size }
    }
}

/// A piece, whose elements come in vectors of this length.
#[derive(Debug)]
pub struct Chunked<P> {
    base: P,
    size: usize,
}

impl<P: Producer> Producer for Chunked<P> {
    type Item = Vec<P::Item>;
    type Iter = ChunkedIter<P>;

    fn len(&self) -> usize {
        self.base.len().div_ceil(self.size)
    }

    fn split_at(self, n: usize) -> (Self, Self) {
        let at = n.saturating_mul(self.size).min(self.base.len());
        let (first, second) = self.base.split_at(at);
        (Self { base: first, size: self.size }, Self { base: second, size: self.size })
    }

    fn into_iter(self) -> ChunkedIter<P> {
        ChunkedIter { rest: Some(self.base), size: self.size }
    }
}

/// Yields the vectors.
#[derive(Debug)]
pub struct ChunkedIter<P> {
    rest: Option<P>,
    size: usize,
}

impl<P: Producer> Iterator for ChunkedIter<P> {
    type Item = Vec<P::Item>;

    fn next(&mut self) -> Option<Vec<P::Item>> {
        let rest = self.rest.take()?;
        if rest.len() == 0 {
            return None;
        }
        let at = self.size.min(rest.len());
        let (chunk, rest) = rest.split_at(at);
        self.rest = Some(rest);
        Some(chunk.into_iter().collect())
    }
}
