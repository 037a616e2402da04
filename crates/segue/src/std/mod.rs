//! std's names for programs of threads: with these imports they are programs of fibers.
//!
//! ```
//! use segue::std::sync::{Arc, Mutex, mpsc};
//! use segue::std::thread;
//!
//! let total = Arc::new(Mutex::new(0));
//! let (send, receive) = mpsc::channel();
//! let adder = thread::spawn({
//!     let total = Arc::clone(&total);
//!     move || receive.iter().for_each(|n: u32| *total.lock().unwrap() += n)
//! });
//! (1..=4).for_each(|n| send.send(n).unwrap());
//! drop(send);
//! adder.join().unwrap();
//! assert_eq!(*total.lock().unwrap(), 10);
//! ```
//!
//! Types, functions and signatures are std's. `main` may stay: a plain thread waits as ever, and
//! spawns fibers of the default pool, which end with the process. A spawn in a fiber of a runtime
//! belongs to that runtime.
//!
//! Import by name: `use segue::*` would bring this module where the file says `std`.
//!
//! # Differences
//!
//! | | here |
//! | --- | --- |
//! | cancellation | std has no word for it. Where a wait returns an error that fits, a cancellation is that: an [`io::Error`], a `RecvError`. Other waits unwind, with the [`Cancelled`] as the payload; the panic hook is not called. Nobody cancels a fiber that is spawned here, except the end of its runtime, and the blocks around its code: a `timeout`, a scope |
//! | a lock in a `Drop`, while its fiber panics | if somebody has the lock, the thread waits, and not the fiber alone |
//! | `thread_local!` | is of the worker, which has many fibers |
//! | `thread::current` | the fiber |
//! | `park` | may not return without a reason |
//! | `println!` | blocks the worker for the length of the write |
//! | `fs` | on Linux; its types are not std's, and have the traits of `std::os::unix::fs`. A file locked by others is waited for by trying again |
//! | `process` | a `Child` that is dropped is waited for by the library. `CommandExt` is reached by `as_std_mut` |
//! | `Condvar`, `Mutex` | fair: first come, first served |
//! | `set_nonblocking` of sockets | is not here: for calls that must not wait there are `try_read`, `try_accept` and the like |
//! | an `impl` of `ToSocketAddrs` | can't be the program's own: pass the addresses |
//! | `mpmc`, `MappedMutexGuard`, `thread::Builder::spawn_unchecked` | are not here |
//!
//! Used by programs that are ported; others find more in [`crate::sync`], [`crate::channel`] and
//! [`crate::scope`], where cancellation is an error and waits can be chosen among.

#[cfg(all(feature = "io", any(target_os = "linux", target_os = "android")))]
pub mod fs;
#[cfg(feature = "io")]
pub mod net;
#[cfg(feature = "io")]
pub mod process;
pub mod sync;
pub mod thread;
pub mod time;

/// std's: its traits and buffers work with every stream.
pub mod io {
    pub use ::std::io::*;
}

use segue_core::Cancelled;
use std::panic::resume_unwind;

/// The result of a wait. A cancelled wait unwinds: std's signature has no error for that.
fn unless_cancelled<T>(result: Result<T, impl Into<Cancelled>>) -> T {
    result.unwrap_or_else(|cancelled| resume_unwind(Box::new(cancelled.into())))
}
