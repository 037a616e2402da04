//! What sockets speak: the one thing in which a TCP stream and a Unix stream differ.
//!
//! [`Stream`], [`Packets`], [`Listener`](super::Listener) and the builder [`Socket`](super::Socket)
//! are written once, over these. Each protocol says what its addresses are, and how they go to the
//! kernel and come back.

use self::sealed::{Connects, Family, Internet, Machine, Wire};
use super::ops::{self, AcceptOf, ConnectUnix};
use super::shared::Shared;
use super::{Packets, Stream};
use crate::driver::op::{Accept, Connect};
use crate::driver::run::run;
use rustix::net::{SocketAddrAny, SocketAddrUnix};
use socket2::{Domain, SockAddr, Type};
use std::ffi::OsStr;
use std::marker::PhantomData;
use std::net::SocketAddr;
#[cfg(target_os = "android")]
use std::os::android::net::SocketAddrExt;
use std::os::fd::OwnedFd;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{self as unix, SocketAddr as UnixAddr};
use std::path::Path;
use std::time::Duration;
use std::{fmt, io};

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

/// What a socket speaks. For [`Stream`], [`Packets`], [`Listener`](super::Listener) and
/// [`Socket`](super::Socket); there are five, and no others can be made.
pub trait Protocol: Wire<Family: Family<Address = Self::Addr>> {
    /// Where a socket is, and its peer.
    type Addr: Clone + fmt::Debug + Send + Sync;
    /// Std's type of the same socket; the descriptor where std has none.
    type Std: From<OwnedFd> + Into<OwnedFd>;
    /// Our type of a socket that has an address or a peer: a [`Stream`], or [`Packets`].
    type Handle: From<OwnedFd> + fmt::Debug + Send + Sync;
}

/// A protocol with listeners.
pub trait Listens: Protocol + sealed::Connects {
    /// Std's type of a listener; the descriptor where std has none.
    type StdListener: From<OwnedFd> + Into<OwnedFd>;
}

/// A protocol in which something can be sent without a connection.
pub trait Connectionless: Protocol {}

/// A protocol of Unix sockets, which pass descriptors.
pub trait Local: Protocol<Addr = UnixAddr> {}

/// What only this crate knows of protocols. The traits are public, and their room is not.
pub(super) mod sealed {
    use super::*;

    /// How a protocol is asked for.
    pub trait Wire: Sized + 'static {
        type Family: Family;
        const TYPE: Type;
        /// The name of its handles, for `Debug`.
        const NAME: &'static str;

        /// Its handle, of a socket that does not block.
        fn handle(socket: Shared) -> <Self as Protocol>::Handle
        where
            Self: Protocol;
    }

    /// How connections are made, and accepted with their peers.
    pub trait Connects: Wire {
        /// The name of its listeners, for `Debug`.
        const LISTENER: &'static str;

        /// Cancellation: as `Socket::connect` says.
        #[track_caller]
        fn connect(socket: &Shared, to: &SockAddr, timeout: Option<Duration>) -> io::Result<()>;

        /// Cancellation: *no effect*.
        #[track_caller]
        fn accept(listener: &Shared) -> io::Result<(socket2::Socket, Address<Self>)>;
    }

    /// The addresses of a protocol.
    pub type Address<P> = <<P as Wire>::Family as Family>::Address;

    /// How the addresses of a protocol go to the kernel and come back.
    pub trait Family {
        type Address;
        /// Whether a read may end before all that has arrived is read.
        const STOPS_SHORT: bool;

        fn domain(address: &Self::Address) -> Domain;
        fn to_kernel(address: &Self::Address) -> io::Result<SockAddr>;
        fn from_kernel(address: Option<SocketAddrAny>) -> io::Result<Self::Address>;
    }

    /// The Internet.
    pub enum Internet {}

    impl Family for Internet {
        type Address = SocketAddr;
        const STOPS_SHORT: bool = false;

        fn domain(address: &SocketAddr) -> Domain {
            Domain::for_address(*address)
        }

        fn to_kernel(address: &SocketAddr) -> io::Result<SockAddr> {
            Ok((*address).into())
        }

        fn from_kernel(address: Option<SocketAddrAny>) -> io::Result<SocketAddr> {
            let found = address.and_then(|address| SocketAddr::try_from(address).ok());
            found.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the socket has no Internet address"))
        }
    }

    /// The machine.
    pub enum Machine {}

    impl Family for Machine {
        type Address = UnixAddr;
        /// It ends where descriptors come with the data.
        const STOPS_SHORT: bool = true;

        fn domain(_: &UnixAddr) -> Domain {
            Domain::UNIX
        }

        fn to_kernel(address: &UnixAddr) -> io::Result<SockAddr> {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            if let Some(name) = address.as_abstract_name() {
                return SockAddr::unix(OsStr::from_bytes(&[b"\0", name].concat()));
            }
            SockAddr::unix(address.as_pathname().unwrap_or(Path::new("")))
        }

        fn from_kernel(address: Option<SocketAddrAny>) -> io::Result<UnixAddr> {
            // Behind the family there is nothing; or a path of 108 bytes, which some programs make,
            // has no room for its end: no address of std's, and `rustix` panics.
            let speakable = 3..=110;
            let Some(address) = address.filter(|address| speakable.contains(&address.addr_len())) else {
                return UnixAddr::from_pathname("");
            };
            let address = SocketAddrUnix::try_from(address)?;
            #[cfg(any(target_os = "linux", target_os = "android"))]
            if let Some(name) = address.abstract_name() {
                return UnixAddr::from_abstract_name(name);
            }
            UnixAddr::from_pathname(OsStr::from_bytes(address.path_bytes().unwrap_or_default()))
        }
    }
}

