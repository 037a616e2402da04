//! std's addresses, with the sockets of [`crate::net`].

pub use ::std::net::{AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6};
pub use segue_io::net::{Incoming, TcpListener, TcpStream, UdpSocket};

use segue_io::net::ToAddrs;
use std::io;

/// [`std::net::ToSocketAddrs`]: all that is [`ToAddrs`], whose names are not looked up on the
/// caller's worker.
///
/// # Examples
///
/// ```
/// use segue::std::net::{SocketAddr, ToSocketAddrs};
///
/// let local = SocketAddr::from(([127, 0, 0, 1], 80));
/// assert!("127.0.0.1:80".to_socket_addrs()?.eq([local]));
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait ToSocketAddrs: ToAddrs {
    /// The addresses.
    ///
    /// # Errors
    /// As for [`ToAddrs::to_addrs`].
    #[track_caller]
    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        self.to_addrs()
    }
}

impl<T: ToAddrs + ?Sized> ToSocketAddrs for T {}
