//! The server: a handler, its limits, the parts of a call that serves, and the shutdown. Used by
//! programs.
//!
//! # The end
//!
//! ```text
//!   accepts --shut down, or the caller is asked to finish, or cancelled; or the listener fails--> ends
//!   ends: requests are asked to finish, the listener is dropped, connections at rest are cancelled
//!   ends --all connections have ended-----------------------------------------------------> over
//!   ends --the grace is over, of a shutdown or of the caller--> cancels the requests, waits --> over
//! ```
//!
//! The connections are fibers of a scope that is shielded from the caller: so this scope asks their
//! requests, and cancels them. There each runs under the token of the [`Shutdown`] for requests,
//! too, which reaches them without anybody's help: a handler that computes sees the request at
//! once. The accept loop runs under two other tokens alone, that of the shutdown for accepting, and
//! one that a *watcher* cancels: a daemon in the caller's own context, which waits until that is
//! asked to finish, or cancelled.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use segue_core::{CancelToken, Cancelled, after, finishing_source, is_cancelled, scope, shield};

use crate::config::Config;
use crate::connection::gate::Gate;
use crate::connection::serve::{self, Handle, Shared};
use crate::message::exchange::{Exchange, Observe};
use crate::message::response::{IntoResponse, Request};
use crate::server::accepting::Accepting;
use crate::server::shutdown::Shutdown;
use crate::wire::transport::{Listener, Transport};

/// An HTTP/1.1 server: a handler, and the limits for its calls.
///
/// The handler is an ordinary function from a request to a response. The handler is called in the
/// fiber of its connection, for one request of that connection after the other, and for those of
/// different connections at the same time; waits are allowed. It may borrow from its surroundings,
/// as [`serve`](Self::serve) returns only after every connection has ended.
///
/// A handler that panics answers its request with 500 and ends that connection; nothing else is
/// affected.
///
/// Responses to requests that a client sent in one go are sent together, as long as the handlers do
/// not wait. When one waits, the responses before it are sent: by a fiber of the same worker, which
/// a connection on a plain thread has not.
///
/// # Shutting down
///
/// | | at once | handlers and their responses | in the end |
/// | --- | --- | --- | --- |
/// | [`Shutdown::shutdown`] | accepts no more, idle connections end | [`finishing_source`] is ready in them, and [`is_finishing`](segue_core::is_finishing) says so | waits for them |
/// | [`Shutdown::shutdown_within`] a grace | the same | the same | cancels those that are not over after the grace |
/// | the caller is cancelled | the same | the same | waits for them |
/// | [`Scope::cancel_soft`](segue_core::Scope::cancel_soft) on the caller | the same | the same | cancels them with the caller |
///
/// A response that streams without an end has to ask, or to be given a grace:
///
/// ```
/// use segue_core::{Either, after, finishing_source};
/// use segue_http::{Payload, Request, Response, Server};
/// use std::io::Write;
/// use std::time::Duration;
///
/// let server = Server::new(|_: &mut Request<'_>| {
///     Response::new(Payload::writer(|out| {
///         // A tick each second, until the server is shut down.
///         while let Either::Left(()) = after(Duration::from_secs(1)).or(finishing_source()).wait()? {
///             writeln!(out, "tick")?;
///             out.flush()?;
///         }
///         writeln!(out, "goodbye")
///     }))
/// });
/// # let _ = server;
/// ```
///
/// ```
/// use segue_http::{Request, Server};
///
/// let server = Server::new(|request: &mut Request<'_>| format!("you asked for {}", request.uri().path()));
/// # let _ = server;
/// ```
pub struct Server<'h> {
    handle: Box<Handle<'h>>,
    observe: Option<Box<Observe<'h>>>,
    config: Config,
    shutdown: Shutdown,
}

