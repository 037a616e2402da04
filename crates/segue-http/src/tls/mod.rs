//! TLS, by rustls: streams and listeners that secure those below them. With the feature `tls`.
//!
//! ```no_run
//! use segue_http::{Server, tls};
//! use segue_io::net::TcpListener;
//!
//! let config = tls::server_config_from_files("fullchain.pem", "privkey.pem")?;
//! let listener = tls::Listener::new(TcpListener::bind("0.0.0.0:443")?, config)?;
//! Server::new(|_| "hello, in confidence").serve(listener)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! [`Listener`] accepts for a server. The handshake is not made there but in the connection's own
//! fiber, within [`Config::handshake_timeout`](crate::Config::handshake_timeout): a client that
//! stops half-way holds up nobody else. [`Acceptor`] does the same for one stream. [`Stream`] is
//! what both make, and a client's is made by [`Stream::connect`]. A handler finds the [`Session`]
//! among the properties of its [`Connection`](crate::Connection).
//!
//! Versions 1.2 and 1.3 are spoken, as far as the configuration says; nobody renegotiates, and
//! early data is not accepted, since an eavesdropper can send such a request again. The
//! configurations are those of [`rustls`], which is here so that a program need not depend on that
//! crate; [`server_config`] and [`client_config`] make the usual ones.
//!
//! # Costs
//!
//! A stream that waits for its peer with nothing received has no buffers, of its own or of rustls:
//! ciphertext is received into the caller's buffer, and then moves into one that another stream of
//! the thread has left. Bytes that are written are encrypted into one buffer, which is sent when
//! the stream is flushed, or read, or 32 KiB are in there. The rest is the state of rustls, and a
//! little of the stream's own: 3.4 KB on x86-64, by the measurement in `tests/tls/memory.rs`.

mod buffer;
mod config;
mod engine;
mod listener;
mod session;
mod stream;

pub use config::{client_config, server_config, server_config_from_files};
pub use listener::{Acceptor, Listener};
pub use rustls;
pub use session::Session;
pub use stream::Stream;
