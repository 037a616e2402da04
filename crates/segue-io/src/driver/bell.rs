//! A bell: a signal handler, or another thread, rings it to wake a waiter for descriptors. Rings
//! that nobody has heard yet are one.
//!
//! Used by `signal` and by the reaper of `process`.

use super::socket::Socket;
use crate::system::whole::as_fd;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// On Linux an eventfd, elsewhere a pipe.
pub(crate) struct Bell {
    /// Readable after a ring.
    socket: Arc<Socket>,
    /// The descriptor that is written to, if that is another one.
    far_end: Option<OwnedFd>,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        let (near, far_end) = flavour::make()?;
        Ok(Self { socket: Socket::new(near.into()), far_end })
    }

    /// Safe to call in a signal handler: one system call, which does not wait. It fails only if
    /// there are unheard rings.
    pub(crate) fn ring(&self) {
        let to = self.far_end.as_ref().map_or(self.as_fd(), OwnedFd::as_fd);
        let _ = rustix::io::write(to, &1_u64.to_ne_bytes());
    }

    /// Hears all rings there have been. Answers whether there was one.
    pub(crate) fn hear(&self) -> bool {
        let mut heard = false;
        while matches!(rustix::io::read(self, &mut [0_u8; 512]), Ok(count) if count > 0) {
            heard = true;
            if self.far_end.is_none() {
                break; // It is a number, which is zero now.
            }
        }
        heard
    }

    pub(crate) fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }
}

as_fd!([] Bell, |it| it.socket.io());

#[cfg(linux)]
mod flavour {
    use rustix::event::{EventfdFlags, eventfd};
    use std::io;
    use std::os::fd::OwnedFd;

    pub(super) fn make() -> io::Result<(OwnedFd, Option<OwnedFd>)> {
        Ok((eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?, None))
    }
}

#[cfg(not(linux))]
mod flavour {
    use std::io;
    use std::os::fd::OwnedFd;

    pub(super) fn make() -> io::Result<(OwnedFd, Option<OwnedFd>)> {
        let (near, far) = io::pipe()?;
        rustix::io::ioctl_fionbio(&near, true)?;
        rustix::io::ioctl_fionbio(&far, true)?;
        Ok((near.into(), Some(far.into())))
    }
}
