//! Parallel sorts.
//!
//! Used by `par_sort` and its like.
//!
//! Both leave small pieces to std's sorts. A slice has as many pieces as keep the workers busy, and
//! one if there is one worker.
//!
//! # Stable
//!
//! A merge sort: the halves are sorted, then merged into a buffer, then copied back. Also the merge
//! is parallel: the middle of the longer run splits both, and the parts in front are merged beside
//! the parts behind.
//!
//! **Nothing is lost or doubled**, whatever comparisons answer: during the merge, the slice keeps
//! all its elements, bit by bit, and the buffer's copies are nobody's. Once all were merged, and no
//! comparison comes any more, they are copied back, each once, since each has its place in the
//! buffer: a merge of m and n elements writes m + n places, in whatever order the comparisons say.
//! A panic in between leaves the slice intact, its halves sorted. An element is reached by one
//! thread at a time: the runs are split as unique slices.
//!
//! # Unstable
//!
//! A quicksort: elements less than a pivot, the median of a sample, are put in front, and both
//! parts are sorted. Elements are only swapped, so no comparison can lose one. After some bad
//! pivots std sorts the rest: a comparison that is no order does not keep it going. No memory is
//! needed.
#![allow(unsafe_code)] // Elements are copied into a buffer and back.

use crate::join::join;
use crate::par::plumbing::here_or_elsewhere;
use crate::run::handle::Handle;
use segue_core::unwind::NoUnwind;
use std::cmp::Ordering;
use std::mem::MaybeUninit;
use std::ptr;

/// Fewer elements are sorted by one worker: to fork would take longer. Miri is to see forks.
const SMALL: usize = if cfg!(miri) { 8 } else { 2048 };

/// So many pieces for each worker: they take different times.
const PIECES: usize = 4;

/// Sorts, and keeps equal elements in their order.
pub(crate) fn stable<T: Send>(elements: &mut [T], compare: &(impl Fn(&T, &T) -> Ordering + Sync)) {
    // Elements without bytes: a copy loses no distinction between them.
    if elements.len() <= SMALL || size_of::<T>() == 0 {
        return elements.sort_by(compare);
    }
    here_or_elsewhere(|| {
        let most = largest_piece(elements.len());
        if elements.len() <= most {
            return elements.sort_by(compare);
        }
        let mut buffer = Vec::with_capacity(elements.len());
        sort(elements, &mut buffer.spare_capacity_mut()[..elements.len()], compare, most);
    });
}

/// How many elements a piece has that one worker sorts.
fn largest_piece(len: usize) -> usize {
    match Handle::current().map_or(1, |handle| handle.workers()) {
        1 => len,
        workers => (len / (workers * PIECES)).max(SMALL),
    }
}

fn sort<T: Send>(
    elements: &mut [T],
    buffer: &mut [MaybeUninit<T>],
    compare: &(impl Fn(&T, &T) -> Ordering + Sync),
    most: usize,
) {
    if elements.len() <= most {
        return elements.sort_by(compare);
    }
    let middle = elements.len() / 2;
    let (left, right) = elements.split_at_mut(middle);
    let (left_buffer, right_buffer) = buffer.split_at_mut(middle);
    join(|| sort(left, left_buffer, compare, most), || sort(right, right_buffer, compare, most));
    // In order already: so a sorted slice costs no merges.
    if let (Some(last), Some(first)) = (left.last(), right.first())
        && compare(first, last) != Ordering::Less
    {
        return;
    }
    merge(left, right, buffer, compare);
    // Half a copy back would have elements twice.
    let no_unwind = NoUnwind::new("a fork panicked in the middle of a sort");
    // SAFETY: `merge` has put a copy of each element into the buffer, which is as long; no user's
    // code is called before all are copied back.
    unsafe { copy_back(elements, buffer) };
    no_unwind.disarm();
}

/// Merges two runs into `into`, which has as many places as they have elements.
///
/// The merge copies: in any case `left` and `right` have their elements all the time.
fn merge<T: Send>(
    left: &mut [T],
    right: &mut [T],
    into: &mut [MaybeUninit<T>],
    compare: &(impl Fn(&T, &T) -> Ordering + Sync),
) {
    debug_assert_eq!(left.len() + right.len(), into.len());
    if into.len() <= SMALL {
        return merge_here(left, right, into, compare);
    }
    // Equal elements of the left run come first: so elements behind the split on the left are not
    // less than those in front on the right.
    let (at_left, at_right) = if left.len() >= right.len() {
        let middle = left.len() / 2;
        let at = right.partition_point(|element| compare(element, &left[middle]) == Ordering::Less);
        (middle, at)
    } else {
        let middle = right.len() / 2;
        let at = left.partition_point(|element| compare(&right[middle], element) != Ordering::Less);
        (at, middle)
    };
    let (left, left_rest) = left.split_at_mut(at_left);
    let (right, right_rest) = right.split_at_mut(at_right);
    let (into, into_rest) = into.split_at_mut(at_left + at_right);
    join(|| merge(left, right, into, compare), || merge(left_rest, right_rest, into_rest, compare));
}

