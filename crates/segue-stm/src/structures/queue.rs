//! Queues, bounded and not, inside of transactions.
//!
//! Used by producers and consumers.
//!
//! # The idea
//!
//! A queue has two variables, one for each end: a list of items, newest first, for the writers, and
//! one, oldest first, for the readers. A reader that finds the front empty turns the back's list
//! round, and leaves the back empty. So an item is moved once: a step takes constant time,
//! amortised, and writers and readers meet once for a whole list. The lists are immutable, and
//! versions share them.
//!
//! Room is counted in the same way: the back has the room that writers know of, the front has the
//! items that were read since. A writer without room fetches all of that at once. So a queue with
//! some room lets writers and readers commit side by side. A queue without a bound is one with more
//! room than memory.

use crate::stop::Stop;
use crate::structures::or_retry;
use crate::tx::Tx;
use crate::var::TVar;
use std::sync::Arc;

/// An immutable list. Its rest may be shared.
struct List<T>(Option<Arc<Item<T>>>);

struct Item<T> {
    value: Arc<T>,
    rest: List<T>,
}

impl<T> List<T> {
    const EMPTY: Self = Self(None);

    fn share(&self) -> Self {
        Self(self.0.clone())
    }

    fn with(self, value: Arc<T>) -> Self {
        Self(Some(Arc::new(Item { value, rest: self })))
    }

    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn first(&self) -> Option<&Item<T>> {
        self.0.as_deref()
    }

    fn last(&self) -> Option<&Item<T>> {
        std::iter::successors(self.first(), |item| item.rest.first()).last()
    }

    fn reversed(&self) -> Self {
        let (mut reversed, mut rest) = (Self::EMPTY, self);
        while let Some(item) = &rest.0 {
            reversed = reversed.with(Arc::clone(&item.value));
            rest = &item.rest;
        }
        reversed
    }
}

impl<T> Drop for List<T> {
    /// Item by item: a long list needs no long stack.
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(mut item) = next.and_then(Arc::into_inner) {
            next = item.rest.0.take();
        }
    }
}

/// The end of the writers.
struct Back<T> {
    /// Newest first.
    items: List<T>,
    /// Room that writers know of.
    room: usize,
}

/// The end of the readers.
struct Front<T> {
    /// Oldest first.
    items: List<T>,
    /// How many items were read since writers have looked.
    read: usize,
}

/// A queue for transactions: first in, first out. To read waits for an item; to write into a
/// bounded queue waits for room. This is a handle: its clones are the same queue.
///
/// # Order
/// Items are read in the order in which the transactions that wrote them have committed, and those
/// of one transaction in its order. Those that wait have no order: a change wakes all of them, and
/// the first to commit goes on.
///
/// # Examples
///
/// ```
/// use segue_stm::{TQueue, atomically};
///
/// let queue = TQueue::bounded(2);
/// let sum: u32 = std::thread::scope(|s| {
///     s.spawn(|| (1..=10).try_for_each(|n| atomically(|tx| queue.write(tx, n))));
///     (0..10).map(|_| atomically(|tx| queue.read(tx).copied()).unwrap()).sum()
/// });
/// assert_eq!(sum, 55);
/// ```
///
/// An item moves from one queue to another, and is never seen in both or in none:
///
/// ```
/// # use segue_stm::{TQueue, atomically};
/// let (todo, done) = (TQueue::unbounded(), TQueue::unbounded());
/// atomically(|tx| todo.write(tx, "a job".to_owned()))?;
/// atomically(|tx| done.write(tx, todo.read(tx)?.clone()))?;
/// assert_eq!(atomically(|tx| Ok((todo.len(tx)?, done.len(tx)?))), Ok((0, 1)));
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[derive(Debug)]
pub struct TQueue<T> {
    back: TVar<Back<T>>,
    front: TVar<Front<T>>,
    capacity: usize,
}

