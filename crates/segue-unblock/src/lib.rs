//! Blocking crates, unmodified, in fibers: calls of the C library suspend a fiber that asks for
//! this.
//!
//! A client library that opens its own `std::net::TcpStream`, reads from it and sleeps in between
//! blocks the thread, and so all fibers of the worker. Inside of [`unblock`] such a library does
//! not: only the fiber waits.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::{TcpListener, TcpStream};
//!
//! /// Somebody's function that knows of no fibers.
//! fn answer(address: std::net::SocketAddr) -> std::io::Result<String> {
//!     let mut text = String::new();
//!     TcpStream::connect(address)?.read_to_string(&mut text)?;
//!     Ok(text)
//! }
//!
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let address = listener.local_addr()?;
//! let answered = segue::runtime().workers(1).run(|| {
//!     segue::try_scope(|s| {
//!         // SAFETY: it holds no lock, guard or borrow of its thread's while it reads or connects.
//!         let client = s.spawn(move || unsafe { segue_unblock::unblock(|| answer(address)) });
//!         // SAFETY: nor does this.
//!         unsafe { segue_unblock::unblock(|| listener.accept()?.0.write_all(b"hello")) }?;
//!         client.join().unwrap()
//!     })
//! })?;
//! assert_eq!(answered?, "hello");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Code that can be changed is better changed: [`segue_std`] has std's names, and
//! [`segue::blocking`] runs a call on another thread. Neither needs `unsafe`.
//!
//! [`segue_std`]: https://docs.rs/segue-std
//! [`segue::blocking`]: segue_core::blocking
//!
//! # The idea
//!
//! A program that is linked with this crate has the C library's blocking functions from here: a
//! static linker takes the first definition, for std and for C alike, and the dynamic one the
//! program's before the library's. The link alone is enough, also without a call: so each function
//! first looks for the request. The mark that says so lies in the running fiber's header. Without
//! that mark a function is the system call of its name, made directly. Segue's own calls are system
//! calls, too, and never come here.
//!
//! ```text
//!   read(fd, ..)
//!    |  no mark, or the fiber must not be suspended: the system call, as ever
//!    |  the descriptor does not block, or is a file or directory: likewise
//!    v
//!   try without waiting --done--> return
//!    |  it would block                ^
//!    v                                |
//!   wait for readiness, once --> try again, and pause where it is ready and denies that
//! ```
//!
//! Where a call can't be tried without waiting, a thread that a cancellation interrupts makes the
//! call.
//!
//! No flag of a descriptor is changed, and no table of them is kept. The wait is for a duplicate,
//! and the call goes on there: if its number is closed meanwhile, and given out again, the call
//! goes on with its original file, as one in the kernel would.
//!
//! # The functions
//!
//! | functions | how they wait |
//! | --- | --- |
//! | `read`, `readv`, `write`, `writev`, `__read_chk` | pipes, sockets, most events: by readiness. Terminals, counters and devices that can't be told not to wait: by readiness, then on another thread, so that a terminal reads by its own rules (`VMIN`, `VTIME`). Files and directories are passed through, also those of servers, and so are writes to descriptors 1 and 2, during which std holds a lock |
//! | `recv`, `recvfrom`, `recvmsg`, `recvmmsg`, `send`, `sendto`, `sendmsg`, `sendmmsg`, `__recv_chk`, `__recvfrom_chk` | by readiness; `SO_RCVTIMEO` and `SO_SNDTIMEO` are kept. A send goes on until all is sent, a receive with `MSG_WAITALL` until all is there; of lists, for each message |
//! | `connect`, `accept`, `accept4` | in the worker's ring. Without one, and for a connect of a Unix socket, on another thread; an accept of a ready listener |
//! | `poll`, `ppoll`, `select`, `epoll_wait`, `epoll_pwait`, `__poll_chk`, `__ppoll_chk` | for all at once. With a mask of signals they are passed through |
//! | `nanosleep`, `clock_nanosleep`, `sleep`, `usleep` | on the scheduler's clock, which a simulator moves. A signal ends none |
//! | `getaddrinfo` | on another thread |
//!
//! A descriptor may be ready for the kernel and not for the call: that of a socket with a queue of
//! errors, of a datagram for a full queue, of a peek beyond the last byte. Then the call is tried
//! again up to 16 ms later, so that data may come as much later.
//!
//! Not caught, and so blocking: file locks, the opening of a named pipe, `splice` and `sendfile`
//! (which `std::io::copy` uses where possible), `tcdrain`, `waitpid`, `pause` and the like; locks
//! and condition variables; calls by number in C; calls of the C library inside of its own
//! functions, as `fread`. [`waits`] tells whether anything was caught.
//!
//! # Cancellation
//!
//! A call of a cancelled fiber fails with `ECANCELED`, which
//! [`Cancelled::caused`](segue_core::Cancelled::caused) knows; the reason stays behind. The call
//! returns the bytes that were sent before that, or before a time-out. A sleep ends early instead
//! and reports a full sleep, since std panics at any other end; the next call fails.
//!
//! Every wait ends so, with others of its worker and after others: no deadline, end of a scope or
//! shutdown is held up by the event that a call awaits. A call on another thread is interrupted,
//! *no effect*; where the kernel does not listen, the call is left behind, and *may already have
//! happened*. A lookup of a name is left behind likewise, and its answer is dropped. A connect goes
//! on by itself.
//!
//! # The contract of the functions
//!
//! Each `extern "C"` function here has the contract of the C library's function of its name, for
//! all its callers: the targets of its pointers are there, with the given lengths, until the call
//! returns, and may be written where the kernel would. A `SAFETY:` comment that names "the contract
//! of this function", or says "the caller's", cites this section.
//!
//! # Platforms
//!
//! Linux on 64-bit processors, linked with the C library as a library of its own. Sanitizers define
//! the same functions: a build with one refuses this crate. A library that others load (a `cdylib`)
//! should not have this crate: its host would get these functions, too.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("segue-unblock is for Linux on 64-bit processors: leave it out of builds for other systems");

