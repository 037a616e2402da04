//! A channel in which each read end reads all messages, inside of transactions.
//!
//! Used to tell several readers the same, each at its own pace.
//!
//! # The idea
//!
//! The messages are a linked list of variables, as in Haskell's `TChan`. The last variable holds
//! the *end*, and a write puts a message with a new end in the place of that. A read end is a
//! variable, too: it names the item that comes next. So readers write their own end alone, and meet
//! a writer only where they have read all there is. An item that all ends have passed has no handle
//! any more, and goes.

use crate::stop::Stop;
use crate::structures::or_retry;
use crate::tx::Tx;
use crate::var::TVar;

/// A place in the list of messages.
type Place<T> = TVar<Item<T>>;

enum Item<T> {
    /// No message yet.
    End,
    Message(T, Place<T>),
}

/// An unbounded channel for transactions. Each [duplicate](TChan::dup) reads all messages. Clones
/// of a handle share its read end: one of them reads a message.
///
/// # Order
/// Messages are read in the order in which the transactions that wrote them have committed, and
/// those of one transaction in its order. Readers of one end have no order among themselves.
///
/// # Memory
/// A message stays until all read ends have passed it. [`broadcast`](TChan::broadcast) makes
/// a channel for a handle that only writes.
///
/// # Examples
///
/// ```
/// use segue_stm::{TChan, atomically};
///
/// let news = TChan::broadcast();
/// let readers = [atomically(|tx| news.dup(tx))?, atomically(|tx| news.dup(tx))?];
/// atomically(|tx| {
///     news.write(tx, "first")?;
///     news.write(tx, "second")
/// })?;
/// for reader in &readers {
///     assert_eq!(atomically(|tx| reader.read(tx).cloned())?, "first");
///     assert_eq!(atomically(|tx| reader.read(tx).cloned())?, "second");
/// }
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[derive(Debug)]
pub struct TChan<T> {
    /// The next item of this end; none in a handle that only writes.
    next: Option<TVar<Place<T>>>,
    /// Where the next message goes.
    end: TVar<Place<T>>,
}

impl<T: Send + Sync + 'static> TChan<T> {
    /// An empty channel with one read end.
    #[track_caller]
    #[must_use]
    pub fn new() -> Self {
        let end = TVar::new(Item::End);
        Self { next: Some(TVar::new(end.clone())), end: TVar::new(end) }
    }

    /// An empty channel without a read end: its duplicates read, and messages go at once while
    /// there are none. For this handle the channel is empty for ever.
    #[track_caller]
    #[must_use]
    pub fn broadcast() -> Self {
        Self { next: None, end: TVar::new(TVar::new(Item::End)) }
    }

    /// Another handle, with a read end of its own, which reads all that is written later.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn dup(&self, tx: &Tx<'_>) -> Result<Self, Stop> {
        let end = tx.read(&self.end)?;
        Ok(Self { next: Some(TVar::new(end.clone())), end: self.end.clone() })
    }

    /// Writes a message, for each read end. Does not wait.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn write(&self, tx: &Tx<'_>, message: T) -> Result<(), Stop> {
        let end = TVar::new(Item::End);
        let place = tx.replace(&self.end, end.clone())?;
        tx.write(place, Item::Message(message, end))
    }

    /// The next message, which this read end passes; retries while there is none.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, while there is no message and after a conflict.
    #[track_caller]
    pub fn read<'t>(&self, tx: &Tx<'t>) -> Result<&'t T, Stop> {
        or_retry(tx, self.try_read(tx)?)
    }

    /// The next message, which this read end passes, if there is one.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn try_read<'t>(&self, tx: &Tx<'t>) -> Result<Option<&'t T>, Stop> {
        let Some(next) = &self.next else { return Ok(None) };
        match tx.read(tx.read(next)?)? {
            Item::End => Ok(None),
            Item::Message(message, rest) => {
                tx.write(next, rest.clone())?;
                Ok(Some(message))
            }
        }
    }

    /// The next message, which stays, if there is one.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn peek<'t>(&self, tx: &Tx<'t>) -> Result<Option<&'t T>, Stop> {
        let Some(next) = &self.next else { return Ok(None) };
        match tx.read(tx.read(next)?)? {
            Item::End => Ok(None),
            Item::Message(message, _) => Ok(Some(message)),
        }
    }
}

impl<T: Send + Sync + 'static> Default for TChan<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

/// One more handle of the same channel and the same read end.
impl<T> Clone for TChan<T> {
    fn clone(&self) -> Self {
        Self { next: self.next.clone(), end: self.end.clone() }
    }
}
