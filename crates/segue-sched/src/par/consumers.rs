//! What loops feed that make one value: `for_each`, `reduce`, `sum`, `count` and their like.
//!
//! Used by the methods of [`ParallelIterator`](crate::par::ParallelIterator).

use crate::par::plumbing::{Consumer, Folder};
use std::iter::{Product, Sum};
use std::marker::PhantomData;

/// Calls a closure.
#[derive(Debug)]
pub(crate) struct Each<'f, F>(pub(crate) &'f F);

impl<T, F: Fn(T) + Sync> Consumer<T> for Each<'_, F> {
    type Folder<'c>
        = EachFolder<'c, F>
    where
        Self: 'c;
    type Result = ();

    fn folder(&self, _: usize) -> EachFolder<'_, F> {
        EachFolder(self.0)
    }

    fn combine(&self, (): (), (): ()) {}
}

/// See [`Each`].
#[derive(Debug)]
pub struct EachFolder<'f, F>(&'f F);

impl<T, F: Fn(T)> Folder<T> for EachFolder<'_, F> {
    type Result = ();

    fn consume_iter(&mut self, items: impl Iterator<Item = T>) {
        items.for_each(self.0);
    }

    fn complete(self) {}
}

/// Begins each piece with a value, goes on from there, and puts pieces together.
#[derive(Debug)]
pub(crate) struct Reduce<Z, F, G> {
    pub(crate) identity: Z,
    pub(crate) fold: F,
    pub(crate) combine: G,
}

impl<T, U, Z, F, G> Consumer<T> for Reduce<Z, F, G>
where
    U: Send,
    Z: Fn() -> U + Sync,
    F: Fn(U, T) -> U + Sync,
    G: Fn(U, U) -> U + Sync,
{
    type Folder<'c>
        = ReduceFolder<'c, U, F>
    where
        Self: 'c;
    type Result = U;

    fn folder(&self, _: usize) -> ReduceFolder<'_, U, F> {
        ReduceFolder { value: Some((self.identity)()), fold: &self.fold }
    }

    fn combine(&self, left: U, right: U) -> U {
        (self.combine)(left, right)
    }
}

/// See [`Reduce`]. The value is away while a closure has it.
#[derive(Debug)]
pub struct ReduceFolder<'f, U, F> {
    value: Option<U>,
    fold: &'f F,
}

impl<T, U, F: Fn(U, T) -> U> Folder<T> for ReduceFolder<'_, U, F> {
    type Result = U;

    fn consume_iter(&mut self, items: impl Iterator<Item = T>) {
        self.value = self.value.take().map(|value| items.fold(value, self.fold));
    }

    fn complete(self) -> U {
        self.value.expect("a closure that panics takes the folder along")
    }
}

/// Hands whole blocks to std's sums or products.
#[derive(Debug)]
pub(crate) struct Total<S, A>(pub(crate) A, pub(crate) PhantomData<fn() -> S>);

/// Which of the two.
pub trait Adds<T, S>: Sync {
    /// Of elements.
    fn all(items: impl Iterator<Item = T>) -> S;
    /// Of parts.
    fn both(left: S, right: S) -> S;
}

/// Sums.
#[derive(Debug)]
pub struct Sums;

/// Products.
#[derive(Debug)]
pub struct Products;

impl<T, S: Sum<T> + Sum<S>> Adds<T, S> for Sums {
    fn all(items: impl Iterator<Item = T>) -> S {
        items.sum()
    }

    fn both(left: S, right: S) -> S {
        [left, right].into_iter().sum()
    }
}

impl<T, S: Product<T> + Product<S>> Adds<T, S> for Products {
    fn all(items: impl Iterator<Item = T>) -> S {
        items.product()
    }

    fn both(left: S, right: S) -> S {
        [left, right].into_iter().product()
    }
}

impl<T, S: Send, A: Adds<T, S>> Consumer<T> for Total<S, A> {
    type Folder<'c>
        = TotalFolder<S, A>
    where
        Self: 'c;
    type Result = S;

    fn folder(&self, _: usize) -> TotalFolder<S, A> {
        TotalFolder(None, PhantomData)
    }

    fn combine(&self, left: S, right: S) -> S {
        A::both(left, right)
    }
}

/// See [`Total`].
#[derive(Debug)]
pub struct TotalFolder<S, A>(Option<S>, PhantomData<fn() -> A>);

impl<T, S, A: Adds<T, S>> Folder<T> for TotalFolder<S, A> {
    type Result = S;

    fn consume_iter(&mut self, items: impl Iterator<Item = T>) {
        let more = A::all(items);
        self.0 = Some(match self.0.take() {
            Some(before) => A::both(before, more),
            None => more,
        });
    }

    fn complete(self) -> S {
        self.0.unwrap_or_else(|| A::all(std::iter::empty()))
    }
}
