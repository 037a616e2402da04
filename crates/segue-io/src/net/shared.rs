//! The part of a socket that all its handles share, and how it is made of a descriptor and turned
//! into one.
//!
//! Used by streams, packets and listeners.

use super::family::Family;
use crate::driver::op::{Read, ReadVectored, Write, WriteVectored};
use crate::driver::readiness::Half;
use crate::driver::run::run;
use crate::driver::socket::Socket;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// One of the handles of a socket.
#[derive(Clone)]
pub struct Shared(pub(crate) Arc<Socket>);

impl Shared {
    /// The first handle of a socket that does not block.
    pub(super) fn adopt<F: Family>(io: socket2::Socket) -> Self {
        let socket = Socket::new(io);
        if F::IS_LOCAL {
            // Else a short read counted as one that has drained the socket, and the next one waited
            // for an edge although there is something. A direction that is unsteady is never
            // drained.
            socket.direction(Half::Read).report(true);
        }
        Self(socket)
    }

    /// The first handle of a socket that may block as yet.
    pub(super) fn take_over<F: Family>(fd: OwnedFd) -> io::Result<Self> {
        let io = socket2::Socket::from(fd);
        io.set_nonblocking(true)?;
        Ok(Self::adopt::<F>(io))
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

    pub(super) fn local_addr<F: Family>(&self) -> io::Result<F::Address> {
        F::from_kernel(Some(rustix::net::getsockname(self.io())?))
    }

    pub(super) fn peer_addr<F: Family>(&self) -> io::Result<F::Address> {
        F::from_kernel(rustix::net::getpeername(self.io())?)
    }

    pub(super) fn debug<F: Family<Address: fmt::Debug>>(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct(name);
        if let Ok(addr) = self.local_addr::<F>() {
            debug.field("addr", &addr);
        }
        if let Ok(peer) = self.peer_addr::<F>() {
            debug.field("peer", &peer);
        }
        debug.field("fd", &self.io().as_raw_fd()).finish()
    }

    #[inline]
    pub(super) fn timeout(&self, half: Half) -> Option<Duration> {
        self.0.timeout(half).get()
    }

    #[track_caller]
    pub(super) fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        run(&self.0, Read::<false>(buf), self.timeout(Half::Read))
    }

    #[track_caller]
    pub(super) fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        run(&self.0, ReadVectored(bufs), self.timeout(Half::Read))
    }

    #[track_caller]
    pub(super) fn write(&self, buf: &[u8]) -> io::Result<usize> {
        run(&self.0, Write(buf), self.timeout(Half::Write))
    }

    #[track_caller]
    pub(super) fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        run(&self.0, WriteVectored(bufs), self.timeout(Half::Write))
    }
}
