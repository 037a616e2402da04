//! What Unix systems have in common: memory from `mmap`, handlers of signals, keys of threads.
//!
//! | file | content |
//! | --- | --- |
//! | `memory` | reservations and access |
//! | `signals` | handlers in front of those that were there before |
//! | `faults` | the handler of a fault |
//! | `altstack` | a stack for that handler |
//! | `of_thread` | values that a thread keeps until after its thread-local variables |

use std::ffi::c_int;
use std::io;

mod altstack;
pub(crate) mod faults;
pub(crate) mod memory;
pub(crate) mod of_thread;
pub(super) mod signals;

pub use altstack::ensure_alternate_stack;

/// The result of a call of the C library.
pub(super) fn check(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
