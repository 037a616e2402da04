//! Where an overflowed fiber was: code addresses, as far as a signal handler can tell them safely.
//!
//! Used by `native/overflow.rs`.
//!
//! Rust code keeps no frame pointers by default and unwinding is not async-signal-safe, so the
//! stack is scanned instead: a word that points into the program's code right behind a call
//! instruction is, nearly always, a return address. Some may be left over from calls that have
//! ended. Only the stack's own memory and the program's own code are read, both of which are
//! mapped. Addresses are printed as they stand in the program's file, so that `addr2line` resolves
//! them, with the names that the file's symbols have for them.

#![allow(unsafe_code)] // Reads the stack and code.

use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::ops::Range;

use super::objects::image;
use super::processor::follows_call;
use super::program::{Program, write_name};
use crate::platform::{Registers, Writer};

/// How many addresses are printed, and how far the scan goes.
const PRINTED: usize = 16;
const SCANNED: usize = 64 * 1024;

/// Looks the program's code up, ahead of any signal.
pub(crate) fn prepare() {
    image();
}

/// Prints the faulting instruction and the likely return addresses, innermost first.
///
/// # Safety
///
/// All of the stack is readable, and in use by the interrupted code of this thread, which is in the
/// handler of its fault, and does not return from there.
pub(crate) unsafe fn print(stack: Range<usize>, registers: &Registers, out: &mut Writer) {
    let image = image();
    if image.code.is_empty() {
        return;
    }
    let mut lines = Lines { addresses: [0; PRINTED + 1], len: 0, are_named: false };
    if image.code.contains(&registers.instruction) {
        lines.push(registers.instruction - image.base);
    }
    let word = size_of::<usize>();
    let mut place = registers.stack.max(stack.start).next_multiple_of(word);
    let end = stack.end.min(place + SCANNED);
    while place + word <= end && lines.len < lines.addresses.len() {
        // SAFETY: by the contract the stack is readable, and the code on that stack is interrupted.
        let value = unsafe { (place as *const usize).read_volatile() };
        let is_inside = (image.code.start + 8..image.code.end).contains(&value);
        // SAFETY: the 8 bytes before lie in the code, which is mapped.
        if is_inside && unsafe { follows_call(value) } {
            // The address of the call rather than of the next instruction, which may be another
            // function's.
            lines.push(value - 1 - image.base);
        }
        place += word;
    }
    let _ = writeln!(
        out,
        "It was here, called from here (addr2line -Cfie PROGRAM tells lines; calls may be missing or stale):"
    );
    out.flush();
    // SAFETY: the lines stay in place, and nobody else uses them meanwhile; `name_lines` is a
    // function of the right kind.
    unsafe { on_a_large_stack(name_lines, (&raw mut lines).cast()) };
    if !lines.are_named {
        for address in &lines.addresses[..lines.len] {
            let _ = writeln!(out, "  {address:#x}");
        }
    }
}

/// The lines to print, as addresses in the program's file.
struct Lines {
    addresses: [usize; PRINTED + 1],
    len: usize,
    are_named: bool,
}

impl Lines {
    fn push(&mut self, address: usize) {
        self.addresses[self.len] = address;
        self.len += 1;
    }
}

/// Prints the lines with the names of functions, if the program's file has any.
extern "C" fn name_lines(lines: *mut c_void) -> c_int {
    // SAFETY: `print` has passed its own lines, and waits.
    let lines = unsafe { &mut *lines.cast::<Lines>() };
    let Some(program) = Program::open() else { return 1 };
    if lines.addresses[..lines.len].iter().all(|address| program.function(*address).is_none()) {
        return 1;
    }
    let mut out = Writer::new();
    for &address in &lines.addresses[..lines.len] {
        let _ = write!(out, "  {address:#x}");
        if let Some(name) = program.function(address) {
            let _ = out.write_str(" ").and_then(|()| write_name(&mut out, name));
        }
        let _ = writeln!(out);
    }
    out.flush();
    lines.are_named = true;
    0
}

/// Calls `f` on a stack that is larger than a signal handler's, while this thread waits. Perhaps
/// `f` is not called, or does not come to its end.
///
/// A process of its own runs there, in this one's memory, made as by `posix_spawn`: the thread is
/// stopped until that process has ended. That process has the thread's own locals, but takes no
/// lock and allocates nothing, as a handler must not. A fault there ends that process and not more,
/// since the signal of the handler is blocked.
///
/// # Safety
///
/// Called in the handler of a fault. `f` may be called with `argument`, and is async-signal-safe
/// but for the size of its frames.
unsafe fn on_a_large_stack(f: extern "C" fn(*mut c_void) -> c_int, argument: *mut c_void) {
    const SIZE: usize = 1 << 20;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_NORESERVE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping where the kernel likes. The mapping stays: the process is about to
    // abort.
    let stack = unsafe { libc::mmap(std::ptr::null_mut(), SIZE, access, flags, -1, 0) };
    if stack != libc::MAP_FAILED {
        // SAFETY: the mapping's end, which is aligned to a page, begins a stack; the rest is by the
        // contract. No signal is sent at the end.
        unsafe { libc::clone(f, stack.byte_add(SIZE), libc::CLONE_VM | libc::CLONE_VFORK, argument) };
    }
}
