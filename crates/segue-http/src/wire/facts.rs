//! The facts of a connection: its addresses, whether its bytes are secured, and what else its
//! transport knows. Used by transports, which state them, and by handlers.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use http::Extensions;

/// The facts of the connection that a request came by, in the request's extensions.
///
/// A clone is a count up. A [`Transport`](crate::Transport) states them, once, after its
/// handshake. There is one in the extensions of each request, an empty one if the transport states
/// nothing.
///
/// ```
/// use segue_http::{Connection, Request, Server};
///
/// let server = Server::new(|request: &mut Request<'_>| {
///     let peer = request.extensions().get::<Connection>().and_then(Connection::peer_addr);
///     peer.map_or("hello, whoever you are".to_owned(), |peer| format!("hello, {peer}"))
/// });
/// # let _ = server;
/// ```
#[derive(Clone, Default)]
pub struct Connection(Option<Arc<Facts>>);

#[derive(Clone, Default)]
struct Facts {
    peer_addr: Option<SocketAddr>,
    local_addr: Option<SocketAddr>,
    is_secure: bool,
    properties: Extensions,
}

impl Connection {
    /// Without any fact.
    ///
    /// ```
    /// assert_eq!(segue_http::Connection::new().peer_addr(), None);
    /// ```
    #[must_use]
    pub fn new() -> Connection {
        Connection::default()
    }

    /// The client's address, where that is one of a network.
    ///
    /// Behind a proxy, this is the proxy's address.
    ///
    /// ```
    /// let facts = segue_http::Connection::new().with_peer_addr(([127, 0, 0, 1], 80).into());
    /// assert_eq!(facts.peer_addr().unwrap().port(), 80);
    /// ```
    #[must_use]
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.0.as_ref()?.peer_addr
    }

    /// The server's address that the client has reached.
    ///
    /// ```
    /// let facts = segue_http::Connection::new().with_local_addr(([127, 0, 0, 1], 80).into());
    /// assert_eq!(facts.local_addr().unwrap().port(), 80);
    /// ```
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.0.as_ref()?.local_addr
    }

    /// Whether the bytes are secured, as by TLS.
    ///
    /// ```
    /// assert!(!segue_http::Connection::new().is_secure());
    /// ```
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.0.as_ref().is_some_and(|facts| facts.is_secure)
    }

    /// A property of another type, that the transport has stated.
    ///
    /// ```
    /// #[derive(Clone, Debug, PartialEq)]
    /// struct Line(u32);
    ///
    /// let facts = segue_http::Connection::new().with(Line(3));
    /// assert_eq!(facts.get::<Line>(), Some(&Line(3)));
    /// ```
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.as_ref()?.properties.get()
    }

    /// States the client's address.
    ///
    /// ```
    /// let facts = segue_http::Connection::new().with_peer_addr(([127, 0, 0, 1], 80).into());
    /// # let _ = facts;
    /// ```
    #[must_use]
    pub fn with_peer_addr(self, address: SocketAddr) -> Connection {
        self.changed(|facts| facts.peer_addr = Some(address))
    }

    /// States the server's address.
    ///
    /// ```
    /// let facts = segue_http::Connection::new().with_local_addr(([127, 0, 0, 1], 80).into());
    /// # let _ = facts;
    /// ```
    #[must_use]
    pub fn with_local_addr(self, address: SocketAddr) -> Connection {
        self.changed(|facts| facts.local_addr = Some(address))
    }

    /// States whether the bytes are secured.
    ///
    /// ```
    /// assert!(segue_http::Connection::new().with_secure(true).is_secure());
    /// ```
    #[must_use]
    pub fn with_secure(self, secure: bool) -> Connection {
        self.changed(|facts| facts.is_secure = secure)
    }

    /// States a property, in place of an earlier one of the same type.
    ///
    /// ```
    /// assert_eq!(segue_http::Connection::new().with(1u8).with(2u8).get::<u8>(), Some(&2));
    /// ```
    #[must_use]
    pub fn with<T: Clone + Send + Sync + 'static>(self, property: T) -> Connection {
        self.changed(|facts| drop(facts.properties.insert(property)))
    }

    fn changed(mut self, change: impl FnOnce(&mut Facts)) -> Connection {
        change(Arc::make_mut(self.0.get_or_insert_default()));
        self
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("peer_addr", &self.peer_addr())
            .field("local_addr", &self.local_addr())
            .field("is_secure", &self.is_secure())
            .finish_non_exhaustive()
    }
}
