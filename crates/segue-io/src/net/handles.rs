//! The handles of sockets: the methods and traits that streams, packets and listeners have in
//! common, and the table of the protocols.
//!
//! Used by programs, as methods of the three types.
#![allow(unsafe_code)] // A descriptor that comes as a number is taken over.

use super::family::{Family, Internet, Machine};
use super::listener::Listener;
use super::ops;
use super::packets::Packets;
use super::protocol::sealed::Wire;
use super::protocol::{Connectionless, Listens, Local, Protocol, Tcp, Udp, Unix, UnixDgram, UnixSeq};
use super::shared::Shared;
use super::stream::Stream;
use crate::driver::readiness::Half;
use crate::system::whole::as_raw_fd;
use segue_core::{Source, Waitable};
use socket2::Type;
use std::marker::PhantomData;
use std::net::Shutdown;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net as unix;
use std::time::Duration;
use std::{fmt, io, net};

/// The methods and traits that all three types of handles have. Coherence lets no blanket `impl`
/// have the traits.
macro_rules! handles {
    ($handle:ident, $protocol:ident, $std:ident, $name:ident) => {
        impl<P: $protocol> $handle<P> {
            /// Takes over a socket of std's, or a descriptor where std has none. The socket stops
            /// blocking; its time-outs are not taken over. Never waits.
            ///
            /// # Errors
            /// If the socket can't be made to not block.
            pub fn from_std(socket: P::$std) -> io::Result<Self> {
                Ok(Self::of(Shared::take_over::<P::Family>(socket.into())?))
            }

            /// The same socket for std, which blocks, as std's do; clones that stay here do not
            /// mind. A listener blocks only if this was the last clone: that is a flag of the
            /// listener, on which the clones' accepts rely. Never waits.
            ///
            /// # Errors
            /// If there is no descriptor left: the result has one of its own.
            pub fn into_std(self) -> io::Result<P::$std> {
                Ok(self.into_fd()?.into())
            }

            /// The address of this end. Never waits.
            ///
            /// # Errors
            /// The kernel's error.
            pub fn local_addr(&self) -> io::Result<P::Addr> {
                self.shared.local_addr::<P::Family>()
            }

            /// The error that is pending on the socket, which is cleared. Never waits.
            ///
            /// # Errors
            /// The kernel's error when it is asked.
            pub fn take_error(&self) -> io::Result<Option<io::Error>> {
                self.shared.io().take_error()
            }
        }

        as_raw_fd!([P] $handle<P>, |it| it.shared.io());

        /// Takes a socket over, which stops blocking. Never waits.
        impl<P: $protocol> From<OwnedFd> for $handle<P> {
            fn from(fd: OwnedFd) -> Self {
                let io = socket2::Socket::from(fd);
                // This fails only for a descriptor of no socket; then every operation says so.
                let _ = io.set_nonblocking(true);
                Self::of(Shared::adopt::<P::Family>(io))
            }
        }

        /// As from an [`OwnedFd`].
        impl<P: $protocol> FromRawFd for $handle<P> {
            unsafe fn from_raw_fd(fd: RawFd) -> Self {
                // SAFETY: our caller owns the descriptor and hands it over, as this trait asks.
                unsafe { OwnedFd::from_raw_fd(fd) }.into()
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
                self.shared.debug::<P::Family>(P::$name, f)
            }
        }
    };
}

handles!(Stream, Protocol, Std, NAME);
handles!(Packets, Protocol, Std, NAME);
handles!(Listener, Listens, StdListener, LISTENER);

