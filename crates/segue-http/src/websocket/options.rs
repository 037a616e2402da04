//! The limits of WebSockets. Set by programs; read by the handshake and by the socket.

use std::time::Duration;

/// The limits of WebSockets, and the clients that are accepted.
///
/// | limit | default | beyond the limit |
/// | --- | --- | --- |
/// | [`max_message_bytes`](Self::max_message_bytes) | 1 MiB | closes with 1009 |
/// | [`max_frame_bytes`](Self::max_frame_bytes) | 64 KiB | closes with 1009 |
/// | [`ping_interval`](Self::ping_interval) | 30 s | a ping, and then the end |
/// | [`close_timeout`](Self::close_timeout) | 1 s | ends without an answer |
/// | [`Config::write_timeout`](crate::Config::write_timeout) | 30 s | ends |
///
/// ```
/// use segue_http::websocket::Options;
/// let options = Options::new().max_message_bytes(16 << 10).protocol("chat");
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(super) limits: Limits,
    pub(super) any_origin: bool,
    pub(super) protocols: Vec<String>,
}

/// The part of the options that a WebSocket has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) max_message_bytes: usize,
    pub(super) max_frame_bytes: usize,
    pub(super) ping_interval: Duration,
    pub(super) close_timeout: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            limits: Limits {
                max_message_bytes: 1 << 20,
                max_frame_bytes: 64 << 10,
                ping_interval: Duration::from_secs(30),
                close_timeout: Duration::from_secs(1),
            },
            any_origin: false,
            protocols: Vec::new(),
        }
    }
}

impl Options {
    /// The defaults of the table above.
    ///
    /// ```
    /// let options = segue_http::websocket::Options::new();
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn new() -> Options {
        Options::default()
    }

    /// The most bytes of a message, all its frames together.
    ///
    /// ```
    /// let options = segue_http::websocket::Options::new().max_message_bytes(64 << 10);
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn max_message_bytes(self, bytes: usize) -> Options {
        Options { limits: Limits { max_message_bytes: bytes, ..self.limits }, ..self }
    }

    /// The most bytes of a frame: browsers send each message up to a considerable length as one.
    ///
    /// ```
    /// let options = segue_http::websocket::Options::new().max_frame_bytes(1 << 20);
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn max_frame_bytes(self, bytes: usize) -> Options {
        Options { limits: Limits { max_frame_bytes: bytes, ..self.limits }, ..self }
    }

    /// How long a client may be silent before [`WebSocket::recv`](super::WebSocket::recv) sends a
    /// ping; after another such time without a byte, `recv` fails with
    /// [`TimedOut`](std::io::ErrorKind::TimedOut), and the connection ends. [`Duration::MAX`] means
    /// never. Values below a millisecond count as one.
    ///
    /// ```
    /// use std::time::Duration;
    /// let options = segue_http::websocket::Options::new().ping_interval(Duration::from_secs(300));
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn ping_interval(self, time: Duration) -> Options {
        Options { limits: Limits { ping_interval: time.max(Duration::from_millis(1)), ..self.limits }, ..self }
    }

    /// How long the server waits for the client's answer when the server says goodbye.
    ///
    /// In a shutdown the server waits while the client sends, for this time at most; a client from
    /// which nothing comes for 25 ms is not waited for. Its connection is ended behind the goodbye.
    ///
    /// ```
    /// use std::time::Duration;
    /// let options = segue_http::websocket::Options::new().close_timeout(Duration::from_secs(5));
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn close_timeout(self, time: Duration) -> Options {
        Options { limits: Limits { close_timeout: time, ..self.limits }, ..self }
    }

    /// Accepts pages of any origin.
    ///
    /// A browser sends its cookies with a WebSocket from any page, and tells the page's origin. By
    /// default a request whose `Origin` is not the `Host` of the request is refused with 403. Over
    /// TLS the page has to have come so, too; behind a proxy that ends TLS nobody here can know. A
    /// client that is no browser sends no `Origin`, and is accepted.
    ///
    /// ```
    /// let options = segue_http::websocket::Options::new().any_origin();
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn any_origin(self) -> Options {
        Options { any_origin: true, ..self }
    }

    /// Offers a subprotocol, behind those that were offered before: the client gets the first of
    /// these that the client has asked for. Without any in common there is none, and
    /// [`WebSocket::protocol`](super::WebSocket::protocol) says so.
    ///
    /// ```
    /// let options = segue_http::websocket::Options::new().protocol("chat.v2").protocol("chat.v1");
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn protocol(mut self, name: impl Into<String>) -> Options {
        self.protocols.push(name.into());
        self
    }
}
