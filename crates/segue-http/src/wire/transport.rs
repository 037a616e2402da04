//! The demands of a connection on the stream below, and of a server on its listener. Implemented
//! here for TCP and Unix sockets, in `tls` for TLS; by programs for tests.

use std::any::Any;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use segue_core::{LocalBoxSource, Waitable};
use segue_io::fs::File;
use segue_io::net::Stream;
use segue_io::net::protocol::Protocol;

use crate::wire::facts::Connection;

/// A byte stream in both directions, with time limits of its waits.
///
/// `read` returns zero when the client has ended its direction. A read or write that waits longer
/// than the time set fails with [`io::ErrorKind::TimedOut`] or [`io::ErrorKind::WouldBlock`]. Any
/// other error ends the connection, and so does a cancellation, but for that by the [time of one
/// request](crate::Config::request_timeout). A read or write that fails has taken no byte: after a
/// cancellation the server sends the bytes of a failed write again.
///
/// ```
/// use std::{io, time::Duration};
/// use segue_http::{Server, Transport};
///
/// /// One request from memory; its responses are printed.
/// struct Script(io::Cursor<&'static [u8]>);
///
/// impl io::Read for Script {
///     fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> { self.0.read(buf) }
/// }
/// impl io::Write for Script {
///     fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
///         print!("{}", String::from_utf8_lossy(buf));
///         Ok(buf.len())
///     }
///     fn flush(&mut self) -> io::Result<()> { Ok(()) }
/// }
/// impl Transport for Script {
///     fn set_read_timeout(&self, _: Option<Duration>) -> io::Result<()> { Ok(()) }
///     fn set_write_timeout(&self, _: Option<Duration>) -> io::Result<()> { Ok(()) }
///     fn shutdown_write(&mut self) -> io::Result<()> { Ok(()) }
/// }
///
/// let script = Script(io::Cursor::new(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
/// Server::new(|_| "hello").serve_connection(script)?;
/// # Ok::<(), io::Error>(())
/// ```
pub trait Transport: io::Read + io::Write {
    /// Limits each following read; `None` is no limit, and zero is never passed.
    ///
    /// # Errors
    /// An error ends the connection.
    fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()>;

    /// Limits each following write; `None` is no limit, and zero is never passed.
    ///
    /// # Errors
    /// An error ends the connection.
    fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()>;

    /// Ends the direction to the client: the client reads the end of the stream after all output. A
    /// stream of TLS sends its close, and ends the one below.
    ///
    /// # Errors
    /// An error ends the connection without further ado.
    fn shutdown_write(&mut self) -> io::Result<()>;

    /// Makes the stream ready: a stream of TLS agrees on its keys here. By default there is nothing
    /// to do.
    ///
    /// The server calls this once, in the connection's own fiber and before the first read, within
    /// [`Config::handshake_timeout`](crate::Config::handshake_timeout): so a slow client holds up
    /// nobody else.
    ///
    /// # Cancellation
    /// The time limit and a shutdown cancel this call. The connection then ends.
    ///
    /// # Errors
    /// An error ends the connection.
    fn handshake(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Whether there is something to do in a [handshake](Self::handshake). By default there may be;
    /// a stream that has nothing to agree on says so, and spares each connection a timer.
    ///
    /// ```
    /// use segue_http::Transport;
    /// use segue_io::net::UnixStream;
    /// assert!(!Transport::needs_handshake(&UnixStream::pair()?.0));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    fn needs_handshake(&self) -> bool {
        true
    }

    /// Sends bytes of a file from an offset on, at most `count`, without a copy in the program, and
    /// returns how many the client's stream took, as a write does: at least one, unless the file
    /// ends at the offset.
    ///
    /// The server calls this behind all output so far, within the limit for a write, for bodies
    /// that are [files](crate::Payload::file) of over 16 KiB. By default this is not supported:
    /// then the server reads the file and writes.
    ///
    /// # Cancellation
    /// *No effect*. A call that has sent some bytes returns how many.
    ///
    /// # Errors
    /// [`Unsupported`](io::ErrorKind::Unsupported) has the server send the rest by writes; any
    /// other error ends the connection.
    fn send_file(&mut self, file: &File, offset: u64, count: u64) -> io::Result<u64> {
        let _ = (file, offset, count);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The facts that handlers find in the extensions of each request. The server asks once for a
    /// connection, after the handshake. By default there are none, but whether the stream
    /// [is secure](Self::is_secure).
    fn connection(&self) -> Connection {
        Connection::new().with_secure(self.is_secure())
    }

    /// Whether the bytes are secured, as by TLS. By default they are not.
    ///
    /// A request for an `https` URI, in absolute form, is refused on a stream that is not.
    fn is_secure(&self) -> bool {
        false
    }

    /// Ready when a read would not wait, or the client has ended its direction: for a fiber that
    /// chooses between its client and something else. `None`, the default, of a stream that has no
    /// such source.
    ///
    /// A stream that has bytes of its own in store, as one of TLS has, is ready as long as there
    /// are some. Its source may be ready although no byte comes of that, as when a part of a record
    /// has arrived: a reader that must not wait sets a short [limit](Self::set_read_timeout). A
    /// source that was made before a read or write is dropped before that.
    ///
    /// # Cancellation
    /// The wait has *no effect*: nothing is read.
    ///
    /// # Errors
    /// The wait yields the error that a read would find, if the stream can't be asked.
    ///
    /// ```
    /// use segue_http::Transport;
    /// use std::io::Write;
    ///
    /// let (mut here, there) = segue_io::net::UnixStream::pair()?;
    /// here.write_all(b"x")?;
    /// Transport::readable_source(&there).expect("a socket has one").wait()??;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    fn readable_source(&self) -> Option<Waitable<LocalBoxSource<'_, io::Result<()>>>> {
        None
    }

