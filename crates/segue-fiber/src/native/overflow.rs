//! Turns a fault in a guard into a message that names the fiber, and an abort.
//!
//! Used by schedulers, which call [`install_overflow_handler`] when they start.
//!
//! The handler runs on the thread's alternate stack, where nothing but async-signal-safe functions
//! may be called: it looks the address up in a list that only grows, formats into a small buffer by
//! hand and calls `write`. Names of functions take deeper calls: those are made on a stack of their
//! own (`trace`). A fault counts as an overflow if the address lies in a guard *and* the
//! interrupted stack pointer lies in the same slot; a stray pointer into a guard is somebody else's
//! fault. Everything else goes to the handler which was there before, std's for instance, or back
//! to the default.

#![allow(unsafe_code)] // Signal handling.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::io;
use std::mem;
use std::ptr;
use std::sync::OnceLock;

use super::registers::Registers;
use super::registry::{self, Slot};
use super::trace;

/// What was installed before, for SIGSEGV and SIGBUS. Set before the handler can run.
static PREVIOUS: OnceLock<[libc::sigaction; 2]> = OnceLock::new();

const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Makes a stack overflow of a coroutine print a message with its
/// [label](crate::Coroutine::set_label) and abort.
///
/// Without it such an overflow is a bare SIGSEGV. Installed once for the process; later calls do
/// nothing. Faults that are no overflow go to the handler that was installed before. Threads which
/// were not made by `std` also need [`ensure_alternate_stack`](crate::ensure_alternate_stack).
///
/// # Errors
///
/// The kernel refuses a signal handler, which it has no reason to do.
pub fn install_overflow_handler() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), c_int>> = OnceLock::new();
    INSTALLED.get_or_init(install).map_err(io::Error::from_raw_os_error)
}

fn install() -> Result<(), c_int> {
    let errno = || io::Error::last_os_error().raw_os_error().unwrap_or(0);
    trace::image();
    let mut previous = [empty_action(), empty_action()];
    for (signal, previous) in SIGNALS.into_iter().zip(&mut previous) {
        // SAFETY: only reads the present action into a place of ours.
        if unsafe { libc::sigaction(signal, ptr::null(), previous) } != 0 {
            return Err(errno());
        }
    }
    let _ = PREVIOUS.set(previous);
    let mut action = empty_action();
    action.sa_sigaction = handle as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // Both handlers of this crate use the thread's alternate stack: not the other on top of this
    // one.
    // SAFETY: a set of signals in a structure of ours.
    unsafe { libc::sigaddset(&mut action.sa_mask, super::watch::SIGNAL) };
    for signal in SIGNALS {
        // SAFETY: `handle` has the signature that SA_SIGINFO asks for and is async-signal-safe.
        if unsafe { libc::sigaction(signal, &action, ptr::null_mut()) } != 0 {
            return Err(errno());
        }
    }
    Ok(())
}

/// The default action, without flags.
pub(super) fn empty_action() -> libc::sigaction {
    // SAFETY: a C structure of integers, a set of bits and an optional function pointer, all of
    // which may be zero: the default action, no flags, an empty mask.
    unsafe { mem::zeroed() }
}

unsafe extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes valid pointers with SA_SIGINFO, and these signals have an address
    // when they come from a fault. If another process sent the signal, the bytes are the sender's
    // choice: still a number, which serves only to look up a slot, and only a slot with the stack
    // pointer in it is used.
    let (address, registers) = unsafe { ((*info).si_addr() as usize, Registers::of(context)) };
    if let Some(slot) = registry::find(address)
        && address < slot.bottom
        && (slot.start..slot.top).contains(&registers.stack)
    {
        // SAFETY: the interrupted stack pointer lies in the slot: its coroutine is running here.
        unsafe { report(&slot, &registers) };
        // SAFETY: async-signal-safe by POSIX.
        unsafe { libc::abort() };
    }
    // SAFETY: passes on what came from the kernel.
    unsafe { chain(signal, info, context) };
}

