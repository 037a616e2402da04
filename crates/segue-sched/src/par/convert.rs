//! What can be made into a parallel iterator, and what one can be collected into.
//!
//! Used by applications, through the methods that these traits bring.

use crate::par::collect;
use crate::par::iter::ParallelIterator;

/// What can be made into a parallel iterator.
///
/// # Examples
///
/// ```
/// use segue_sched::par::prelude::*;
///
/// assert_eq!((1..=4_u32).into_par_iter().sum::<u32>(), 10);
/// assert_eq!(vec!["a", "b"].into_par_iter().count(), 2);
/// ```
pub trait IntoParallelIterator {
    /// What it yields.
    type Item: Send;
    /// The iterator.
    type Iter: ParallelIterator<Item = Self::Item>;

    /// Makes it into one.
    fn into_par_iter(self) -> Self::Iter;
}

impl<I: ParallelIterator> IntoParallelIterator for I {
    type Item = I::Item;
    type Iter = I;

    fn into_par_iter(self) -> I {
        self
    }
}

/// What has a parallel iterator over references.
///
/// # Examples
///
/// ```
/// use segue_sched::par::prelude::*;
///
/// assert_eq!(vec![1, 2].par_iter().max(), Some(&2));
/// ```
pub trait IntoParallelRefIterator<'s> {
    /// What it yields.
    type Item: Send + 's;
    /// The iterator.
    type Iter: ParallelIterator<Item = Self::Item>;

    /// Goes through it by reference.
    fn par_iter(&'s self) -> Self::Iter;
}

impl<'s, I: ?Sized + 's> IntoParallelRefIterator<'s> for I
where
    &'s I: IntoParallelIterator<Item: 's>,
{
    type Item = <&'s I as IntoParallelIterator>::Item;
    type Iter = <&'s I as IntoParallelIterator>::Iter;

    fn par_iter(&'s self) -> Self::Iter {
        self.into_par_iter()
    }
}

/// What has a parallel iterator over unique references.
///
/// # Examples
///
/// ```
/// use segue_sched::par::prelude::*;
///
/// let mut numbers = [1, 2, 3];
/// numbers.par_iter_mut().for_each(|n| *n *= 2);
/// assert_eq!(numbers, [2, 4, 6]);
/// ```
pub trait IntoParallelRefMutIterator<'s> {
    /// What it yields.
    type Item: Send + 's;
    /// The iterator.
    type Iter: ParallelIterator<Item = Self::Item>;

    /// Goes through it by unique reference.
    fn par_iter_mut(&'s mut self) -> Self::Iter;
}

impl<'s, I: ?Sized + 's> IntoParallelRefMutIterator<'s> for I
where
    &'s mut I: IntoParallelIterator<Item: 's>,
{
    type Item = <&'s mut I as IntoParallelIterator>::Item;
    type Iter = <&'s mut I as IntoParallelIterator>::Iter;

    fn par_iter_mut(&'s mut self) -> Self::Iter {
        self.into_par_iter()
    }
}

/// What a parallel iterator can be [collected](ParallelIterator::collect) into: a vector, in order;
/// a `Result` or an `Option` of what can be collected into, which the first error ends.
pub trait FromParallelIterator<T: Send>: Sized {
    /// Collects.
    fn from_par_iter<I: IntoParallelIterator<Item = T>>(elements: I) -> Self;
}

impl<T: Send> FromParallelIterator<T> for Vec<T> {
    fn from_par_iter<I: IntoParallelIterator<Item = T>>(elements: I) -> Self {
        collect::vec(elements.into_par_iter())
    }
}

impl<T: Send, E: Send, V: FromParallelIterator<T>> FromParallelIterator<Result<T, E>> for Result<V, E> {
    fn from_par_iter<I: IntoParallelIterator<Item = Result<T, E>>>(elements: I) -> Self {
        collect::while_ok(elements.into_par_iter(), |oks| V::from_par_iter(oks))
    }
}

impl<T: Send, V: FromParallelIterator<T>> FromParallelIterator<Option<T>> for Option<V> {
    fn from_par_iter<I: IntoParallelIterator<Item = Option<T>>>(elements: I) -> Self {
        let results = elements.into_par_iter().map(|element| element.ok_or(()));
        collect::while_ok(results, |oks| V::from_par_iter(oks)).ok()
    }
}
