//! The methods of Unix sockets that those of the Internet lack: paths, pairs, addresses.
//!
//! Used as methods of `UnixStream`, `UnixDatagram`, `UnixSeqpacket` and their listeners.
//!
//! # Queues that are full
//!
//! A connect to a listener with a full queue, and a datagram to an address with a full queue, have
//! to wait for somebody else's queue. The kernel tells nobody when that has room again (but for a
//! datagram socket that is *connected* there). So these two are attempted again after pauses, from
//! one millisecond to 64, in no order.

use super::family::{Family, Machine};
use super::listener::Listener;
use super::ops::{self, SendTo};
use super::packets::Packets;
use super::protocol::sealed::Wire;
use super::protocol::{Listens, Local, Unix, UnixDgram, UnixSeq};
use super::shared::Shared;
use super::stream::Stream;
use super::tcp::BACKLOG;
use crate::system::sys;
use socket2::Domain;
use std::io;
use std::os::unix::net::SocketAddr;
use std::path::Path;

/// An address by its path.
fn named(path: impl AsRef<Path>) -> io::Result<SocketAddr> {
    SocketAddr::from_pathname(path)
}

/// A new socket without a name.
fn unnamed<P: Wire>() -> io::Result<Shared> {
    Ok(Shared::adopt::<Machine>(sys::socket(Domain::UNIX, P::TYPE)?))
}

fn pair<P: Wire>() -> io::Result<(Shared, Shared)> {
    let (one, other) = sys::pair(P::TYPE)?;
    Ok((Shared::adopt::<Machine>(one), Shared::adopt::<Machine>(other)))
}

#[track_caller]
fn connected<P: Listens>(addr: &SocketAddr) -> io::Result<Shared> {
    let shared = unnamed::<P>()?;
    ops::connect::<Machine>(&shared.0, &Machine::to_kernel(addr)?, None)?;
    Ok(shared)
}

/// The connections within a machine, of both kinds.
macro_rules! connections {
    ($handle:ident, $protocol:ident, $name:literal) => {
        impl $handle<$protocol> {
            /// Connects to the listener at this path.
            ///
            /// While the listener's queue is full the connect is attempted again, after pauses.
            ///
            /// # Cancellation
            /// *No effect*.
            ///
            /// # Errors
            /// The kernel's error: `NotFound` if there is no such file, `ConnectionRefused` if
            /// nobody listens there any more. `InvalidInput` for a path that is too long: over 107
            /// bytes on Linux.
            #[track_caller]
            pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
                Self::connect_addr(&named(path)?)
            }

            /// Connects to the listener at this address, which may be an abstract name.
            ///
            /// # Cancellation
            /// *No effect*.
            ///
            /// # Errors
            /// As for [`connect`](Self::connect).
            #[track_caller]
            pub fn connect_addr(addr: &SocketAddr) -> io::Result<Self> {
                connected::<$protocol>(addr).map(Self::of)
            }

            /// Two ends of a new connection, which have no names. Never waits.
            ///
            /// # Errors
            /// If there are no descriptors left.
            ///
            /// # Examples
            ///
            /// ```
            #[doc = concat!("use segue_io::net::", $name, ";")]
            ///
            #[doc = concat!("let (here, there) = ", $name, "::pair()?;")]
            /// assert!(here.local_addr()?.is_unnamed() && there.peer_addr()?.is_unnamed());
            /// # Ok::<(), std::io::Error>(())
            /// ```
            pub fn pair() -> io::Result<(Self, Self)> {
                pair::<$protocol>().map(|(one, other)| (Self::of(one), Self::of(other)))
            }
        }
    };
}

connections!(Stream, Unix, "UnixStream");
connections!(Packets, UnixSeq, "UnixSeqpacket");

