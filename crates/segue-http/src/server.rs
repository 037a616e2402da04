//! The server: a handler, its limits, the accept loop and the way to shut it down.
//! Used by programs.

use std::fmt;
use std::io;
use std::time::Duration;

use segue_core::{CancelToken, Cancelled, Scope};

use crate::config::Config;
use crate::conn::{self, Handle, Shared};
use crate::gate::Gate;
use crate::response::{IntoResponse, Request};
use crate::transport::{Listener, Transport};

/// The pause after an error in accepting, and the longest one after several.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// An HTTP/1.1 server: a handler, and the limits it is called within.
///
/// The handler is an ordinary function from a request to a response. It is called in the fiber of
/// its connection, for one request of that connection after the other, and for those of different
/// connections at the same time; it may wait as it likes. It may borrow from its surroundings, as
/// [`serve`](Self::serve) returns only after every connection has ended.
///
/// A handler that panics answers its request with 500 and ends that connection; nothing else is
/// affected.
///
/// Responses to requests that a client sent in one go are sent together. So a response may wait for
/// the handler of a request behind it, if that one had arrived in full.
///
/// ```
/// use segue_http::{Request, Server};
///
/// let server = Server::new(|request: &mut Request<'_>| format!("you asked for {}", request.uri().path()));
/// # let _ = server;
/// ```
pub struct Server<'h> {
    handle: Box<Handle<'h>>,
    config: Config,
    /// Cancelled by a shutdown.
    control: CancelToken,
}

impl<'h> Server<'h> {
    /// A server that answers each request with what `handler` returns for it, within the default
    /// limits.
    ///
    /// ```
    /// use segue_http::Server;
    /// let server = Server::new(|_| "hello");
    /// # let _ = server;
    /// ```
    pub fn new<F, R>(handler: F) -> Server<'h>
    where
        F: Fn(&mut Request<'_>) -> R + Send + Sync + 'h,
        R: IntoResponse,
    {
        Server {
            handle: Box::new(move |request| handler(request).into_response()),
            config: Config::default(),
            control: CancelToken::new(),
        }
    }

    /// Sets the limits.
    ///
    /// ```
    /// use segue_http::{Config, Server};
    /// let server = Server::new(|_| "hello").config(Config::new().max_connections(1_000));
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn config(mut self, config: Config) -> Server<'h> {
        self.config = config;
        self
    }

    /// A handle that shuts this server down from anywhere.
    ///
    /// ```
    /// use segue_http::Server;
    /// let server = Server::new(|_| "hello");
    /// let shutdown = server.shutdown_handle();
    /// std::thread::spawn(move || shutdown.shutdown()).join().unwrap();
    /// ```
    #[must_use]
    pub fn shutdown_handle(&self) -> Shutdown {
        Shutdown { control: self.control.clone() }
    }

    /// Serves the connections that `listener` accepts, a fiber for each, until the server is shut
    /// down.
    ///
    /// The fibers are spawned on the caller's scheduler; from a plain thread, on the default one.
    /// At most [`Config::max_connections`] are served at a time, counted for each call; for further
    /// clients, connections without a request are ended. If there is none, one client more is
    /// accepted and waits, and all others wait in the listener's backlog. An error in accepting,
    /// such as too many open files, makes the server pause, for at most one second, and go on.
    ///
    /// After [`Shutdown::shutdown`] the listener is dropped, connections without a request end, and
    /// requests that were begun are finished: their responses say `Connection: close`. Then `serve`
    /// returns. A handler is not cancelled; one that never returns keeps the server from ending.
    ///
    /// # Cancellation
    /// Cancelling the caller shuts down in the same way, for this call; the result is then the
    /// error.
    ///
    /// # Errors
    /// [`Cancelled`] inside an [`io::Error`] if the caller was cancelled; a listener's error of
    /// kind [`io::ErrorKind::InvalidInput`]. In both cases all connections have ended.
    ///
    /// ```
    /// use segue_http::Server;
    /// use segue_io::net::{TcpListener, TcpStream};
    /// use std::io::{self, Read, Write};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let address = listener.local_addr()?;
    /// let server = Server::new(|_| "hello");
    ///
    /// let mut text = String::new();
    /// segue_core::try_scope(|s| -> io::Result<()> {
    ///     let serving = s.spawn(|| server.serve(listener));
    ///     let mut client = TcpStream::connect(address)?;
    ///     client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    ///     client.read_to_string(&mut text)?;
    ///     server.shutdown_handle().shutdown();
    ///     serving.join().unwrap()
    /// })?;
    /// assert!(text.ends_with("\r\n\r\nhello"));
    /// # Ok::<(), io::Error>(())
    /// ```
    pub fn serve<L: Listener>(&self, listener: L) -> io::Result<()> {
        let gate = Gate::new(self.config.max_connections);
        let serve = || {
            segue_core::scope(|scope| {
                let error = self.accept_all(listener, &gate, scope);
                scope.cancel();
                if self.control.is_cancelled() && Cancelled::caused(&error) { Ok(()) } else { Err(error) }
            })
        };
        self.control.run(serve)
    }

