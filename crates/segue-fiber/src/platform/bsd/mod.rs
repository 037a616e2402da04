//! macOS and FreeBSD: memory, and the registers of interrupted code. Neither has been run.
//!
//! Neither has guard regions, so that a process has at most 28,000 stacks. Their loaders and
//! threads are not asked, so that backtraces have no calls. On macOS faults are signals here as
//! well: a debugger's handler of Mach exceptions comes first, and stays in place.
//!
//! | file | content |
//! | --- | --- |
//! | `system` | what reservations and advices are called |
//! | `macos`, `freebsd` | the registers, for both processors |

#[cfg_attr(target_os = "macos", path = "macos.rs")]
#[cfg_attr(target_os = "freebsd", path = "freebsd.rs")]
pub(super) mod processor;
pub(crate) mod system;

pub(super) use libc::ucontext_t as Context;
