//! A secured stream: the engine, the transport below, and the waits between them. Used by the
//! server as a transport, and by clients.

use std::cell::Cell;
use std::fmt;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use segue_core::{LocalBoxSource, Waitable, after};
use segue_io::fs::File;

use crate::tls::buffer::{Buffer, LARGE};
use crate::tls::engine::{Engine, io_error};
use crate::tls::session::Session;
use crate::wire::facts::Connection;
use crate::wire::transport::Transport;

/// Ciphertext is sent when there is that much.
const MOST_OUTGOING: usize = 32 << 10;
/// No record for less than this before that.
const LEAST_ROOM: usize = 1 << 10;
/// The most plaintext of a record.
const RECORD: usize = 16 << 10;

/// A stream that secures its bytes by TLS, on the stream below.
///
/// A server's is made by an [`Acceptor`](crate::tls::Acceptor) or a
/// [`Listener`](crate::tls::Listener), a client's by [`connect`](Self::connect). The handshake is
/// made by [`Transport::handshake`], or by the first read or write.
///
/// A write encrypts and does not send, unless 32 KiB are encrypted: [`flush`](io::Write::flush)
/// sends, and so does a read before it waits. A read returns zero when the peer has said that it
/// will send nothing more. A stream that ends without this word was cut off, perhaps by somebody in
/// between, and the read fails with [`io::ErrorKind::UnexpectedEof`].
/// [`shutdown_write`](Transport::shutdown_write) says the word to the peer.
///
/// The time limits of [`Transport`] hold for a whole read and a whole write: for a read, from when
/// the first bytes of a record are there.
///
/// # Cancellation
/// Reads and writes that are cancelled, or time out, lose nothing and can be made again.
/// A write that fails has taken nothing; encrypted bytes that were not sent are sent by the next
/// call. So a stream goes on after a cancellation or a time-out, in both directions.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] with a [`rustls::Error`] in it for a peer's violation of the
/// protocol, a certificate that is not trusted, or an alert of the peer; every later call fails in
/// the same way. Else those of the stream below.
///
/// ```
/// use segue_http::{Server, Transport, tls};
/// use segue_io::net::UnixStream;
/// use std::io::{Read, Write};
/// use std::sync::Arc;
///
/// # let (chain, key) = (include_bytes!("../../tests/tls/fixtures/server.pem"), include_bytes!("../../tests/tls/fixtures/server.key"));
/// let acceptor = tls::Acceptor::new(tls::server_config(chain, key)?)?;
/// let config = Arc::new(tls::client_config(chain)?);
/// let (below, server) = UnixStream::pair()?;
/// let mut stream = tls::Stream::connect(below, config, "localhost".try_into().unwrap())?;
/// segue_core::try_scope(|s| {
///     s.spawn_try(|| Server::new(|_| "hello").serve_connection(acceptor.accept(server)?));
///     stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
///     let mut text = String::new();
///     stream.read_to_string(&mut text)?;
///     assert!(text.ends_with("hello"));
///     stream.shutdown_write()
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// [`rustls::Error`]: crate::tls::rustls::Error
pub struct Stream<T> {
    /// In a box: a stream moves into its fiber's stack, of which each page counts.
    engine: Box<Engine>,
    stream: T,
    ready: bool,
    /// The last ciphertext was not taken in one piece. The next is to be little: that of many slow
    /// peers lies in memory at the same time.
    is_slow: bool,
    read_limit: Cell<Option<Duration>>,
    write_limit: Cell<Option<Duration>>,
}

impl<T: Transport> Stream<T> {
    pub(super) fn new(stream: T, engine: Engine) -> Stream<T> {
        Stream {
            engine: Box::new(engine),
            stream,
            ready: false,
            is_slow: false,
            read_limit: Cell::default(),
            write_limit: Cell::default(),
        }
    }

