//! A socket before its bind or connect, for the options that come before that.
//!
//! Used by servers and clients with a listener or stream that needs more than the defaults.

use super::family::Family;
use super::listener::Listener;
use super::ops;
use super::options::options;
use super::protocol::{Connectionless, Listens, Protocol, Tcp, Udp, Unix, UnixDgram, UnixSeq};
use super::shared::Shared;
use crate::system::sys;
use crate::system::whole::as_raw_fd;
use socket2::{Domain, TcpKeepalive};
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;
use std::{fmt, io};

/// A socket that is not a listener, a stream or a receiver of packets yet: options are set first.
///
/// [`as_socket2`](Self::as_socket2) has all options that there are, also those that few systems
/// have. Nothing is set unasked, save that nothing blocks.
///
/// # Examples
///
/// ```
/// use segue_io::net::{Socket, TcpStream};
///
/// // Several listeners may share the port, and clients without credit are few.
/// let socket = Socket::tcp_v4()?;
/// socket.set_reuse_address(true)?;
/// socket.set_recv_buffer_size(64 << 10)?;
/// socket.bind(&"127.0.0.1:0".parse().unwrap())?;
/// let listener = socket.listen(64)?;
///
/// let socket = Socket::tcp_v4()?;
/// socket.set_nodelay(true)?;
/// let stream: TcpStream = socket.connect(&listener.local_addr()?)?;
/// assert!(stream.nodelay()?);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Socket<P> {
    io: socket2::Socket,
    protocol: PhantomData<fn() -> P>,
}

impl<P: Protocol> Socket<P> {
    fn new(domain: Domain) -> io::Result<Self> {
        Ok(Self { io: sys::socket(domain, P::TYPE)?, protocol: PhantomData })
    }

    /// A socket that suits this address: of its version of IP, or a Unix socket. Never waits.
    ///
    /// # Errors
    /// If there is no descriptor left, or the system does not know the protocol.
    pub fn for_addr(addr: &P::Addr) -> io::Result<Self> {
        Self::new(P::Family::domain(addr))
    }

    /// The socket, for all methods of the crate [`socket2`](crate::net::socket2). The socket does
    /// not block, and must not be made to: an accept or a connect would block the whole worker.
    pub fn as_socket2(&self) -> &socket2::Socket {
        &self.io
    }

    /// Gives the socket a local address. Never waits.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn bind(&self, addr: &P::Addr) -> io::Result<()> {
        self.io.bind(&P::Family::to_kernel(addr)?)
    }

    options! { |it| it.io;
        /// Lets an address be bound again before its last connections are quite over
        /// (`SO_REUSEADDR`).
        ///
        set_reuse_address(reuse: bool) -> () = set_reuse_address;
        /// Lets several sockets be bound to one address, if all say so (`SO_REUSEPORT`); the kernel
        /// distributes connections and packets among them.
        set_reuse_port(reuse: bool) -> () = set_reuse_port;
        /// Sets the size of the send buffer (`SO_SNDBUF`); the kernel may take another
        /// one.
        set_send_buffer_size(bytes: usize) -> () = set_send_buffer_size;
        /// Sets the size of the receive buffer (`SO_RCVBUF`); the kernel may take
        /// another one. Set before a connect or a listen, the size also bounds TCP's window.
        set_recv_buffer_size(bytes: usize) -> () = set_recv_buffer_size;
    }

    /// Binds the socket to a network interface by name; `None` to none (`SO_BINDTODEVICE`). Never
    /// waits.
    ///
    /// # Errors
    /// The kernel's error.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn bind_device(&self, interface: Option<&str>) -> io::Result<()> {
        self.io.bind_device(interface.map(str::as_bytes))
    }

    fn into_shared(self) -> Shared {
        Shared::adopt::<P::Family>(self.io)
    }
}

impl<P: Listens> Socket<P> {
    /// Listens. So many connections may wait to be accepted; the kernel cuts that to a limit of its
    /// own. Never waits.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn listen(self, backlog: u32) -> io::Result<Listener<P>> {
        self.io.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        Ok(Listener::of(self.into_shared()))
    }

    /// Connects to a listener. While the queue of a Unix listener is full, the connect is attempted
    /// again, after pauses.
    ///
    /// # Cancellation
    /// *May already have happened*: the other end may see a connection that is closed at once. Of a
    /// Unix socket: *no effect*.
    ///
    /// # Errors
    /// The kernel's error.
    #[track_caller]
    pub fn connect(self, addr: &P::Addr) -> io::Result<P::Handle> {
        let shared = self.into_shared();
        ops::connect::<P::Family>(&shared.0, &P::Family::to_kernel(addr)?, None)?;
        Ok(P::handle(shared))
    }
}

