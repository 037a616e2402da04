//! Vectors by value: their elements are moved into the closures.
//!
//! Used by `vec.into_par_iter()`.
//!
//! The vector says that it is empty, keeps the memory, and lends its elements to pieces that own
//! them: each element lies in one piece or one iterator, which yields it or drops it.
#![allow(unsafe_code)] // Elements are moved out of a vector's memory.

use crate::par::convert::IntoParallelIterator;
use crate::par::iter::IndexedParallelIterator;
use crate::par::plumbing::{Producer, indexed};
use std::mem::{self, MaybeUninit};
use std::{ptr, slice};

/// The parallel iterator over a vector's elements.
#[derive(Clone, Debug)]
#[must_use = "a parallel iterator does nothing before it is consumed"]
pub struct IntoIter<T>(Vec<T>);

/// Elements that lie in a vector's memory, and belong to this.
///
/// **Invariant**: all of them are initialised, and nobody else will use them.
#[derive(Debug)]
pub struct Owned<'v, T>(&'v mut [MaybeUninit<T>]);

/// What yields the elements of a piece. The invariant is that of [`Owned`].
#[derive(Debug)]
pub struct OwnedIter<'v, T>(slice::IterMut<'v, MaybeUninit<T>>);

impl<'v, T: Send> Producer for Owned<'v, T> {
    type Item = T;
    type Iter = OwnedIter<'v, T>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn split_at(mut self, n: usize) -> (Self, Self) {
        let (first, second) = mem::take(&mut self.0).split_at_mut(n);
        (Self(first), Self(second))
    }

    fn into_iter(mut self) -> Self::Iter {
        OwnedIter(mem::take(&mut self.0).iter_mut())
    }
}

impl<T> Drop for Owned<'_, T> {
    fn drop(&mut self) {
        // SAFETY: by the invariant they are initialised and belong to this, which gives up its
        // slice.
        unsafe { drop_all(mem::take(&mut self.0)) };
    }
}

impl<T> Drop for OwnedIter<'_, T> {
    fn drop(&mut self) {
        // SAFETY: as in the drop of a piece, for the elements that were not yielded.
        unsafe { drop_all(mem::take(&mut self.0).into_slice()) };
    }
}

/// Drops all elements, also if one of the drops panics.
///
/// # Safety
/// They are initialised, and nobody uses them after this.
unsafe fn drop_all<T>(elements: &mut [MaybeUninit<T>]) {
    // SAFETY: they are initialised, and nobody sees them again, as the contract says. A slice's
    // glue goes on to the others when a drop panics.
    unsafe { ptr::drop_in_place(ptr::from_mut(elements) as *mut [T]) };
}

impl<T> Iterator for OwnedIter<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        // SAFETY: it is initialised and belongs to this, which has just given up its place.
        self.0.next().map(|element| unsafe { element.assume_init_read() })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

indexed!([T: Send] IntoIter<T>, T, |it| exactly Some(it.0.len()));

impl<T: Send> IndexedParallelIterator for IntoIter<T> {
    type Pieces<'a>
        = Owned<'a, T>
    where
        Self: 'a;

    fn pieces(&mut self) -> Owned<'_, T> {
        let len = self.0.len();
        // SAFETY: no element is needed for none. What was in the vector is left in its memory,
        // initialised, and belongs to the piece; if that is forgotten, it leaks.
        unsafe { self.0.set_len(0) };
        Owned(&mut self.0.spare_capacity_mut()[..len])
    }
}

impl<T: Send> IntoParallelIterator for Vec<T> {
    type Item = T;
    type Iter = IntoIter<T>;

    fn into_par_iter(self) -> IntoIter<T> {
        IntoIter(self)
    }
}
