//! The host with real stacks: memory from `mmap`, switches in assembly of our own.
//!
//! Used by the crate's root, which chooses a host; the interface is the same in `threaded`.
//!
//! | file | content |
//! | --- | --- |
//! | `coroutine` | the cell at a slot's top, resume and suspend |
//! | `half_way` | a thread that was interrupted in the middle of a switch |
//! | `region` | the reservation, guards, giving memory back |
//! | `registry` | which addresses are guards, for a signal handler |
//! | `signals` | handlers in front of those that were there before |
//! | `overflow` | the handler that names the fiber |
//! | `trace` | where that fiber was, as far as can be told safely |
//! | `altstack` | a stack for the handler itself |
//! | `of_thread` | values that a thread keeps until after its thread-local variables |
//! | `registers` | the beginning of an unwind |
//! | `objects` | the loaded objects |
//! | `unwind` | the calls of one stack, from the program's unwind tables |
//! | `segments` | from stack to stack: where a suspended coroutine is |
//! | `watch` | asking a running thread for its calls |
//! | `sample` | the copy that its signal handler makes |
//! | `symbols` | names of functions, for reports |
//! | `trim` | giving back memory below the frames of a running coroutine |
//! | `sys` | the system calls |

mod altstack;
mod coroutine;
mod half_way;
mod objects;
mod of_thread;
mod overflow;
mod region;
mod registers;
mod registry;
mod sample;
mod segments;
mod signals;
mod symbols;
mod sys;
mod trace;
mod trim;
mod unwind;
mod watch;
mod writer;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!(
    "segue-fiber switches stacks on x86_64 and aarch64; elsewhere only its feature `threads` works, which is for tests"
);

pub use altstack::ensure_alternate_stack;
pub(crate) use coroutine::{Core, RawCoroutine, into_stack, let_go, place, take_apart};
pub use coroutine::{PASSES_ON, prefetch, prefetch_frames};
pub use overflow::install_overflow_handler;
pub(crate) use region::Region;
pub(crate) use symbols::write_stacks;
pub(crate) use sys::{page_size, release_heap};
pub use watch::Watched;