    /// The time by which this stream's limits are counted: the clock of the caller's scheduler, if
    /// there is no other.
    fn now(&self) -> Instant {
        segue_core::now()
    }
}

impl<P: Protocol> Transport for Stream<P> {
    fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        Stream::set_read_timeout(self, time)
    }

    fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        Stream::set_write_timeout(self, time)
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn needs_handshake(&self) -> bool {
        false
    }

    fn send_file(&mut self, file: &File, offset: u64, count: u64) -> io::Result<u64> {
        file.send_to(self, offset, count)
    }

    fn connection(&self) -> Connection {
        stated(network_addr(self.peer_addr()), network_addr(self.local_addr()))
    }

    fn readable_source(&self) -> Option<Waitable<LocalBoxSource<'_, io::Result<()>>>> {
        Some(Stream::readable_source(self).boxed_local())
    }
}

/// For a connection served on a plain thread: on a fiber its waits block the worker, and nothing
/// cancels them.
impl Transport for std::net::TcpStream {
    fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        std::net::TcpStream::set_read_timeout(self, time)
    }

    fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        std::net::TcpStream::set_write_timeout(self, time)
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn needs_handshake(&self) -> bool {
        false
    }

    fn connection(&self) -> Connection {
        stated(self.peer_addr().ok(), self.local_addr().ok())
    }
}

/// The address, if the protocol is one of networks.
fn network_addr<A: 'static>(addr: io::Result<A>) -> Option<SocketAddr> {
    (&addr.ok()? as &dyn Any).downcast_ref().copied()
}

fn stated(peer: Option<SocketAddr>, local: Option<SocketAddr>) -> Connection {
    let facts = peer.into_iter().fold(Connection::new(), Connection::with_peer_addr);
    local.into_iter().fold(facts, Connection::with_local_addr)
}

/// Where a server's connections come from.
///
/// A listener that wraps another one is a few lines: accept, then wrap. A slow handshake does not
/// belong into `accept`, where all other clients wait: [`Transport::handshake`] has a time limit,
/// and holds up its own connection alone.
///
/// ```
/// use std::io;
/// use segue_http::Listener;
///
/// /// Accepts like the listener in it and reports each peer.
/// struct Logged(segue_io::net::TcpListener);
///
/// impl Listener for Logged {
///     type Stream = segue_io::net::TcpStream;
///     fn accept(&self) -> io::Result<Self::Stream> {
///         let (stream, peer) = self.0.accept()?;
///         eprintln!("{peer} connected");
///         Ok(stream)
///     }
/// }
/// ```
pub trait Listener {
    /// The stream of one connection.
    type Stream: Transport + Send + 'static;

    /// Waits for the next connection.
    ///
    /// # Cancellation
    /// Shutting the server down cancels the wait; a connection that was accepted is returned all
    /// the same.
    ///
    /// # Errors
    /// After an error of kind [`io::ErrorKind::InvalidInput`] the server stops and returns that;
    /// after any other one, such as too many open files, the server pauses and goes on.
    fn accept(&self) -> io::Result<Self::Stream>;
}

/// Accepts streams that send small writes at once (`TCP_NODELAY`).
impl Listener for segue_io::net::TcpListener {
    type Stream = segue_io::net::TcpStream;

    fn accept(&self) -> io::Result<Self::Stream> {
        let (stream, _) = segue_io::net::TcpListener::accept(self)?;
        // A failure means a connection that is over, which its first read finds.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

impl Listener for segue_io::net::UnixListener {
    type Stream = segue_io::net::UnixStream;

    fn accept(&self) -> io::Result<Self::Stream> {
        segue_io::net::UnixListener::accept(self).map(|(stream, _)| stream)
    }
}
