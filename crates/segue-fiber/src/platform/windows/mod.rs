//! Windows on x86-64: stacks that the kernel grows, and the handler of their overflow.
//!
//! Windows accounts memory when that is committed, touched or not, and promises no more than there
//! is. So a fiber's stack is like a thread's: reserved, with two pages committed at its high end
//! and a guard page below. A touch of the guard page makes the kernel commit the next one below and
//! guard that instead, between the bounds in the thread's block, which the switch keeps true. A new
//! fiber is accounted with three pages, and each later one with those that its stack has had so
//! far.
//!
//! Near the low end the kernel raises an overflow instead, with the last pages of the slot's guard
//! for those that handle that. There are no signals and so no alternate stacks.
//!
//! | file | content |
//! | --- | --- |
//! | `memory` | reservations; the state of a stack that outlives its coroutines |
//! | `system` | giving memory back |
//! | `faults` | the handler of a fault |
//! | `x86_64` | the registers of interrupted code, the bounds in the thread's block |

pub(crate) mod faults;
pub(crate) mod memory;
#[path = "x86_64.rs"]
pub(super) mod processor;
pub(crate) mod system;

use std::io;

pub(super) use windows_sys::Win32::System::Diagnostics::Debug::CONTEXT as Context;

/// The result of a call of the system's.
fn check(result: i32) -> io::Result<()> {
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Does nothing: faults are handled on the stack that has faulted.
///
/// # Errors
///
/// None.
pub fn ensure_alternate_stack() -> io::Result<()> {
    Ok(())
}
