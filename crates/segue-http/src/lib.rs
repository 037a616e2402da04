//! An HTTP/1.1 server in direct style: a fiber for each connection, and a handler that is an
//! ordinary function.
//!
//! ```no_run
//! use segue_http::{Request, Server};
//! use segue_io::net::TcpListener;
//!
//! fn main() -> std::io::Result<()> {
//!     let server = Server::new(|request: &mut Request<'_>| match request.uri().path() {
//!         "/" => Ok("hello"),
//!         _ => Err(http::StatusCode::NOT_FOUND),
//!     });
//!     server.serve(TcpListener::bind("127.0.0.1:8080")?)
//! }
//! ```
//!
//! # A tour
//!
//! * [`Server`] calls the handler for each request, within the limits of its [`Config`], until a
//!   [`Shutdown`] handle ends it: requests that were begun are finished, and then [`Server::serve`]
//!   returns.
//! * [`Request`] is the `http` crate's with a [`Body`], which is a [`std::io::Read`]. That crate is
//!   here as [`http`], and that of shared bytes as [`bytes`]: a program need not depend on them.
//! * A handler returns anything that is [`IntoResponse`]: text, bytes, a status, a `Result`, or a
//!   full [`Response`]. The [`Payload`] of a response is bytes, a reader, a file, or a function
//!   that writes to a [`BodyWriter`]; or the connection itself, which goes on in another protocol
//!   ([`Payload::upgrade`]). [`event_stream`] sends events to browsers; with the feature
//!   `websocket`, the module of that name has WebSockets.
//! * [`Router`] chooses a handler by path and method, and is served by a closure. [`Params`] has
//!   the parameters of a path, the fields of a query, or those of a form. Middleware is a function
//!   [around](Router::around) handlers.
//! * [`Html`], [`Redirect`] and headers beside a response are further results of handlers; a
//!   [`Refusal`] is an error with a status, for `?`. With the feature `json`, `Json` reads requests
//!   and is a response.
//! * [`Files`] answers with the files of a directory, and [`FileResponse`] with one file: ranges,
//!   conditions, and no copies where the kernel sends files.
//! * [`Server::observe`] has a function called at the end of each [`Exchange`]: for an access log,
//!   which with the feature `tracing` is one call (`trace::access_log`).
//! * [`Server::serve_all`] serves several [`Listeners`], of different kinds.
//! * [`Listener`] and [`Transport`] are the server's demands on the streams below. They are
//!   implemented for TCP and Unix sockets; tests implement them in a few lines. With the feature
//!   `tls`, `tls::Listener` secures the streams of another listener, by rustls.
//! * [`client::Connection`] is the other side: requests are sent, and responses read, over any
//!   [`Transport`].
//!
//! The example `notes_app.rs` of the repository has most of these in one service, and its page
//! `docs/web.md` goes through that by task.
//!
//! # Features
//!
//! | feature | adds |
//! | --- | --- |
//! | `json` | `Json`, by serde |
//! | `tls` | the module `tls`, by rustls with ring |
//! | `tracing` | the module `trace`, an access log |
//! | `websocket` | the module `websocket`, by tungstenite |
//!
//! None is on by default.
//!
//! # Duties of the server
//!
//! Persistent connections and pipelining, for HTTP/1.0 too on request; bodies with a length and in
//! chunks, in both directions, with trailers; `Expect: 100-continue`; HEAD; the `Date` header; time
//! and size limits on all input of a client; an end of connections that does not lose the last
//! response.
//!
//! A handler is cancelled by the [time limit of its request](Config::request_timeout), by the end
//! of a shutdown's [grace](Shutdown::shutdown_within), and by a client that has gone where the
//! handler [says so](Body::while_connected); by nothing else.
//!
//! The server is strict where leniency has let requests be smuggled past proxies. Refused with an
//! error response, after which the connection ends, are: lines that end in a bare LF, folded
//! headers, white space before a colon, a missing, second or malformed `Host`, more than one
//! `Content-Length` or one that is not plain digits, `Content-Length` together with
//! `Transfer-Encoding`, and any encoding but `chunked`. Tunnels (CONNECT) are not offered.
//!
//! The page `docs/evidence/http.md` of the repository counts its answers to several hundred
//! requests, by the RFCs' words.
//!
//! # Costs
//!
//! The head of a response and a body of at most 16 KiB are written in one call; so are all
//! responses to requests that arrived together. A longer file goes from the page cache to a socket
//! without a copy, on Linux, up to 128 KiB by one call. An idle connection has no buffers: the
//! first bytes are read into its fiber's stack, and then the connection takes a buffer that another
//! connection of the worker has left. So an idle connection holds the pages of its stack that its
//! requests have touched (two of 4 KiB with a handler that needs little) and about 1 KiB elsewhere:
//! the socket with its two queues, the fiber, its place and its timer. The kernel's part is not
//! counted. `bench run http` of the repository measures this, and the time of a request, beside
//! hyper.
#![forbid(unsafe_code)]

pub mod client;
mod config;
mod connection;
mod files;
mod listeners;
mod message;
mod routes;
mod server;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "tracing")]
pub mod trace;
#[cfg(feature = "websocket")]
pub mod websocket;
mod wire;

pub use crate::config::Config;
pub use crate::files::{FileResponse, Files};
pub use crate::listeners::Listeners;
pub use crate::message::answers::{Html, Redirect};
pub use crate::message::body::Body;
pub use crate::message::body_error::BodyError;
pub use crate::message::encode::BodyWriter;
pub use crate::message::events::{Event, Events, event_stream};
pub use crate::message::exchange::{End, Exchange};
#[cfg(feature = "json")]
pub use crate::message::json::Json;
pub use crate::message::refusal::Refusal;
pub use crate::message::response::{IntoResponse, Payload, Request, Response};
pub use crate::message::upgrade::Upgraded;
pub use crate::routes::{Next, Params, Router};
pub use crate::server::{Server, Shutdown};
pub use crate::wire::facts::Connection;
pub use crate::wire::transport::{Listener, Transport};
pub use {bytes, http};
