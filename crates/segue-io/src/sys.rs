//! The system calls of the ops, each once and without waiting.
//!
//! Used by `op` and by the constructors of `net`. `rustix` makes them, in safe Rust; options and
//! addresses are left to `socket2`.
//!
//! Where the system can, a call says by itself that it must not wait (`MSG_DONTWAIT`) and must not
//! raise `SIGPIPE` (`MSG_NOSIGNAL`). So an op neither blocks its worker when `O_NONBLOCK` is
//! cleared through a duplicate of the descriptor, nor ends the process of a program with its own
//! signal handling.

use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags};
use socket2::{Domain, Socket, Type};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;

/// What a vectored call takes at most; the rest is for the next call.
const MAX_SLICES: usize = 1024;

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
mod flavour {
    use super::*;
    use rustix::net::{SocketFlags, acceptfrom_with};

    pub(super) const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

    pub(crate) fn stream_socket(domain: Domain) -> io::Result<Socket> {
        Socket::new(domain, Type::STREAM.nonblocking(), None)
    }

    pub(crate) fn accept(socket: &Socket) -> io::Result<(Socket, SocketAddr)> {
        let (fd, peer) = acceptfrom_with(socket, SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC))?;
        let peer = peer.ok_or(io::ErrorKind::InvalidData)?;
        Ok((fd.into(), SocketAddr::try_from(peer)?))
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
mod flavour {
    use super::*;

    // No signal: `socket2` asks for that when it makes or accepts a socket.
    pub(super) const SEND: SendFlags = SendFlags::DONTWAIT;

    pub(crate) fn stream_socket(domain: Domain) -> io::Result<Socket> {
        let socket = Socket::new(domain, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    pub(crate) fn accept(socket: &Socket) -> io::Result<(Socket, SocketAddr)> {
        let (stream, peer) = socket.accept()?;
        stream.set_nonblocking(true)?;
        Ok((stream, peer.as_socket().ok_or(io::ErrorKind::InvalidData)?))
    }
}

pub(crate) use flavour::{accept, stream_socket};

pub(crate) fn recv(socket: &Socket, buf: &mut [u8], peek: bool) -> io::Result<usize> {
    let peek = if peek { RecvFlags::PEEK } else { RecvFlags::empty() };
    Ok(rustix::net::recv(socket, buf, RecvFlags::DONTWAIT | peek)?.1)
}

pub(crate) fn recv_vectored(socket: &Socket, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let bufs = match bufs.len() {
        0..=MAX_SLICES => bufs,
        _ => &mut bufs[..MAX_SLICES],
    };
    Ok(rustix::net::recvmsg(socket, bufs, &mut RecvAncillaryBuffer::default(), RecvFlags::DONTWAIT)?.bytes)
}

pub(crate) fn send(socket: &Socket, buf: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, buf, flavour::SEND)?)
}

pub(crate) fn send_vectored(socket: &Socket, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
    let bufs = &bufs[..bufs.len().min(MAX_SLICES)];
    Ok(rustix::net::sendmsg(socket, bufs, &mut SendAncillaryBuffer::default(), flavour::SEND)?)
}
