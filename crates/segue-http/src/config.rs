//! The limits of a server and their defaults. Programs set them through [`Config`]; the connection
//! code reads them.

use std::time::Duration;

/// A server's limits for a client: sizes in bytes, times as [`Duration`]s.
///
/// Each setter takes the value and returns the configuration, so calls chain. A time of
/// [`Duration::MAX`] means no limit, and so does [`u64::MAX`] for the body.
///
/// | limit | default | beyond the limit |
/// | --- | --- | --- |
/// | [`max_head_bytes`](Self::max_head_bytes) | 16 KiB | 431, close |
/// | [`max_headers`](Self::max_headers) | 100 | 431, close |
/// | [`max_body_bytes`](Self::max_body_bytes) | 8 MiB | 413, close |
/// | [`handshake_timeout`](Self::handshake_timeout) | 10 s | close |
/// | [`first_byte_timeout`](Self::first_byte_timeout) | 10 s | close |
/// | [`head_timeout`](Self::head_timeout) | 15 s | 408, close |
/// | [`body_timeout`](Self::body_timeout) | 60 s | 408, close |
/// | [`request_timeout`](Self::request_timeout) | none | 503, close; a body that was begun is cut |
/// | [`idle_timeout`](Self::idle_timeout) | 60 s | close |
/// | [`write_timeout`](Self::write_timeout) | 30 s | close |
/// | [`linger_timeout`](Self::linger_timeout) | 1 s | close |
/// | [`max_connections`](Self::max_connections) | 65,536 | an idle one is closed, or accepting waits |
///
/// ```
/// use std::time::Duration;
/// let config = segue_http::Config::new()
///     .max_body_bytes(1 << 20)
///     .idle_timeout(Duration::from_secs(10));
/// # let _ = config;
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) max_head_bytes: usize,
    pub(crate) max_headers: usize,
    pub(crate) max_body_bytes: u64,
    pub(crate) handshake_timeout: Duration,
    pub(crate) first_byte_timeout: Duration,
    pub(crate) head_timeout: Duration,
    pub(crate) body_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) write_timeout: Duration,
    pub(crate) linger_timeout: Duration,
    pub(crate) max_connections: usize,
    pub(crate) send_date: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            max_head_bytes: 16 << 10,
            max_headers: 100,
            max_body_bytes: 8 << 20,
            handshake_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(60),
            request_timeout: Duration::MAX,
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(30),
            linger_timeout: Duration::from_secs(1),
            max_connections: 1 << 16,
            send_date: true,
        }
    }
}

/// The calls that change one setting each.
macro_rules! settings {
    ($($(#[$doc:meta])* fn $name:ident($given:ident: $type:ty) = $kept:expr;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(self, $given: $type) -> Config {
            Config { $name: $kept, ..self }
        }
    )*};
}

impl Config {
    /// The defaults of the table above.
    ///
    /// ```
    /// let config = segue_http::Config::new();
    /// # let _ = config;
    /// ```
    #[must_use]
    pub fn new() -> Config {
        Config::default()
    }

