//! Descriptors that are passed over Unix sockets (`SCM_RIGHTS`).
//!
//! Used by programs that hand a connection or a file to another process. Descriptors are owned as
//! soon as the system call has returned, so none is lost: descriptors without room the kernel has
//! closed, and those that a failure leaves are closed by their owner.

use super::ops;
use super::packets::Packets;
use super::protocol::{Local, Protocol};
use super::shared::Shared;
use super::stream::Stream;
use crate::driver::op::Op;
use crate::driver::readiness::Half;
use crate::driver::run::run;
use crate::driver::socket::Socket;
use crate::system::sys;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// How many descriptors Linux passes with one message (`SCM_MAX_FD`).
const MOST: usize = 253;

/// Bytes that have come over a Unix socket, with the descriptors that came along.
#[derive(Debug)]
pub struct Received {
    /// How many bytes are in the buffer.
    pub len: usize,
    /// The descriptors, in the order in which they were sent. Each is closed when another program
    /// is executed.
    pub fds: Vec<OwnedFd>,
    /// Whether more descriptors came than were asked for. Those were closed.
    pub truncated: bool,
}

/// Sends bytes with descriptors.
struct SendFds<'a>(&'a [u8], &'a [BorrowedFd<'a>]);

impl Op for SendFds<'_> {
    type Output = usize;
    const HALF: Half = Half::Write;
    const WAITS_FOR: &'static str = "room in a socket";

    fn attempt(&mut self, socket: &Socket) -> io::Result<usize> {
        sys::send_fds(socket.io(), self.0, self.1)
    }
}

/// Receives bytes with at most so many descriptors.
struct ReceiveFds<'a>(&'a mut [u8], usize);

impl Op for ReceiveFds<'_> {
    type Output = Received;
    const HALF: Half = Half::Read;
    const WAITS_FOR: &'static str = "data with descriptors";

    fn attempt(&mut self, socket: &Socket) -> io::Result<Received> {
        let (len, fds, truncated) = sys::recv_fds(socket.io(), self.0, self.1)?;
        Ok(Received { len, fds, truncated })
    }
}

#[track_caller]
fn send(to: &Shared, bytes: &[u8], fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<usize> {
    check(fds.len())?;
    run(&to.0, SendFds(bytes, fds), timeout)
}

#[track_caller]
fn receive(from: &Shared, buf: &mut [u8], most: usize, timeout: Option<Duration>) -> io::Result<Received> {
    check(most)?;
    run(&from.0, ReceiveFds(buf, most), timeout)
}

fn check(count: usize) -> io::Result<()> {
    if count > MOST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "more than 253 descriptors for one message"));
    }
    Ok(())
}

fn without_bytes() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "descriptors go with bytes, of which there must be one at least")
}

impl<P: Protocol + Local> Stream<P> {
    /// Writes bytes, and passes these descriptors with the first of them. Returns how many bytes
    /// were taken; if not all were, the rest is written without the descriptors.
    ///
    /// The receiver gets descriptors of the same files. The sender may close its own. Flags go with
    /// them, since they are the files': to hand a socket or a pipe of this crate to another
    /// program, make an [`OwnedFd`] of it first (`TryFrom`), which blocks as other programs expect.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// As for a write. `InvalidInput` for over 253 descriptors, and for some without a byte.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_io::net::UnixStream;
    /// use std::io::{Read, Write};
    /// use std::os::fd::AsFd;
    ///
    /// let (here, there) = UnixStream::pair()?;
    /// let (passed, mut kept) = UnixStream::pair()?;
    /// here.send_fds(b"!", &[passed.as_fd()])?;
    /// drop(passed);
    ///
    /// let mut received = there.recv_fds(&mut [0; 8], 1)?;
    /// let mut stream = UnixStream::from(received.fds.remove(0));
    /// stream.write_all(b"over it")?;
    /// assert_eq!(kept.read(&mut [0; 8])?, 7);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn send_fds(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        if bytes.is_empty() && !fds.is_empty() {
            return Err(without_bytes());
        }
        send(&self.shared, bytes, fds, self.write_timeout()?)
    }

    /// Reads bytes, with at most so many descriptors. The read ends where those of another send
    /// begin.
    ///
    /// # Cancellation
    /// *No effect*: bytes and descriptors stay for the next call.
    ///
    /// # Errors
    /// As for a read. `InvalidInput` for over 253 descriptors, and for a buffer without room: the
    /// descriptors would go with no byte.
    #[track_caller]
    pub fn recv_fds(&self, buf: &mut [u8], most: usize) -> io::Result<Received> {
        if buf.is_empty() {
            return Err(without_bytes());
        }
        receive(&self.shared, buf, most, self.read_timeout()?)
    }

    /// [`recv_fds`](Self::recv_fds) that never waits.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there; else as for [`recv_fds`](Self::recv_fds).
    pub fn try_recv_fds(&self, buf: &mut [u8], most: usize) -> io::Result<Received> {
        if buf.is_empty() {
            return Err(without_bytes());
        }
        check(most)?;
        ops::now_or_never(&self.shared.0, ReceiveFds(buf, most))
    }
}

impl<P: Protocol + Local> Packets<P> {
    /// Sends a packet with these descriptors, to the address that the socket is connected to. Flags
    /// go with them, as for [`Stream::send_fds`].
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// As for [`send`](Self::send). `InvalidInput` for over 253 descriptors.
    #[track_caller]
    pub fn send_fds(&self, packet: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        send(&self.shared, packet, fds, self.write_timeout()?)
    }

    /// Waits for a packet and takes the packet, with at most so many descriptors.
    ///
    /// # Cancellation
    /// *No effect*: the packet stays, with its descriptors.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv). `InvalidInput` for over 253 descriptors.
    #[track_caller]
    pub fn recv_fds(&self, buf: &mut [u8], most: usize) -> io::Result<Received> {
        receive(&self.shared, buf, most, self.read_timeout()?)
    }

    /// [`recv_fds`](Self::recv_fds) that never waits.
    ///
    /// # Errors
    /// `WouldBlock` if there is no packet; else as for [`recv_fds`](Self::recv_fds).
    pub fn try_recv_fds(&self, buf: &mut [u8], most: usize) -> io::Result<Received> {
        check(most)?;
        ops::now_or_never(&self.shared.0, ReceiveFds(buf, most))
    }
}
