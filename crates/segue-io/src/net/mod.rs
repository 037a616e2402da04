//! Networking in std's names and shapes.
//!
//! [`TcpListener`] and [`TcpStream`] do what [`std::net`]'s do, and suspend the fiber where those
//! block the thread. Programs written for the latter need another `use`; libraries that take
//! [`std::io::Read`] and [`std::io::Write`] need nothing.
//!
//! What differs from std:
//!
//! * Every operation that can wait fails once its caller was cancelled, whether or not it would
//!   have had to wait. The error is told apart by
//!   [`Cancelled::caused`](segue_core::Cancelled::caused).
//! * Time-outs are stores and no system calls, and an operation that ran into one fails with
//!   `TimedOut` on every system.
//! * Clones share one descriptor.
//! * There is no `set_nonblocking`: nothing here blocks a thread that has something else to do.
//!
//! # Names
//!
//! An address given as a *name* is looked up by std's resolver, which blocks the thread and so the
//! whole worker. A literal address (`"127.0.0.1:80"`, a [`SocketAddr`]) is only parsed. Look names
//! up before, on a thread that may block.

mod listener;
mod stream;

pub use listener::{Incoming, TcpListener};
pub use stream::TcpStream;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// The addresses of a host: `"example.org:80"`, `"127.0.0.1:80"`.
///
/// An address that is written out is only read. A name is looked up by the system, which blocks a
/// thread: one of those of [`blocking`](segue_core::blocking), while the calling fiber waits. The
/// functions that take [`ToSocketAddrs`] block the caller's own thread for names; so look names up
/// here first, where that matters.
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

/// One address is tried after the other until one succeeds; the last error counts. A cancellation
/// ends it at once.
///
/// A loop over the addresses tries, not a closure in here: else a wait would be reported at a place
/// in this file.
#[derive(Default)]
struct Tries(Option<io::Error>);

impl Tries {
    /// What came of one address: the success, or nothing if the next is to be tried.
    fn note<T>(&mut self, tried: io::Result<T>) -> io::Result<Option<T>> {
        match tried {
            Err(error) if !segue_core::Cancelled::caused(&error) => {
                self.0 = Some(error);
                Ok(None)
            }
            done => done.map(Some),
        }
    }

    /// None has succeeded.
    fn fail<T>(self) -> io::Result<T> {
        let nothing = || io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any addresses");
        Err(self.0.unwrap_or_else(nothing))
    }
}

/// An address of a socket that has an Internet address.
fn inet(addr: socket2::SockAddr) -> io::Result<SocketAddr> {
    addr.as_socket().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the socket has no Internet address"))
}
