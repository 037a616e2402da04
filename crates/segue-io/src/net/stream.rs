//! The TCP stream, in the shape of std's.
//!
//! Used by servers and clients, and by every library that reads and writes through std's traits.

use super::{Tries, inet};
use crate::driver;
use crate::op::{Connect, Half, Read, ReadVectored, Write, WriteVectored};
use crate::socket::Socket;
use crate::sys;
use socket2::Domain;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// A TCP connection.
///
/// Reads and writes go through [`std::io::Read`] and [`std::io::Write`], which a `&TcpStream` has
/// too: one fiber may read while another writes. Dropping the last handle closes the connection.
///
/// # Reading and writing
///
/// A read returns as soon as there is a byte; `Ok(0)` is the end of the stream, or an empty
/// buffer's due, for which nothing waits. A write returns how much the kernel took, as soon as it
/// took something. Both make one system call when they need not wait.
///
/// # Cancellation
///
/// Every read, write, peek and connect of a cancelled caller fails, at once, with an error that
/// [`Cancelled::caused`](segue_core::Cancelled::caused) knows.
///
/// * Read and peek, also vectored: *no effect*. What has arrived stays, for the next read.
/// * Write, also vectored: *no effect*. If the kernel took some bytes or all, the write returns how
///   many. A loop over writes such as [`write_all`](std::io::Write::write_all) *may already have*
///   written a part, and does not tell how much.
/// * Connect: *may already have happened*. The other end may see a connection that is closed at
///   once.
///
/// # Errors
///
/// A time-out that was [set](TcpStream::set_read_timeout) gives
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
pub struct TcpStream {
    socket: Arc<Socket>,
}

impl TcpStream {
    pub(crate) fn from_socket(socket: Arc<Socket>) -> Self {
        Self { socket }
    }

    /// Connects to the first of these addresses that answers, trying one after the other.
    ///
    /// A name is looked up by std's resolver, which blocks the thread (see [`net`](crate::net)).
    ///
    /// # Cancellation
    /// *May already have happened*: the other end may see a connection that is closed at once.
    ///
    /// # Errors
    /// That of the last address, if none could be connected to.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_io::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let stream = TcpStream::connect(listener.local_addr()?)?;
    /// assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn connect(addr: impl ToSocketAddrs) -> io::Result<Self> {
        let mut tries = Tries::default();
        for addr in addr.to_socket_addrs()? {
            if let Some(stream) = tries.note(Self::connect_one(&addr, None))? {
                return Ok(stream);
            }
        }
        tries.fail()
    }

    /// Connects to one address, and gives up after `timeout`.
    ///
    /// # Cancellation
    /// As for [`connect`](Self::connect).
    ///
    /// # Errors
    /// `TimedOut` if there was no answer in time; `InvalidInput` for a time-out of zero.
    #[track_caller]
    pub fn connect_timeout(addr: &SocketAddr, timeout: Duration) -> io::Result<Self> {
        if timeout.is_zero() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a connect needs time: the time-out is zero"));
        }
        Self::connect_one(addr, Some(timeout))
    }

    #[track_caller]
    fn connect_one(addr: &SocketAddr, timeout: Option<Duration>) -> io::Result<Self> {
        segue_core::check()?;
        let socket = Socket::new(sys::stream_socket(Domain::for_address(*addr))?);
        driver::run(&socket, Connect { to: &(*addr).into(), begun: false }, timeout)?;
        Ok(Self { socket })
    }

    /// Takes over a stream of std's, which stops blocking. Its time-outs are not taken over. Never
    /// waits.
    ///
    /// # Errors
    /// If it can't be made to not block.
    pub fn from_std(stream: std::net::TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { socket: Socket::new(stream.into()) })
    }

    /// The same stream for std. It does not block; clear that if this was the last clone. Never
    /// waits.
    ///
    /// # Errors
    /// If there is no descriptor left: the result has one of its own.
    pub fn into_std(self) -> io::Result<std::net::TcpStream> {
        Ok(self.socket.io().try_clone()?.into())
    }

    /// Another handle of the same stream: same descriptor, same time-outs. Never waits.
    ///
    /// # Errors
    /// None; the signature is std's.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { socket: Arc::clone(&self.socket) })
    }

    /// The address of the other end. Never waits.
    ///
    /// # Errors
    /// What the kernel says: `NotConnected` after the connection was lost.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        inet(self.socket.io().peer_addr()?)
    }

    /// The address of this end. Never waits.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        inet(self.socket.io().local_addr()?)
    }

    /// Ends one or both directions. Never waits.
    ///
    /// After [`Shutdown::Write`] the other end reads the end of the stream when it has read what
    /// was written. Ops that wait in a direction that is ended return: a read with `Ok(0)`, a write
    /// with `BrokenPipe`.
    ///
    /// To end a direction again has no effect as long as the other one is open. When both ends have
    /// ended theirs there is no connection any more, and the kernel says `NotConnected`, which
    /// means no loss.
    ///
    /// # Errors
    /// What the kernel says: `NotConnected` after the connection was lost, or is over.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_io::net::{TcpListener, TcpStream};
    /// use std::io::Read;
    /// use std::net::Shutdown;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let client = TcpStream::connect(listener.local_addr()?)?;
    /// let (mut server, _) = listener.accept()?;
    /// client.shutdown(Shutdown::Write)?;
    /// client.shutdown(Shutdown::Write)?;
    /// assert_eq!(server.read(&mut [0])?, 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.io().shutdown(how)
    }

    /// Copies what has arrived into `buf` and leaves it to be read again, after waiting for a byte
    /// if there is none.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// As for a read.
    #[track_caller]
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        driver::run(&self.socket, Read::<true>(buf), self.read_timeout()?)
    }

    /// Sets how long each read and peek may wait; `None` is for ever. A store: it costs nothing.
    /// Never waits.
    ///
    /// # Errors
    /// `InvalidInput` for a time-out of zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_io::net::{TcpListener, TcpStream};
    /// use std::io::{ErrorKind, Read};
    /// use std::time::Duration;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut client = TcpStream::connect(listener.local_addr()?)?;
    /// client.set_read_timeout(Some(Duration::from_millis(1)))?;
    /// assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.timeout(Half::Read).set(timeout)
    }

    /// Sets how long each write may wait; `None` is for ever. A store: it costs nothing. Never
    /// waits.
    ///
    /// # Errors
    /// `InvalidInput` for a time-out of zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.timeout(Half::Write).set(timeout)
    }

    /// How long each read may wait. Never waits.
    ///
    /// # Errors
    /// None; the signature is std's.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.socket.timeout(Half::Read).get())
    }

    /// How long each write may wait. Never waits.
    ///
    /// # Errors
    /// None; the signature is std's.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.socket.timeout(Half::Write).get())
    }

    /// Sets whether small writes are sent at once (`TCP_NODELAY`). Never waits.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.socket.io().set_tcp_nodelay(nodelay)
    }

    /// Whether small writes are sent at once. Never waits.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.socket.io().tcp_nodelay()
    }

    /// Sets the hop limit of packets (`IP_TTL`). Never waits.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.socket.io().set_ttl_v4(ttl)
    }

    /// The hop limit of packets. Never waits.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn ttl(&self) -> io::Result<u32> {
        self.socket.io().ttl_v4()
    }

    /// The error that is pending on the socket, which is cleared. Never waits.
    ///
    /// # Errors
    /// What the kernel says when it is asked.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.io().take_error()
    }
}

