//! `getaddrinfo`, on another thread.
//!
//! Used by std's `ToSocketAddrs`, and by C. What the C library does in there it does by calls of
//! its own, which are not defined here: so it is the whole call that moves. It can't be ended: a
//! cancelled caller leaves it behind, and the list of addresses is freed where it comes. So the
//! question is copied, and the place for the list is written by the caller alone.
#![allow(unsafe_code)] // The C library's function, defined anew; and found.

use crate::call::{carry_out, elsewhere};
use crate::errno;
use crate::mark::is_active;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::{self, ManuallyDrop};
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

/// The arguments, for another thread.
struct Question {
    node: Option<CString>,
    service: Option<CString>,
    /// Flags, family, type and protocol: the others are to be zero.
    hints: Option<[c_int; 4]>,
}

impl Question {
    /// # Safety
    /// As for `getaddrinfo`.
    unsafe fn new(node: *const c_char, service: *const c_char, hints: *const libc::addrinfo) -> Self {
        // SAFETY: the caller's: each is null, or a text that ends with a zero.
        let owned = |text: *const c_char| (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_owned());
        // SAFETY: null, or there by the contract of this function.
        let hints = unsafe { hints.as_ref() };
        let hints = hints.map(|it| [it.ai_flags, it.ai_family, it.ai_socktype, it.ai_protocol]);
        Self { node: owned(node), service: owned(service), hints }
    }

    /// Asks the C library. Answers with what it says, and its `errno`.
    fn ask(&self, real: Names) -> (c_int, c_int, Found) {
        let pointer = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        let mut found = Found(ptr::null_mut());
        // SAFETY: all that is named is there for the length of the call; of hints zeros are none.
        let result = unsafe {
            let hints = self.hints.map(|[flags, family, kind, protocol]| {
                let mut hints: libc::addrinfo = mem::zeroed();
                (hints.ai_flags, hints.ai_family) = (flags, family);
                (hints.ai_socktype, hints.ai_protocol) = (kind, protocol);
                hints
            });
            let hints = hints.as_ref().map_or(ptr::null(), ptr::from_ref);
            real(pointer(&self.node), pointer(&self.service), hints, &raw mut found.0)
        };
        (result, errno::get(), found)
    }
}

/// The C library's list of addresses, or null.
struct Found(*mut libc::addrinfo);

// SAFETY: the list belongs to the owner of the pointer, on any thread.
unsafe impl Send for Found {}

impl Found {
    fn into_raw(self) -> *mut libc::addrinfo {
        ManuallyDrop::new(self).0
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: it is the C library's, and is freed once.
            unsafe { libc::freeaddrinfo(self.0) };
        }
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
        // SAFETY: by the contract of this function, which stands at the head of the crate.
        return unsafe { real(node, service, hints, found) };
    }
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    let question = unsafe { Question::new(node, service, hints) };
    let mut answer = 0;
    // A look-up that was interrupted is made again, unless the caller was cancelled.
    let ask = move || match question.ask(real) {
        (libc::EAI_SYSTEM, libc::EINTR, _) => Err(libc::EINTR),
        answer => Ok(answer),
    };
    let failed = carry_out(|| {
        match elsewhere("a name to be looked up", false, ask)? {
            (libc::EAI_SYSTEM, error, _) => Err(error),
            (result, _, list) => {
                answer = result;
                // On failure the C library leaves the place as it is.
                if result == 0 {
                    // SAFETY: the caller's: there is a place for the list.
                    unsafe { *found = list.into_raw() };
                }
                Ok(0)
            }
        }
    });
    if failed == 0 { answer } else { libc::EAI_SYSTEM }
}
