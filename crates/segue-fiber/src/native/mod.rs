//! The host with real stacks: memory in slots, switches in assembly of our own.
//!
//! Used by the crate's root, which chooses a host; the interface is the same in `threaded`. The
//! system's part is `platform`.
//!
//! | file | content |
//! | --- | --- |
//! | `coroutine` | the cell at a slot's top, resume and suspend |
//! | `region` | the reservation, guards, giving memory back |
//! | `registry` | which addresses are guards, for a signal handler |
//! | `overflow` | the report that names the fiber |
//! | `segments` | from stack to stack: where a suspended coroutine is |
//! | `watch` | asking a running thread for its calls |
//! | `sample` | the copy that the asked thread makes |
//! | `symbols` | printed backtraces |
//! | `trim` | giving back memory below the frames of a running coroutine |

mod copies;
mod coroutine;
mod overflow;
mod region;
mod registry;
#[cfg(watches)]
mod sample;
mod segments;
mod symbols;
mod trim;
#[cfg(watches)]
mod watch;

pub use crate::platform::ensure_alternate_stack;
pub(crate) use crate::platform::memory::page_size;
pub(crate) use crate::platform::system::release_heap;
#[cfg(not(watches))]
pub use crate::unwatched::{Interrupted, Watched};
pub use copies::{Copied, StackCopies};
pub(crate) use coroutine::{Core, RawCoroutine, into_stack, let_go, place, take_apart};
pub use coroutine::{PASSES_ON, prefetch, prefetch_frames};
pub use overflow::install_overflow_handler;
pub(crate) use region::Region;
pub(crate) use symbols::write_stacks;
#[cfg(watches)]
pub use watch::{Interrupted, Watched};

/// Why a thread that was asked has no backtrace, where threads can't be asked.
#[cfg(not(watches))]
pub(crate) const NO_TRACES: &str = "no thread can be asked where it is on this system";