/// The methods of the two types of sockets that have two directions.
macro_rules! both_ways {
    ($handle:ident) => {
        impl<P: Protocol> $handle<P> {
            pub(super) fn of(shared: Shared) -> Self {
                Self { shared, protocol: PhantomData }
            }

            pub(super) fn into_fd(self) -> io::Result<OwnedFd> {
                self.shared.hand_on(false)
            }

            /// Another handle of the same socket: same descriptor, same time-outs. Never waits.
            ///
            /// # Errors
            /// None; the signature is std's.
            pub fn try_clone(&self) -> io::Result<Self> {
                Ok(Self::of(self.shared.clone()))
            }

            /// The address of the other end. Never waits.
            ///
            /// # Errors
            /// The kernel's error: `NotConnected` if there is no connection any more.
            pub fn peer_addr(&self) -> io::Result<P::Addr> {
                self.shared.peer_addr::<P::Family>()
            }

            /// Ends one or both directions of a connection. Never waits.
            ///
            /// After [`Shutdown::Write`] the other end of a stream reads the end of the stream when
            /// the last bytes are read. Ops that wait in a direction that is ended return: a
            /// read with `Ok(0)`, a write with `BrokenPipe`.
            ///
            /// To end a direction again has no effect as long as the other one is open. When both
            /// ends have ended theirs there is no connection any more, and the kernel says
            /// `NotConnected`, which means no loss.
            ///
            /// # Errors
            /// The kernel's error: `NotConnected` if there is no connection, or none any
            /// more.
            ///
            /// # Examples
            ///
            /// ```
            /// use segue_io::net::{TcpListener, TcpStream};
            /// use std::io::Read;
            /// use std::net::Shutdown;
            ///
            /// let listener = TcpListener::bind("127.0.0.1:0")?;
            /// let client = TcpStream::connect(listener.local_addr()?)?;
            /// let (mut server, _) = listener.accept()?;
            /// client.shutdown(Shutdown::Write)?;
            /// client.shutdown(Shutdown::Write)?;
            /// assert_eq!(server.read(&mut [0])?, 0);
            /// # Ok::<(), std::io::Error>(())
            /// ```
            pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
                self.shared.io().shutdown(how)
            }

            /// Sets how long each read, receive and peek may wait; `None` is for ever. A store,
            /// which costs nothing. Never waits.
            ///
            /// A read that waits longer fails with `TimedOut`. So does one inside of a
            /// [`timeout`](segue_core::timeout) that has ended, and then all that follow: a loop
            /// that goes on after the first kind asks
            /// [`Cancelled::caused`](segue_core::Cancelled::caused), which is true of the second
            /// alone.
            ///
            /// # Errors
            /// `InvalidInput` for a time-out of zero.
            ///
            /// # Examples
            ///
            /// ```
            /// use segue_core::Cancelled;
            /// use segue_io::net::{TcpListener, TcpStream};
            /// use std::io::{ErrorKind, Read};
            /// use std::time::Duration;
            ///
            /// let listener = TcpListener::bind("127.0.0.1:0")?;
            /// let mut client = TcpStream::connect(listener.local_addr()?)?;
            /// client.set_read_timeout(Some(Duration::from_millis(1)))?;
            /// let error = client.read(&mut [0]).unwrap_err();
            /// assert_eq!(error.kind(), ErrorKind::TimedOut);
            /// // No `timeout` around has ended, and nobody has cancelled: the next read waits again.
            /// assert!(!Cancelled::caused(&error));
            /// # Ok::<(), std::io::Error>(())
            /// ```
            pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                self.shared.0.timeout(Half::Read).set(timeout)
            }

            /// Sets how long each write or send may wait; `None` is for ever. A store, which
            /// costs nothing. Never waits.
            ///
            /// # Errors
            /// `InvalidInput` for a time-out of zero.
            pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                self.shared.0.timeout(Half::Write).set(timeout)
            }

            /// How long each read, receive and peek may wait. Never waits.
            ///
            /// # Errors
            /// None; the signature is std's.
            pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
                Ok(self.shared.timeout(Half::Read))
            }

            /// How long each write or send may wait. Never waits.
            ///
            /// # Errors
            /// None; the signature is std's.
            pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
                Ok(self.shared.timeout(Half::Write))
            }

            /// Ready when a write or send would not wait: there is room in the socket's buffer, or
            /// an error. The receiver of a Unix datagram may have no room nevertheless. As
            /// [`readable_source`](Self::readable_source) in all else.
            ///
            /// # Cancellation
            /// *No effect*, also if another arm was chosen, or the future is dropped.
            ///
            /// # Errors
            /// Yields the kernel's error when the kernel can't be asked.
            #[track_caller]
            pub fn writable_source(&self) -> Waitable<impl Source<Output = io::Result<()>>> {
                ops::writable(&self.shared.0)
            }
        }
    };
}

both_ways!(Stream);
both_ways!(Packets);

/// The table of the protocols: family, type, handle, std's type of the handle; the listener, and
/// std's type of that, if there are listeners; the traits that mark the protocol.
macro_rules! protocols {
    ($($protocol:ident: $family:ident $type:ident $handle:ident $name:literal = $std:ty
        $([$listener:literal = $std_listener:ty])? {$($has:ident)*})*) => {$(
        impl Wire for $protocol {
            type Family = $family;
            const TYPE: Type = Type::$type;
            const NAME: &'static str = $name;
            const LISTENER: &'static str = concat!($($listener)?);

            fn handle(socket: Shared) -> $handle<Self> {
                $handle::of(socket)
            }
        }

        impl Protocol for $protocol {
            type Addr = <$family as Family>::Address;
            type Std = $std;
            type Handle = $handle<Self>;
        }

        $(
            impl Listens for $protocol {
                type StdListener = $std_listener;
            }
        )?

        $(impl $has for $protocol {})*
    )*};
}

protocols! {
    Tcp: Internet STREAM Stream "TcpStream" = net::TcpStream ["TcpListener" = net::TcpListener] {}
    Udp: Internet DGRAM Packets "UdpSocket" = net::UdpSocket {Connectionless}
    Unix: Machine STREAM Stream "UnixStream" = unix::UnixStream ["UnixListener" = unix::UnixListener] {Local}
    UnixDgram: Machine DGRAM Packets "UnixDatagram" = unix::UnixDatagram {Connectionless Local}
    UnixSeq: Machine SEQPACKET Packets "UnixSeqpacket" = OwnedFd ["UnixSeqpacketListener" = OwnedFd] {Local}
}

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
