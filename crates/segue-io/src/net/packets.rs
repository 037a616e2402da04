//! Sockets that carry messages, each as a whole: UDP, and Unix datagrams and sequenced packets.
//!
//! Used as [`UdpSocket`], [`UnixDatagram`] and [`UnixSeqpacket`], in the shape of std's. `udp`
//! and `unix` have the methods of one of them alone.

use super::ops::{self, Receive, ReceiveFrom};
use super::protocol::{Connectionless, Protocol, Udp, UnixDgram, UnixSeq};
use super::shared::Shared;
use crate::driver::run::run;
use segue_core::{Source, Waitable};
use std::io;
use std::marker::PhantomData;

/// A UDP socket. [`Packets`] has the details.
pub type UdpSocket = Packets<Udp>;

/// A Unix socket for datagrams, at a path, at an abstract name on Linux, or without a name.
/// [`Packets`] has the details.
pub type UnixDatagram = Packets<UnixDgram>;

/// A connection within the machine that keeps messages apart and in order: connected to a
/// [`UnixSeqpacketListener`](super::UnixSeqpacketListener), or one end of a
/// [pair](UnixSeqpacket::pair). Std has none. [`Packets`] has the details.
pub type UnixSeqpacket = Packets<UnixSeq>;

/// A socket that carries packets: a [`UdpSocket`], a [`UnixDatagram`] or a [`UnixSeqpacket`].
///
/// One fiber may receive while another sends, and several may share one socket; each packet goes to
/// one of them. Dropping the last handle closes the socket.
///
/// # Packets
///
/// A packet is sent as a whole, in one system call, and received as a whole. Of one that is longer
/// than the buffer the rest is **cut off** and lost, without an error, as in std. A packet may be
/// empty: a receive that returns 0 has received one. On a [`UnixSeqpacket`] this may also be the
/// end, since the other end is closed; there empty packets are better not sent. A receive into a
/// buffer without room takes a packet and loses all its bytes.
///
/// # Cancellation
///
/// Every receive, peek and send of a cancelled caller fails, at once, with an error that
/// [`Cancelled::caused`](segue_core::Cancelled::caused) knows. All have *no effect* then: a packet
/// that has arrived stays, and nothing was sent.
///
/// # Errors
///
/// A time-out that was [set](Packets::set_read_timeout) gives
/// [`TimedOut`](io::ErrorKind::TimedOut), with the same effect as a cancellation. On a connected
/// [`UdpSocket`] a send or a receive may fail with `ConnectionRefused` for a packet that was sent
/// *before*, and that nobody wanted.
///
/// # Examples
///
/// ```
/// use segue_io::net::UdpSocket;
///
/// let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
/// here.send_to(b"ping", there.local_addr()?)?;
/// let mut buf = [0; 16];
/// let (count, from) = there.recv_from(&mut buf)?;
/// assert_eq!((&buf[..count], from), (&b"ping"[..], here.local_addr()?));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Packets<P> {
    pub(super) shared: Shared,
    pub(super) protocol: PhantomData<fn() -> P>,
}

impl<P: Protocol> Packets<P> {
    /// Sends a packet to the address that the socket is connected to. Returns its length.
    ///
    /// The send waits while there is no room for the packet: in the socket's own buffer, and, for a
    /// Unix socket, in the receiver's queue.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// The kernel's error: for a packet that is too long (`EMSGSIZE`), without a connection, and
    /// without a receiver. The socket's time-out.
    #[track_caller]
    pub fn send(&self, packet: &[u8]) -> io::Result<usize> {
        run(&self.shared.0, ops::Send(packet), self.write_timeout()?)
    }

    /// [`send`](Self::send) that never waits.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room; else as for [`send`](Self::send).
    pub fn try_send(&self, packet: &[u8]) -> io::Result<usize> {
        ops::now_or_never(&self.shared.0, ops::Send(packet))
    }

    /// Waits for a packet and takes the packet. Returns how many bytes are in the buffer; the
    /// [rest](#packets) is lost. If the socket is connected, packets of others are not received.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// The kernel's error; the socket's time-out.
    #[track_caller]
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        run(&self.shared.0, Receive::<false>(buf), self.read_timeout()?)
    }

    /// [`recv`](Self::recv) that never waits.
    ///
    /// # Errors
    /// `WouldBlock` if there is no packet; else as for [`recv`](Self::recv).
    pub fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        ops::now_or_never(&self.shared.0, Receive::<false>(buf))
    }

    /// As [`recv`](Self::recv), and leaves the packet to be received again.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    #[track_caller]
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        run(&self.shared.0, Receive::<true>(buf), self.read_timeout()?)
    }

    /// Ready when a receive would not wait: a packet is there, or the end, or an error. To be
    /// awaited, or chosen among others; then [`try_recv`](Self::try_recv).
    ///
    /// There is no source for the receive itself: the effect of a source counts only if that source
    /// is chosen, and a receive that has begun can't be undone (see [`net`](crate::net#sources)).
    /// The kernel may yet drop a packet that is broken: then there is none after all.
    ///
    /// # Cancellation
    /// *No effect*, also if another arm was chosen, or the future is dropped.
    ///
    /// # Errors
    /// Yields the kernel's error when the kernel can't be asked.
    #[track_caller]
    pub fn readable_source(&self) -> Waitable<impl Source<Output = io::Result<()>>> {
        ops::readable(&self.shared.0)
    }
}

impl<P: Connectionless> Packets<P> {
    /// Waits for a packet and takes the packet, with the address of its sender. In all else as
    /// [`recv`](Self::recv).
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    #[track_caller]
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, P::Addr)> {
        run(&self.shared.0, ReceiveFrom::<P::Family, false>(buf, PhantomData), self.read_timeout()?)
    }

    /// [`recv_from`](Self::recv_from) that never waits.
    ///
    /// # Errors
    /// `WouldBlock` if there is no packet; else as for [`recv`](Self::recv).
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, P::Addr)> {
        ops::now_or_never(&self.shared.0, ReceiveFrom::<P::Family, false>(buf, PhantomData))
    }

    /// As [`recv_from`](Self::recv_from), and leaves the packet to be received again.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    #[track_caller]
    pub fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, P::Addr)> {
        run(&self.shared.0, ReceiveFrom::<P::Family, true>(buf, PhantomData), self.read_timeout()?)
    }
}
