//! The system calls of the ops, each once and without waiting.
//!
//! Used by `op` and `net`. `rustix` makes them, in safe Rust; options and
//! addresses are left to `socket2`.
//!
//! Where the system can, a call says by itself that it must not wait (`MSG_DONTWAIT`) and must not
//! raise `SIGPIPE` (`MSG_NOSIGNAL`). So an op neither blocks its worker when `O_NONBLOCK` is
//! cleared through a duplicate of the descriptor, nor ends the process of a program with its own
//! signal handling.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrAny,
};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::{Deref, Range};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Whether an error is one of these of the kernel.
pub(crate) fn says(error: &io::Error, errnos: &[Errno]) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| errnos.contains(&errno))
}

/// Makes a call that may block, again after each interruption by a signal.
pub(crate) fn until_done<T>(call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    Ok(rustix::io::retry_on_intr(call)?)
}

/// The kernel's error of a descriptor at this moment.
pub(crate) fn poll_now(fd: BorrowedFd<'_>, wanted: PollFlags) -> io::Result<PollFlags> {
    let mut fds = [PollFd::new(&fd, wanted)];
    rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(fds[0].revents())
}

/// What a vectored call takes at most; the rest is for the next call.
const MAX_SLICES: usize = 1024;

/// Those of the buffers that a vectored call takes. It begins with one that has room: of nothing
/// but empty ones the kernel makes a read of nothing, which looks like the end.
pub(crate) fn taken_at_once<B>(bufs: &[B]) -> Range<usize>
where
    B: Deref<Target = [u8]>,
{
    let first = bufs.iter().position(|buf| !buf.is_empty()).unwrap_or(0);
    first..bufs.len().min(first + MAX_SLICES)
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
mod flavour {
    use super::*;
    use rustix::net::{SocketFlags, acceptfrom_with};

    pub(super) const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
    pub(super) const CLOEXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;

    pub(crate) fn socket(domain: Domain, kind: Type) -> io::Result<Socket> {
        Socket::new(domain, kind.nonblocking(), None)
    }

    pub(crate) fn pair(kind: Type) -> io::Result<(Socket, Socket)> {
        Socket::pair(Domain::UNIX, kind.nonblocking(), None)
    }

    /// The kernel has done that.
    pub(crate) fn close_on_exec(_received: &[OwnedFd]) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn accept(socket: &Socket) -> io::Result<(Socket, Option<SocketAddrAny>)> {
        let (fd, peer) = acceptfrom_with(socket, SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC))?;
        Ok((fd.into(), peer))
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
mod flavour {
    use super::*;

    // No signal: `socket2` asks for that when it makes or accepts a socket.
    pub(super) const SEND: SendFlags = SendFlags::DONTWAIT;
    /// There is no flag: a program that is executed at the wrong moment has the descriptor too.
    pub(super) const CLOEXEC: RecvFlags = RecvFlags::empty();

    pub(crate) fn socket(domain: Domain, kind: Type) -> io::Result<Socket> {
        let socket = Socket::new(domain, kind, None)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    pub(crate) fn pair(kind: Type) -> io::Result<(Socket, Socket)> {
        let (one, other) = Socket::pair(Domain::UNIX, kind, None)?;
        one.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        Ok((one, other))
    }

    pub(crate) fn close_on_exec(received: &[OwnedFd]) -> io::Result<()> {
        Ok(received.iter().try_for_each(|fd| rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC))?)
    }

    pub(crate) fn accept(socket: &Socket) -> io::Result<(Socket, Option<SocketAddrAny>)> {
        let (stream, _) = socket.accept()?;
        stream.set_nonblocking(true)?;
        // It fails for a peer that has gone.
        let peer = rustix::net::getpeername(&stream).ok().flatten();
        Ok((stream, peer))
    }
}

pub(crate) use flavour::{accept, close_on_exec, pair, socket};

pub(crate) fn recv(socket: &Socket, buf: &mut [u8], peek: bool) -> io::Result<usize> {
    let peek = if peek { RecvFlags::PEEK } else { RecvFlags::empty() };
    Ok(rustix::net::recv(socket, buf, RecvFlags::DONTWAIT | peek)?.1)
}

pub(crate) fn recv_from(socket: &Socket, buf: &mut [u8], peek: bool) -> io::Result<(usize, Option<SocketAddrAny>)> {
    let peek = if peek { RecvFlags::PEEK } else { RecvFlags::empty() };
    let (count, _, from) = rustix::net::recvfrom(socket, buf, RecvFlags::DONTWAIT | peek)?;
    Ok((count, from))
}

pub(crate) fn recv_vectored(socket: &Socket, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let taken = taken_at_once(bufs);
    Ok(rustix::net::recvmsg(socket, &mut bufs[taken], &mut RecvAncillaryBuffer::default(), RecvFlags::DONTWAIT)?.bytes)
}

pub(crate) fn send(socket: &Socket, buf: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, buf, flavour::SEND)?)
}

pub(crate) fn send_to(socket: &Socket, buf: &[u8], to: &SockAddr) -> io::Result<usize> {
    socket.send_to_with_flags(buf, to, flavour::SEND.bits() as i32)
}

pub(crate) fn send_vectored(socket: &Socket, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
    let taken = &bufs[taken_at_once(bufs)];
    Ok(rustix::net::sendmsg(socket, taken, &mut SendAncillaryBuffer::default(), flavour::SEND)?)
}

/// Sends bytes with descriptors; without some it is a plain send.
pub(crate) fn send_fds(socket: &Socket, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(fds.len()))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flavour::SEND)?)
}

/// What the kernel puts before the descriptors, if the socket has been told to ask for it: who has
/// sent them.
#[cfg(any(target_os = "linux", target_os = "android"))]
const BESIDES: usize = rustix::cmsg_space!(ScmCredentials(1));
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const BESIDES: usize = 0;

/// Receives bytes with at most so many descriptors, and says whether there were more. The kernel
/// closes those that have no room, and this closes those that have room by chance.
pub(crate) fn recv_fds(socket: &Socket, buf: &mut [u8], most: usize) -> io::Result<(usize, Vec<OwnedFd>, bool)> {
    let mut space = vec![MaybeUninit::uninit(); BESIDES + rustix::cmsg_space!(ScmRights(most))];
    // It closes what is left in it when it is dropped.
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | flavour::CLOEXEC;
    let message = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(buf)], &mut ancillary, flags)?;
    let mut fds = Vec::with_capacity(most);
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = part {
            fds.extend(some);
        }
    }
    let truncated = message.flags.contains(ReturnFlags::CTRUNC) || fds.len() > most;
    fds.truncate(most);
    close_on_exec(&fds)?;
    Ok((message.bytes, fds, truncated))
}