/// As [`merge`], by one worker.
fn merge_here<T>(left: &[T], right: &[T], into: &mut [MaybeUninit<T>], compare: &impl Fn(&T, &T) -> Ordering) {
    let (mut at_left, mut at_right) = (0, 0);
    let mut places = into.iter_mut();
    while at_left < left.len() && at_right < right.len() {
        let from_right = compare(&right[at_right], &left[at_left]) == Ordering::Less;
        let element = if from_right { &right[at_right] } else { &left[at_left] };
        at_right += usize::from(from_right);
        at_left += usize::from(!from_right);
        let place = places.next().expect("there are as many places as elements");
        // SAFETY: both are places of a `T`; the copy is nobody's before `copy_back`.
        unsafe { ptr::copy_nonoverlapping(element, place.as_mut_ptr(), 1) };
    }
    let places = places.into_slice();
    let rest = if at_left < left.len() { &left[at_left..] } else { &right[at_right..] };
    assert_eq!(rest.len(), places.len(), "there are as many places as elements");
    // SAFETY: as above; both have the same length.
    unsafe { ptr::copy_nonoverlapping(rest.as_ptr(), places.as_mut_ptr().cast(), rest.len()) };
}

/// Copies the merged elements back, over those that they are copies of.
///
/// # Safety
/// Both have the same length, and `merged` has a copy of each element, once. No element is used
/// before all are copied.
unsafe fn copy_back<T: Send>(elements: &mut [T], merged: &mut [MaybeUninit<T>]) {
    if elements.len() > SMALL * 4 {
        let middle = elements.len() / 2;
        let (first, second) = elements.split_at_mut(middle);
        let (first_merged, second_merged) = merged.split_at_mut(middle);
        let copy_first = || {
            // SAFETY: as the contract says, for the first halves: each element is written once.
            unsafe { copy_back(first, first_merged) }
        };
        let copy_second = || {
            // SAFETY: likewise, for the second halves: nobody uses an element before both are
            // copied.
            unsafe { copy_back(second, second_merged) }
        };
        join(copy_first, copy_second);
        return;
    }
    debug_assert_eq!(elements.len(), merged.len());
    // SAFETY: both have this length. `merged` has a copy of each of the elements that are written
    // over here or in the other parts, and nothing runs in between that could see one twice.
    unsafe { ptr::copy_nonoverlapping(merged.as_ptr().cast(), elements.as_mut_ptr(), elements.len()) };
}

/// Sorts, and may change the order of equal elements.
pub(crate) fn unstable<T: Send>(elements: &mut [T], compare: &(impl Fn(&T, &T) -> Ordering + Sync)) {
    if elements.len() <= SMALL {
        return elements.sort_unstable_by(compare);
    }
    here_or_elsewhere(|| {
        let most = largest_piece(elements.len());
        sort_unstable(elements, compare, most, PATIENCE);
    });
}

fn sort_unstable<T: Send>(
    mut elements: &mut [T],
    compare: &(impl Fn(&T, &T) -> Ordering + Sync),
    most: usize,
    mut patience: u32,
) {
    while elements.len() > most && patience > 0 {
        let (pivot, rest) = divide_by_median(elements, compare);
        let less = partition(rest, |element| compare(element, pivot) == Ordering::Less);
        if less < rest.len() / UNEVEN {
            // Perhaps many are equal: these are in their places then.
            let equal = partition(&mut rest[less..], |element| compare(pivot, element) != Ordering::Less);
            // The pivot goes behind those that are less.
            elements.swap(0, less);
            elements[..less].sort_unstable_by(compare);
            elements = &mut elements[less + 1 + equal..];
            patience -= 1;
            continue;
        }
        elements.swap(0, less);
        let (less, others) = elements.split_at_mut(less);
        let patience = patience - u32::from(others.len() < less.len() / UNEVEN);
        join(
            || sort_unstable(less, compare, most, patience),
            || sort_unstable(&mut others[1..], compare, most, patience),
        );
        return;
    }
    elements.sort_unstable_by(compare);
}

/// A part with less than one of so many elements says that the pivot was a bad one.
const UNEVEN: usize = 8;

/// How many bad pivots are put up with before std sorts the rest.
const PATIENCE: u32 = 8;

/// So many elements are looked at for a pivot.
const SAMPLE: usize = 31;

/// Puts something like the median in front, and gives that out with the others.
fn divide_by_median<'s, T>(elements: &'s mut [T], compare: &impl Fn(&T, &T) -> Ordering) -> (&'s T, &'s mut [T]) {
    let step = elements.len() / SAMPLE;
    let mut sample: [usize; SAMPLE] = std::array::from_fn(|n| n * step);
    sample.sort_unstable_by(|&a, &b| compare(&elements[a], &elements[b]));
    elements.swap(0, sample[SAMPLE / 2]);
    let (pivot, rest) = elements.split_first_mut().expect("there are more than a sample");
    (pivot, rest)
}

/// Puts the elements for which `goes_first` says so before the others. Answers how many these are.
fn partition<T>(elements: &mut [T], goes_first: impl Fn(&T) -> bool) -> usize {
    let mut first = 0;
    for at in 0..elements.len() {
        let goes = goes_first(&elements[at]);
        elements.swap(first, at);
        first += usize::from(goes);
    }
    first
}
