//! Expiries: objects that the timers keep alive and call when a time is over.
//!
//! Used by contexts with a deadline. An entry of the timers has room for one word, so the function
//! to call stands in the object that the word leads to: in its [`Expiry`].
#![allow(unsafe_code)] // An owner is kept as the address of a field.

use std::mem;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// The part of an object by which the timers reach the whole.
pub(crate) struct Expiry {
    end: unsafe fn(NonNull<Expiry>, bool),
}

/// An object with an [`Expiry`].
///
/// # Safety
/// At `OFFSET` the type has the field that [`Expiry::of`] has made for it.
pub(crate) unsafe trait Expires: Send + Sync + Sized {
    const OFFSET: usize;

    /// The time is over. Never waits.
    fn expire(self: Arc<Self>);
}

impl Expiry {
    pub(crate) const fn of<T: Expires>() -> Self {
        Self { end: end::<T> }
    }

    /// Where an object has it.
    #[inline]
    pub(super) fn at<T: Expires>(owner: &Arc<T>) -> *const Self {
        // SAFETY: the field lies inside of the object.
        unsafe { Arc::as_ptr(owner).byte_add(T::OFFSET).cast() }
    }
}

/// # Safety
/// The expiry is that of a `T` in an `Arc`, one reference of which this uses up.
unsafe fn end<T: Expires>(expiry: NonNull<Expiry>, is_over: bool) {
    // SAFETY: the field lies at this offset in its object, and the pointer came from `into_raw`.
    let owner = unsafe { Arc::from_raw(expiry.as_ptr().byte_sub(T::OFFSET).cast::<T>().cast_const()) };
    if is_over {
        owner.expire();
    }
}

/// An owner of an object that expires.
pub(crate) struct Expiring(NonNull<Expiry>);

// SAFETY: this is an `Arc` of a type that is `Send` and `Sync`, as `Expires` demands.
unsafe impl Send for Expiring {}

impl Expiring {
    #[inline]
    pub(crate) fn new<T: Expires>(owner: Arc<T>) -> Self {
        let expiry = Expiry::at(&owner).cast_mut();
        mem::forget(owner);
        // SAFETY: the address of an object is not null.
        Self(unsafe { NonNull::new_unchecked(expiry) })
    }

    /// The time is over.
    #[inline]
    pub(crate) fn expire(self) {
        self.end(true);
    }

    /// Gives the ownership of the object to the caller, if that object has this expiry, and answers
    /// so; else drops the ownership.
    #[inline]
    pub(super) fn into_owner_of(self, expiry: *const Expiry) -> bool {
        let is_of = ptr::eq(self.0.as_ptr(), expiry);
        if is_of {
            mem::forget(self);
        }
        is_of
    }

    #[inline]
    fn end(self, is_over: bool) {
        let expiry = self.into_raw();
        // SAFETY: the reference that `new` has taken keeps the object in place, and is used up.
        unsafe { (expiry.as_ref().end)(expiry, is_over) };
    }

    #[inline]
    pub(super) fn into_raw(self) -> NonNull<Expiry> {
        let expiry = self.0;
        mem::forget(self);
        expiry
    }

    /// # Safety
    /// The address came from [`into_raw`](Self::into_raw), and this is its one use.
    #[inline]
    pub(super) unsafe fn from_raw(expiry: NonNull<Expiry>) -> Self {
        Self(expiry)
    }
}

impl Drop for Expiring {
    fn drop(&mut self) {
        Self(self.0).end(false);
    }
}