impl<T: Send + Sync + 'static> TQueue<T> {
    /// An empty queue without a bound, into which to write never waits.
    #[track_caller]
    #[must_use]
    pub fn unbounded() -> Self {
        Self::bounded(usize::MAX)
    }

    /// An empty queue with room for so many items.
    ///
    /// # Panics
    /// If that is 0: no item could ever be written.
    #[track_caller]
    #[must_use]
    pub fn bounded(capacity: usize) -> Self {
        assert!(capacity > 0, "a queue of transactions has no rendezvous: it needs room for one item");
        let back = TVar::new(Back { items: List::EMPTY, room: capacity });
        Self { back, front: TVar::new(Front { items: List::EMPTY, read: 0 }), capacity }
    }

    /// Writes an item; retries while the queue is full.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, while the queue is full and after a conflict.
    #[track_caller]
    pub fn write(&self, tx: &Tx<'_>, value: T) -> Result<(), Stop> {
        or_retry(tx, self.try_write(tx, value)?.ok())
    }

    /// Writes an item, if there is room; else the item comes back, in the inner result.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn try_write(&self, tx: &Tx<'_>, value: T) -> Result<Result<(), T>, Stop> {
        let back = tx.read(&self.back)?;
        let mut room = back.room;
        if room == 0 {
            let front = tx.read(&self.front)?;
            if front.read == 0 {
                return Ok(Err(value));
            }
            room = front.read;
            tx.write(&self.front, Front { items: front.items.share(), read: 0 })?;
        }
        let items = back.items.share().with(Arc::new(value));
        tx.write(&self.back, Back { items, room: room - 1 })?;
        Ok(Ok(()))
    }

    /// Takes the oldest item out; retries while there is none.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, while the queue is empty and after a conflict.
    #[track_caller]
    pub fn read<'t>(&self, tx: &Tx<'t>) -> Result<&'t T, Stop> {
        or_retry(tx, self.try_read(tx)?)
    }

    /// Takes the oldest item out, if there is one.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn try_read<'t>(&self, tx: &Tx<'t>) -> Result<Option<&'t T>, Stop> {
        let front = self.front(tx)?;
        let Some(oldest) = front.items.first() else { return Ok(None) };
        tx.write(&self.front, Front { items: oldest.rest.share(), read: front.read + 1 })?;
        Ok(Some(&oldest.value))
    }

    /// The oldest item, which stays, if there is one. Writes nothing; after writes without a read,
    /// goes through the items.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn peek<'t>(&self, tx: &Tx<'t>) -> Result<Option<&'t T>, Stop> {
        let oldest = match tx.read(&self.front)?.items.first() {
            None => tx.read(&self.back)?.items.last(),
            oldest => oldest,
        };
        Ok(oldest.map(|oldest| &*oldest.value))
    }

    /// The readers' end, with items if there are any in the queue.
    #[track_caller]
    fn front<'t>(&self, tx: &Tx<'t>) -> Result<&'t Front<T>, Stop> {
        let front = tx.read(&self.front)?;
        if !front.items.is_empty() {
            return Ok(front);
        }
        let back = tx.read(&self.back)?;
        if back.items.is_empty() {
            return Ok(front);
        }
        tx.write(&self.back, Back { items: List::EMPTY, room: back.room })?;
        tx.write(&self.front, Front { items: back.items.reversed(), read: front.read })?;
        tx.read(&self.front)
    }

    /// How many items there are.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn len(&self, tx: &Tx<'_>) -> Result<usize, Stop> {
        Ok(self.capacity - tx.read(&self.back)?.room - tx.read(&self.front)?.read)
    }

    /// Whether there is no item.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn is_empty(&self, tx: &Tx<'_>) -> Result<bool, Stop> {
        Ok(tx.read(&self.front)?.items.is_empty() && tx.read(&self.back)?.items.is_empty())
    }

    /// The room of the empty queue; without a bound [`usize::MAX`].
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

/// One more handle of the same queue.
impl<T> Clone for TQueue<T> {
    fn clone(&self) -> Self {
        Self { back: self.back.clone(), front: self.front.clone(), capacity: self.capacity }
    }
}

/// A [`TQueue`] with a bound, under the name that other libraries of transactions have for that.
pub type TBQueue<T> = TQueue<T>;
