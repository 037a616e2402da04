//! Linux: memory in batches, the loaded objects and their tables, and threads that are asked.
//!
//! | file | content |
//! | --- | --- |
//! | `system` | guard regions, ranges in batches, sizes |
//! | `x86_64`, `aarch64`, `riscv64` | what the processor knows of interrupted code |
//! | `objects` | the loaded objects |
//! | `program` | names of functions |
//! | `trace` | where code was that has overflowed, as far as can be told safely |
//! | `unwind` | the calls of one stack, from the program's unwind tables |
//! | `asking` | the interruption of another thread |

#[cfg(watches)]
pub(crate) mod asking;
mod objects;
pub(crate) mod program;
pub(crate) mod system;
pub(crate) mod trace;
#[cfg(unwinds)]
pub(crate) mod unwind;

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
pub(super) mod processor;

pub(super) use libc::ucontext_t as Context;