impl<P: Listens + Local> Listener<P> {
    /// Listens at this path, where there must be nothing yet. Never waits.
    ///
    /// # Errors
    /// The kernel's error: `AddrInUse` if there is something, also the path of a listener that
    /// has gone. `InvalidInput` for a path that is too long: over 107 bytes on Linux.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_io::net::{UnixListener, UnixStream};
    /// use std::io::{Read, Write};
    ///
    /// let path = std::env::temp_dir().join(format!("segue-listener-{}", std::process::id()));
    /// let listener = UnixListener::bind(&path)?;
    /// let mut client = UnixStream::connect(&path)?;
    /// let (mut stream, _) = listener.accept()?;
    /// client.write_all(b"x")?;
    /// assert_eq!(stream.read(&mut [0; 2])?, 1);
    /// std::fs::remove_file(&path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::bind_addr(&named(path)?)
    }

    /// Listens at this address, which may be an abstract name. Never waits.
    ///
    /// # Errors
    /// As for [`bind`](Self::bind).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use segue_io::net::{UnixListener, UnixStream};
    /// use std::os::linux::net::SocketAddrExt;
    /// use std::os::unix::net::SocketAddr;
    ///
    /// let addr = SocketAddr::from_abstract_name(format!("segue-{}", std::process::id()))?;
    /// let listener = UnixListener::bind_addr(&addr)?;
    /// let stream = UnixStream::connect_addr(&addr)?;
    /// assert_eq!(stream.peer_addr()?.as_abstract_name(), addr.as_abstract_name());
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn bind_addr(addr: &SocketAddr) -> io::Result<Self> {
        let shared = unnamed::<P>()?;
        shared.io().bind(&Machine::to_kernel(addr)?)?;
        shared.io().listen(BACKLOG)?;
        Ok(Self::of(shared))
    }
}

impl Packets<UnixDgram> {
    /// A socket at this path, where there must be nothing yet. The path stays after the drop. Never
    /// waits.
    ///
    /// # Errors
    /// The kernel's error: `AddrInUse` if there is something. `InvalidInput` for a path that is
    /// too long: over 107 bytes on Linux.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::bind_addr(&named(path)?)
    }

    /// A socket at this address, which may be an abstract name. Never waits.
    ///
    /// # Errors
    /// As for [`bind`](Self::bind).
    pub fn bind_addr(addr: &SocketAddr) -> io::Result<Self> {
        let shared = unnamed::<UnixDgram>()?;
        shared.io().bind(&Machine::to_kernel(addr)?)?;
        Ok(Self::of(shared))
    }

    /// A socket without a name, which sends, and nobody can answer. Never waits.
    ///
    /// # Errors
    /// If there is no descriptor left.
    pub fn unbound() -> io::Result<Self> {
        unnamed::<UnixDgram>().map(Self::of)
    }

    /// Two sockets without names that are connected with each other. Never waits.
    ///
    /// # Errors
    /// If there are no descriptors left.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_io::net::UnixDatagram;
    ///
    /// let (here, there) = UnixDatagram::pair()?;
    /// here.send(b"as a whole")?;
    /// assert_eq!(there.recv(&mut [0; 2])?, 2, "the rest is cut off");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn pair() -> io::Result<(Self, Self)> {
        pair::<UnixDgram>().map(|(one, other)| (Self::of(one), Self::of(other)))
    }

    /// Says where [`send`](Self::send) sends to, and where alone packets are received from. Never
    /// waits.
    ///
    /// # Errors
    /// The kernel's error: `NotFound` if there is no such file, `ConnectionRefused` if its socket
    /// has gone. `InvalidInput` for a path that is too long.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.connect_addr(&named(path)?)
    }

    /// [`connect`](Self::connect) to an address, which may be an abstract name. Never waits.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect).
    pub fn connect_addr(&self, addr: &SocketAddr) -> io::Result<()> {
        self.shared.io().connect(&Machine::to_kernel(addr)?)
    }

    /// Sends a packet to the socket at this path. Returns its length.
    ///
    /// While the receiver's queue is full it attempts that again, after pauses, unless the socket
    /// is [connected](Self::connect): so a fiber that sends a lot connects.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect) and [`send`](Self::send).
    #[track_caller]
    pub fn send_to(&self, packet: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        self.send_to_addr(packet, &named(path)?)
    }

    /// [`send_to`](Self::send_to) an address, which may be an abstract name.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// As for [`send_to`](Self::send_to).
    #[track_caller]
    pub fn send_to_addr(&self, packet: &[u8], addr: &SocketAddr) -> io::Result<usize> {
        let to = Machine::to_kernel(addr)?;
        ops::patiently(&self.shared.0, SendTo(packet, &to), self.write_timeout()?)
    }

    /// [`send_to_addr`](Self::send_to_addr) that never waits.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room; else as for [`send_to`](Self::send_to).
    pub fn try_send_to_addr(&self, packet: &[u8], addr: &SocketAddr) -> io::Result<usize> {
        ops::now_or_never(&self.shared.0, SendTo(packet, &Machine::to_kernel(addr)?))
    }
}
