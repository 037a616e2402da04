//! The handle that shuts servers down. Used by programs, and by the server, which accepts and has
//! requests handled under its two tokens.

use std::fmt;
use std::time::Duration;

use segue_core::CancelToken;

/// Shuts servers down, from anywhere: from a handler, another fiber, another thread.
///
/// [Made by a server](crate::Server::shutdown_handle), or earlier, and then [given to
/// it](crate::Server::with_shutdown). Clones are the same handle, which may outlive the server.
///
/// ```
/// let server = segue_http::Server::new(|_| "hello");
/// let shutdown = server.shutdown_handle();
/// assert!(!shutdown.is_shut_down());
/// shutdown.clone().shutdown();
/// assert!(shutdown.is_shut_down());
/// ```
#[derive(Clone, Default)]
pub struct Shutdown {
    /// Cancelled by a shutdown.
    pub(super) accepting: CancelToken,
    /// Asked to finish by a shutdown, and cancelled after its grace.
    pub(super) requests: CancelToken,
}

impl Shutdown {
    /// A handle that shuts down each server that is [given](crate::Server::with_shutdown).
    ///
    /// ```
    /// use segue_http::{Server, Shutdown};
    ///
    /// let shutdown = Shutdown::new();
    /// let (site, admin) = (Server::new(|_| "hello"), Server::new(|_| "well"));
    /// let servers = [site, admin].map(|server| server.with_shutdown(&shutdown));
    /// shutdown.shutdown();
    /// assert!(servers[1].shutdown_handle().is_shut_down());
    /// ```
    #[must_use]
    pub fn new() -> Shutdown {
        Shutdown::default()
    }

    /// Tells the server to stop, and the requests that were begun to finish, and cancels nothing of
    /// these. Never waits; again has no effect.
    ///
    /// A server that is shut down stays so: serving again returns at once.
    ///
    /// ```
    /// let server = segue_http::Server::new(|_| "hello");
    /// server.shutdown_handle().shutdown();
    /// ```
    pub fn shutdown(&self) {
        self.requests.ask_to_finish();
        self.accepting.cancel();
    }

    /// As [`shutdown`](Self::shutdown), and cancels the requests that are not over after `grace`:
    /// waits of their handlers fail, and so do reads and writes of the connection, which ends.
    /// Never waits.
    ///
    /// A grace of zero is none. Again, the grace that ends first counts.
    ///
    /// ```
    /// use segue_http::{Request, Server, Shutdown};
    /// use std::io::{Read, Write};
    /// use std::os::unix::net::UnixStream;
    /// use std::time::Duration;
    ///
    /// let shutdown = Shutdown::new();
    /// let server = Server::new(|_: &mut Request<'_>| -> std::io::Result<&str> {
    ///     shutdown.shutdown_within(Duration::from_millis(10));
    ///     segue_core::sleep(Duration::MAX)?;
    ///     Ok("never")
    /// });
    /// let server = server.with_shutdown(&shutdown);
    /// let (mut client, stream) = segue_io::net::UnixStream::pair()?;
    /// segue_core::scope(|s| {
    ///     let serving = s.spawn(|| server.serve_connection(stream));
    ///     client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    ///     let _ = client.read_to_end(&mut Vec::new());
    ///     serving.join().unwrap()
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown_within(&self, grace: Duration) {
        self.requests.cancel_soft(grace);
        self.accepting.cancel();
    }

    /// Whether the server was told to stop. A handler that goes on for long can ask; or wait for
    /// that, by [`finishing_source`](segue_core::finishing_source).
    ///
    /// ```
    /// let server = segue_http::Server::new(|_| "hello");
    /// assert!(!server.shutdown_handle().is_shut_down());
    /// ```
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.accepting.is_cancelled()
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shutdown").field("shut_down", &self.is_shut_down()).finish()
    }
}
