//! Variables, as users have them.
//!
//! Used by all users, in their transactions.
#![allow(unsafe_code)] // A handle is an address.

use crate::snapshot::{Retired, Snapshot, retire};
use crate::version::{Head, Holding, Kind};
use std::cell::Cell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::panic::Location;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;

/// A variable that is read and written by transactions: a handle. Its clones are the same variable.
///
/// A variable is read by [`Tx::read`](crate::Tx::read) and written by
/// [`Tx::write`](crate::Tx::write). It lives as long as a handle does. An old value is dropped when
/// the last transaction that may see it has ended, by that one or by the one that has replaced the
/// value, after its own end. A fiber's waits in that drop are refused, and a panic is caught after
/// the panic hook. A drop that blocks a plain thread keeps old values of other variables in memory.
///
/// # Examples
///
/// ```
/// use segue_stm::{TVar, atomically};
///
/// let (from, to) = (TVar::new(100), TVar::new(0));
/// atomically(|tx| {
///     tx.modify(&from, |balance| balance - 30)?;
///     tx.modify(&to, |balance| balance + 30)
/// })?;
/// assert_eq!((from.get(), to.get()), (70, 30));
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
///
/// A variable for functions of any lifetime takes no function of one lifetime:
///
/// ```compile_fail
/// let any: segue_stm::TVar<for<'a> fn(&'a u8)> = segue_stm::TVar::new(|_| ());
/// let one: segue_stm::TVar<fn(&'static u8)> = any.clone();
/// ```
pub struct TVar<T> {
    head: NonNull<Head>,
    /// Values come out as they went in: a variable of one type is none of a subtype, as no cell is.
    values: PhantomData<Cell<T>>,
}

// SAFETY: a handle shares values between threads, and whichever thread is last drops them: both are
// promised by the bounds. The head itself is made of atomics and a queue.
unsafe impl<T: Send + Sync> Send for TVar<T> {}
// SAFETY: as above: a shared handle gives out no more.
unsafe impl<T: Send + Sync> Sync for TVar<T> {}
// A value does not change under an attempt that sees it.
impl<T: RefUnwindSafe> RefUnwindSafe for TVar<T> {}
impl<T: RefUnwindSafe> UnwindSafe for TVar<T> {}

impl<T: Send + Sync + 'static> TVar<T> {
    const KIND: &'static Kind = &Kind::of::<T>();

    /// A variable with a first value. Reports name the place of this call.
    #[track_caller]
    #[must_use]
    pub fn new(value: T) -> Self {
        Self::make(value, None, Self::KIND)
    }

    /// As [`new`](TVar::new), with a name for the [profile](crate::Profile) of conflicts.
    ///
    /// # Examples
    ///
    /// ```
    /// let balance = segue_stm::TVar::named("balance", 100);
    /// assert_eq!(format!("{balance:?}"), "TVar(balance)");
    /// ```
    #[track_caller]
    #[must_use]
    pub fn named(name: &'static str, value: T) -> Self {
        Self::make(value, Some(name), Self::KIND)
    }

    /// As [`named`](TVar::named), of values that can be compared: the profile says in how many
    /// conflicts the value was the same before and after.
    ///
    /// # Examples
    ///
    /// ```
    /// let flag = segue_stm::TVar::compared("the flag", true);
    /// flag.set(true)?; // a conflict for all that have read the flag, without a difference
    /// # Ok::<(), segue_core::Cancelled>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn compared(name: &'static str, value: T) -> Self
    where
        T: PartialEq,
    {
        Self::make(value, Some(name), const { &Kind::of_comparable::<T>() })
    }

    #[track_caller]
    fn make(value: T, name: Option<&'static str>, kind: &'static Kind) -> Self {
        let place = Location::caller();
        let head = Head::make(Holding::make(value, place), kind, name, place);
        Self { head, values: PhantomData }
    }

    /// A copy of the last committed value: a transaction of one read. Inside of a transaction this
    /// read is not a part of that, and does not see its writes. Never waits.
    #[must_use]
    pub fn get(&self) -> T
    where
        T: Clone,
    {
        segue_core::preemption_point();
        let snapshot = Snapshot::begin();
        let version = self.head().load_unlocked().version();
        // SAFETY: the word was not locked, so the version is kept for the snapshot, which is kept
        // until the value was cloned. The clone is foreign code, and is not suspended.
        let value = segue_core::no_suspend(|| unsafe { Holding::<T>::value(version) }.clone());
        drop(snapshot);
        value
    }
}

impl<T> TVar<T> {
    #[inline]
    pub(crate) fn head(&self) -> &Head {
        // SAFETY: a handle keeps the variable.
        unsafe { self.head.as_ref() }
    }

    /// Whether both are handles of the same variable.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.head == other.head
    }
}

/// One more handle of the same variable.
impl<T> Clone for TVar<T> {
    #[inline]
    fn clone(&self) -> Self {
        self.head().share();
        Self { head: self.head, values: PhantomData }
    }
}

impl<T> Drop for TVar<T> {
    #[inline]
    fn drop(&mut self) {
        release(self.head);
    }
}

/// Lets go of a handle.
pub(crate) fn release(head: NonNull<Head>) {
    // SAFETY: the handle keeps the variable until this.
    if unsafe { head.as_ref() }.unshare() {
        // SAFETY: this was the last handle.
        retire([unsafe { Retired::head(head) }]);
    }
}

impl<T> PartialEq for TVar<T> {
    /// Whether both are the same variable; their values are not compared.
    fn eq(&self, other: &Self) -> bool {
        self.ptr_eq(other)
    }
}

impl<T> Eq for TVar<T> {}

impl<T> Hash for TVar<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.head.hash(state);
    }
}

impl<T: Send + Sync + Default + 'static> Default for TVar<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for TVar<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the value: a look at that is a transaction.
        match self.head().name {
            Some(name) => write!(f, "TVar({name})"),
            None => write!(f, "TVar({})", self.head().place),
        }
    }
}
