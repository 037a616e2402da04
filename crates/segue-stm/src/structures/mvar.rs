//! A place for one value, inside of transactions.
//!
//! Used to hand values over one by one, as a lock around a value, or as a signal that is raised
//! once.

use crate::stop::Stop;
use crate::structures::or_retry;
use crate::tx::Tx;
use crate::var::TVar;

/// A place for one value, empty or full. To take waits for a value, to put waits for room.
/// This is a handle: its clones are the same place.
///
/// # Order
/// None among those that wait: a change wakes all of them, and the first to commit goes on.
///
/// # Examples
///
/// Two places are emptied in one step, or none is:
///
/// ```
/// use segue_stm::{TMVar, atomically};
///
/// let (left, right) = (TMVar::new(1), TMVar::empty());
/// let sum = std::thread::scope(|s| {
///     s.spawn(|| atomically(|tx| right.put(tx, 2)));
///     atomically(|tx| Ok(left.take(tx)? + right.take(tx)?))
/// });
/// assert_eq!(sum, Ok(3));
/// ```
#[derive(Debug)]
pub struct TMVar<T> {
    place: TVar<Option<T>>,
}

impl<T: Send + Sync + 'static> TMVar<T> {
    /// A full place.
    #[track_caller]
    #[must_use]
    pub fn new(value: T) -> Self {
        Self { place: TVar::new(Some(value)) }
    }

    /// An empty place.
    #[track_caller]
    #[must_use]
    pub fn empty() -> Self {
        Self { place: TVar::new(None) }
    }

    /// Takes the value out; retries while there is none.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, while the place is empty and after a conflict.
    #[track_caller]
    pub fn take<'t>(&self, tx: &Tx<'t>) -> Result<&'t T, Stop> {
        or_retry(tx, self.try_take(tx)?)
    }

    /// Takes the value out, if there is one.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn try_take<'t>(&self, tx: &Tx<'t>) -> Result<Option<&'t T>, Stop> {
        let value = self.try_read(tx)?;
        if value.is_some() {
            tx.write(&self.place, None)?;
        }
        Ok(value)
    }

    /// Puts a value in; retries while there is one.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, while the place is full and after a conflict.
    #[track_caller]
    pub fn put(&self, tx: &Tx<'_>, value: T) -> Result<(), Stop> {
        or_retry(tx, self.try_put(tx, value)?.ok())
    }

    /// Puts a value in, if there is none; else the value comes back, in the inner result.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    ///
    /// # Examples
    ///
    /// ```
    /// # use segue_stm::{TMVar, atomically};
    /// let place = TMVar::new(1);
    /// assert_eq!(atomically(|tx| place.try_put(tx, 2)), Ok(Err(2)));
    /// ```
    #[track_caller]
    pub fn try_put(&self, tx: &Tx<'_>, value: T) -> Result<Result<(), T>, Stop> {
        if !self.is_empty(tx)? {
            return Ok(Err(value));
        }
        tx.write(&self.place, Some(value))?;
        Ok(Ok(()))
    }

    /// The value, which stays; retries while there is none.
    ///
    /// # Errors
    /// As for [`take`](TMVar::take).
    #[track_caller]
    pub fn read<'t>(&self, tx: &Tx<'t>) -> Result<&'t T, Stop> {
        or_retry(tx, self.try_read(tx)?)
    }

    /// The value, which stays, if there is one.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn try_read<'t>(&self, tx: &Tx<'t>) -> Result<Option<&'t T>, Stop> {
        Ok(tx.read(&self.place)?.as_ref())
    }

    /// Puts a value in the place of another, which comes back; retries while there is none.
    ///
    /// # Errors
    /// As for [`take`](TMVar::take).
    #[track_caller]
    pub fn replace<'t>(&self, tx: &Tx<'t>, value: T) -> Result<&'t T, Stop> {
        let before = self.read(tx)?;
        tx.write(&self.place, Some(value))?;
        Ok(before)
    }

    /// Whether there is no value.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn is_empty(&self, tx: &Tx<'_>) -> Result<bool, Stop> {
        Ok(self.try_read(tx)?.is_none())
    }
}

/// One more handle of the same place.
impl<T> Clone for TMVar<T> {
    fn clone(&self) -> Self {
        Self { place: self.place.clone() }
    }
}