impl<'h> Server<'h> {
    /// A server that answers each request with the result of `handler`, within the default limits.
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
            observe: None,
            config: Config::default(),
            shutdown: Shutdown::new(),
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
    pub fn config(self, config: Config) -> Server<'h> {
        Server { config, ..self }
    }

    /// Has `observer` called once at the end of each exchange: for an access log, or for counts. Of
    /// several observers the last one counts.
    ///
    /// Exchanges are also those of requests that were refused, of handlers that panicked, and of
    /// bodies that were cut. The observer is called in the fiber of the connection, and holds up
    /// this connection alone; its panic ends there. Without an observer, nothing is recorded.
    ///
    /// ```
    /// use segue_http::{End, Server};
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// let cut = AtomicU64::new(0);
    /// let server = Server::new(|_| "hello").observe(|exchange| {
    ///     if exchange.end() != End::Complete {
    ///         cut.fetch_add(1, Ordering::Relaxed);
    ///     }
    /// });
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn observe(self, observer: impl Fn(&Exchange<'_>) + Send + Sync + 'h) -> Server<'h> {
        Server { observe: Some(Box::new(observer)), ..self }
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
        self.shutdown.clone()
    }

    /// Has this handle, which was made before, shut the server down: so that the handler can have
    /// the handle, or one handle ends several servers.
    ///
    /// ```
    /// use segue_http::{Request, Server, Shutdown};
    ///
    /// let shutdown = Shutdown::new();
    /// let server = Server::new(|request: &mut Request<'_>| {
    ///     if request.uri().path() == "/quit" {
    ///         shutdown.shutdown();
    ///     }
    ///     "bye"
    /// });
    /// let server = server.with_shutdown(&shutdown);
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn with_shutdown(self, shutdown: &Shutdown) -> Server<'h> {
        Server { shutdown: shutdown.clone(), ..self }
    }

    /// Serves the connections that `listener` accepts, a fiber for each, until the server is shut
    /// down.
    ///
    /// The fibers are spawned on the caller's scheduler; on a plain thread, each is a thread.
    /// At most [`Config::max_connections`] are served at a time, counted for each call; for further
    /// clients, connections without a request are ended. If there is none, one client more is
    /// accepted and waits, and all others wait in the listener's backlog. An error in accepting,
    /// such as too many open files, makes the server pause, for at most one second, and go on.
    ///
    /// After [`Shutdown::shutdown`] the listener is dropped, connections without a request end, and
    /// requests that were begun are asked to finish: their responses say `Connection: close`. Then
    /// `serve` returns. A handler is not cancelled; one that never returns keeps the server from
    /// ending, except with a [grace](Shutdown::shutdown_within).
    ///
    /// # Cancellation
    /// Cancelling the caller shuts down in the same way, for this call; the result is then the
    /// error. A caller that is asked to finish shuts down, too; after its cancellation the grace is
    /// over, and the handlers are cancelled.
    ///
    /// # Errors
    /// [`Cancelled`] inside an [`io::Error`] if the caller was cancelled before the server had been
    /// told to end; a listener's error of kind [`io::ErrorKind::InvalidInput`]. In both cases all
    /// connections have ended.
    ///
    /// # Panics
    /// If the listener panics, in its `accept`: the connections are cancelled, and the panic goes
    /// on here.
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
        self.serve_with(listener, |listener, accepting| accepting.accept_all(listener))
    }

    /// Serves the connections that `accept_all` accepts from the listener, or from several.
    pub(crate) fn serve_with<L>(
        &self,
        listener: L,
        accept_all: impl FnOnce(&L, &Accepting<'_, '_>) -> io::Error,
    ) -> io::Result<()> {
        let gate = Gate::new(self.config.max_connections);
        let (stop, asked) = (CancelToken::new(), AtomicBool::new(false));
        scope(|caller| {
            let run = || {
                scope(|connections| {
                    let requests = connections.token();
                    let (stops, its, asked) = (Stops(stop.clone()), requests.clone(), &asked);
                    drop(caller.spawn_daemon(move || watch(asked, stops, &its)));
                    let accepting = Accepting { shared: self.shared(), gate: &gate, scope: connections };
                    let accept = || accept_all(&listener, &accepting);
                    let error = self.shutdown.accepting.shield(|| stop.run(accept));
                    // First of all: no response that comes after this promises that another one can
                    // follow.
                    requests.ask_to_finish();
                    drop(listener);
                    gate.close();
                    error
                })
            };
            let error = shield(run);
            match Cancelled::caused(&error) {
                true if self.shutdown.is_shut_down() || asked.load(Ordering::Relaxed) => Ok(()),
                // The caller's own says why.
                true => Err(segue_core::check().err().map_or(error, io::Error::from)),
                false => Err(error),
            }
        })
    }

    fn shared(&self) -> Shared<'_> {
        let requests = &self.shutdown.requests;
        Shared { config: &self.config, requests, handle: &*self.handle, observe: self.observe.as_deref() }
    }

    /// Serves one connection in the calling fiber, to its end.
    ///
    /// [Shutting the server down](Shutdown) ends the connection as well, in the same way as those
    /// of [`serve`](Self::serve).
    ///
    /// # Cancellation
    /// A request that was begun is finished, and its connection ends afterwards.
    ///
    /// # Errors
    /// The transport's, cancellation included, or that of a response that could not be completed.
    /// The client's mistakes within HTTP are answered and are no error here, and neither is a
    /// shutdown.
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
        let ended = self.shutdown.accepting.run(|| serve::run(transport, &self.shared(), None));
        match ended {
            Err(error) if self.shutdown.is_shut_down() && !is_cancelled() && Cancelled::caused(&error) => Ok(()),
            ended => ended,
        }
    }
}

segue_core::impl_debug!([] Server<'_>, |it| config: it.config);

/// Stops accepting in its drop: also if the watcher that has this is cancelled before its start.
struct Stops(CancelToken);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Stops accepting when the caller is to finish, or cancelled; and cancels the requests at a
/// cancellation after that request: then the grace is over. Run in the caller's context.
fn watch(asked: &AtomicBool, stops: Stops, requests: &CancelToken) {
    if finishing_source().wait().is_err() || is_cancelled() {
        return;
    }
    asked.store(true, Ordering::Relaxed);
    drop(stops);
    if let Err(over) = after(Duration::MAX).wait() {
        match over.reason() {
            Some(reason) => requests.cancel_with(reason.to_string()),
            None => requests.cancel(),
        }
    }
}
