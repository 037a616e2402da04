//! An exchange that is over, as the server's observer sees it: the request, the response, and how
//! both ended. Used by observers; the connection loop fills it in.

use std::fmt;
use std::io;
use std::time::Duration;

use http::{Extensions, HeaderMap, Method, StatusCode, Uri, Version};

use crate::wire::facts::Connection;

/// A function that is told of each exchange.
pub(crate) type Observe<'h> = dyn Fn(&Exchange<'_>) + Send + Sync + 'h;

/// A request and its response, when both are over. See [`Server::observe`](crate::Server::observe).
///
/// ```
/// use segue_http::{Exchange, Server};
///
/// fn report(exchange: &Exchange<'_>) {
///     let path = exchange.uri().map_or("?", |uri| uri.path());
///     eprintln!("{path}: {} and {} bytes, {:?}", exchange.status(), exchange.sent(), exchange.end());
/// }
/// let server = Server::new(|_| "hello").observe(report);
/// # let _ = server;
/// ```
pub struct Exchange<'e> {
    pub(crate) asked: Option<Asked<'e>>,
    pub(crate) connection: &'e Connection,
    pub(crate) status: StatusCode,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) duration: Duration,
    pub(crate) end: End,
}

/// A request with a head that was understood.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'e> {
    pub(crate) method: &'e Method,
    pub(crate) uri: &'e Uri,
    pub(crate) version: Version,
    pub(crate) headers: &'e HeaderMap,
    pub(crate) extensions: &'e Extensions,
}

/// How an exchange has ended.
///
/// ```
/// use segue_http::End;
/// assert_eq!(End::Complete.to_string(), "complete");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum End {
    /// All of the response was sent; also that to a refused request.
    Complete,
    /// The client has gone before the end of the response, or of a handler that [asks for
    /// that](crate::Body::while_connected).
    Gone,
    /// A time was over: that of the [request](crate::Config::request_timeout), or that of the
    /// client to [take the response](crate::Config::write_timeout).
    TimedOut,
    /// The handler panicked, or the writer or reader of its response.
    Panicked,
    /// The writer or reader of the response failed, and the body was cut.
    Failed,
    /// A shutdown's [grace](crate::Shutdown::shutdown_within) was over, or another cancellation
    /// came from outside.
    Cancelled,
}

impl End {
    /// The word for this end, for a log.
    ///
    /// ```
    /// assert_eq!(segue_http::End::TimedOut.as_str(), "timed out");
    /// ```
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            End::Complete => "complete",
            End::Gone => "client gone",
            End::TimedOut => "timed out",
            End::Panicked => "panicked",
            End::Failed => "failed",
            End::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The calls that read one fact each, of the request.
macro_rules! of_request {
    ($($(#[$doc:meta])* fn $name:ident() -> $type:ty;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(&self) -> Option<$type> {
            self.asked.map(|asked| asked.$name)
        }
    )*};
}

impl<'e> Exchange<'e> {
    of_request! {
        /// The request's method, or `None` if the request's head could not be understood.
        ///
        /// ```
        /// let server = segue_http::Server::new(|_| "hello").observe(|exchange| println!("{:?}", exchange.method()));
        /// # let _ = server;
        /// ```
        fn method() -> &'e Method;

        /// The request's target as the client has sent it, or `None` as for
        /// [`method`](Self::method).
        ///
        /// ```
        /// let server = segue_http::Server::new(|_| "hello").observe(|exchange| println!("{:?}", exchange.uri()));
        /// # let _ = server;
        /// ```
        fn uri() -> &'e Uri;

        /// The request's version, or `None` as for [`method`](Self::method).
        ///
        /// ```
        /// let server = segue_http::Server::new(|_| "hello").observe(|exchange| println!("{:?}", exchange.version()));
        /// # let _ = server;
        /// ```
        fn version() -> Version;

        /// The request's headers as the handler has left them, or `None` as for
        /// [`method`](Self::method).
        ///
        /// ```
        /// use segue_http::Server;
        /// let server = Server::new(|_| "hello").observe(|exchange| {
        ///     println!("{:?}", exchange.headers().and_then(|headers| headers.get("user-agent")));
        /// });
        /// # let _ = server;
        /// ```
        fn headers() -> &'e HeaderMap;

        /// The request's extensions as the handler has left them: so a handler can say more to the
        /// observer. `None` as for [`method`](Self::method).
        ///
        /// ```
        /// use segue_http::{Request, Server};
        ///
        /// #[derive(Clone, Debug)]
        /// struct User(u32);
        ///
        /// let server = Server::new(|request: &mut Request<'_>| {
        ///     request.extensions_mut().insert(User(7));
        ///     "hello"
        /// });
        /// let server = server.observe(|exchange| {
        ///     println!("{:?}", exchange.extensions().and_then(|extensions| extensions.get::<User>()));
        /// });
        /// # let _ = server;
        /// ```
        fn extensions() -> &'e Extensions;
    }

    /// The facts of the connection.
    ///
    /// ```
    /// use segue_http::Server;
    /// let server = Server::new(|_| "hello").observe(|exchange| println!("{:?}", exchange.connection().peer_addr()));
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn connection(&self) -> &'e Connection {
        self.connection
    }

    /// The status of the response, also if no byte of the response could be sent.
    ///
    /// ```
    /// let server = segue_http::Server::new(|_| "hello").observe(|exchange| println!("{}", exchange.status()));
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// How many bytes of the request's body were read, by the handler or to be discarded; framing
    /// is not counted.
    ///
    /// ```
    /// let server = segue_http::Server::new(|_| "hello").observe(|exchange| println!("{}", exchange.received()));
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// How many bytes of the response's body the transport has taken, the framing of chunks
    /// included. A small response that is sent together with later ones counts as sent.
    ///
    /// ```
    /// let server = segue_http::Server::new(|_| "hello").observe(|exchange| println!("{}", exchange.sent()));
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The time from the end of the request's head to the end of the response.
    ///
    /// ```
    /// let server = segue_http::Server::new(|_| "hello").observe(|exchange| println!("{:?}", exchange.duration()));
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// How the exchange has ended.
    ///
    /// ```
    /// let server = segue_http::Server::new(|_| "hello").observe(|exchange| println!("{}", exchange.end()));
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn end(&self) -> End {
        self.end
    }
}

impl fmt::Debug for Exchange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("method", &self.method())
            .field("uri", &self.uri())
            .field("status", &self.status)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// The error in place of the result of a response's `writer` or `reader` that has panicked.
#[derive(Debug)]
pub(crate) struct Panicked(pub(crate) &'static str);

impl Panicked {
    pub(crate) fn caused(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Panicked>())
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the response's {} panicked", self.0)
    }
}

impl std::error::Error for Panicked {}
