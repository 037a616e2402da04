//! Several listeners of one server. Used by programs that serve more than one address, or more than
//! one kind of transport.
//!
//! Each listener has an accept loop in a fiber of its own. The loops are fibers of one scope,
//! inside of the call that serves: the first loop that ends, for whichever reason, ends the others,
//! and then the server ends as with a single listener.

use std::io;
use std::sync::OnceLock;

use segue_core::{Cancelled, scope};

use crate::server::Server;
use crate::server::accepting::Accepting;
use crate::wire::transport::Listener;

/// Several listeners, of the same kind or of different ones, for
/// [`Server::serve_all`](crate::Server::serve_all).
///
/// ```
/// use segue_http::Listeners;
/// use segue_io::net::TcpListener;
///
/// let mut listeners = Listeners::new();
/// for address in ["127.0.0.1:0", "127.0.0.1:0"] {
///     listeners = listeners.with(TcpListener::bind(address)?);
/// }
/// # let _ = listeners;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Default)]
pub struct Listeners<'l>(Vec<Box<dyn Accepts + 'l>>);

/// A listener of any kind.
trait Accepts: Send + Sync {
    fn accept_all(&self, accepting: &Accepting<'_, '_>) -> io::Error;
}

impl<L: Listener + Send + Sync> Accepts for L {
    fn accept_all(&self, accepting: &Accepting<'_, '_>) -> io::Error {
        accepting.accept_all(self)
    }
}

impl<'l> Listeners<'l> {
    /// No listener yet.
    ///
    /// ```
    /// let listeners = segue_http::Listeners::new();
    /// # let _ = listeners;
    /// ```
    #[must_use]
    pub fn new() -> Listeners<'l> {
        Listeners::default()
    }

    /// And this one.
    ///
    /// ```
    /// use segue_http::Listeners;
    /// use segue_io::net::TcpListener;
    ///
    /// let listeners = Listeners::new().with(TcpListener::bind("127.0.0.1:0")?);
    /// # let _ = listeners;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn with(mut self, listener: impl Listener + Send + Sync + 'l) -> Listeners<'l> {
        self.0.push(Box::new(listener));
        self
    }
}

segue_core::impl_debug!([] Listeners<'_>, |it| listeners: it.0.len());

impl Server<'_> {
    /// As [`serve`](Self::serve), for several listeners: of TCP over both versions of IP, of Unix
    /// sockets, of TLS.
    ///
    /// All of them together have one limit of connections, and one end: a shutdown, or the error of
    /// a listener that fails for good. Each listener accepts in a fiber of its own.
    ///
    /// # Cancellation
    /// As for [`serve`](Self::serve).
    ///
    /// # Errors
    /// As for [`serve`](Self::serve), with the error of the listener that has failed first; of kind
    /// [`io::ErrorKind::InvalidInput`] also if there is no listener.
    ///
    /// ```
    /// use segue_http::{Listeners, Request, Server, Shutdown};
    /// use segue_io::net::{TcpListener, TcpStream};
    /// use std::io::{self, Write};
    ///
    /// let (public, local) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    /// let address = local.local_addr()?;
    /// let shutdown = Shutdown::new();
    /// let server = Server::new(|_: &mut Request<'_>| {
    ///     shutdown.shutdown();
    ///     "bye"
    /// });
    /// let server = server.with_shutdown(&shutdown);
    /// let mut client = TcpStream::connect(address)?;
    /// client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    /// server.serve_all(Listeners::new().with(public).with(local))?;
    /// # Ok::<(), io::Error>(())
    /// ```
    pub fn serve_all(&self, listeners: Listeners<'_>) -> io::Result<()> {
        if listeners.0.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no listener to accept connections"));
        }
        self.serve_with(listeners, |listeners, accepting| {
            let first = OnceLock::new();
            scope(|loops| {
                let loops: Vec<_> = listeners
                    .0
                    .iter()
                    .map(|listener| {
                        let (first, all) = (&first, loops.token());
                        loops.spawn(move || {
                            if first.set(listener.accept_all(accepting)).is_ok() {
                                all.cancel();
                            }
                        })
                    })
                    .collect();
                // Joined here, and not by the scope, which would report long waits.
                for accepts in loops {
                    // The scope tells of a panic.
                    let _ = segue_core::shield(|| accepts.join());
                }
            });
            // None has begun where the caller was cancelled before.
            first.into_inner().unwrap_or_else(|| Cancelled::new().into())
        })
    }
}
