//! The interruption of a thread by another one that asks where it is.
//!
//! Used by `native/watch.rs`, which has the hand-over.
//!
//! # The signal
//!
//! SIGURG, as in Go's runtime and for its reasons: ignored by default, so that a late one harms
//! nobody; not used by the C library; passed on by debuggers; a program that has it for out-of-band
//! data must expect it without cause. A SIGURG that was not asked for goes to the handler that was
//! there before. Real-time signals would queue, are used by the C library, and kill a process that
//! does not handle them. The handler is installed with SA_RESTART. Still, calls that the kernel
//! never restarts (`epoll_wait`, `poll`, `nanosleep` called directly) fail with EINTR once; std's
//! functions and the drivers here repeat it.

#![allow(unsafe_code)] // Signals.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;

use super::processor;
use crate::platform::Registers;
use crate::platform::unix::signals::{ASKING, Signals};

static SIGNALS: Signals<1> = Signals::new([ASKING]);

/// Code that answers for its thread.
pub(crate) trait Answers {
    /// Called in the middle of other code of the thread, with the registers of that: in the middle
    /// of a switch, with those of the side that owns the stack, at rest. `false` if nobody has
    /// asked.
    ///
    /// # Safety
    ///
    /// Called by the handler of a signal that interrupted this thread. The function is
    /// async-signal-safe.
    unsafe fn answer(registers: Registers) -> bool;
}

/// Has `A` answer from now on. Installed once for the process; later calls do nothing.
///
/// # Errors
///
/// The kernel refuses the handler.
pub(crate) fn install<A: Answers>() -> io::Result<()> {
    // SAFETY: `handle` is async-signal-safe, as `A` is.
    unsafe { SIGNALS.install(handle::<A>, libc::SA_RESTART, None) }
}

/// A thread of this process, which may have ended.
#[derive(Debug)]
pub(crate) struct Thread(libc::pid_t);

impl Thread {
    /// The calling one.
    pub fn current() -> Thread {
        // SAFETY: no preconditions.
        Thread(unsafe { libc::gettid() })
    }

    /// Has the thread call [`Answers::answer`]; `false` if there is no such thread.
    pub fn interrupt(&self) -> bool {
        // SAFETY: no preconditions: a thread that is not there, or another one of this process that
        // has its number, makes no difference here.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.0, ASKING) == 0 }
    }
}

/// The bounds of the calling thread's own stack, without its guard.
pub(crate) fn own_stack() -> io::Result<Range<usize>> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: initialises the attributes, of the thread that calls.
    let result = unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::from_raw_os_error(result));
    }
    let (mut start, mut size, mut guard) = (ptr::null_mut(), 0, 0);
    // SAFETY: initialised above, and destroyed here once; the places are ours.
    let result = unsafe {
        let stack = libc::pthread_attr_getstack(attributes.as_ptr(), &mut start, &mut size);
        let guarded = libc::pthread_attr_getguardsize(attributes.as_ptr(), &mut guard);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        stack | guarded
    };
    if result != 0 {
        return Err(io::Error::other("the bounds of the thread's stack are not known"));
    }
    // Some C libraries count the guard in. A thread that runs there overflows.
    let start = start.addr();
    Ok(start + guard..start + size)
}

unsafe extern "C" fn handle<A: Answers>(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the C library's `errno` is this thread's.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    // SAFETY: the context is the kernel's. In the middle of a switch the side that rests there has
    // its words in place, as that side is neither running nor gone: the interrupted code is about
    // to let that side go on, or has just put it to rest.
    let registers = unsafe {
        match processor::half_way(&*context.cast()) {
            Some(rests) => Registers::resting(rests),
            None => Registers::of(context),
        }
    };
    // SAFETY: this is the handler of a signal that interrupted this thread.
    if !unsafe { A::answer(registers) } {
        // SAFETY: passes the kernel's arguments on.
        unsafe { SIGNALS.pass_on(signal, info, context) };
    }
    // SAFETY: as above.
    unsafe { *errno = before };
}
