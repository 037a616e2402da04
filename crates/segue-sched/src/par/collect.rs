//! Collecting: into a vector, in order, and into collections that end with the first error.
//!
//! Used by [`ParallelIterator::collect`].
//!
//! # Into a vector
//!
//! If the iterator is indexed, each piece writes its elements straight to their places in the
//! vector's spare memory. A piece's *run* owns the elements that it has written; two neighbours
//! join into one run. At the end there is one run, of all elements, and the vector takes that over.
//! A run that goes another way, since a closure has panicked, drops its elements.
//!
//! Else each piece has a vector of its own, and these are moved into one at the end.
#![allow(unsafe_code)] // Memory of a vector is filled in by several threads.

use crate::par::iter::ParallelIterator;
use crate::par::plumbing::{Consumer, Folder, Step, Through};
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Collects into a vector.
pub(crate) fn vec<I: ParallelIterator>(mut elements: I) -> Vec<I::Item> {
    match elements.exactly() {
        Some(len) => {
            let mut vec = Vec::new();
            append(&mut elements, len, &mut vec);
            vec
        }
        None => concat(elements.drive(&Lists)),
    }
}

/// Puts the elements, which are this many and each have their place, behind those of `vec`.
pub(crate) fn append<I: ParallelIterator>(elements: &mut I, len: usize, vec: &mut Vec<I::Item>) {
    vec.reserve_exact(len);
    let before = vec.len();
    let places = Places { first: vec.spare_capacity_mut().as_mut_ptr(), len, borrowed: PhantomData };
    let run = elements.drive(&places);
    assert_eq!(run.len, len, "an indexed iterator yields as many elements as it says");
    // Its elements are the vector's from here on.
    mem::forget(run);
    // SAFETY: the run began at the first place, as the whole loop does, and each of its elements
    // was written; there is room for `len`.
    unsafe { vec.set_len(before + len) };
}

/// The places of all elements.
struct Places<'v, T> {
    first: *mut MaybeUninit<T>,
    len: usize,
    borrowed: PhantomData<&'v mut [MaybeUninit<T>]>,
}

// SAFETY: the target gives out places by index, and each piece takes those of its own elements (the
// loop's pieces are disjoint); the elements written there may be sent.
unsafe impl<T: Send> Sync for Places<'_, T> {}

impl<'v, T: Send> Consumer<T> for Places<'v, T> {
    type Folder<'c>
        = Run<'v, T>
    where
        Self: 'c;
    type Result = Run<'v, T>;

    fn folder(&self, at: usize) -> Run<'v, T> {
        Run { first: self.first, at, len: 0, room: self.len - at, owns: PhantomData }
    }

    fn combine(&self, mut left: Run<'v, T>, right: Run<'v, T>) -> Run<'v, T> {
        // A gap would show in the number of elements, at the end.
        if left.at + left.len == right.at {
            left.len += right.len;
            mem::forget(right);
        }
        left
    }
}

/// Elements that were written, one after the other, and belong to this.
pub(crate) struct Run<'v, T> {
    /// The first place of all.
    first: *mut MaybeUninit<T>,
    at: usize,
    len: usize,
    /// How many places there are from `at` on.
    room: usize,
    owns: PhantomData<&'v mut [T]>,
}

// SAFETY: the run owns elements that may be sent, as a vector does.
unsafe impl<T: Send> Send for Run<'_, T> {}

impl<T> Folder<T> for Run<'_, T> {
    type Result = Self;

    #[inline]
    fn consume_iter(&mut self, items: impl Iterator<Item = T>) {
        for item in items {
            assert!(self.len < self.room, "an indexed iterator yields as many elements as it says");
            // SAFETY: the place is within the vector's spare memory, and is one of the piece's own,
            // right behind those that this run has written.
            unsafe { self.first.add(self.at + self.len).write(MaybeUninit::new(item)) };
            self.len += 1;
        }
    }

    fn complete(self) -> Self {
        self
    }
}

impl<T> Drop for Run<'_, T> {
    fn drop(&mut self) {
        // SAFETY: these were written, and belong to this run alone.
        unsafe { ptr::drop_in_place(ptr::slice_from_raw_parts_mut(self.first.add(self.at).cast::<T>(), self.len)) };
    }
}

/// A vector for each piece.
struct Lists;

impl<T: Send> Consumer<T> for Lists {
    type Folder<'c> = List<T>;
    type Result = Vec<Vec<T>>;

    fn folder(&self, _: usize) -> List<T> {
        List(Vec::new())
    }

    fn combine(&self, mut left: Vec<Vec<T>>, mut right: Vec<Vec<T>>) -> Vec<Vec<T>> {
        left.append(&mut right);
        left
    }
}

/// See [`Lists`].
struct List<T>(Vec<T>);

impl<T> Folder<T> for List<T> {
    type Result = Vec<Vec<T>>;

    fn consume_iter(&mut self, items: impl Iterator<Item = T>) {
        self.0.extend(items);
    }

    fn complete(self) -> Vec<Vec<T>> {
        vec![self.0]
    }
}

fn concat<T>(lists: Vec<Vec<T>>) -> Vec<T> {
    let len: usize = lists.iter().map(Vec::len).sum();
    let mut lists = lists.into_iter();
    let mut all = lists.next().unwrap_or_default();
    all.reserve(len - all.len());
    lists.for_each(|mut list| all.append(&mut list));
    all
}

/// Collects the contents of the `Ok`s by `collect`; yields an error if there was one.
pub(crate) fn while_ok<I, T, E, V>(results: I, collect: impl FnOnce(Oks<'_, I, E>) -> V) -> Result<V, E>
where
    I: ParallelIterator<Item = Result<T, E>>,
{
    let error = Error { first: Mutex::new(None), is_there: AtomicBool::new(false) };
    let oks = collect(Oks { base: results, error: &error });
    match error.first.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(oks),
    }
}

/// The error that came first. The flag is for a look without the lock (Relaxed: its value serves
/// only to end early).
struct Error<E> {
    first: Mutex<Option<E>>,
    is_there: AtomicBool,
}

impl<E> Error<E> {
    fn put(&self, error: E) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let other = match &*first {
            Some(_) => Some(error),
            None => first.replace(error),
        };
        drop(first);
        self.is_there.store(true, Relaxed);
        // A user's drop, which runs under no lock.
        drop(other);
    }
}

/// The contents of the `Ok`s of an iterator, up to the first error.
pub(crate) struct Oks<'e, I, E> {
    base: I,
    error: &'e Error<E>,
}

impl<I, T: Send, E: Send> ParallelIterator for Oks<'_, I, E>
where
    I: ParallelIterator<Item = Result<T, E>>,
{
    type Item = T;

    fn drive<C: Consumer<T>>(&mut self, consumer: &C) -> C::Result {
        self.base.drive(&Through { step: UntilError(self.error), to: consumer })
    }
}

/// Feeds the contents of the `Ok`s.
struct UntilError<'e, E>(&'e Error<E>);

impl<T, E: Send> Step<Result<T, E>> for UntilError<'_, E> {
    type Output = T;

    fn on(&self, items: impl Iterator<Item = Result<T, E>>) -> impl Iterator<Item = T> {
        items.map_while(|item| item.map_err(|error| self.0.put(error)).ok())
    }

    fn is_over(&self) -> bool {
        self.0.is_there.load(Relaxed)
    }
}
