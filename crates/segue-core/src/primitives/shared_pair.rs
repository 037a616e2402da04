//! One allocation with two owners, for structures that come in halves: a promise and its resolver.
//!
//! Used by such structures in place of an `Arc`, which counts further than two: making the pair
//! takes no atomic step, the end of the first half one.
//!
//! Ordering: the first half to go releases what it did with its exchange, the second acquires it
//! with its own, and frees.
#![allow(unsafe_code)] // Shared ownership of one allocation.

use crate::primitives::atomic::{AtomicBool, Ordering};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

struct Shared<T> {
    one_gone: AtomicBool,
    value: T,
}

/// One of the two owners of a `T`. The one that is dropped last drops the `T`.
///
/// # Examples
///
/// ```
/// let (left, right) = segue_core::Half::pair(42);
/// drop(left);
/// assert_eq!(*right, 42);
/// ```
pub struct Half<T> {
    shared: NonNull<Shared<T>>,
    owns: PhantomData<Shared<T>>,
}

// SAFETY: as for `Arc`: a half gives shared access from its thread, and the last one drops the
// value there.
unsafe impl<T: Send + Sync> Send for Half<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Half<T> {}

impl<T> Half<T> {
    /// Both owners of `value`.
    #[inline]
    pub fn pair(value: T) -> (Self, Self) {
        let shared = Box::new(Shared { one_gone: AtomicBool::new(false), value });
        let shared = NonNull::from(Box::leak(shared));
        (Self { shared, owns: PhantomData }, Self { shared, owns: PhantomData })
    }
}

impl<T> Deref for Half<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the allocation lives as long as one half does; the value is shared between the
        // two.
        unsafe { &self.shared.as_ref().value }
    }
}

impl<T> Drop for Half<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this half keeps the allocation alive until its exchange, and after it if the
        // other half went first.
        unsafe {
            let one_gone = &self.shared.as_ref().one_gone;
            // To look first spares the second half its exchange.
            if one_gone.load(Ordering::Acquire) || one_gone.swap(true, Ordering::AcqRel) {
                drop(Box::from_raw(self.shared.as_ptr()));
            }
        }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Half<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Half").field(&**self).finish()
    }
}
