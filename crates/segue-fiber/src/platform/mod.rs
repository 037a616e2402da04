//! The system below real stacks. Everything that is of one system or processor is in this room, and
//! in `segue_core::switch`.
//!
//! Used by `native`, the host with real stacks. The host on threads needs nothing of this.
//!
//! # The parts of a port
//!
//! | part | provides | left out |
//! | --- | --- | --- |
//! | the switch | `segue_core::switch`, a file for each processor and calling convention | `build.rs` chooses the host on threads: a thread for each fiber |
//! | `memory`, `system` | address space that takes no memory, access to parts of it, its return; guards that split no mapping, if there are such; the bounds of a stack, told to a system that asks, where a coroutine begins and ends | needed. Without such guards a process has at most 28,000 stacks |
//! | `faults`, `Registers::of`, `ensure_alternate_stack` | a handler that gets the address of a fault and the interrupted stack pointer, with stack of its own; the standard error from there | a port may have a handler that is never called: an overflow of a stack then is a fault without a name |
//! | `trace`, `program` | the program's code, its calls and its names | reports of overflows without calls; backtraces with addresses |
//! | `unwind` | the calls on a stack | a backtrace has the place of each stack's rest alone |
//! | `asking` | a thread interrupts another one, which runs a function of ours | a thread's backtrace is empty and says so; reports of stuck workers are without a place |
//!
//! `build.rs` says which of these a target has. A port without one compiles and runs: the room
//! `without` stands in for the part.
//!
//! # To add a port
//!
//! A processor: its file in `segue_core::switch`, and one for the test of registers in
//! `crates/segue-core/tests/switch`; its file for each system here, with `interrupted` (the
//! registers of a signal's context) and, where these parts are there, `follows_call` and
//! `half_way`; its row in `build.rs`. A system: a folder here, with `system` and `processor` at
//! least. Then a row in docs/platforms.md, and a line in `.ci/platforms.sh`.

mod on_fault;
mod registers;
mod writer;

#[cfg(any(target_os = "macos", target_os = "freebsd"))]
mod bsd;
#[cfg(any(target_os = "macos", target_os = "freebsd"))]
use bsd as own;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as own;
#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as own;
#[cfg(unix)]
mod unix;
#[cfg(not(all(target_os = "linux", unwinds)))]
mod without;

pub(crate) use on_fault::OnFault;
#[cfg(watches)]
pub(crate) use own::asking;
pub(crate) use own::system;
#[cfg(unwinds)]
pub(crate) use own::unwind;
#[cfg(target_os = "linux")]
pub(crate) use own::{program, trace};
pub(crate) use registers::Registers;
#[cfg(unix)]
pub use unix::ensure_alternate_stack;
#[cfg(watches)]
pub(crate) use unix::of_thread;
#[cfg(unix)]
pub(crate) use unix::{faults, memory};
#[cfg(windows)]
pub use windows::ensure_alternate_stack;
#[cfg(windows)]
pub(crate) use windows::{faults, memory};
#[cfg(not(unwinds))]
pub(crate) use without::unwind;
#[cfg(not(target_os = "linux"))]
pub(crate) use without::{program, trace};
pub(crate) use writer::Writer;