impl Wire for Tcp {
    type Family = Internet;
    const TYPE: Type = Type::STREAM;
    const NAME: &'static str = "TcpStream";

    fn handle(socket: Shared) -> Stream<Self> {
        Stream::of(socket)
    }
}

impl Protocol for Tcp {
    type Addr = SocketAddr;
    type Std = std::net::TcpStream;
    type Handle = Stream<Self>;
}

impl Connects for Tcp {
    const LISTENER: &'static str = "TcpListener";

    fn connect(socket: &Shared, to: &SockAddr, timeout: Option<Duration>) -> io::Result<()> {
        run(&socket.0, Connect { to, begun: false }, timeout)
    }

    fn accept(listener: &Shared) -> io::Result<(socket2::Socket, SocketAddr)> {
        run(&listener.0, Accept, None)
    }
}

impl Listens for Tcp {
    type StdListener = std::net::TcpListener;
}

impl Wire for Udp {
    type Family = Internet;
    const TYPE: Type = Type::DGRAM;
    const NAME: &'static str = "UdpSocket";

    fn handle(socket: Shared) -> Packets<Self> {
        Packets::of(socket)
    }
}

impl Protocol for Udp {
    type Addr = SocketAddr;
    type Std = std::net::UdpSocket;
    type Handle = Packets<Self>;
}

impl Connectionless for Udp {}

impl Wire for Unix {
    type Family = Machine;
    const TYPE: Type = Type::STREAM;
    const NAME: &'static str = "UnixStream";

    fn handle(socket: Shared) -> Stream<Self> {
        Stream::of(socket)
    }
}

impl Protocol for Unix {
    type Addr = UnixAddr;
    type Std = unix::UnixStream;
    type Handle = Stream<Self>;
}

impl Connects for Unix {
    const LISTENER: &'static str = "UnixListener";

    fn connect(socket: &Shared, to: &SockAddr, timeout: Option<Duration>) -> io::Result<()> {
        ops::patiently(&socket.0, ConnectUnix(to), timeout)
    }

    fn accept(listener: &Shared) -> io::Result<(socket2::Socket, UnixAddr)> {
        run(&listener.0, AcceptOf::<Self>(PhantomData), None)
    }
}

impl Listens for Unix {
    type StdListener = unix::UnixListener;
}

impl Local for Unix {}

impl Wire for UnixDgram {
    type Family = Machine;
    const TYPE: Type = Type::DGRAM;
    const NAME: &'static str = "UnixDatagram";

    fn handle(socket: Shared) -> Packets<Self> {
        Packets::of(socket)
    }
}

impl Protocol for UnixDgram {
    type Addr = UnixAddr;
    type Std = unix::UnixDatagram;
    type Handle = Packets<Self>;
}

impl Connectionless for UnixDgram {}
impl Local for UnixDgram {}

impl Wire for UnixSeq {
    type Family = Machine;
    const TYPE: Type = Type::SEQPACKET;
    const NAME: &'static str = "UnixSeqpacket";

    fn handle(socket: Shared) -> Packets<Self> {
        Packets::of(socket)
    }
}

impl Protocol for UnixSeq {
    type Addr = UnixAddr;
    type Std = OwnedFd;
    type Handle = Packets<Self>;
}

impl Connects for UnixSeq {
    const LISTENER: &'static str = "UnixSeqpacketListener";

    fn connect(socket: &Shared, to: &SockAddr, timeout: Option<Duration>) -> io::Result<()> {
        ops::patiently(&socket.0, ConnectUnix(to), timeout)
    }

    fn accept(listener: &Shared) -> io::Result<(socket2::Socket, UnixAddr)> {
        run(&listener.0, AcceptOf::<Self>(PhantomData), None)
    }
}

impl Listens for UnixSeq {
    type StdListener = OwnedFd;
}

impl Local for UnixSeq {}
