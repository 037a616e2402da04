//! WebSockets: messages in both directions, over a connection that has left HTTP. Used by handlers.
//!
//! [`accept`] answers a request, and has a function talk over the [`WebSocket`] in the connection's
//! fiber. The protocol is that of the crate `tungstenite`; no extension is offered, compression
//! neither.
//!
//! # One fiber
//!
//! A program that both waits for its client and has something to tell needs no second fiber:
//! [`WebSocket::recv_or`] waits for a message or for any source, such as the receiving end of a
//! channel.
//!
//! ```
//! use segue_core::{Either, after};
//! use segue_http::{Request, Server, websocket};
//! use std::time::Duration;
//!
//! let server = Server::new(|request: &mut Request<'_>| {
//!     websocket::accept(request, |socket| {
//!         loop {
//!             match socket.recv_or(after(Duration::from_secs(1)))? {
//!                 Either::Left(None) => return Ok(()),
//!                 Either::Left(Some(message)) => socket.send(message)?,
//!                 Either::Right(()) => socket.send("a second has passed")?,
//!             }
//!         }
//!     })
//! });
//! # let _ = server;
//! ```
//!
//! # The end
//!
//! When the client says goodbye, [`WebSocket::recv`] answers, and returns `None`. When the function
//! returns, the server says goodbye: with code 1000, or 1001 in a shutdown, or 1011 after an error
//! or a panic; the server waits for the answer, at most [`Options::close_timeout`]. A shutdown
//! makes `recv` say goodbye with code 1001 and return `None`, and then a client that is silent for
//! 25 ms is not waited for: so idle WebSockets do not hold a shutdown up. A client that violates
//! the protocol is told the reason by the code (1002, 1007, 1009), and `recv` fails.
//!
//! # Costs
//!
//! While a WebSocket waits, its connection has no buffers but 128 bytes, and the part of a message
//! that has arrived.

mod accept_key;
mod frames;
mod handshake;
mod message;
mod options;
mod outgoing;
mod pipe;
mod socket;

pub use handshake::accept;
pub use message::Message;
pub use options::Options;
pub use socket::WebSocket;