/// See [Cancellation](TcpStream#cancellation).
impl io::Read for &TcpStream {
    #[track_caller]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        driver::run(&self.socket, Read::<false>(buf), self.socket.timeout(Half::Read).get())
    }

    #[track_caller]
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        driver::run(&self.socket, ReadVectored(bufs), self.socket.timeout(Half::Read).get())
    }
}

/// See [Cancellation](TcpStream#cancellation).
impl io::Read for TcpStream {
    #[track_caller]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    #[track_caller]
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }
}

/// See [Cancellation](TcpStream#cancellation). There is no buffer, and so a flush does nothing.
impl io::Write for &TcpStream {
    #[track_caller]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        driver::run(&self.socket, Write(buf), self.socket.timeout(Half::Write).get())
    }

    #[track_caller]
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        driver::run(&self.socket, WriteVectored(bufs), self.socket.timeout(Half::Write).get())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// See [Cancellation](TcpStream#cancellation). There is no buffer, and so a flush does nothing.
impl io::Write for TcpStream {
    #[track_caller]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    #[track_caller]
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TryFrom<std::net::TcpStream> for TcpStream {
    type Error = io::Error;

    fn try_from(stream: std::net::TcpStream) -> io::Result<Self> {
        Self::from_std(stream)
    }
}

impl TryFrom<TcpStream> for std::net::TcpStream {
    type Error = io::Error;

    fn try_from(stream: TcpStream) -> io::Result<Self> {
        stream.into_std()
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.io().as_fd()
    }
}

impl AsRawFd for TcpStream {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.io().as_raw_fd()
    }
}

impl std::fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("TcpStream");
        if let Ok(addr) = self.local_addr() {
            debug.field("addr", &addr);
        }
        if let Ok(peer) = self.peer_addr() {
            debug.field("peer", &peer);
        }
        debug.field("fd", &self.as_raw_fd()).finish()
    }
}
