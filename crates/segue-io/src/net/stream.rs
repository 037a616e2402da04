//! The stream, in the shape of std's: TCP, and Unix sockets.
//!
//! Used by servers and clients, and by every library that reads and writes through std's traits.
//! What only one of the protocols has is in `tcp` and `unix`.

use super::ops;
use super::protocol::{Protocol, Tcp, Unix};
use super::shared::Shared;
use super::split::{ReadHalf, WriteHalf};
use crate::driver::op::{Read, ReadVectored, Write, WriteVectored};
use crate::driver::readiness::Half;
use crate::driver::run::run;
use segue_core::{Source, Waitable};
use std::io::{self, IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A TCP connection.
///
/// [`Stream`] has what it does in detail.
pub type TcpStream = Stream<Tcp>;

/// A connection within a machine, to a listener that has a path or a name; or one end of a
/// [pair](UnixStream::pair).
///
/// [`Stream`] has what it does in detail. Descriptors go over it by
/// [`send_fds`](UnixStream::send_fds). A read ends where descriptors come with the data, and closes
/// those: who expects some receives them by [`recv_fds`](UnixStream::recv_fds).
pub type UnixStream = Stream<Unix>;

/// A connection that carries bytes: a [`TcpStream`] or a [`UnixStream`].
///
/// Reads and writes go through [`std::io::Read`] and [`std::io::Write`], which a `&Stream` has
/// too: one fiber may read while another writes. Dropping the last handle closes the connection.
///
/// # Reading and writing
///
/// A read returns as soon as there is a byte; `Ok(0)` is the end of the stream, or an empty
/// buffer's due, for which nothing waits. A write returns how much the kernel took, as soon as it
/// took something. By readiness both make one system
/// call when they need not wait.
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
///   once. A Unix stream is connected by one system call, so there it has *no effect*.
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
    pub(super) fn of(shared: Shared) -> Self {
        Self { shared, protocol: PhantomData }
    }

    /// Takes over a stream of std's, which stops blocking. Its time-outs are not taken over. Never
    /// waits.
    ///
    /// # Errors
    /// If it can't be made to not block.
    pub fn from_std(stream: P::Std) -> io::Result<Self> {
        Ok(Self::of(Shared::take_over::<P>(stream.into())?))
    }

    /// The same stream for std. It blocks, as std's do; clones that stay here do not mind. Never
    /// waits.
    ///
    /// # Errors
    /// If there is no descriptor left: the result has one of its own.
    pub fn into_std(self) -> io::Result<P::Std> {
        Ok(self.into_fd()?.into())
    }

    pub(super) fn into_fd(self) -> io::Result<OwnedFd> {
        self.shared.hand_on(false)
    }

    /// Another handle of the same stream: same descriptor, same time-outs. Never waits.
    ///
    /// # Errors
    /// None; the signature is std's.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self::of(self.shared.clone()))
    }

    /// The address of the other end. Never waits.
    ///
    /// # Errors
    /// What the kernel says: `NotConnected` after the connection was lost.
    pub fn peer_addr(&self) -> io::Result<P::Addr> {
        self.shared.peer_addr::<P>()
    }

    /// The address of this end. Never waits.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn local_addr(&self) -> io::Result<P::Addr> {
        self.shared.local_addr::<P>()
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
        self.shared.io().shutdown(how)
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
        run(&self.shared.0, Read::<true>(buf), self.read_timeout()?)
    }

    /// Sets how long each read and peek may wait; `None` is for ever. A store: it costs nothing.
    /// Never waits.
    ///
    /// A read that waits longer fails with `TimedOut`. So does one inside of a
    /// [`timeout`](segue_core::timeout) that has ended, and then all that follow: a loop that goes
    /// on after the first kind asks [`Cancelled::caused`](segue_core::Cancelled::caused), which is
    /// true of the second alone.
    ///
    /// # Errors
    /// `InvalidInput` for a time-out of zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::Cancelled;
    /// use segue_io::net::{TcpListener, TcpStream};
    /// use std::io::{ErrorKind, Read};
    /// use std::time::Duration;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut client = TcpStream::connect(listener.local_addr()?)?;
    /// client.set_read_timeout(Some(Duration::from_millis(1)))?;
    /// let error = client.read(&mut [0]).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::TimedOut);
    /// // No `timeout` around has ended, and nobody has cancelled: the next read waits again.
    /// assert!(!Cancelled::caused(&error));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.shared.0.timeout(Half::Read).set(timeout)
    }

    /// Sets how long each write may wait; `None` is for ever. A store: it costs nothing. Never
    /// waits.
    ///
    /// # Errors
    /// `InvalidInput` for a time-out of zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.shared.0.timeout(Half::Write).set(timeout)
    }

    /// How long each read may wait. Never waits.
    ///
    /// # Errors
    /// None; the signature is std's.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.shared.0.timeout(Half::Read).get())
    }

    /// How long each write may wait. Never waits.
    ///
    /// # Errors
    /// None; the signature is std's.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.shared.0.timeout(Half::Write).get())
    }

    /// The error that is pending on the socket, which is cleared. Never waits.
    ///
    /// # Errors
    /// What the kernel says when it is asked.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.shared.io().take_error()
    }

    /// A read that never waits.
    ///
    /// # Errors
    /// `WouldBlock` if it would have had to wait; else as for a read.
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
    /// There is no source for the read itself. What a source has done counts only if it is chosen,
    /// and a read that has begun can't be undone (see [`net`](crate::net#sources)).
    ///
    /// It stays ready until somebody reads. If several read from the stream, another one may be
    /// first. A simulation counts it among the waits for the network.
    ///
    /// # Cancellation
    /// *No effect*, also if another arm was chosen, or the future is dropped.
    ///
    /// # Errors
    /// It yields what the kernel says when it can't be asked.
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

    /// Ready when a write would not wait: there is room, or an error. As
    /// [`readable_source`](Self::readable_source) in all else.
    ///
    /// # Cancellation
    /// *No effect*, also if another arm was chosen, or the future is dropped.
    ///
    /// # Errors
    /// It yields what the kernel says when it can't be asked.
    #[track_caller]
    pub fn writable_source(&self) -> Waitable<impl Source<Output = io::Result<()>>> {
        ops::writable(&self.shared.0)
    }

    /// Two halves that own the stream, for two fibers of which none outlives the other for sure.
    /// Never waits.
    ///
    /// Where both fibers can borrow, as in a scope, `&Stream` reads and writes as well.
    ///
    /// When the [`WriteHalf`] is dropped, writing is [shut down](Self::shutdown): the other end
    /// reads the end of the stream. When the [`ReadHalf`] is dropped, nothing happens.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_io::net::UnixStream;
    /// use std::io::{Read, Write};
    ///
    /// let (client, server) = UnixStream::pair()?;
    /// let echo = segue_core::spawn(move || {
    ///     let (mut reads, mut writes) = server.into_split();
    ///     std::io::copy(&mut reads, &mut writes)
    /// });
    /// let (mut reads, mut writes) = client.into_split();
    /// writes.write_all(b"hello")?;
    /// drop(writes);
    /// let mut text = String::new();
    /// reads.read_to_string(&mut text)?;
    /// assert_eq!(text, "hello");
    /// assert_eq!(echo.join().unwrap()?, 5);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use = "when the write half is dropped, writing is shut down"]
    pub fn into_split(self) -> (ReadHalf<P>, WriteHalf<P>) {
        (ReadHalf(Self::of(self.shared.clone())), WriteHalf(Some(self)))
    }
}