    settings! {
        /// The most bytes a request's head may have: request line, headers and the empty line after
        /// them.
        ///
        /// The trailers of a chunked body have the same limit of their own. Values below 64 count
        /// as 64.
        ///
        /// ```
        /// let config = segue_http::Config::new().max_head_bytes(8 << 10);
        /// # let _ = config;
        /// ```
        fn max_head_bytes(bytes: usize) = bytes.max(64);

        /// The most header lines a request may have, at most 32,768.
        ///
        /// ```
        /// let config = segue_http::Config::new().max_headers(32);
        /// # let _ = config;
        /// ```
        fn max_headers(count: usize) = count.clamp(1, 1 << 15);

        /// The most bytes a request's body may have, framing not counted.
        ///
        /// A body with a larger declared length fails in its first read, and a chunked one in the
        /// read that would pass the limit, with
        /// [`BodyError::TooLarge`](crate::BodyError::TooLarge). A handler sets another limit for
        /// its request by [`Body::limit`](crate::Body::limit).
        ///
        /// ```
        /// let config = segue_http::Config::new().max_body_bytes(u64::MAX);
        /// # let _ = config;
        /// ```
        fn max_body_bytes(bytes: u64) = bytes;

        /// The longest a new connection may take to make itself ready, as TLS does, before its
        /// first request: see [`Transport::handshake`](crate::Transport::handshake).
        ///
        /// ```
        /// let config = segue_http::Config::new().handshake_timeout(std::time::Duration::from_secs(5));
        /// # let _ = config;
        /// ```
        fn handshake_timeout(time: Duration) = time;

        /// The longest a new connection may stay without a byte. A shorter idle time-out holds for
        /// that connection as well.
        ///
        /// A client that has never sent anything costs as much as one that has, and has shown less:
        /// so this is shorter than [`idle_timeout`](Self::idle_timeout) by default.
        ///
        /// ```
        /// let config = segue_http::Config::new().first_byte_timeout(std::time::Duration::from_secs(5));
        /// # let _ = config;
        /// ```
        fn first_byte_timeout(time: Duration) = time;

        /// The longest a request's head may take from its first byte to its last.
        ///
        /// This time holds for the whole head, in pieces of any size.
        ///
        /// ```
        /// let config = segue_http::Config::new().head_timeout(std::time::Duration::from_secs(5));
        /// # let _ = config;
        /// ```
        fn head_timeout(time: Duration) = time;

        /// The longest the server waits for one request's body, all its reads together.
        ///
        /// Time that the handler spends between its reads does not count.
        ///
        /// ```
        /// let config = segue_http::Config::new().body_timeout(std::time::Duration::from_secs(5));
        /// # let _ = config;
        /// ```
        fn body_timeout(time: Duration) = time;

        /// The longest a request may take from its head to the last byte of its response, a
        /// streamed body included. By default there is no such limit, and no timer for one.
        ///
        /// Afterwards the handler is cancelled, or the writer or reader of its response: waits in
        /// these fail, with reads of the request's body and writes of the response's. When they
        /// have returned, the client gets a 503, if nothing of the response has been sent;
        /// otherwise the body is cut, and the connection ends, so that the client notices where
        /// the protocol allows that. A handler that ignores its cancellation is waited for; its
        /// response is replaced by the 503. A response that is complete by then is sent.
        ///
        /// A stream of events is a body, and is cut as well. A connection that has left HTTP, such
        /// as a WebSocket, is free of this limit.
        ///
        /// The end of a response that is sent together with the next ones, at most 64 KiB, has the
        /// [`write_timeout`](Self::write_timeout) alone. So has a 503; and a read or write of a
        /// request behind such an end waits until the end is sent.
        ///
        /// ```
        /// let config = segue_http::Config::new().request_timeout(std::time::Duration::from_secs(30));
        /// # let _ = config;
        /// ```
        fn request_timeout(time: Duration) = time;

        /// The longest a connection may stay without a request: before its first one, where
        /// [`first_byte_timeout`](Self::first_byte_timeout) holds as well, and between two.
        ///
        /// ```
        /// let config = segue_http::Config::new().idle_timeout(std::time::Duration::from_secs(5));
        /// # let _ = config;
        /// ```
        fn idle_timeout(time: Duration) = time;

        /// The longest the client may take to accept some of a response.
        ///
        /// A client that takes part of a response must take each further 256 KiB, or the rest,
        /// within this time. Taken are bytes for which the kernel has room again: where that is
        /// told late, the server looks once more at the end of the time. Counted is the time inside
        /// of writes, and not that which the program takes in between.
        ///
        /// A body that a handler writes, or that a reader gives, is sent in pieces of 64 KiB and
        /// less, and each piece has this time anew: a client that takes little can hold such a
        /// response for long. [`request_timeout`](Self::request_timeout) bounds the whole.
        ///
        /// ```
        /// let config = segue_http::Config::new().write_timeout(std::time::Duration::from_secs(5));
        /// # let _ = config;
        /// ```
        fn write_timeout(time: Duration) = time;

        /// How long a connection that the server ends still takes in, and discards, the client's
        /// bytes.
        ///
        /// Closing a socket with unread input resets the connection, and the reset can overtake the
        /// last response. So the server first ends its own direction and waits for the client to do
        /// the same, for this long and for at most 256 KiB. A shutdown, and a client that needs the
        /// place, end the wait. Zero closes at once.
        ///
        /// ```
        /// let config = segue_http::Config::new().linger_timeout(std::time::Duration::ZERO);
        /// # let _ = config;
        /// ```
        fn linger_timeout(time: Duration) = time;

        /// The most connections served at a time.
        ///
        /// When there are as many and another client comes, the longest idle one of those that have
        /// not sent anything for 50 ms, or that linger, is closed. If there is none, the next
        /// response closes its connection, or after 50 ms the longest idle connection is closed.
        /// While all of them are busy, clients wait in the listener's backlog. Zero counts as one.
        ///
        /// ```
        /// let config = segue_http::Config::new().max_connections(1_000);
        /// # let _ = config;
        /// ```
        fn max_connections(count: usize) = count.max(1);

        /// Whether responses carry a `Date` header that the handler did not set; they do by
        /// default.
        ///
        /// ```
        /// let config = segue_http::Config::new().send_date(false);
        /// # let _ = config;
        /// ```
        fn send_date(yes: bool) = yes;
    }
}
