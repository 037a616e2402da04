//! Networking in std's names and shapes.
//!
//! [`TcpListener`] and [`TcpStream`] do what [`std::net`]'s do, and suspend the fiber where those block the thread. Programs written for
//! the latter need another `use`; libraries that take [`std::io::Read`] and [`std::io::Write`] need nothing.
//!
//! What differs from std:
//!
//! * Every operation that can wait fails once its caller was cancelled, whether or not it would have had to wait. The error is
//!   told apart by [`Cancelled::caused`](segue_core::Cancelled::caused).
//! * Time-outs are stores and no system calls, and an operation that ran into one fails with `TimedOut` on every system.
//! * Clones share one descriptor.
//! * There is no `set_nonblocking`: nothing here blocks a thread that has something else to do.
//!
//! # Names
//!
//! An address given as a *name* is looked up by std's resolver, which blocks the thread and so the whole worker. A literal address
//! (`"127.0.0.1:80"`, a [`SocketAddr`]) is only parsed. Look names up before, on a thread that may block.

mod listener;
mod stream;

pub use listener::{Incoming, TcpListener};
pub use stream::TcpStream;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// The addresses of a host: `"example.org:80"`, `"127.0.0.1:80"`.
///
/// An address that is written out is only read. A name is looked up by the system, which blocks a thread: one of those of [`blocking`](segue_core::blocking), while the calling fiber waits. The
/// functions that take [`ToSocketAddrs`] block the caller's own thread for names; so look names up here first, where that matters.
///
/// # Cancellation
/// *No effect*: it fails at once if the look-up has not begun, and else when that is over.
///
/// # Errors
/// Those of the look-up; or the cancellation.
///
/// # Examples
///
/// ```
/// let found = segue_io::net::lookup("127.0.0.1:80")?;
/// assert_eq!(found, ["127.0.0.1:80".parse().unwrap()]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn lookup(host: &str) -> io::Result<Vec<SocketAddr>> {
    if let Ok(addr) = host.parse() {
        segue_core::admit()?;
        return Ok(vec![addr]);
    }
    segue_core::Blocking::new().run(|| host.to_socket_addrs().map(Iterator::collect))?
}

/// Calls `f` with one address after the other until it succeeds; the last error counts. Cancellation ends it at once.
fn each_addr<T>(addrs: impl ToSocketAddrs, mut f: impl FnMut(&SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let mut last = None;
    for addr in addrs.to_socket_addrs()? {
        match f(&addr) {
            Ok(value) => return Ok(value),
            Err(error) if segue_core::Cancelled::caused(&error) => return Err(error),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any addresses")))
}

/// An address of a socket that has an Internet address.
fn inet(addr: socket2::SockAddr) -> io::Result<SocketAddr> {
    addr.as_socket().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the socket has no Internet address"))
}
