//! Fibers, plain threads, async tasks and rayon jobs that wait for each other.
//!
//! Used by programs in which Segue meets another runtime. Much of that needs no bridge: whatever
//! runs can wait at Segue's structures, since a wait suspends a fiber, parks a thread, and is
//! awaited by a task. This crate has the rest: waits for things that are not Segue's.
//!
//! # How each waits for the others
//!
//! | the waiter | waits for a structure of Segue's | for a `Future` | for a fiber | for a rayon job |
//! | --- | --- | --- | --- | --- |
//! | fiber, plain thread | `x()` | [`wait`]`(future)`; `tokio::wait` for one that needs tokio | `JoinHandle::join` | `rayon::run` |
//! | task of tokio, smol, any executor | `x_source().await` | `.await` | [`direct`]`(..).await` | `direct(..)` around `rayon::run` |
//! | task of an executor that stays on one thread | `x_source().await` | `.await` | [`direct_local`]`(..).await` | the same |
//! | rayon job | `x()` parks the worker; `rayon::wait_yielding` runs other jobs meanwhile | the same | `join` parks the worker | `rayon::join` |
//!
//! Executors that are not named need nothing of their own: smol and those of `futures` are in the
//! tests. Calls from async code that may wait have to be awaited there, as a *source*; the direct
//! forms would block the executor's thread.
//!
//! # Examples
//!
//! Straight-line code calls an async library, and a task calls straight-line code:
//!
//! ```
//! use segue_bridge::{direct, wait};
//!
//! async fn library(n: u32) -> u32 {
//!     n + 1
//! }
//!
//! fn straight_line() -> u32 {
//!     wait(library(20)).unwrap() + wait(library(20)).unwrap()
//! }
//!
//! let sum = futures::executor::block_on(async {
//!     // On a fiber of its own, since it waits.
//!     direct(straight_line).await.unwrap()
//! });
//! assert_eq!(sum, 42);
//! ```
//!
//! # Features
//!
//! None by default: `tokio`, `rayon` and `orx-parallel` bring these crates in, and with them the
//! modules of the same names; `streams` has the module of that name, for the traits `Stream` and
//! `Sink`, and `codec` that for `Decoder`.
#![forbid(unsafe_code)]

#[cfg(feature = "codec")]
pub mod codec;
mod direct;
#[cfg(feature = "orx-parallel")]
pub mod orx_parallel;
#[cfg(feature = "rayon")]
pub mod rayon;
#[cfg(feature = "streams")]
pub mod streams;
#[cfg(feature = "tokio")]
pub mod tokio;

pub use direct::{Direct, direct, direct_as, direct_on};
pub use segue_core::wait_future as wait;
pub use segue_sched::{Hosted, hosted as direct_local, hosted_as as direct_local_as};
