//! What all handles of a socket have in common, and how they are made of descriptors and of std's
//! types, and turned into those.
//!
//! Used by streams, packets and listeners.

use super::protocol::sealed::{Address, Family, Wire};
use super::protocol::{Listens, Protocol, Tcp, Udp, Unix, UnixDgram};
use super::{Listener, Packets, Stream};
use crate::driver::readiness::Half;
use crate::driver::socket::Socket;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net as unix;
use std::sync::Arc;
use std::{fmt, io, net};

/// One of the handles of a socket.
#[derive(Clone)]
pub struct Shared(pub(crate) Arc<Socket>);

impl Shared {
    /// The first handle of a socket that does not block.
    pub(super) fn adopt<P: Wire>(io: socket2::Socket) -> Self {
        let socket = Socket::new(io);
        if P::Family::STOPS_SHORT {
            // Else a short read counted as one that has drained the socket, and the next one waited
            // for an edge although there is something. A direction that is unsteady is never
            // drained.
            socket.direction(Half::Read).report(true);
        }
        Self(socket)
    }

    /// The first handle of a socket that may block as yet.
    pub(super) fn take_over<P: Wire>(fd: OwnedFd) -> io::Result<Self> {
        let io = socket2::Socket::from(fd);
        io.set_nonblocking(true)?;
        Ok(Self::adopt::<P>(io))
    }

    /// A descriptor of the same socket for somebody else, who expects it to block: unless handles
    /// stay whose calls rely on the flag, which is the description's. Those that move bytes say by
    /// themselves that they must not block; an accept can't.
    pub(super) fn hand_on(&self, stays: bool) -> io::Result<OwnedFd> {
        let fd = self.io().as_fd().try_clone_to_owned()?;
        if !stays {
            rustix::io::ioctl_fionbio(&fd, false)?;
        }
        Ok(fd)
    }

    #[inline]
    pub(super) fn io(&self) -> &socket2::Socket {
        self.0.io()
    }

    pub(super) fn local_addr<P: Wire>(&self) -> io::Result<Address<P>> {
        P::Family::from_kernel(Some(rustix::net::getsockname(self.io())?))
    }

    pub(super) fn peer_addr<P: Wire>(&self) -> io::Result<Address<P>> {
        P::Family::from_kernel(rustix::net::getpeername(self.io())?)
    }

    fn debug<P: Protocol>(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct(name);
        if let Ok(addr) = self.local_addr::<P>() {
            debug.field("addr", &addr);
        }
        if let Ok(peer) = self.peer_addr::<P>() {
            debug.field("peer", &peer);
        }
        debug.field("fd", &self.io().as_raw_fd()).finish()
    }
}

/// The traits of descriptors, for one type of handles. Coherence lets no blanket `impl` have them.
macro_rules! descriptors {
    ($handle:ident, $protocol:ident, $name:ident) => {
        impl<P> AsFd for $handle<P> {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.shared.io().as_fd()
            }
        }

        impl<P> AsRawFd for $handle<P> {
            fn as_raw_fd(&self) -> RawFd {
                self.shared.io().as_raw_fd()
            }
        }

        /// Takes a socket over, which stops blocking. Never waits.
        impl<P: $protocol> From<OwnedFd> for $handle<P> {
            fn from(fd: OwnedFd) -> Self {
                let io = socket2::Socket::from(fd);
                // It fails only for what is no socket; then every operation says so.
                let _ = io.set_nonblocking(true);
                Self::of(Shared::adopt::<P>(io))
            }
        }

        /// A descriptor of the same socket, which blocks, for other programs: a listener's only if
        /// this was the last handle. Fails if there is none left.
        impl<P: $protocol> TryFrom<$handle<P>> for OwnedFd {
            type Error = io::Error;

            fn try_from(handle: $handle<P>) -> io::Result<Self> {
                handle.into_fd()
            }
        }

        impl<P: $protocol> fmt::Debug for $handle<P> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.shared.debug::<P>(P::$name, f)
            }
        }
    };
}

descriptors!(Stream, Protocol, NAME);
descriptors!(Packets, Protocol, NAME);
descriptors!(Listener, Listens, LISTENER);

/// From and to a type of std's.
macro_rules! std_type {
    ($($theirs:ty => $ours:ty),* $(,)?) => {$(
        impl TryFrom<$theirs> for $ours {
            type Error = io::Error;

            fn try_from(theirs: $theirs) -> io::Result<Self> {
                Self::from_std(theirs)
            }
        }

        impl TryFrom<$ours> for $theirs {
            type Error = io::Error;

            fn try_from(ours: $ours) -> io::Result<Self> {
                ours.into_std()
            }
        }
    )*};
}

std_type! {
    net::TcpStream => Stream<Tcp>,
    net::TcpListener => Listener<Tcp>,
    net::UdpSocket => Packets<Udp>,
    unix::UnixStream => Stream<Unix>,
    unix::UnixListener => Listener<Unix>,
    unix::UnixDatagram => Packets<UnixDgram>,
}
