//! Turns a fault in a guard into a message that names the fiber, and an abort.
//!
//! Used by schedulers, which call [`install_overflow_handler`] when they start.
//!
//! The platform's handler (`platform/unix/faults.rs`) calls this on the thread's alternate stack,
//! where nothing but async-signal-safe functions may be called: this looks the address up in a list
//! that only grows, formats into a small buffer and calls `write`. (To format numbers and texts,
//! `core` takes no lock and allocates nothing.) Names of functions take deeper calls: those are
//! made on a stack of their own (`trace`). A fault counts as an overflow if the address lies in a
//! guard *and* the interrupted stack pointer lies in the same slot; a stray pointer into a guard is
//! somebody else's fault. Everything else goes to the handler which was there before, std's for
//! instance, or back to the default.

#![allow(unsafe_code)] // Signal handling.

use std::fmt::{self, Write};
use std::io;
use std::str;

use super::registry::{self, Slot};
use crate::platform::{OnFault, Registers, Writer, faults, trace};

/// Makes a stack overflow of a coroutine print a message with its
/// [label](crate::Coroutine::set_label) and abort.
///
/// Without this handler such an overflow is a bare SIGSEGV. Installed once for the process; later
/// calls do nothing. Faults that are no overflow go to the handler that was installed before.
/// Threads which were not made by `std` also need
/// [`ensure_alternate_stack`](crate::ensure_alternate_stack).
///
/// # Errors
///
/// The kernel refuses a signal handler, without a reason to do so.
pub fn install_overflow_handler() -> io::Result<()> {
    trace::prepare();
    faults::install::<Guards>()
}

/// The faults of this crate's guards.
struct Guards;

impl OnFault for Guards {
    unsafe fn fault(address: usize, registers: &Registers) {
        // Another process may have sent the signal, with any address: that serves only to look up a
        // slot, and only a slot with the stack pointer in it is used.
        if let Some(slot) = registry::find(address)
            && address < slot.bottom
            && (slot.start..slot.top).contains(&registers.stack)
        {
            // SAFETY: the interrupted stack pointer lies in the slot: its coroutine is running
            // here.
            unsafe { report(&slot, registers) };
            faults::abort();
        }
    }
}

/// # Safety
///
/// The thread runs on the slot's stack, interrupted by the handler.
unsafe fn report(slot: &Slot, registers: &Registers) {
    // SAFETY: by the contract.
    let label = unsafe { slot.label() };
    let mut out = Writer::new();
    let name = Printable(str::from_utf8(label.name()).unwrap_or_default());
    // Nothing fails that only writes to this.
    let _ = match label.id() {
        Some(id) if name.0.is_empty() => write!(out, "\nfiber ({id})"),
        Some(id) => write!(out, "\nfiber '{name}' ({id})"),
        None => write!(out, "\nthe body of an effect handler or of a generator"),
    };
    let size = (slot.top - slot.bottom) / 1024;
    let means = match label.id() {
        Some(_) => "Builder::stack_size for this fiber, StackConfig::slot_size for all of its scheduler",
        None => "Handler::stack_size or generator_with_stack for this one",
    };
    // The guard takes less than a slot.
    let larger = 2 * (size + 1).next_power_of_two();
    let _ = writeln!(
        out,
        " overflowed its stack of {size} KiB: unbounded recursion, or too small a stack.\n\
         To enlarge it: {means}, SEGUE_STACK_SIZE={larger}K in the environment for the process. Aborting."
    );
    // SAFETY: by the contract.
    unsafe { trace::print(slot.bottom..slot.top, registers, &mut out) };
    out.flush();
}

/// A name, without characters that could confuse a terminal.
struct Printable<'a>(&'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| f.write_char(if char.is_ascii_control() { '?' } else { char }))
    }
}
