//! Waits for a descriptor that is not ours, without a change of its flags.
//!
//! Used by the crate `segue-unblock` alone, for which this module is public.
//!
//! # The idea
//!
//! The number of somebody else's descriptor may be closed during a fiber's wait, and be given out
//! again. So the wait is for a duplicate, which is ours, and leads to the same open file: the
//! number may come to mean anything, and the wait goes on for the file of its beginning, as a wait
//! in the kernel would. A duplicate shares all flags; none is set.
//!
//! In a ring a wait is one poll, without a trace in any table. Elsewhere the duplicate is
//! registered with the reactor, as every socket is, and leaves the reactor when it is dropped.
//!
//! A call that can't be told not to wait is made [apart](apart()).

use crate::apart::{self};
use crate::driver::completions;
use crate::driver::op::{Connect, Op, flies};
use crate::driver::readiness::Half;
use crate::driver::ready::Ready;
use crate::driver::run as driver;
use crate::driver::socket::Socket;
use crate::system::fork::Birth;
use crate::system::whole::as_fd;
use rustix::net::SocketAddrAny;
use segue_core::now;
use socket2::SockAddr;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of this process in its line: another one in the child of a fork. Never waits, and is
/// a look at memory.
#[must_use]
#[inline]
pub fn process() -> u32 {
    Birth::now().number()
}

/// A descriptor that is waited for, and that nobody makes stop blocking.
pub struct Foreign(Arc<Socket>);

/// A connection that was accepted, and its other end.
pub type Accepted = (OwnedFd, Option<SocketAddrAny>);

impl Foreign {
    /// A descriptor that nobody else waits for: a duplicate of somebody's.
    #[must_use]
    pub fn new(fd: OwnedFd) -> Self {
        Self(Socket::new(fd.into()))
    }

    /// Waits until there is something to read, or the end, or an error.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// `TimedOut` at the deadline; that of a cancellation; others, if there is no way to wait.
    #[track_caller]
    pub fn readable(&self, deadline: Option<Instant>) -> io::Result<()> {
        driver::run(&self.0, Ready::<false>, left(deadline))
    }

    /// Waits until there is room, or an error.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// As for [`readable`](Foreign::readable).
    #[track_caller]
    pub fn writable(&self, deadline: Option<Instant>) -> io::Result<()> {
        driver::run(&self.0, Ready::<true>, left(deadline))
    }

    /// Takes a connection off the queue of a listener, with these flags of `accept4`, in the
    /// caller's ring; `None` without a ring, or if the ring can't do that.
    ///
    /// # Cancellation
    /// *No effect*: an accepted connection is returned.
    ///
    /// # Errors
    /// `TimedOut` at the deadline; that of a cancellation; the kernel's.
    #[track_caller]
    pub fn accept(&self, flags: i32, deadline: Option<Instant>) -> Option<io::Result<Accepted>> {
        completions::carry_out(&self.0, &mut Accept(flags), left(deadline), &mut None)
    }

    /// Connects, in the caller's ring; `None` without a ring, or if the ring can't do that.
    ///
    /// # Cancellation
    /// *May already have happened*: the attempt goes on by itself.
    ///
    /// # Errors
    /// `TimedOut` at the deadline; that of a cancellation; the kernel's.
    #[track_caller]
    pub fn connect(&self, to: &SockAddr, deadline: Option<Instant>) -> Option<io::Result<()>> {
        completions::carry_out(&self.0, &mut Connect::new(to), left(deadline), &mut None)
    }
}

as_fd!([] Foreign, |it| it.0.io());

/// Makes a call that can't be told not to wait on a thread of its own, which a cancellation
/// interrupts; the calling fiber is suspended meanwhile. `call` owns all its descriptors and
/// memory: where the kernel does not listen, the thread is left behind.
///
/// With `takes`, for a call that takes bytes out of a stream or makes a descriptor, the thread is
/// left only after two seconds: bytes or descriptors that come later are lost.
///
/// # Cancellation
/// *No effect*, if the call was interrupted. Of one that was left: *may already have happened*.
///
/// # Errors
/// That of the call; that of a cancellation; that there is no thread.
#[track_caller]
pub fn apart<T: Send + 'static>(
    waits_for: &'static str,
    takes: bool,
    call: impl FnMut() -> rustix::io::Result<T> + Send + 'static,
) -> io::Result<T> {
    apart::run(waits_for, if takes { apart::Patience::Stream } else { apart::Patience::Server }, call)
}

fn left(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|at| at.saturating_duration_since(now()))
}

/// An accept with flags, which flies or is none.
struct Accept(i32);

impl Op for Accept {
    type Output = Accepted;
    const HALF: Half = Half::Read;
    const WAITS_FOR: &'static str = "a connection";

    fn attempt(&mut self, _socket: &Socket) -> io::Result<Accepted> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    flies!(|op, fd| Some(Request::accept(fd, op.0)), |answer| answer.opened());
}

#[cfg(test)]
#[path = "../../tests/units/foreign.rs"]
mod tests;
