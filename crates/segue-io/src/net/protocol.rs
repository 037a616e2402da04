//! The protocols of sockets: the one thing in which a TCP stream and a Unix stream differ.
//!
//! [`Stream`](super::Stream), [`Packets`](super::Packets), [`Listener`](super::Listener) and the
//! builder [`Socket`](super::Socket) are written once, over these. `handles` has the table of the
//! protocols, and `family` their addresses.

use super::family::Family;
use sealed::Wire;
use std::fmt;
use std::os::fd::OwnedFd;
use std::os::unix::net::SocketAddr as UnixAddr;

/// TCP.
#[derive(Clone, Copy, Debug)]
pub enum Tcp {}

/// UDP.
#[derive(Clone, Copy, Debug)]
pub enum Udp {}

/// Streams of bytes within a machine.
#[derive(Clone, Copy, Debug)]
pub enum Unix {}

/// Datagrams within a machine.
#[derive(Clone, Copy, Debug)]
pub enum UnixDgram {}

/// Connections that keep messages apart, within a machine.
#[derive(Clone, Copy, Debug)]
pub enum UnixSeq {}

/// The protocol of a socket. For [`Stream`](super::Stream), [`Packets`](super::Packets),
/// [`Listener`](super::Listener) and [`Socket`](super::Socket); there are five, and no others can
/// be made.
pub trait Protocol: Wire<Family: Family<Address = Self::Addr>> {
    /// Where a socket is, and its peer.
    type Addr: Clone + fmt::Debug + Send + Sync;
    /// Std's type of the same socket; the descriptor where std has none.
    type Std: From<OwnedFd> + Into<OwnedFd>;
    /// Our type of a socket that has an address or a peer: a [`Stream`](super::Stream), or
    /// [`Packets`](super::Packets).
    type Handle: From<OwnedFd> + fmt::Debug + Send + Sync;
}

/// A protocol with listeners.
pub trait Listens: Protocol {
    /// Std's type of a listener; the descriptor where std has none.
    type StdListener: From<OwnedFd> + Into<OwnedFd>;
}

/// A protocol in which something can be sent without a connection.
pub trait Connectionless: Protocol {}

/// A protocol of Unix sockets, which pass descriptors.
pub trait Local: Protocol<Addr = UnixAddr> {}

/// The part of a protocol that this crate alone knows: the trait is public, and its room is not.
pub(super) mod sealed {
    use crate::net::family::Family;
    use crate::net::protocol::Protocol;
    use crate::net::shared::Shared;
    use socket2::Type;

    /// How a protocol is asked for.
    pub trait Wire: Sized + 'static {
        type Family: Family;
        const TYPE: Type;
        /// The names of its handles and of its listeners, for `Debug`.
        const NAME: &'static str;
        const LISTENER: &'static str;

        /// Its handle, of a socket that does not block.
        fn handle(socket: Shared) -> <Self as Protocol>::Handle
        where
            Self: Protocol;
    }
}
