//! `getaddrinfo`, on a thread for blocking calls.
//!
//! Used by std's `ToSocketAddrs`, and by C. What the C library does in there it does by calls of
//! its own, which are not defined here: so it is the whole call that moves.
#![allow(unsafe_code)] // The C library's function, defined anew; and found.

use crate::errno;
use crate::scope::{Patience, carry_out, is_active};
use std::ffi::{c_char, c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

type Names =
    unsafe extern "C" fn(*const c_char, *const c_char, *const libc::addrinfo, *mut *mut libc::addrinfo) -> c_int;

/// The C library's own.
fn real() -> Option<Names> {
    /// Written with one value, by whoever comes first, and by itself complete.
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let mut found = REAL.load(Ordering::Relaxed);
    if found.is_null() {
        // SAFETY: a name that ends with a zero.
        found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"getaddrinfo".as_ptr()) };
        REAL.store(found, Ordering::Relaxed);
    }
    // SAFETY: what has this name in the C library is this function.
    (!found.is_null()).then(|| unsafe { mem::transmute::<*mut c_void, Names>(found) })
}

/// What the arguments point to, for another thread.
struct Arguments(*const c_char, *const c_char, *const libc::addrinfo, *mut *mut libc::addrinfo);

// SAFETY: the caller waits for the call, and leaves them alone meanwhile.
unsafe impl Send for Arguments {}

impl Arguments {
    /// # Safety
    /// As for `getaddrinfo`.
    unsafe fn call(self, real: Names) -> (c_int, c_int) {
        // SAFETY: the caller's.
        let result = unsafe { real(self.0, self.1, self.2, self.3) };
        (result, errno::get())
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const libc::addrinfo,
    found: *mut *mut libc::addrinfo,
) -> c_int {
    let Some(real) = real() else {
        // A program that is linked without the C library as a library of its own.
        errno::set(libc::ENOSYS);
        return libc::EAI_SYSTEM;
    };
    if !is_active() {
        // SAFETY: the caller's.
        return unsafe { real(node, service, hints, found) };
    }
    let arguments = Arguments(node, service, hints, found);
    let mut answer = 0;
    let failed = carry_out(|| {
        Patience::count();
        // SAFETY: the caller's; the call is waited for.
        match segue_core::blocking(|| unsafe { arguments.call(real) }) {
            Ok((libc::EAI_SYSTEM, error)) => Err(error),
            Ok((result, _)) => {
                answer = result;
                Ok(0)
            }
            Err(_) => Err(libc::ECANCELED),
        }
    });
    if failed == 0 { answer } else { libc::EAI_SYSTEM }
}