/// See [Cancellation](Stream#cancellation).
impl<P: Protocol> io::Read for &Stream<P> {
    #[track_caller]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        run(&self.shared.0, Read::<false>(buf), self.shared.0.timeout(Half::Read).get())
    }

    #[track_caller]
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        run(&self.shared.0, ReadVectored(bufs), self.shared.0.timeout(Half::Read).get())
    }

    crate::system::whole::read_whole!();
}

/// See [Cancellation](Stream#cancellation).
impl<P: Protocol> io::Read for Stream<P> {
    #[track_caller]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    #[track_caller]
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }

    crate::system::whole::read_whole!();
}

/// See [Cancellation](Stream#cancellation). There is no buffer, and so a flush does nothing.
impl<P: Protocol> io::Write for &Stream<P> {
    #[track_caller]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        run(&self.shared.0, Write(buf), self.shared.0.timeout(Half::Write).get())
    }

    #[track_caller]
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        run(&self.shared.0, WriteVectored(bufs), self.shared.0.timeout(Half::Write).get())
    }

    crate::system::whole::write_all!();

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// See [Cancellation](Stream#cancellation). There is no buffer, and so a flush does nothing.
impl<P: Protocol> io::Write for Stream<P> {
    #[track_caller]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    #[track_caller]
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    crate::system::whole::write_all!();

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
