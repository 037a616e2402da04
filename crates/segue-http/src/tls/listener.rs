//! The server's side: an acceptor that secures accepted streams, and a listener that has one. Used
//! by programs; the server accepts by the listener.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::ServerConfig;

use crate::tls::engine::{Engine, Noted, io_error};
use crate::tls::stream::Stream;
use crate::wire::transport::{self, Transport};

/// Makes accepted streams into secured ones. A clone is a count up.
///
/// ```
/// use segue_http::{Server, tls};
///
/// # let (chain, key) = (include_bytes!("../../tests/tls/fixtures/server.pem"), include_bytes!("../../tests/tls/fixtures/server.key"));
/// let acceptor = tls::Acceptor::new(tls::server_config(chain, key)?)?;
/// # if false {
/// let listener = std::net::TcpListener::bind("localhost:8443")?;
/// let (stream, _) = listener.accept()?;
/// Server::new(|_| "hello").serve_connection(acceptor.accept(stream)?)?;
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Acceptor(Arc<ServerConfig>);

impl Acceptor {
    /// Secures by this configuration. Never waits.
    ///
    /// Early data is not accepted, whatever the configuration says: such a request may be one that
    /// somebody else has recorded. Its client sends the request again, after the handshake.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a configuration that rustls refuses.
    ///
    /// ```
    /// # let (chain, key) = (include_bytes!("../../tests/tls/fixtures/server.pem"), include_bytes!("../../tests/tls/fixtures/server.key"));
    /// use segue_http::tls;
    /// let acceptor = tls::Acceptor::new(tls::server_config(chain, key)?)?;
    /// # let _ = acceptor;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(config: impl Into<Arc<ServerConfig>>) -> io::Result<Acceptor> {
        let mut config = Arc::unwrap_or_clone(config.into());
        config.max_early_data_size = 0;
        config.cert_resolver = Arc::new(Noted(config.cert_resolver));
        let config = Arc::new(config);
        match Engine::server(Arc::clone(&config)) {
            Ok(_) => Ok(Acceptor(config)),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidInput, error)),
        }
    }

    /// The server's end of a secured stream. Never waits: the handshake is made by
    /// [`Transport::handshake`], or by the first read or write.
    ///
    /// # Errors
    /// None that rustls has not had in [`new`](Self::new).
    ///
    /// ```
    /// # let (chain, key) = (include_bytes!("../../tests/tls/fixtures/server.pem"), include_bytes!("../../tests/tls/fixtures/server.key"));
    /// use segue_http::tls;
    /// use segue_io::net::UnixStream;
    ///
    /// let acceptor = tls::Acceptor::new(tls::server_config(chain, key)?)?;
    /// let (stream, _client) = UnixStream::pair()?;
    /// let stream = acceptor.accept(stream)?;
    /// # let _ = stream;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn accept<T: Transport>(&self, stream: T) -> io::Result<Stream<T>> {
        Engine::server(Arc::clone(&self.0)).map(|engine| Stream::new(stream, engine)).map_err(io_error)
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor").finish_non_exhaustive()
    }
}

/// Accepts as the listener in it, and secures each stream.
///
/// A client is accepted at once. The handshake runs in the fiber of the connection, so a client
/// that does not go on with that delays nobody.
///
/// ```
/// use segue_http::{Server, tls};
/// use segue_io::net::TcpListener;
///
/// # let (chain, key) = (include_bytes!("../../tests/tls/fixtures/server.pem"), include_bytes!("../../tests/tls/fixtures/server.key"));
/// let listener = tls::Listener::new(TcpListener::bind("127.0.0.1:0")?, tls::server_config(chain, key)?)?;
/// let server = Server::new(|_| "hello");
/// # server.shutdown_handle().shutdown();
/// server.serve(listener)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Listener<L> {
    listener: L,
    acceptor: Acceptor,
}

impl<L: transport::Listener> Listener<L> {
    /// Accepts as `listener`, and secures by this configuration, as [`Acceptor::new`] does. Never
    /// waits.
    ///
    /// # Errors
    /// As for [`Acceptor::new`].
    ///
    /// ```
    /// # let (chain, key) = (include_bytes!("../../tests/tls/fixtures/server.pem"), include_bytes!("../../tests/tls/fixtures/server.key"));
    /// use segue_http::tls;
    /// use segue_io::net::TcpListener;
    /// let listener = tls::Listener::new(TcpListener::bind("127.0.0.1:0")?, tls::server_config(chain, key)?)?;
    /// # let _ = listener;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(listener: L, config: impl Into<Arc<ServerConfig>>) -> io::Result<Listener<L>> {
        Ok(Listener { listener, acceptor: Acceptor::new(config)? })
    }

    /// The listener below.
    ///
    /// ```
    /// # let (chain, key) = (include_bytes!("../../tests/tls/fixtures/server.pem"), include_bytes!("../../tests/tls/fixtures/server.key"));
    /// use segue_http::tls;
    /// use segue_io::net::TcpListener;
    /// let listener = tls::Listener::new(TcpListener::bind("127.0.0.1:0")?, tls::server_config(chain, key)?)?;
    /// assert!(listener.get_ref().local_addr()?.port() > 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn get_ref(&self) -> &L {
        &self.listener
    }
}

impl<L: transport::Listener> transport::Listener for Listener<L> {
    type Stream = Stream<L::Stream>;

    fn accept(&self) -> io::Result<Self::Stream> {
        self.acceptor.accept(self.listener.accept()?)
    }
}

impl<L: fmt::Debug> fmt::Debug for Listener<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("listener", &self.listener).finish_non_exhaustive()
    }
}
