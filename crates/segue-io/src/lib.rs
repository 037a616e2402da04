//! Drivers that wait for the kernel; std-shaped networking, files and processes on top.
//!
//! A read from a [`net::TcpStream`] looks like one from [`std::net::TcpStream`]: the read borrows a
//! plain `&mut [u8]` and returns when there are bytes in the buffer. Only the fiber blocks; on a
//! plain thread, the thread. The same stream may be read by one and written by the other.
//!
//! A tour, in reading order:
//!
//! * [`net`]: listeners, streams and packets, in std's names and shapes. `protocol` says how
//!   these differ; `race` connects to a host with several addresses.
//! * [`process`], [`pipe`], [`pty`], [`stdio`], [`signal`]: children and the pipes and
//!   terminals that they talk through.
//!   Under the streams lies `descriptor`, under the signals `bell`.
//! * [`fd`]: readiness of any other descriptor.
//! * [`fs`]: files and directories. Its own seam is the `call` of a system: on Linux data that the
//!   kernel has in memory is had at once, and the rest flies or is done by other threads; elsewhere
//!   other threads do all of that.
//! * `driver`: the seam between a request to the kernel (an *op*) and the wait for it. `op` has the
//!   ops, `socket` the sockets that are asked, `run` carries an op out.
//! * `readiness`: how a wait for the kernel is kept from missing its event.
//! * `pauses`: between attempts at events that the kernel tells nobody of.
//! * `reactor`: the readiness driver: a table of sockets, and a `selector` that says which of them
//!   are ready.
//! * `outsiders`: waits at a reactor of another worker that do not wait for that worker.
//! * `ring`: the completion driver, beside the reactor.
//! * `foreign`: descriptors that are not ours, for the crate `segue-unblock`.
//! * [`DriverPark`]: how a worker idles in its driver.
//!
//! # Which driver
//!
//! On Linux, reads, writes, accepts and connects of a worker's own fibers *fly* in the worker's
//! ring: an io_uring, which takes all that the fibers of a round have asked for in one system call,
//! and fills their borrowed buffers itself. [`Backend`] and the environment's variable `SEGUE_IO`
//! choose; where the system has no rings, or denies them, the rest goes on without.
//!
//! A send into a socket that has room may fly, too, or be a system call at once: either is cheaper
//! for some programs, and each worker keeps the cheaper way by what it measures (`ring/sends.rs`).
//! For experiments the environment's variable `SEGUE_SENDS` is `fly` or `now`, which keeps one way,
//! or `turns`, where each send goes the other way; without it, or with `auto`, the worker decides.
//!
//! Everything else, with pipes and terminals, waits by *readiness*: on a worker that idles in a
//! [`DriverPark`], in its reactor; anywhere else, in one that the process shares, with a thread
//! that starts on first use. A socket is registered once, with the reactor of the first op that has
//! to wait, and stays there; ops of other workers and of plain threads wait there, too. When that
//! reactor is left or dropped, the sockets move: their ops notice nothing. While its worker
//! computes, or is in a call that blocks, another thread turns the reactor for them.
//!
//! On other Unix systems there are no rings, and the selector is that of the crate `polling`:
//! kqueue. The end of a child is waited for by `SIGCHLD` there, where Linux has a descriptor of the
//! process. With the environment's variable `SEGUE_PORTABLE` a build for Linux goes without all
//! that Linux alone has: for tests.
//!
//! Nothing here survives `fork`. In the child, ops of the parent's fibers fail with an error that
//! says so, where they would have to wait; the parent notices nothing.
//!
//! # Fairness
//!
//! By readiness, an op that is ready at once does not suspend. The op counts against the fiber's
//! [budget](segue_core::admit), as every operation that can wait does: after 128 without a wait the
//! fiber first yields, so that a chatty fiber starves neither the others nor the driver. Each 4 KiB
//! that an op copies count as one more. On plain threads the operating system shares the processor.
//!
//! In a ring every op suspends, but for an accept and a send that are done at once: these count as
//! by readiness. A worker that has nothing else to run submits them at once; a busy
//! one after 32 turns, or at its next look, a quarter of a millisecond later at most.
//!
//! # Examples
//!
//! ```
//! use segue_io::net::{TcpListener, TcpStream};
//! use std::io::{Read, Write};
//!
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let addr = listener.local_addr()?;
//! let text = segue_core::try_scope(|s| {
//!     s.spawn_try(|| -> std::io::Result<()> {
//!         let (mut stream, _peer) = listener.accept()?;
//!         stream.write_all(b"hello")
//!     });
//!     let mut text = String::new();
//!     TcpStream::connect(addr)?.read_to_string(&mut text).map(|_| text)
//! })?;
//! assert_eq!(text, "hello");
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(not(unix))]
compile_error!(
    "segue-io runs on Unix: on Linux through io_uring and epoll, elsewhere through kqueue. On this system take segue without its default features, and with `sched`"
);

mod apart;
#[cfg(all(test, linux))]
#[path = "../tests/units/denied.rs"]
mod denied;
mod descriptor;
mod driver;
pub mod fs;
pub mod net;
pub mod process;
#[cfg(linux)]
mod ring;
mod selector;
pub mod signal;
mod system;
#[cfg(all(test, linux))]
#[path = "../tests/units/ways.rs"]
mod ways;

#[cfg(linux)]
#[doc(hidden)]
pub use descriptor::foreign;
pub use descriptor::{fd, pipe, pty, stdio};
pub use driver::DriverPark;
pub use selector::Backend;