impl<P: Connectionless> Socket<P> {
    /// The socket of packets: bound, or to be bound by the first packet that is sent. Never waits.
    pub fn into_packets(self) -> P::Handle {
        P::handle(self.into_shared())
    }
}

impl<P: Protocol<Addr = SocketAddr>> Socket<P> {
    options! { |it| it.io;
        /// Sets the hop limit of IPv4 packets (`IP_TTL`).
        set_ttl(ttl: u32) -> () = set_ttl_v4;
        /// Whether a socket for IPv6 is for that alone, and not for IPv4 too (`IPV6_V6ONLY`).
        set_only_v6(only: bool) -> () = set_only_v6;
    }
}

impl Socket<Tcp> {
    /// A socket for TCP over IPv4. Never waits.
    ///
    /// # Errors
    /// If there is no descriptor left.
    pub fn tcp_v4() -> io::Result<Self> {
        Self::new(Domain::IPV4)
    }

    /// A socket for TCP over IPv6, and over IPv4 unless [`set_only_v6`](Self::set_only_v6) says
    /// otherwise, or the system. Never waits.
    ///
    /// # Errors
    /// If there is no descriptor left, or the system has no IPv6.
    pub fn tcp_v6() -> io::Result<Self> {
        Self::new(Domain::IPV6)
    }

    options! { |it| it.io;
        /// Sets whether small writes are sent at once (`TCP_NODELAY`). Accepted
        /// connections inherit the option, on Linux.
        set_nodelay(nodelay: bool) -> () = set_tcp_nodelay;
    }

    /// Has the kernel ask a peer that has been silent for this time whether the peer is still
    /// there; `None` never (`SO_KEEPALIVE`, `TCP_KEEPIDLE`). Never waits.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_keepalive(&self, idle: Option<Duration>) -> io::Result<()> {
        match idle {
            Some(time) => self.io.set_tcp_keepalive(&TcpKeepalive::new().with_time(time)),
            None => self.io.set_keepalive(false),
        }
    }

    /// Sets for how long the close waits until all written bytes have arrived; with zero the close
    /// is a reset (`SO_LINGER`). Never waits. But the close then blocks its thread, that of a
    /// worker too, if the time is not zero.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        self.io.set_linger(linger)
    }
}

impl Socket<Udp> {
    /// A socket for UDP over IPv4. Never waits.
    ///
    /// # Errors
    /// If there is no descriptor left.
    pub fn udp_v4() -> io::Result<Self> {
        Self::new(Domain::IPV4)
    }

    /// A socket for UDP over IPv6. Never waits.
    ///
    /// # Errors
    /// If there is no descriptor left, or the system has no IPv6.
    pub fn udp_v6() -> io::Result<Self> {
        Self::new(Domain::IPV6)
    }

    options! { |it| it.io;
        /// Sets whether packets may go to all hosts of a network (`SO_BROADCAST`).
        set_broadcast(broadcast: bool) -> () = set_broadcast;
    }
}

impl Socket<Unix> {
    /// A socket for Unix streams. Never waits.
    ///
    /// # Errors
    /// If there is no descriptor left.
    pub fn unix_stream() -> io::Result<Self> {
        Self::new(Domain::UNIX)
    }
}

impl Socket<UnixDgram> {
    /// A socket for Unix datagrams. Never waits.
    ///
    /// # Errors
    /// If there is no descriptor left.
    pub fn unix_datagram() -> io::Result<Self> {
        Self::new(Domain::UNIX)
    }
}

impl Socket<UnixSeq> {
    /// A socket for connections that keep messages apart. Never waits.
    ///
    /// # Errors
    /// If there is no descriptor left.
    pub fn unix_seqpacket() -> io::Result<Self> {
        Self::new(Domain::UNIX)
    }
}

as_raw_fd!([P] Socket<P>, |it| &it.io);

impl<P: Protocol> fmt::Debug for Socket<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("for", &P::NAME).field("fd", &self.as_raw_fd()).finish()
    }
}
