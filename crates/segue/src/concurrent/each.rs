//! Items that are worked on, so many at a time.
//!
//! Used by applications, through `concurrent`.
//!
//! The caller and further fibers of a scope each take an item, work on it, and take the next one.
//! The taker of an item sees to a fiber for the next one, so there are never more fibers than
//! items, nor more than the bound. The iterator lies in a mutex that waits, since an iterator may
//! wait itself, for a channel for instance.
//!
//! **Commit point** of an item: the call of `next`, by the fiber that works on the item, with no
//! wait in between. So an item is either worked on or still in the iterator, whenever the caller is
//! cancelled.

use super::Incomplete;
use crate::scope;
use crate::sync::Mutex;
use segue_core::unwind::__rust_begin_short_backtrace;
use segue_core::{Cancelled, Scope, WaitsFor, check};
use std::iter::Fuse;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{self, PoisonError};

/// A bound on how many items are worked on at a time. Made by [`at_most`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "nothing is worked on yet"]
pub struct AtMost(usize);

/// Items are worked on, `number` of them at a time; `usize::MAX` is for all at a time.
///
/// # Panics
/// If `number` is zero: nothing would ever happen.
///
/// # Examples
///
/// ```
/// use segue::concurrent::at_most;
/// use segue::sync::Semaphore;
///
/// let seats = Semaphore::new(3);
/// let seated = at_most(3).map(1..=10, |n| seats.try_acquire().map(|_seat| n))?;
/// assert_eq!(seated.into_iter().flatten().count(), 10, "there was always a seat");
/// # Ok::<(), segue::Cancelled>(())
/// ```
pub fn at_most(number: usize) -> AtMost {
    assert_ne!(number, 0, "of no items at a time, none would ever be worked on: say how many, 1 at least");
    AtMost(number)
}

/// The state that the workers on items share.
struct Work<I: Iterator, F> {
    items: Mutex<Items<I>>,
    /// Answers whether that is enough.
    work: F,
    bound: usize,
    /// How many fibers there are, with the caller.
    fibers: AtomicUsize,
    /// Whether one of them is on its way to its first item.
    is_awaited: AtomicBool,
    /// Whether the iterator has ended, and not by a cancellation.
    is_complete: AtomicBool,
    /// The wait of a fiber while another one takes an item.
    turn: WaitsFor,
    /// Why a fiber has taken no more.
    why: sync::Mutex<Option<Cancelled>>,
}

struct Items<I: Iterator> {
    left: Fuse<I>,
    taken: usize,
    /// Nobody is to ask for more.
    over: bool,
}

impl<I: Iterator> Items<I> {
    fn take(&mut self) -> Result<Option<(usize, I::Item)>, Cancelled> {
        // Also in a panic.
        if std::mem::replace(&mut self.over, true) {
            return Ok(None);
        }
        let Some(item) = self.left.next() else {
            // That of a channel, for one, ends when its wait is cancelled.
            return check().map(|()| None);
        };
        self.over = false;
        self.taken += 1;
        Ok(Some((self.taken - 1, item)))
    }
}

