//! The TCP listener, in the shape of std's.
//!
//! Used by servers.

use super::{TcpStream, Tries, inet};
use crate::driver;
use crate::op::{Accept, Op};
use crate::socket::Socket;
use crate::sys;
use segue_core::{Source, Waitable, WaitsFor};
use socket2::Domain;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

/// How many connections the kernel may queue; it cuts this to a limit of its own (`somaxconn` on
/// Linux).
const BACKLOG: i32 = 4096;

/// A TCP socket that accepts connections.
///
/// # Examples
///
/// ```
/// use segue_io::net::{TcpListener, TcpStream};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let client = TcpStream::connect(listener.local_addr()?)?;
/// let (_stream, peer) = listener.accept()?;
/// assert_eq!(peer, client.local_addr()?);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct TcpListener {
    socket: Arc<Socket>,
}

impl TcpListener {
    /// Listens at the first of these addresses that can be bound. Port 0 is a free one, which
    /// [`local_addr`](Self::local_addr) tells.
    ///
    /// As std does, it lets the port of a server that has just ended be used again
    /// (`SO_REUSEADDR`). It never waits, save for a name that must be looked up (see
    /// [`net`](crate::net)).
    ///
    /// # Errors
    /// That of the last address, if none could be bound.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_io::net::TcpListener;
    /// use std::net::SocketAddr;
    ///
    /// let addrs = [SocketAddr::from(([127, 0, 0, 1], 0)), SocketAddr::from(([127, 0, 0, 1], 8080))];
    /// let listener = TcpListener::bind(&addrs[..])?;
    /// assert_ne!(listener.local_addr()?.port(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn bind(addr: impl ToSocketAddrs) -> io::Result<Self> {
        let mut tries = Tries::default();
        for addr in addr.to_socket_addrs()? {
            if let Some(listener) = tries.note(Self::bind_one(addr))? {
                return Ok(listener);
            }
        }
        tries.fail()
    }

    fn bind_one(addr: SocketAddr) -> io::Result<Self> {
        let socket = sys::stream_socket(Domain::for_address(addr))?;
        socket.set_reuse_address(true)?;
        socket.bind(&addr.into())?;
        socket.listen(BACKLOG)?;
        Ok(Self { socket: Socket::new(socket) })
    }

    /// Takes over a listener of std's, which stops blocking. Never waits.
    ///
    /// # Errors
    /// If it can't be made to not block.
    pub fn from_std(listener: std::net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { socket: Socket::new(listener.into()) })
    }

    /// The same listener for std. It does not block; clear that if this was the last clone. Never
    /// waits.
    ///
    /// # Errors
    /// If there is no descriptor left: the result has one of its own.
    pub fn into_std(self) -> io::Result<std::net::TcpListener> {
        Ok(self.socket.io().try_clone()?.into())
    }

    /// Waits for a connection and takes it.
    ///
    /// Several callers may wait at once; which of them gets a connection is not said.
    ///
    /// # Cancellation
    /// *No effect*: a connection stays in the listener's queue until the system call that also
    /// returns it.
    ///
    /// # Errors
    /// What `accept` says: `ConnectionAborted` for a client that has gone again, and errors for a
    /// lack of descriptors or memory, after which it may be tried again.
    #[track_caller]
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, peer) = driver::run(&self.socket, Accept, None)?;
        Ok((TcpStream::from_socket(Socket::new(socket)), peer))
    }

    /// [`accept`](Self::accept) as a source: to be awaited, or chosen among others. It can be
    /// waited for again, for the next connection. A simulation does not count it among the waits
    /// for the network.
    ///
    /// # Cancellation
    /// *No effect*, as for [`accept`](Self::accept): nothing is accepted unless it is yielded. So
    /// too if another arm was chosen, or the future is dropped.
    ///
    /// # Errors
    /// It yields those of [`accept`](Self::accept).
    ///
    /// # Examples
    ///
    /// A server that is stopped:
    ///
    /// ```
    /// use segue_core::{CancelToken, Either};
    /// use segue_io::net::{TcpListener, TcpStream};
    ///
    /// let (listener, stop) = (TcpListener::bind("127.0.0.1:0")?, CancelToken::new());
    /// let client = TcpStream::connect(listener.local_addr()?)?;
    /// let mut served = 0;
    /// while let Either::Right(accepted) = stop.cancelled_source().or_else(listener.accept_source()).wait()? {
    ///     let (_stream, peer) = accepted?;
    ///     assert_eq!(peer, client.local_addr()?);
    ///     served += 1;
    ///     stop.cancel();
    /// }
    /// assert_eq!(served, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn accept_source(&self) -> Waitable<impl Source<Output = io::Result<(TcpStream, SocketAddr)>>> {
        let accepted = driver::source(&self.socket, Accept, WaitsFor::new(Accept::WAITS_FOR));
        accepted.map(|result| result.map(|(socket, peer)| (TcpStream::from_socket(Socket::new(socket)), peer)))
    }

    /// The connections, one after the other, as [`accept`](Self::accept) takes them.
    ///
    /// # Cancellation
    /// As for [`accept`](Self::accept). The iterator yields the cancellation once and has ended
    /// then, so that a loop that passes over errors ends too.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use segue_io::net::TcpListener;
    /// use std::io::Write;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:7000")?;
    /// segue_core::scope(|s| {
    ///     for stream in listener.incoming() {
    ///         let Ok(mut stream) = stream else { continue };
    ///         s.spawn(move || stream.write_all(b"hello\n"));
    ///     }
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: Some(self) }
    }

    /// The address that it listens at. Never waits.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        inet(self.socket.io().local_addr()?)
    }

    /// Another handle of the same listener, with the same descriptor. Never waits.
    ///
    /// # Errors
    /// None; the signature is std's.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { socket: Arc::clone(&self.socket) })
    }

    /// Sets the hop limit of packets to clients (`IP_TTL`). Never waits.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.socket.io().set_ttl_v4(ttl)
    }

    /// The hop limit of packets to clients. Never waits.
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

impl TryFrom<std::net::TcpListener> for TcpListener {
    type Error = io::Error;

    fn try_from(listener: std::net::TcpListener) -> io::Result<Self> {
        Self::from_std(listener)
    }
}

impl TryFrom<TcpListener> for std::net::TcpListener {
    type Error = io::Error;

    fn try_from(listener: TcpListener) -> io::Result<Self> {
        listener.into_std()
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.io().as_fd()
    }
}

impl AsRawFd for TcpListener {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.io().as_raw_fd()
    }
}

impl std::fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("TcpListener");
        if let Ok(addr) = self.local_addr() {
            debug.field("addr", &addr);
        }
        debug.field("fd", &self.as_raw_fd()).finish()
    }
}

/// The connections of a listener. Made by [`TcpListener::incoming`].
#[derive(Debug)]
#[must_use = "an iterator does nothing until it is asked"]
pub struct Incoming<'a> {
    /// `None` once the caller was cancelled.
    listener: Option<&'a TcpListener>,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        let accepted = self.listener?.accept().map(|(stream, _)| stream);
        if let Err(error) = &accepted
            && segue_core::Cancelled::caused(error)
        {
            self.listener = None;
        }
        Some(accepted)
    }
}

impl std::iter::FusedIterator for Incoming<'_> {}