mod buffers;
mod bytes;
mod call;
mod connections;
mod descriptor;
mod errno;
mod mark;
mod messages;
mod names;
mod patience;
mod raw;
mod several;
mod sleeps;
mod sockets;
mod transfer;

/// Runs `f`, in which the C library's calls that would block suspend the calling fiber. On a plain
/// thread this only runs `f`.
///
/// The mark is the fiber's: the others of its worker are unchanged, and fibers that `f` spawns, or
/// code that moves to another scheduler's thread, are outside. Whether the second half of a `join`
/// is inside depends on its worker. Nested ones are one; in [`no_suspend`](segue_core::no_suspend),
/// and while the fiber panics, calls are plain, whichever is around the other. In the child of a
/// `fork`, too.
///
/// This is an operation: no computation is captured across it by an effect or a generator.
///
/// # Safety
///
/// Other fibers of the same thread run while a call in `f` waits. The caller vouches for the code
/// in `f`, and all that this calls, that across a call that may wait
///
/// * the code holds no lock of std's or of C's that a fiber of this thread may ask for: a mutex,
///   the locks of standard streams, the lock of a one-time initialisation. The thread would wait
///   for itself. A lock that lets its own thread in twice lets the other fiber in;
/// * the code is inside of no `LocalKey::with`, no initialiser of a thread-local variable, no guard
///   that relies on the frames of its thread ending in reverse order (as `scoped-tls`), and has no
///   `RefCell` of the thread's borrowed. These are the [limits][soundness] of all fibers, which
///   code that is written for fibers heeds and other code does not know;
/// * the code expects no per-thread value to stay: an error queue of a C library, a "current"
///   something, the working directory of the thread, its mask of signals, its priority;
///
/// and that
///
/// * no signal handler that may interrupt the code makes one of these calls on a descriptor that
///   blocks: the fiber would be suspended in the middle of the handler. Calls that do not block are
///   passed through, as the pipes of `signal-hook` are;
/// * the code does not leave a frame that waits, by `longjmp` or by ending the thread; and nobody
///   cancels the thread by `pthread_cancel`;
/// * the child of a `vfork`, or of another `clone` that has this memory for its own, makes none of
///   these calls before its `exec`: such a call would suspend the fiber of its parent. The child of
///   a `fork` may, and std's `Command` and `posix_spawn` make none;
/// * the code fits on the fiber's stack.
///
/// Code that breaks the first of these stands still rather than corrupts; the worker's monitor
/// reports that.
///
/// [soundness]: https://docs.rs/segue
///
/// # Cancellation
/// `f` sees the caller's, as `ECANCELED`; the result of `f` is returned.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// let naps = segue::run(|| {
///     // SAFETY: `sleep` holds nothing.
///     let nap = || unsafe { segue_unblock::unblock(|| std::thread::sleep(Duration::from_millis(20))) };
///     let before = std::time::Instant::now();
///     segue::scope(|s| (0..100).for_each(|_| drop(s.spawn(nap))));
///     before.elapsed()
/// });
/// assert!(naps < Duration::from_millis(2_000), "they slept one after the other");
/// ```
#[track_caller]
#[allow(unsafe_code, reason = "what it asks for is its caller's promise")]
pub unsafe fn unblock<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: `enter` has the contract of this function.
    unsafe { mark::enter(f) }
}

/// How often a call has waited by suspending its fiber, in this process so far. Never waits.
///
/// For tests: calls that were not caught have not counted.
///
/// # Examples
///
/// ```standalone_crate
/// let before = segue_unblock::waits();
/// std::thread::sleep(std::time::Duration::from_millis(1));
/// assert_eq!(segue_unblock::waits(), before);
/// ```
#[must_use]
pub fn waits() -> u64 {
    call::waits()
}