impl<I: Iterator + Send, F: Fn(usize, I::Item) -> bool + Sync> Work<I, F> {
    /// Works on items until none is left, one is enough, or this is cancelled.
    fn go_on<'scope>(&'scope self, s: &'scope Scope<'scope, '_>) {
        loop {
            let (index, item) = match self.items.lock_for(self.turn).and_then(|mut items| items.take()) {
                Ok(Some(taken)) => taken,
                Ok(None) => return self.is_complete.store(true, Ordering::Relaxed),
                Err(cancelled) => {
                    self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(cancelled);
                    return;
                }
            };
            if self.wants_another() {
                s.spawn(|| {
                    self.is_awaited.store(false, Ordering::Relaxed);
                    self.go_on(s);
                });
            }
            if __rust_begin_short_backtrace(|| (self.work)(index, item)) {
                return s.cancel();
            }
        }
    }

    /// Whether a fiber is to be spawned for the next item; the fiber counts from then on. The
    /// counts are exact, and order nothing.
    fn wants_another(&self) -> bool {
        // During a panic this fiber would run in place, and so would all later ones, inside of each
        // other.
        if std::thread::panicking() || self.is_awaited.swap(true, Ordering::Relaxed) {
            return false;
        }
        let more = |fibers| (fibers < self.bound).then_some(fibers + 1);
        self.fibers.try_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

impl AtMost {
    /// Works on the items until none is left or `work` says that one is enough; the error says why
    /// some were not begun.
    #[track_caller]
    fn run<I>(self, items: I, work: impl Fn(usize, I::Item) -> bool + Sync) -> Result<(), Cancelled>
    where
        I: IntoIterator<IntoIter: Send>,
    {
        let shared = Work {
            items: Mutex::new(Items { left: items.into_iter().fuse(), taken: 0, over: false }),
            work,
            bound: self.0,
            fibers: AtomicUsize::new(1),
            is_awaited: AtomicBool::new(false),
            is_complete: AtomicBool::new(false),
            turn: WaitsFor::new("its turn to take an item"),
            why: sync::Mutex::new(None),
        };
        scope(|s| shared.go_on(s));
        if shared.is_complete.into_inner() {
            return Ok(());
        }
        Err(shared.why.into_inner().unwrap_or_else(PoisonError::into_inner).unwrap_or_else(Cancelled::new))
    }

    /// Calls `f` with each item, and has the results in the order of the items.
    ///
    /// The caller works along. An item is taken from the iterator at the beginning of the work on
    /// that item, so an iterator that waits, or makes its items on demand, is asked no earlier, and
    /// by one fiber at a time. The iterator is `Send`, as fibers of several workers ask for items;
    /// one that is not, such as `std::env::args()`, is collected first.
    ///
    /// # Cancellation
    /// *Loses nothing*: no further item is begun, those that are worked on are cancelled, and all
    /// results are returned. Items that were not begun are still in the iterator, if that was lent
    /// ([`Iterator::by_ref`]). *May already have happened*: the effects of `f`.
    ///
    /// # Errors
    /// [`Incomplete`] if the caller was cancelled before the iterator had ended. The error may have
    /// all results: then nobody had asked the iterator for more.
    ///
    /// # Panics
    /// With the first panic of `f` or of the iterator, when all others have ended.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::concurrent::at_most;
    ///
    /// let lengths = at_most(2).map(["straight", "line", "code"], str::len)?;
    /// assert_eq!(lengths, [8, 4, 4]);
    /// # Ok::<(), segue::Cancelled>(())
    /// ```
    #[track_caller]
    pub fn map<I, R>(self, items: I, f: impl Fn(I::Item) -> R + Sync) -> Result<Vec<R>, Incomplete<R>>
    where
        I: IntoIterator<IntoIter: Send>,
        R: Send,
    {
        let results = sync::Mutex::new(Vec::new());
        let ended = self.run(items, |index, item| {
            let result = f(item);
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            if results.len() <= index {
                results.resize_with(index + 1, || None);
            }
            results[index] = Some(result);
            false
        });
        let results: Vec<Option<R>> = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        match ended {
            Ok(()) => Ok(results.into_iter().flatten().collect()),
            Err(error) => Err(Incomplete { results, error }),
        }
    }

    /// Calls `f` with each item. See [`map`](AtMost::map).
    ///
    /// # Cancellation
    /// As for [`map`](AtMost::map). *May already have happened*, for a part of the items.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled before the iterator had ended.
    ///
    /// # Panics
    /// As [`map`](AtMost::map) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::channel;
    /// use segue::concurrent::at_most;
    ///
    /// let (sender, jobs) = channel::bounded(2);
    /// segue::spawn(move || (1..=100).try_for_each(|job| sender.send(job)));
    /// let sum = std::sync::atomic::AtomicU64::new(0);
    /// at_most(8).for_each(jobs, |job| _ = sum.fetch_add(job, std::sync::atomic::Ordering::Relaxed))?;
    /// assert_eq!(sum.into_inner(), 5050);
    /// # Ok::<(), segue::Cancelled>(())
    /// ```
    #[track_caller]
    pub fn for_each<I>(self, items: I, f: impl Fn(I::Item) + Sync) -> Result<(), Cancelled>
    where
        I: IntoIterator<IntoIter: Send>,
    {
        self.run(items, |_, item| {
            f(item);
            false
        })
    }

    /// Whether `f` answers true for any of the items. As soon as one does, no further item is
    /// begun, and those that are worked on are cancelled and waited for.
    ///
    /// # Cancellation
    /// As for [`map`](AtMost::map).
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled before the iterator had ended, and `f` has
    /// answered true for none.
    ///
    /// # Panics
    /// As [`map`](AtMost::map) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::concurrent::at_most;
    ///
    /// assert!(at_most(4).any(1..=1_000_000, |n| n * n == 49)?);
    /// assert!(!at_most(4).any(["a", "b"], |text| text.parse::<u32>().is_ok())?);
    /// # Ok::<(), segue::Cancelled>(())
    /// ```
    #[track_caller]
    pub fn any<I>(self, items: I, f: impl Fn(I::Item) -> bool + Sync) -> Result<bool, Cancelled>
    where
        I: IntoIterator<IntoIter: Send>,
    {
        let found = AtomicBool::new(false);
        let ended = self.run(items, |_, item| {
            let is_it = f(item);
            found.fetch_or(is_it, Ordering::Relaxed);
            is_it
        });
        // The end of the scope orders this.
        if found.into_inner() { Ok(true) } else { ended.map(|()| false) }
    }
}
