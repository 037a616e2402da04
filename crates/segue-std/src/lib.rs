//! A program of threads becomes one of fibers, by one line in its root:
//!
//! ```
//! extern crate segue_std as std;
//!
//! use std::sync::{Arc, Mutex, mpsc};
//! use std::thread;
//!
//! fn main() {
//!     let total = Arc::new(Mutex::new(0));
//!     let (send, receive) = mpsc::channel();
//!     let adder = thread::spawn({
//!         let total = Arc::clone(&total);
//!         move || receive.iter().for_each(|n: u32| *total.lock().unwrap() += n)
//!     });
//!     (1..=4).for_each(|n| send.send(n).unwrap());
//!     drop(send);
//!     adder.join().unwrap();
//!     println!("{}", total.lock().unwrap());
//! #   assert_eq!(*total.lock().unwrap(), 10);
//! }
//! ```
//!
//! The line shadows the `std` of this crate, in all of its modules and also in paths that begin
//! with `::std`. [`fs`], [`io`], [`net`], [`process`], [`sync`], [`thread`], [`time`] and
//! `os::unix` have Segue's types in front and std's behind; all else is std's. Signatures are
//! std's. Macros and derives go on as before.
//!
//! The line is for editions 2018 to 2024, for a program and for a library alike. Other crates keep
//! std's names: give each the line, or see "Crates in between". In edition 2015 the compiler
//! refuses the line: change the edition first.
//!
//! ```compile_fail,E0259,edition2015
//! extern crate segue_std as std;
//!
//! fn main() {}
//! ```
//!
//! `main` may stay: a plain thread waits as ever, and spawns fibers of the default pool, which end
//! with the process. A spawn in a fiber of a runtime belongs to that runtime.
//!
//! # Differences
//!
//! | | here |
//! | --- | --- |
//! | cancellation | std has no word for it. Where a wait returns an error that fits, a cancellation is that: an [`io::Error`], a `RecvError`. Other waits unwind, with the [`Cancelled`](segue::Cancelled) as the payload; the panic hook is not called. A fiber that is spawned here is cancelled by the end of its runtime, and by the blocks around its code: a `timeout`, a scope |
//! | a wait in a `Drop`, while its fiber unwinds | the thread waits, with all fibers that have started there: for ever, if one of these is to act, or a fiber that has not started, where there is no other worker. A `spawn` never waits, and its fiber runs later. No cancellation shows there, but for the end of a `shield_for`'s budget, which ends the process if the wait is not for a lock. A wait that returns an error fails at once |
//! | `thread_local!` | is of the worker, which has many fibers |
//! | `thread::current` | the fiber |
//! | `park` | returns for its token alone |
//! | `fs` | on Linux; its types are not std's, and have the traits of `std::os::unix::fs`. A file locked by others is waited for by trying again |
//! | `process` | a `Child` that is dropped is waited for by the library |
//! | `Condvar`, `Mutex` | fair: first come, first served |
//! | `set_nonblocking` of sockets | is not here: for calls that must not wait there are `try_read`, `try_accept` and the like |
//! | `into_raw_fd` of sockets and pipes | is not here: `OwnedFd::try_from(stream)`, which can fail, and then `into_raw_fd` |
//! | `mpmc`, `MappedMutexGuard`, `thread::Builder::spawn_unchecked` | are not here |
//!
//! # Names that stay std's, and block
//!
//! A call of one of these stops the worker with all its fibers, and nothing but the monitor of a
//! debug build tells of that. Clippy does of calls to the disk and of `spin_loop`, with the
//! project's list `docs/clippy.toml` beside the `Cargo.toml`, by its lint `disallowed_methods`.
//!
//! | std's | blocks | instead |
//! | --- | --- | --- |
//! | `print!`, `println!`, `eprint!`, `eprintln!`, `dbg!`, `io::stdout`, `io::stderr` | for the length of a write, which a full pipe or a stopped terminal draws out | [`segue::stdio`] |
//! | `hint::spin_loop` in a loop | until another thread acts; if a fiber of the same worker is to act, for ever | `thread::yield_now` in the loop |
//! | `net::ToSocketAddrs` of another crate's type | for a look-up | the address as text |
//! | `Path::exists`, `try_exists`, `is_file`, `is_dir`, `is_symlink`, `metadata`, `symlink_metadata`, `canonicalize`, `read_link`, `read_dir` | for a call to the disk | the functions of [`fs`], or [`segue::blocking`] |
//! | `os::unix::fs::symlink`, `chown`, `lchown`, `fchown`, `chroot`, `fs::soft_link`, `env::current_exe`, `env::set_current_dir` | for a call to the disk | [`segue::blocking`] |
//! | all of `fs`, where the system is not Linux | for a call to the disk | [`segue::blocking`] |
//! | a lock, a channel or a socket of another crate, which has std's | as the crate says | see below |
//!
//! # Crates in between
//!
//! A crate without the line has std's types. A type that the program shares with such a crate has
//! to be the same in both, and the compiler says where it is not: an [`Instant`](time::Instant)
//! converts both ways, streams have `into_std` and `from_std`, an `Arc` and the atomics are std's
//! either way.
//!
//! A macro is written out in the crate that uses the macro. There `::std::sync::Mutex` means what
//! that crate means by `std`. So a crate with the line, which exports a macro, writes `$crate`
//! with a re-export of its own for the types that the crate takes back.
//!
//! # `no_std`
//!
//! A crate that is `no_std`, and says `extern crate std;` where it needs to, has the line in place
//! of that, with the same attributes: `#[macro_use]` brings std's macros.
//!
//! Used by programs that are ported; others find more in [`segue::sync`], [`segue::channel`] and
//! [`segue::scope`], where cancellation is an error and waits can be chosen among.

#[doc(no_inline)]
pub use std::*;

mod cancelled;
pub mod fs;
pub mod io;
pub mod net;
pub mod os;
pub mod process;
pub mod sync;
pub mod thread;
pub mod time;

/// The programs of `docs/porting.md`, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/porting.md")]
pub struct PortingDoctests;
