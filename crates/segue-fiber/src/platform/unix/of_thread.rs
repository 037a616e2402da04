//! An address that each thread keeps for itself until its end, under a key of the C library's.
//!
//! Used by `altstack` and `native/watch.rs`, for values that a thread has in the destructors of its
//! thread-local variables, too, where fibers may run: such a variable is gone in destructors of
//! others. The destructor of a key comes after those of Rust's variables. Where a C library has all
//! of them in one list the key's destructor may come before some; then it is called again for
//! values that are kept anew.

#![allow(unsafe_code)] // Calls the C library.

use std::ffi::c_void;
use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// A type of values that threads keep.
pub(crate) trait Kept {
    /// Called on the thread that has kept the value, at the thread's end.
    ///
    /// # Safety
    /// The thread has kept this value, and nobody gets it from there any more.
    unsafe fn end(kept: NonNull<Self>);
}

/// The place of a `T` in each thread.
pub(crate) struct OfThread<T> {
    key: OnceLock<libc::pthread_key_t>,
    marker: PhantomData<fn(T)>,
}

impl<T: Kept> OfThread<T> {
    pub(crate) const fn new() -> Self {
        Self { key: OnceLock::new(), marker: PhantomData }
    }

    fn key(&self) -> io::Result<libc::pthread_key_t> {
        if let Some(key) = self.key.get() {
            return Ok(*key);
        }
        let mut made = 0;
        // SAFETY: writes the key; the destructor takes the value that `keep` has put there.
        check(unsafe { libc::pthread_key_create(&mut made, Some(end::<T>)) })?;
        let key = *self.key.get_or_init(|| made);
        if key != made {
            // SAFETY: another thread was first; nobody knows this key.
            unsafe { libc::pthread_key_delete(made) };
        }
        Ok(key)
    }

    /// The value that the calling thread keeps.
    pub(crate) fn get(&self) -> Option<NonNull<T>> {
        // SAFETY: the key is never deleted.
        self.key.get().and_then(|key| NonNull::new(unsafe { libc::pthread_getspecific(*key) }.cast()))
    }

    /// Has the calling thread keep the value until its end; the earlier value is the caller's. On
    /// an error nothing has changed.
    ///
    /// # Safety
    /// The value stays in place until [`Kept::end`] gets it, at the thread's end.
    pub(crate) unsafe fn keep(&self, kept: NonNull<T>) -> io::Result<()> {
        // SAFETY: the key is never deleted, and its destructor may have the value, by the contract.
        check(unsafe { libc::pthread_setspecific(self.key()?, kept.as_ptr().cast()) })
    }
}

fn check(error: i32) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// The thread ends.
unsafe extern "C" fn end<T: Kept>(kept: *mut c_void) {
    if let Some(kept) = NonNull::new(kept.cast::<T>()) {
        // SAFETY: the C library calls this with the value that the thread has kept, and has taken
        // that out.
        unsafe { T::end(kept) };
    }
}