    /// Spawns a fiber for each connection, until accepting fails for good.
    fn accept_all<'s, L: Listener>(&'s self, listener: L, gate: &'s Gate, scope: &'s Scope<'s, '_>) -> io::Error {
        let mut pause = FIRST_PAUSE;
        loop {
            match listener.accept() {
                Ok(stream) => {
                    pause = FIRST_PAUSE;
                    let place = match gate.enter() {
                        Ok(place) => place,
                        Err(cancelled) => return cancelled.into(),
                    };
                    // It will lie where it starts: beside as few others as can be.
                    let spread = segue_core::Builder::new().attribute(segue_core::Spread);
                    let connection = spread.spawn_in(scope, move || {
                        let shared = Shared { config: &self.config, closing: scope.token(), handle: &*self.handle };
                        // The connection's end is not an error of the server, and neither is its
                        // panic, which has been reported.
                        segue_core::unwind::contain(|| place.token().run(|| conn::run(stream, &shared, Some(&place))));
                    });
                    // The scope waits for it.
                    drop(connection);
                }
                Err(error) if is_fatal(&error) => return error,
                Err(error) if is_of_one_client(&error) => {}
                Err(_) => {
                    if let Err(cancelled) = segue_core::sleep(pause) {
                        return cancelled.into();
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Serves one connection in the calling fiber, until it ends.
    ///
    /// # Cancellation
    /// A request that was begun is finished, and its connection ends after it.
    ///
    /// # Errors
    /// The transport's, cancellation included, or that of a response that could not be completed.
    /// What the client does wrong within HTTP is answered and is no error here.
    ///
    /// ```no_run
    /// use segue_http::Server;
    ///
    /// let listener = std::net::TcpListener::bind("localhost:8080")?;
    /// let (stream, _) = listener.accept()?;
    /// Server::new(|_| "hello").serve_connection(stream)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn serve_connection<T: Transport + 'static>(&self, transport: T) -> io::Result<()> {
        let closing = self.control.clone();
        conn::run(transport, &Shared { config: &self.config, closing, handle: &*self.handle }, None)
    }
}

impl fmt::Debug for Server<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Whether accepting again would fail in the same way for ever.
fn is_fatal(error: &io::Error) -> bool {
    Cancelled::caused(error) || error.kind() == io::ErrorKind::InvalidInput
}

/// Whether the error took a client off the backlog, so that accepting again cannot spin.
fn is_of_one_client(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

/// Shuts a server down; made by [`Server::shutdown_handle`], and may outlive it.
///
/// ```
/// let server = segue_http::Server::new(|_| "hello");
/// let shutdown = server.shutdown_handle();
/// assert!(!shutdown.is_shut_down());
/// shutdown.clone().shutdown();
/// assert!(shutdown.is_shut_down());
/// ```
#[derive(Clone)]
pub struct Shutdown {
    control: CancelToken,
}

impl Shutdown {
    /// Tells the server to finish the requests that were begun and to stop. Never waits; again has
    /// no effect.
    ///
    /// A server that is shut down stays so: serving with it again returns at once.
    ///
    /// ```
    /// let server = segue_http::Server::new(|_| "hello");
    /// server.shutdown_handle().shutdown();
    /// ```
    pub fn shutdown(&self) {
        self.control.cancel();
    }

    /// Whether the server was told to stop. A handler that goes on for long can ask.
    ///
    /// ```
    /// let server = segue_http::Server::new(|_| "hello");
    /// assert!(!server.shutdown_handle().is_shut_down());
    /// ```
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.control.is_cancelled()
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shutdown").field("shut_down", &self.is_shut_down()).finish()
    }
}
