//! The stream, in the shape of std's: TCP, and Unix sockets.
//!
//! Used by servers and clients, and by every library that reads and writes through std's traits.
//! `tcp` and `unix` have the methods of one protocol alone.

use super::ops;
use super::protocol::{Protocol, Tcp, Unix};
use super::shared::Shared;
use crate::driver::op::{Read, Write};
use crate::driver::run::run;
use crate::driver::socket::Socket;
use crate::system::whole::{reads, writes};
use segue_core::{Source, Waitable};
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

/// A TCP connection.
///
/// [`Stream`] has the details.
pub type TcpStream = Stream<Tcp>;

/// A connection within a machine, to a listener that has a path or a name; or one end of a
/// [pair](UnixStream::pair).
///
/// [`Stream`] has the details. Descriptors are sent by
/// [`send_fds`](UnixStream::send_fds). A read ends where descriptors come with the data, and closes
/// those: a receiver that expects some calls [`recv_fds`](UnixStream::recv_fds).
pub type UnixStream = Stream<Unix>;

/// A connection that carries bytes: a [`TcpStream`] or a [`UnixStream`].
///
/// Reads and writes go through [`std::io::Read`] and [`std::io::Write`], which a `&Stream` has
/// too: one fiber may read while another writes. Dropping the last handle closes the connection.
///
/// # Reading and writing
///
/// A read returns as soon as there is a byte; `Ok(0)` is the end of the stream, or, at once,
/// the result for an empty buffer. A write returns how much the kernel took, as soon as the kernel
/// took something. By readiness both make one system
/// call when they need not wait; in a ring, a write does so where its worker finds that cheaper.
///
/// # Cancellation
///
/// Every read, write, peek and connect of a cancelled caller fails, at once, with an error that
/// [`Cancelled::caused`](segue_core::Cancelled::caused) knows.
///
/// * Read and peek, also vectored: *no effect*. Bytes that have arrived stay, for the next read.
/// * Write, also vectored: *no effect*. If the kernel took some bytes or all, the write returns how
///   many. A loop over writes such as [`write_all`](std::io::Write::write_all) *may already have*
///   written a part, and does not tell how much.
/// * Connect: *may already have happened*. The other end may see a connection that is closed at
///   once. A Unix stream is connected by one system call, so there a cancellation has *no effect*.
///
/// # Errors
///
/// A time-out that was [set](Stream::set_read_timeout) gives
/// [`TimedOut`](io::ErrorKind::TimedOut), with the same effect as a cancellation and none on later
/// ops. Writing to a connection that the other end has closed gives `BrokenPipe` and raises no
/// signal.
///
/// # Examples
///
/// ```
/// use segue_io::net::{TcpListener, TcpStream};
/// use std::io::{BufRead, BufReader, Write};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let mut client = TcpStream::connect(listener.local_addr()?)?;
/// let (server, _) = listener.accept()?;
///
/// client.write_all(b"one\ntwo\n")?;
/// let mut lines = BufReader::new(&server).lines();
/// assert_eq!(lines.next().unwrap()?, "one");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Stream<P> {
    pub(super) shared: Shared,
    pub(super) protocol: PhantomData<fn() -> P>,
}

impl<P: Protocol> Stream<P> {
    /// The socket, for files that are sent.
    pub(crate) fn socket(&self) -> &Arc<Socket> {
        &self.shared.0
    }

    /// Copies bytes that have arrived into `buf` and leaves them to be read again, after waiting
    /// for a byte if there is none.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// As for a read.
    #[track_caller]
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        run(&self.shared.0, Read::<true>(buf), self.read_timeout()?)
    }

    /// A read that never waits.
    ///
    /// # Errors
    /// `WouldBlock` if a read would have had to wait; else as for a read.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        ops::now_or_never(&self.shared.0, Read::<false>(buf))
    }

    /// A write that never waits.
    ///
    /// # Errors
    /// `WouldBlock` if nothing fits; else as for a write.
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        ops::now_or_never(&self.shared.0, Write(buf))
    }

    /// Ready when a read would not wait: data is there, or the end of the stream, or an error. To
    /// be awaited, or chosen among others; then read, or [try to](Self::try_read).
    ///
    /// There is no source for the read itself. The effect of a source counts only if that source is
    /// chosen, and a read that has begun can't be undone (see [`net`](crate::net#sources)).
    ///
    /// The source stays ready until somebody reads. If several read from the stream, another one
    /// may be first. A simulation counts the wait among those for the network.
    ///
    /// # Cancellation
    /// *No effect*, also if another arm was chosen, or the future is dropped.
    ///
    /// # Errors
    /// Yields the kernel's error when the kernel can't be asked.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{Either, after};
    /// use segue_io::net::UnixStream;
    /// use std::io::Write;
    /// use std::time::Duration;
    ///
    /// let (mut here, there) = UnixStream::pair()?;
    /// let late = there.readable_source().or_else(after(Duration::from_millis(1)));
    /// assert!(matches!(late.wait()?, Either::Right(())));
    ///
    /// here.write_all(b"x")?;
    /// there.readable_source().wait()??;
    /// assert_eq!(there.try_read(&mut [0; 2])?, 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn readable_source(&self) -> Waitable<impl Source<Output = io::Result<()>>> {
        ops::readable(&self.shared.0)
    }
}

reads!([P: Protocol] &Stream<P>, |it| it.shared);
reads!([P: Protocol] Stream<P>, |it| it.shared);
writes!([P: Protocol] &Stream<P>, |it| it.shared);
writes!([P: Protocol] Stream<P>, |it| it.shared);