    /// The client's end of a secured stream to the server of this name. Never waits.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a configuration that rustls refuses.
    ///
    /// ```no_run
    /// use segue_http::{Transport, tls};
    /// use std::sync::Arc;
    ///
    /// let config = Arc::new(tls::client_config(std::fs::read("authorities.pem")?)?);
    /// let stream = segue_io::net::TcpStream::connect("example.org:443")?;
    /// let mut stream = tls::Stream::connect(stream, config, "example.org".try_into().unwrap())?;
    /// segue_core::timeout(std::time::Duration::from_secs(5), || stream.handshake())?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn connect(stream: T, config: Arc<ClientConfig>, name: ServerName<'static>) -> io::Result<Stream<T>> {
        match Engine::client(config, name) {
            Ok(engine) => Ok(Stream::new(stream, engine)),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidInput, error)),
        }
    }

    /// The facts on which both ends have agreed; `None` before the handshake.
    ///
    /// ```
    /// use segue_http::{Transport, tls};
    ///
    /// fn version<T: Transport>(stream: &tls::Stream<T>) -> Option<tls::rustls::ProtocolVersion> {
    ///     Some(stream.session()?.protocol_version())
    /// }
    /// ```
    pub fn session(&self) -> Option<Session> {
        Session::of(&self.engine).filter(|_| self.ready)
    }

    /// Whether the handshake was a full one or has resumed a session; `None` before.
    ///
    /// ```
    /// use segue_http::{Transport, tls};
    ///
    /// fn is_resumed<T: Transport>(stream: &tls::Stream<T>) -> bool {
    ///     stream.handshake_kind() == Some(tls::rustls::HandshakeKind::Resumed)
    /// }
    /// ```
    pub fn handshake_kind(&self) -> Option<rustls::HandshakeKind> {
        self.engine.common().handshake_kind().filter(|_| self.ready)
    }

    /// The stream below.
    ///
    /// ```
    /// use segue_http::tls;
    /// use segue_io::net::TcpStream;
    ///
    /// fn peer(stream: &tls::Stream<TcpStream>) -> std::io::Result<std::net::SocketAddr> {
    ///     stream.get_ref().peer_addr()
    /// }
    /// ```
    pub fn get_ref(&self) -> &T {
        &self.stream
    }

    /// Sends all ciphertext there is, within the limit of a write.
    fn send(&mut self) -> io::Result<()> {
        if self.engine.outgoing().is_empty() {
            return Ok(());
        }
        let mut end = None;
        self.is_slow = false;
        let result = self.send_until(&mut end);
        if end.is_some() {
            self.stream.set_write_timeout(self.write_limit.get())?;
        }
        result
    }

    fn send_until(&mut self, end: &mut Option<Instant>) -> io::Result<()> {
        loop {
            match self.stream.write(self.engine.outgoing()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.engine.sent(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.engine.outgoing().is_empty() {
                return Ok(());
            }
            self.is_slow = true;
            self.engine.fit_outgoing();
            if let Some(limit) = self.write_limit.get() {
                let left = left(self.stream.now(), limit, end)?;
                self.stream.set_write_timeout(Some(left))?;
            }
        }
    }

    /// The error of rustls, after an alert for the peer.
    #[cold]
    fn fail(&mut self, error: rustls::Error) -> io::Error {
        // If that can be sent; the caller hears of the first error.
        let _ = self.send();
        io_error(error)
    }

    /// Takes plaintext, or zero at the end; `None` if ciphertext is needed for more.
    #[inline(never)] // The frame of a wait is to be small.
    fn take(&mut self, dst: &mut [u8]) -> io::Result<Option<usize>> {
        self.handshake()?;
        match self.engine.read(dst) {
            Ok(0) if self.engine.is_at_end() => Ok(Some(0)),
            Ok(0) => self.send().map(|()| None),
            Ok(count) => Ok(Some(count)),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Waits for ciphertext: in `dst`, while nothing of a record is there.
    fn receive(&mut self, dst: &mut [u8]) -> io::Result<()> {
        let count = if self.engine.has_no_input() && !dst.is_empty() {
            let count = self.stream.read(&mut *dst)?;
            self.engine.receive(&dst[..count]);
            count
        } else {
            let count = self.stream.read(self.engine.input_room())?;
            self.engine.received(count);
            count
        };
        if count == 0 { Err(cut_off()) } else { Ok(()) }
    }

    /// Shortens the limit for the rest of a read.
    #[inline(never)] // No clock in the frame of a wait.
    fn shorten(&mut self, end: &mut Option<Instant>) -> io::Result<()> {
        let Some(limit) = self.read_limit.get() else { return Ok(()) };
        let left = left(self.stream.now(), limit, end)?;
        self.stream.set_read_timeout(Some(left))
    }

    #[inline(never)] // As `shorten`.
    fn restore(&mut self) -> io::Result<()> {
        self.stream.set_read_timeout(self.read_limit.get())
    }

    /// Makes the handshake.
    #[cold]
    fn shake(&mut self) -> io::Result<()> {
        loop {
            if let Err(error) = self.engine.shake() {
                return Err(self.fail(error));
            }
            let is_over = !self.engine.common().is_handshaking();
            // A server's tickets go out with its first response, or before its next wait.
            let are_tickets = is_over && self.engine.has_only_tickets();
            if !are_tickets {
                self.send()?;
            }
            if is_over {
                self.ready = true;
                return Ok(());
            }
            match self.receive(&mut []) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                received => received?,
            }
        }
    }
}

impl<T: Transport> io::Read for Stream<T> {
    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize> {
        if dst.is_empty() {
            return Ok(0);
        }
        let dst = {
            // More than a large buffer takes is of no use for ciphertext.
            let most = dst.len().min(LARGE);
            &mut dst[..most]
        };
        let mut end = None;
        let mut waited = false;
        let result = loop {
            match self.take(dst) {
                Ok(Some(count)) => break Ok(count),
                Ok(None) if waited => {
                    if let Err(error) = self.shorten(&mut end) {
                        break Err(error);
                    }
                }
                Ok(None) => {}
                Err(error) => break Err(error),
            }
            if let Err(error) = self.receive(dst) {
                break Err(error);
            }
            waited = true;
        };
        if end.is_some() {
            self.restore()?;
        }
        result
    }
}

impl<T: Transport> io::Write for Stream<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.handshake()?;
        if self.engine.is_closed() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if self.engine.outgoing().len() + LEAST_ROOM > MOST_OUTGOING {
            self.send()?;
        }
        // From here on nothing waits, and the bytes are taken.
        let room = MOST_OUTGOING - self.engine.outgoing().len();
        let mut taken = 0;
        for bytes in slices {
            let now = bytes.len().min(room - taken);
            match self.engine.encrypt(&bytes[..now]) {
                Ok(()) => taken += now,
                Err(_) if taken > 0 => break,
                Err(error) => return Err(self.fail(error)),
            }
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()?;
        self.stream.flush()
    }
}

impl<T: Transport> Transport for Stream<T> {
    fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.read_limit.set(time);
        self.stream.set_read_timeout(time)
    }

    fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.write_limit.set(time);
        self.stream.set_write_timeout(time)
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        if self.ready
            && let Err(error) = self.engine.close()
        {
            return Err(self.fail(error));
        }
        self.send()?;
        self.stream.shutdown_write()
    }

    /// Agrees with the peer on keys. Again has no effect.
    fn handshake(&mut self) -> io::Result<()> {
        if self.ready { Ok(()) } else { self.shake() }
    }

    /// Encrypts some of the file, and sends before that whatever is encrypted: so no plaintext
    /// lies in memory while the peer is slow.
    fn send_file(&mut self, file: &File, at: u64, count: u64) -> io::Result<u64> {
        self.handshake()?;
        if self.engine.is_closed() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.send()?;
        let most = if self.is_slow { RECORD } else { 2 * RECORD };
        let most = usize::try_from(count).unwrap_or(most).min(most);
        let mut plain = Buffer::default();
        let read = file.read_at(&mut plain.room(most)[..most], at)?;
        if read > 0
            && let Err(error) = self.engine.encrypt(&plain.room(most)[..read])
        {
            return Err(self.fail(error));
        }
        Ok(read as u64)
    }

    fn connection(&self) -> Connection {
        let facts = self.stream.connection().with_secure(true);
        self.session().into_iter().fold(facts, Connection::with)
    }

    fn is_secure(&self) -> bool {
        true
    }

    fn readable_source(&self) -> Option<Waitable<LocalBoxSource<'_, io::Result<()>>>> {
        if self.engine.has_answer() {
            return Some(after(Duration::ZERO).map(|()| Ok(())).boxed_local());
        }
        self.stream.readable_source()
    }

    fn now(&self) -> Instant {
        self.stream.now()
    }
}

impl<T: fmt::Debug> fmt::Debug for Stream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("stream", &self.stream).field("ready", &self.ready).finish_non_exhaustive()
    }
}

/// The rest of a limit that begins to count now, if there is no end as yet.
fn left(now: Instant, limit: Duration, end: &mut Option<Instant>) -> io::Result<Duration> {
    let end = match *end {
        Some(end) => end,
        None => *end.insert(now.checked_add(limit).unwrap_or(now)),
    };
    let left = end.saturating_duration_since(now);
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cold]
fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the peer has closed without saying so by TLS")
}
