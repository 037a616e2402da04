//! The listener, in the shape of std's: TCP, and Unix sockets.
//!
//! Used by servers. How each protocol binds is in `tcp` and `unix`.

use super::ops::{self, Accept};
use super::protocol::{Listens, Tcp, Unix, UnixSeq};
use super::shared::Shared;
use crate::driver::op::Op;
use crate::driver::run::{run, source};
use segue_core::{Source, Waitable, WaitsFor};
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::{fmt, io};

/// A socket that accepts TCP connections. [`Listener`] has the details.
pub type TcpListener = Listener<Tcp>;

/// A socket that accepts connections within the machine, at a path or, on Linux, at an abstract
/// name. [`Listener`] has the details.
///
/// The path stays when the listener is dropped; a program that binds the path again removes the
/// file first.
pub type UnixListener = Listener<Unix>;

/// A socket that accepts connections within the machine which keep messages apart, as a
/// [`UnixListener`] in all else.
pub type UnixSeqpacketListener = Listener<UnixSeq>;

/// A socket that accepts connections: a [`TcpListener`], a [`UnixListener`] or a
/// [`UnixSeqpacketListener`].
///
/// # Lack of descriptors
///
/// While the process has no descriptor left for a connection, an accept fails at once, with the
/// error that the kernel has for that (`EMFILE`; `ENFILE` if the system has none). The connection
/// stays in the queue. So a server should pause after an error that is not a client's, or the loop
/// runs round in circles until something is closed.
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
pub struct Listener<P> {
    pub(super) shared: Shared,
    pub(super) protocol: PhantomData<fn() -> P>,
    /// Shared by the handles alone: a reactor holds the socket for a moment, too.
    clones: Arc<()>,
}

impl<P: Listens> Listener<P> {
    pub(super) fn of(shared: Shared) -> Self {
        Self { shared, protocol: PhantomData, clones: Arc::default() }
    }

    pub(super) fn into_fd(self) -> io::Result<OwnedFd> {
        self.shared.hand_on(Arc::strong_count(&self.clones) > 1)
    }

    /// Waits for a connection and takes this connection.
    ///
    /// Several callers may wait at once; which of them gets a connection is not said.
    ///
    /// # Cancellation
    /// *No effect*: a connection stays in the listener's queue until the system call that also
    /// returns it.
    ///
    /// # Errors
    /// The error of `accept`: `ConnectionAborted` for a client that has gone again, and errors for
    /// a [lack of descriptors](#lack-of-descriptors) or memory, after which another accept may
    /// succeed.
    #[track_caller]
    pub fn accept(&self) -> io::Result<(P::Handle, P::Addr)> {
        run(&self.shared.0, Accept::<P::Family>(PhantomData), None).map(Self::accepted)
    }

    /// An accept that never waits.
    ///
    /// # Errors
    /// `WouldBlock` if there is no connection; else as for [`accept`](Self::accept).
    pub fn try_accept(&self) -> io::Result<(P::Handle, P::Addr)> {
        ops::now_or_never(&self.shared.0, Accept::<P::Family>(PhantomData)).map(Self::accepted)
    }

    fn accepted((io, peer): (socket2::Socket, P::Addr)) -> (P::Handle, P::Addr) {
        (P::handle(Shared::adopt::<P::Family>(io)), peer)
    }

    /// [`accept`](Self::accept) as a source: to be awaited, or chosen among others. The source can
    /// be waited for again, for the next connection. A simulation counts the wait among those for
    /// the network.
    ///
    /// # Cancellation
    /// *No effect*, as for [`accept`](Self::accept): every accepted connection is yielded. So
    /// too if another arm was chosen, or the future is dropped.
    ///
    /// # Errors
    /// Yields those of [`accept`](Self::accept).
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
    /// while let Either::Right(accepted) =
    /// stop.cancelled_source().or_else(listener.accept_source()).wait()? {
    ///     let (_stream, peer) = accepted?;
    ///     assert_eq!(peer, client.local_addr()?);
    ///     served += 1;
    ///     stop.cancel();
    /// }
    /// assert_eq!(served, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn accept_source(&self) -> Waitable<impl Source<Output = io::Result<(P::Handle, P::Addr)>>> {
        let accepted =
            source(&self.shared.0, Accept::<P::Family>(PhantomData), WaitsFor::new(Accept::<P::Family>::WAITS_FOR));
        accepted.map(|result| result.map(Self::accepted))
    }

    /// Ready when an accept would not wait, as [`accept_source`](Self::accept_source) is, and
    /// accepts nothing.
    ///
    /// # Cancellation
    /// *No effect*, also if another arm was chosen, or the future is dropped.
    ///
    /// # Errors
    /// Yields the kernel's error when the kernel can't be asked.
    #[track_caller]
    pub fn readable_source(&self) -> Waitable<impl Source<Output = io::Result<()>>> {
        ops::readable(&self.shared.0)
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
    pub fn incoming(&self) -> Incoming<'_, P> {
        Incoming { listener: Some(self) }
    }

    /// Another handle of the same listener, with the same descriptor. Never waits.
    ///
    /// # Errors
    /// None; the signature is std's.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { clones: Arc::clone(&self.clones), ..Self::of(self.shared.clone()) })
    }
}

/// The connections of a listener. Made by [`Listener::incoming`].
#[must_use = "an iterator does nothing until it is asked"]
pub struct Incoming<'a, P = Tcp> {
    /// `None` once the caller was cancelled.
    listener: Option<&'a Listener<P>>,
}

impl<P: Listens> Iterator for Incoming<'_, P> {
    type Item = io::Result<P::Handle>;

    #[track_caller]
    fn next(&mut self) -> Option<io::Result<P::Handle>> {
        let accepted = self.listener?.accept().map(|(stream, _)| stream);
        if let Err(error) = &accepted
            && segue_core::Cancelled::caused(error)
        {
            self.listener = None;
        }
        Some(accepted)
    }
}

impl<P: Listens> std::iter::FusedIterator for Incoming<'_, P> {}

impl<P: Listens> fmt::Debug for Incoming<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("listener", &self.listener).finish()
    }
}
