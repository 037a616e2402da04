//! Drivers that wait for the kernel, and std-shaped networking on top.
//!
//! A read from a [`net::TcpStream`] looks like one from [`std::net::TcpStream`]: it borrows a plain
//! `&mut [u8]` and returns when there is something in it. What blocks is only the fiber; on a plain
//! thread, the thread. The same stream may be read by one and written by the other.
//!
//! A tour, in reading order:
//!
//! * [`net`]: listeners, streams and packets, in std's names and shapes. In it `protocol` says in
//!   what they differ; `race` connects to a host with several addresses.
//! * `driver`: the seam between what is asked of the kernel (an *op*) and how it is waited for.
//!   `op` has the ops, `socket` what they are asked of.
//! * `readiness`: how a wait for the kernel is kept from missing the event that it waits for.
//! * `reactor`: the readiness driver: a table of sockets, and a `selector` that says which of them
//!   are ready.
//! * [`DriverPark`]: how a worker idles in its driver.
//!
//! # Which driver
//!
//! On a worker that idles in a [`DriverPark`], an op waits in the worker's driver; anywhere else,
//! in one driver that the process shares. The shared driver starts its thread on first use. A
//! socket is registered once, with the driver of the first op on it that has to wait, and stays
//! with it; ops of other workers and of plain threads wait for it there. When that driver is left
//! or dropped, the sockets move: their ops notice nothing.
//!
//! Nothing here survives `fork`: the child has neither the shared driver's thread nor an event
//! queue of its own.
//!
//! # Fairness
//!
//! An op that is ready at once does not suspend. It counts against the fiber's
//! [budget](segue_core::admit), as every operation that can wait does: after 128 without a wait the
//! fiber first yields, so that a chatty fiber starves neither the others nor the driver. On plain
//! threads the operating system sees to that.
//!
//! # Examples
//!
//! ```
//! use segue_io::net::{TcpListener, TcpStream};
//! use std::io::{Read, Write};
//!
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let addr = listener.local_addr()?;
//! let text = segue_core::scope(|s| {
//!     s.spawn(|| -> std::io::Result<()> {
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
compile_error!("segue-io runs on Unix: Linux through epoll, the others through kqueue");

mod driver;
pub mod net;
mod op;
mod park;
mod reactor;
mod readiness;
mod selector;
mod socket;
mod sys;

pub use park::DriverPark;
pub use selector::Backend;
