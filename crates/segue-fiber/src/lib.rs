//! Stacks and the switch between them.
//!
//! This crate knows no scheduling. It makes stacks cheap ([`StackArena`], [`StackPool`]), runs a
//! function on one ([`Coroutine`]) and switches between that function and its resumer. Schedulers
//! use that; applications use schedulers, and other things made of stacks: [effect
//! handlers](effect) and [generators](generator()).
//!
//! ```
//! use std::cell::Cell;
//! use std::ptr::NonNull;
//! use segue_fiber::{Coroutine, StackArena, StackConfig, StackPool, Step, suspend};
//!
//! // What a scheduler wants to know of a fiber lies at the top of the fiber's own stack.
//! struct Header {
//!     me: Cell<Option<NonNull<Header>>>,
//!     steps: Cell<u32>,
//! }
//!
//! let mut pool = StackPool::new(StackArena::new(StackConfig::new())?);
//! let header = Header { me: Cell::new(None), steps: Cell::new(0) };
//! let mut fiber = Coroutine::new(pool.take()?, header, |header: &Header| {
//!     for _ in 0..3 {
//!         header.steps.set(header.steps.get() + 1);
//!         // SAFETY: the pointer is the header's of this very coroutine, which is running.
//!         unsafe { suspend(header.me.get().unwrap()) };
//!     }
//! });
//! fiber.header().me.set(Some(fiber.header_ptr()));
//! while fiber.resume() == Step::Suspended {}
//! let (header, stack) = fiber.finish();
//! assert_eq!(header.steps.get(), 3);
//! pool.put(stack);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # The interface
//!
//! | | |
//! | --- | --- |
//! | [`StackConfig`] | slot size, number, guards, warm stacks |
//! | [`StackArena::new`] | reserves address space once; shared |
//! | [`StackPool`]: `new`, `take`, `put`, `trim` | a worker's own stacks, last in, first out |
//! | [`Stack`]: `number`, `bounds`, `arena` | one slot; its drop returns the slot to the arena |
//! | [`Coroutine`]`<H>`: `new`, `resume`, `finish`, `into_stack` | a function on a stack, with a header `H` above |
//! | `header`, `header_ptr`, `into_header`, `from_header`, `set_label` | one pointer, for intrusive queues; a name for crash reports |
//! | [`thread_stacks`] | a pool for each thread, for coroutines that belong to no scheduler |
//! | [`effect`]: `perform`, `Handler`, `Continuation` | effect handlers; [`multi`] for those that resume more than once |
//! | [`generator()`], [`region()`] | iterators made of code that visits; a block in which they and continuations may borrow |
//! | [`incremental`]: `push`, `Machine`, `Feed` | push parsers made of code that reads |
//! | [`suspend`], [`begin_suspend`] | from inside: back to the resumer |
//! | [`pass_on`] | from inside: another one goes on instead |
//! | [`Step`], [`leaked_stacks`] | the end of a resume; a count that should be 0 |
//! | [`Coroutine::backtrace`], [`Watched`] | where a suspended coroutine is, and where a running thread is: a [`Backtrace`] |
//! | [`install_overflow_handler`], [`ensure_alternate_stack`] | names the fiber that overflowed |
//! | [`host()`] | whether coroutines have stacks or threads in this build |
//!
//! # Why this is sound
//!
//! - *A stack has one owner.* A [`Stack`] is a slot's number, which is in one place at a time; a
//!   coroutine swallows the stack and gives it back after its function returned.
//! - *A started stack is never freed or reused before its function returned.* Other code may borrow
//!   frames there (a scope, a kernel's buffer). The drop of a suspended coroutine leaks the stack
//!   and counts the leak; nothing unwinds a suspended stack from outside.
//! - *A coroutine stays on its thread.* [`Coroutine`] is not `Send`: nobody can check that a stack
//!   holds only values which are, and compilers keep thread-local addresses in registers across a
//!   switch.
//! - *Only a suspended or new coroutine can be resumed.* One that has returned is refused. A
//!   running one is mutably borrowed by the very call that runs it.
//! - *Only a running one can be suspended*, which is not checked: [`suspend`] is unsafe, and states
//!   its demands.
//! - *No unwind crosses a switch.* A panic that leaves a coroutine's function aborts the process.
//! - *A stack that is too small faults*: the guard at its bottom is inaccessible, and Rust touches
//!   each page of a frame on the way down.
//!
//! # Two hosts
//!
//! With the feature `threads`, and on processors and systems for which there is no switch, each
//! coroutine is an OS thread, and exactly one of them runs at a time. The interface and the tests
//! are the same; no memory is mapped and nothing switches stacks, so that all logic above this
//! crate runs under Miri and the sanitizers, and everywhere. This host is slow, and thread-local
//! variables differ between coroutines. [`host()`] says which one a build has.

mod arena;
mod backtrace;
mod config;
mod coroutine;
pub mod effect;
mod generator;
mod hosts;
pub mod incremental;
pub mod multi;
mod outcome;
mod passing;
#[cfg(not(threads))]
mod platform;
mod pool;
mod region;
pub mod thread_stacks;
mod unanswered;
#[cfg(not(watches))]
mod unwatched;

// The one place that chooses the host; `build.rs` says which one this is.
#[cfg(not(threads))]
#[path = "native/mod.rs"]
mod host;
#[cfg(threads)]
#[path = "threaded/mod.rs"]
mod host;

pub use arena::{Stack, StackArena};
pub use backtrace::{Backtrace, StackOwner, StackTrace};
pub use config::StackConfig;
pub use coroutine::{Coroutine, begin_suspend, suspend};
pub use generator::{Generator, Yielder, generator, generator_with_stack};
pub use host::{
    Copied, Interrupted, PASSES_ON, StackCopies, Watched, ensure_alternate_stack, install_overflow_handler, prefetch,
    prefetch_frames,
};
pub use hosts::{Host, host};
pub use outcome::{Step, leaked_stacks};
pub use passing::pass_on;
pub use pool::StackPool;
pub use region::{Region, region};
pub use unanswered::Unanswered;
