//! The methods of UDP that Unix datagrams lack: names, and the options of the Internet.
//!
//! Used as methods of [`UdpSocket`](super::UdpSocket).

use super::addrs::ToSocketAddrs;
use super::family::Internet;
use super::ops::{self, SendTo};
use super::options::options;
use super::packets::Packets;
use super::protocol::Udp;
use super::race::Tries;
use super::shared::Shared;
use crate::driver::run::run;
use crate::system::sys;
use socket2::{Domain, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

impl Packets<Udp> {
    /// Binds the first of these addresses that can be bound. Port 0 is a free one, which
    /// [`local_addr`](Self::local_addr) tells. The call waits only for a name that must be looked
    /// up.
    ///
    /// # Cancellation
    /// *No effect*: only the look-up of a name is cancelled.
    ///
    /// # Errors
    /// That of the last address, if none could be bound; `InvalidInput` for no address at all.
    #[track_caller]
    pub fn bind(addr: impl ToSocketAddrs) -> io::Result<Self> {
        Tries::first(addr.to_socket_addrs()?, Self::bind_one)
    }

    fn bind_one(addr: SocketAddr) -> io::Result<Self> {
        let socket = sys::socket(Domain::for_address(addr), Type::DGRAM)?;
        socket.bind(&addr.into())?;
        Ok(Self::of(Shared::adopt::<Internet>(socket)))
    }

    /// Says where [`send`](Self::send) sends to, and where alone packets are received from: the
    /// first of these addresses to which the system has a way. Nothing is sent. The call waits only
    /// for a name that must be looked up.
    ///
    /// # Cancellation
    /// *No effect*: only the look-up of a name is cancelled.
    ///
    /// # Errors
    /// That of the last address; `InvalidInput` for no address at all.
    #[track_caller]
    pub fn connect(&self, addr: impl ToSocketAddrs) -> io::Result<()> {
        Tries::first(addr.to_socket_addrs()?, |addr| self.shared.io().connect(&addr.into()))
    }

    /// Sends a packet to the first of these addresses. Returns its length.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// The kernel's error; `InvalidInput` for no address at all; the socket's time-out.
    #[track_caller]
    pub fn send_to(&self, packet: &[u8], addr: impl ToSocketAddrs) -> io::Result<usize> {
        let Some(addr) = addr.to_socket_addrs()?.next() else { return Tries::default().fail() };
        run(&self.shared.0, SendTo(packet, &addr.into()), self.write_timeout()?)
    }

    /// [`send_to`](Self::send_to) that never waits, and without names.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room; else as for [`send_to`](Self::send_to).
    pub fn try_send_to(&self, packet: &[u8], addr: SocketAddr) -> io::Result<usize> {
        ops::now_or_never(&self.shared.0, SendTo(packet, &addr.into()))
    }

    options! { |it| it.shared.io();
        /// Sets whether packets may go to all hosts of a network (`SO_BROADCAST`).
        set_broadcast(broadcast: bool) -> () = set_broadcast;
        /// Whether packets may go to all hosts of a network (`SO_BROADCAST`).
        broadcast() -> bool = broadcast;
        /// Sets the hop limit of packets (`IP_TTL`).
        set_ttl(ttl: u32) -> () = set_ttl_v4;
        /// The hop limit of packets (`IP_TTL`).
        ttl() -> u32 = ttl_v4;
        /// Sets the hop limit of packets to a group (`IP_MULTICAST_TTL`).
        set_multicast_ttl_v4(ttl: u32) -> () = set_multicast_ttl_v4;
        /// The hop limit of packets to a group (`IP_MULTICAST_TTL`).
        multicast_ttl_v4() -> u32 = multicast_ttl_v4;
        /// Sets whether packets to a group come back to this machine (`IP_MULTICAST_LOOP`).
        set_multicast_loop_v4(back: bool) -> () = set_multicast_loop_v4;
        /// Whether packets to a group come back to this machine (`IP_MULTICAST_LOOP`).
        multicast_loop_v4() -> bool = multicast_loop_v4;
        /// Sets whether packets to a group come back to this machine (`IPV6_MULTICAST_LOOP`).
        set_multicast_loop_v6(back: bool) -> () = set_multicast_loop_v6;
        /// Whether packets to a group come back to this machine (`IPV6_MULTICAST_LOOP`).
        multicast_loop_v6() -> bool = multicast_loop_v6;
        /// Joins a group, on the interface of this address.
        join_multicast_v4(group: &Ipv4Addr, interface: &Ipv4Addr) -> () = join_multicast_v4;
        /// Leaves a group, on the interface of this address.
        leave_multicast_v4(group: &Ipv4Addr, interface: &Ipv4Addr) -> () = leave_multicast_v4;
        /// Joins a group, on the interface of this index.
        join_multicast_v6(group: &Ipv6Addr, interface: u32) -> () = join_multicast_v6;
        /// Leaves a group, on the interface of this index.
        leave_multicast_v6(group: &Ipv6Addr, interface: u32) -> () = leave_multicast_v6;
    }
}
