//! The methods of TCP that Unix sockets lack: names, several addresses of a host, options.
//!
//! Used by servers and clients, as methods of [`TcpStream`](super::TcpStream) and
//! [`TcpListener`](super::TcpListener).

use super::addrs::ToSocketAddrs;
use super::family::Internet;
use super::listener::Listener;
use super::ops::{self, Connecting};
use super::options::options;
use super::protocol::Tcp;
use super::race::{self, Tries};
use super::shared::Shared;
use super::stream::Stream;
use crate::driver::op::{Connect, Op};
use crate::driver::run::source;
use crate::system::sys;
use segue_core::{Source, WaitsFor};
use socket2::{Domain, SockAddr, Type};
use std::cell::OnceCell;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// How many connections the kernel may queue; the kernel cuts this to a limit of its own
/// (`somaxconn` on Linux).
pub(super) const BACKLOG: i32 = 4096;

impl Stream<Tcp> {
    /// Connects to the first of these addresses that answers.
    ///
    /// Several addresses race (RFC 8305, "Happy Eyeballs"): the families take turns, beginning with
    /// that of the first address, and each attempt has a head start of 250 ms before the next one
    /// begins, or less if the attempt fails. The first connection is taken, and all others are
    /// closed.
    ///
    /// A name is looked up by the [resolver](super::Resolve), which suspends the fiber.
    ///
    /// # Cancellation
    /// *May already have happened*: the other end may see a connection that is closed at once. So
    /// may the hosts that have lost the race.
    ///
    /// # Errors
    /// If none could be connected to, that of the attempt which failed last; but one that says that
    /// this machine has no way there, such as `NetworkUnreachable`, only if there is no other.
    /// `InvalidInput` for no address at all. Nobody listens at port 0, so that a connect there is
    /// refused.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_io::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("localhost:0")?;
    /// let stream = TcpStream::connect(("localhost", listener.local_addr()?.port()))?;
    /// assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn connect(addr: impl ToSocketAddrs) -> io::Result<Self> {
        segue_core::check()?;
        let mut addrs = addr.to_socket_addrs()?;
        let Some(one) = addrs.next() else { return Tries::default().fail() };
        let Some(other) = addrs.next() else { return Self::connect_one(&one, None) };
        let row = race::interleaved([one, other].into_iter().chain(addrs));
        let attempts: Vec<_> = row.into_iter().map(Attempt::new).collect();
        let _kernel = segue_core::drivers::kernel_wait();
        race::first(&attempts, race::HEAD_START, Attempt::begin).map(Self::of)
    }

    /// Connects to one address, and gives up after `timeout`.
    ///
    /// # Cancellation
    /// As for [`connect`](Self::connect).
    ///
    /// # Errors
    /// `TimedOut` if there was no answer in time; `InvalidInput` for a time-out of zero.
    #[track_caller]
    pub fn connect_timeout(addr: &SocketAddr, timeout: Duration) -> io::Result<Self> {
        if timeout.is_zero() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a connect needs time: the time-out is zero"));
        }
        Self::connect_one(addr, Some(timeout))
    }

    #[track_caller]
    fn connect_one(addr: &SocketAddr, timeout: Option<Duration>) -> io::Result<Self> {
        segue_core::check()?;
        let shared = Shared::adopt::<Internet>(sys::socket(Domain::for_address(*addr), Type::STREAM)?);
        ops::connect::<Internet>(&shared.0, &(*addr).into(), timeout)?;
        Ok(Self::of(shared))
    }

    options! { |it| it.shared.io();
        /// Sets whether small writes are sent at once (`TCP_NODELAY`).
        set_nodelay(nodelay: bool) -> () = set_tcp_nodelay;
        /// Whether small writes are sent at once.
        nodelay() -> bool = tcp_nodelay;
        /// Sets the hop limit of packets (`IP_TTL`).
        set_ttl(ttl: u32) -> () = set_ttl_v4;
        /// The hop limit of packets.
        ttl() -> u32 = ttl_v4;
    }
}

/// One address of a host. The socket is made when its turn has come.
struct Attempt {
    to: SockAddr,
    domain: Domain,
    shared: OnceCell<Shared>,
}

impl Attempt {
    fn new(addr: SocketAddr) -> Self {
        Self { to: addr.into(), domain: Domain::for_address(addr), shared: OnceCell::new() }
    }

    /// Sends the request. The source yields the socket, once that is connected.
    fn begin(&self) -> io::Result<impl Source<Output = io::Result<Shared>>> {
        let io = sys::socket(self.domain, Type::STREAM)?;
        let shared = self.shared.get_or_init(|| Shared::adopt::<Internet>(io));
        match ops::now_or_never(&shared.0, Connect::new(&self.to)) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        let connected = source(&shared.0, Connecting(&self.to), WaitsFor::new(Connecting::WAITS_FOR));
        Ok(connected.map(|connected| connected.map(|()| shared.clone())).into_source())
    }
}

impl Listener<Tcp> {
    /// Listens at the first of these addresses that can be bound. Port 0 is a free one, which
    /// [`local_addr`](Self::local_addr) tells.
    ///
    /// As std does, this lets the port of a server that has just ended be used again
    /// (`SO_REUSEADDR`). [`Socket`](super::Socket) has other options, and the length of the queue.
    /// The call waits only for a name that must be looked up.
    ///
    /// # Cancellation
    /// *No effect*: only the look-up of a name is cancelled.
    ///
    /// # Errors
    /// That of the last address, if none could be bound; but an error that blames this machine,
    /// such as `AddrNotAvailable`, only if there is no other.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_io::net::TcpListener;
    /// use std::net::SocketAddr;
    ///
    /// let addrs = [SocketAddr::from(([127, 0, 0, 1], 0)), SocketAddr::from(([127, 0, 0, 1],
    /// 8080))]; let listener = TcpListener::bind(&addrs[..])?;
    /// assert_ne!(listener.local_addr()?.port(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn bind(addr: impl ToSocketAddrs) -> io::Result<Self> {
        Tries::first(addr.to_socket_addrs()?, Self::bind_one)
    }

    fn bind_one(addr: SocketAddr) -> io::Result<Self> {
        let socket = sys::socket(Domain::for_address(addr), Type::STREAM)?;
        socket.set_reuse_address(true)?;
        socket.bind(&addr.into())?;
        socket.listen(BACKLOG)?;
        Ok(Self::of(Shared::adopt::<Internet>(socket)))
    }

    options! { |it| it.shared.io();
        /// Sets the hop limit of packets to clients (`IP_TTL`).
        set_ttl(ttl: u32) -> () = set_ttl_v4;
        /// The hop limit of packets to clients.
        ttl() -> u32 = ttl_v4;
    }
}