/// # Safety
///
/// The thread runs on the slot's stack, interrupted by the handler.
unsafe fn report(slot: &Slot, registers: &Registers) {
    // SAFETY: by the contract.
    let label = unsafe { slot.label() };
    let mut out = Writer::new();
    if let Some(id) = label.id() {
        out.text(b"\nfiber ");
        if !label.name().is_empty() {
            out.text(b"'");
            out.printable(label.name());
            out.text(b"' ");
        }
        out.text(b"(");
        out.decimal(id);
        out.text(b")");
    } else {
        out.text(b"\nthe body of an effect handler or of a generator");
    }
    let size = (slot.top - slot.bottom) / 1024;
    out.text(b" overflowed its stack of ");
    out.decimal(size as u64);
    out.text(b" KiB: unbounded recursion, or too small a stack.\n");
    out.text(match label.id() {
        Some(_) => {
            b"To enlarge it: Builder::stack_size for this fiber, StackConfig::slot_size for all of its scheduler, "
                as &[u8]
        }
        None => b"To enlarge it: Handler::stack_size or generator_with_stack for this one, ",
    });
    out.text(b"SEGUE_STACK_SIZE=");
    // The guard takes less than a slot.
    out.decimal((2 * (size + 1).next_power_of_two()) as u64);
    out.text(b"K in the environment for the process. Aborting.\n");
    // SAFETY: by the contract.
    unsafe { trace::print(slot, registers, &mut out) };
    out.flush();
}

/// Hands a fault to the handler that was there before us.
///
/// # Safety
///
/// The arguments are those of a signal handler that is running.
unsafe fn chain(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let index = usize::from(signal != SIGNALS[0]);
    // SAFETY: by the contract.
    if PREVIOUS.get().is_some_and(|both| unsafe { call(&both[index], signal, info, context) }) {
        return;
    }
    // Back to the default; the faulting instruction runs again when this returns, and the process
    // dies as it would have without us. If the signal was sent rather than caused, it has to be
    // sent again.
    // SAFETY: all of these are async-signal-safe, and the pointers are valid.
    unsafe {
        libc::sigaction(signal, &empty_action(), ptr::null_mut());
        if (*info).si_code <= 0 {
            libc::raise(signal);
        }
    }
}

/// Calls the handler of an action, if that has one.
///
/// # Safety
///
/// The action was in force for this signal, and the arguments are those of a signal handler that is
/// running.
pub(super) unsafe fn call(
    action: &libc::sigaction,
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) -> bool {
    if action.sa_sigaction == libc::SIG_DFL || action.sa_sigaction == libc::SIG_IGN {
        return false;
    }
    // SAFETY: a handler of the signature that its flags say, as it was registered, called with what
    // it would have got.
    unsafe {
        if action.sa_flags & libc::SA_SIGINFO != 0 {
            let handler: unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                mem::transmute(action.sa_sigaction);
            handler(signal, info, context);
        } else {
            let handler: unsafe extern "C" fn(c_int) = mem::transmute(action.sa_sigaction);
            handler(signal);
        }
    }
    true
}

impl fmt::Write for Writer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.printable(text.as_bytes());
        Ok(())
    }
}

/// Writes to standard error from a signal handler, through a small buffer.
pub(super) struct Writer {
    buffer: [u8; 256],
    len: usize,
}

impl Writer {
    pub fn new() -> Self {
        Self { buffer: [0; 256], len: 0 }
    }

    pub fn text(&mut self, text: &[u8]) {
        for &byte in text {
            if self.len == self.buffer.len() {
                self.flush();
            }
            self.buffer[self.len] = byte;
            self.len += 1;
        }
    }

    /// A name, without what could confuse a terminal.
    fn printable(&mut self, text: &[u8]) {
        for &byte in text {
            self.text(&[if byte < b' ' || byte == 127 { b'?' } else { byte }]);
        }
    }

    pub fn decimal(&mut self, number: u64) {
        self.number::<10>(number);
    }

    pub fn hexadecimal(&mut self, number: u64) {
        self.text(b"0x");
        self.number::<16>(number);
    }

    fn number<const BASE: u64>(&mut self, mut number: u64) {
        let mut digits = [0; 20];
        let mut start = digits.len();
        loop {
            start -= 1;
            digits[start] = b"0123456789abcdef"[(number % BASE) as usize];
            number /= BASE;
            if number == 0 {
                break;
            }
        }
        self.text(&digits[start..]);
    }

    pub fn flush(&mut self) {
        let mut rest = &self.buffer[..self.len];
        while !rest.is_empty() {
            // SAFETY: async-signal-safe; the slice is valid.
            let written = unsafe { libc::write(2, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written) {
                Ok(written) if written > 0 => rest = &rest[written..],
                _ => break,
            }
        }
        self.len = 0;
    }
}
