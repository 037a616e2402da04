//! Networking in std's names and shapes.
//!
//! | | streams of bytes | packets | connections of packets |
//! | --- | --- | --- | --- |
//! | Internet | [`TcpStream`], [`TcpListener`] | [`UdpSocket`] | |
//! | within a machine | [`UnixStream`], [`UnixListener`] | [`UnixDatagram`] | [`UnixSeqpacket`], [`UnixSeqpacketListener`] |
//!
//! These types do the same as [`std::net`]'s and [`std::os::unix::net`]'s, and suspend the fiber
//! where those block the thread. Programs written for the latter need another `use`; libraries that
//! take [`std::io::Read`] and [`std::io::Write`] need nothing. [`Socket`] has the options that must
//! be set before a socket is bound or connected.
//!
//! Differences from std:
//!
//! * Every operation that can wait fails once its caller was cancelled, also an
//!   operation that would not have had to wait. The error is told apart by
//!   [`Cancelled::caused`](segue_core::Cancelled::caused).
//! * Time-outs are stores and no system calls, and an operation that ran into one fails with
//!   `TimedOut` on every system.
//! * Clones share one descriptor.
//! * There is no `set_nonblocking`: nothing here blocks a thread that has something else to do.
//!   The form that must not wait is a `try_` of the operation.
//! * The addresses of a host race, instead of being tried one after the other
//!   ([`TcpStream::connect`]).
//!
//! # Names
//!
//! All functions that take an address take [`ToSocketAddrs`]. An address that is written out
//! (`"127.0.0.1:80"`, a [`SocketAddr`](std::net::SocketAddr)) is parsed. A name is looked up by the
//! system, on a thread for [`blocking`](segue_core::blocking) calls, and the fiber waits; its
//! worker does not. A program may [set](set_resolver) a resolver of its own.
//!
//! # Sources
//!
//! An accept can be an arm of a choice ([`accept_source`](Listener::accept_source)): the connection
//! is taken in the moment in which the arm is chosen. A read can't. A driver that completes
//! operations has handed the buffer to the kernel by the time that another arm is chosen, and bytes
//! that are there already would be lost; and an arm that loses must have had no effect. So a choice
//! waits until there is something to read ([`readable_source`](Stream::readable_source)), and then
//! reads, or [tries to](Stream::try_read). The same is true of writes.

mod addrs;
mod builder;
mod copy;
mod family;
mod fds;
mod handles;
mod listener;
mod ops;
mod options;
mod packets;
pub mod protocol;
mod race;
mod resolve;
mod shared;
mod split;
mod stream;
mod tcp;
mod udp;
mod unix;

pub use addrs::{Resolved, ToSocketAddrs, lookup};
pub use builder::Socket;
pub use copy::{CopyError, copy_bidirectional};
pub use fds::Received;
pub use listener::{Incoming, Listener, TcpListener, UnixListener, UnixSeqpacketListener};
pub use packets::{Packets, UdpSocket, UnixDatagram, UnixSeqpacket};
pub use resolve::{Resolve, SystemResolver, set_resolver};
pub use socket2;
pub use split::{ReadHalf, ReuniteError, WriteHalf};
pub use stream::{Stream, TcpStream, UnixStream};
