//! The ops of packets and of Unix sockets, and the ways to carry out an op that `driver` does not
//! have: now or never, and over and over.
//!
//! Used by the types of `net`. As in `op`, each op is one system call that does not wait.

use super::family::Family;
use crate::driver::op::{Connect, Op, flies};
use crate::driver::readiness::Half;
use crate::driver::ready::Ready;
use crate::driver::run::{run, source};
use crate::driver::socket::Socket;
use crate::system::pauses::Pauses;
use crate::system::sys;
use segue_core::{Source, Waitable, WaitsFor};
use socket2::SockAddr;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

pub(super) use crate::driver::ready::now_or_never;

/// The longest pause of [`patiently`].
const LONGEST: Duration = Duration::from_millis(64);

/// Carries out an op that waits for somebody else's queue to have room, of which the kernel tells
/// nobody: attempts it again after pauses, which grow. For Unix sockets alone.
#[track_caller]
pub(super) fn patiently<O: Op>(socket: &Socket, mut op: O, timeout: Option<Duration>) -> io::Result<O::Output> {
    segue_core::admit()?;
    let mut pauses = Pauses::up_to(LONGEST);
    loop {
        match op.attempt(socket) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
        pauses.wait(timeout, WaitsFor::new(O::WAITS_FOR))?;
    }
}

/// Takes a connection off the queue of a listener of this family.
#[derive(Clone, Copy)]
pub(super) struct Accept<F>(pub(super) PhantomData<F>);

impl<F: Family> Op for Accept<F> {
    type Output = (socket2::Socket, F::Address);
    const HALF: Half = Half::Read;
    #[cfg(linux)]
    const IS_EAGER: bool = true;
    const WAITS_FOR: &'static str = "a connection";

    fn attempt(&mut self, socket: &Socket) -> io::Result<Self::Output> {
        let (stream, peer) = sys::accept(socket.io())?;
        Ok((stream, F::from_kernel(peer)?))
    }

    flies!(|_op, fd| Some(Request::accept(fd, libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC)), |answer| {
        let (stream, peer) = answer.opened();
        (stream.into(), F::from_kernel(peer)?)
    });
}

/// Looks what has become of a connect that has begun.
#[derive(Clone, Copy)]
pub(super) struct Connecting<'a>(pub(super) &'a SockAddr);

impl Op for Connecting<'_> {
    type Output = ();
    const HALF: Half = Half::Write;
    const WAITS_FOR: &'static str = "an answer to a connect";

    fn attempt(&mut self, socket: &Socket) -> io::Result<()> {
        Connect::begun(self.0).attempt(socket)
    }
}

/// Connects a Unix socket: at once, or the listener's queue is full and nothing has been done.
struct ConnectUnix<'a>(&'a SockAddr);

impl Op for ConnectUnix<'_> {
    type Output = ();
    const HALF: Half = Half::Write;
    const WAITS_FOR: &'static str = "room in a listener's queue";

    fn attempt(&mut self, socket: &Socket) -> io::Result<()> {
        socket.io().connect(self.0)
    }
}

/// Connects a socket of this family.
///
/// Cancellation: as `Socket::connect` says.
#[track_caller]
pub(super) fn connect<F: Family>(socket: &Arc<Socket>, to: &SockAddr, timeout: Option<Duration>) -> io::Result<()> {
    if F::IS_LOCAL { patiently(socket, ConnectUnix(to), timeout) } else { run(socket, Connect::new(to), timeout) }
}

/// Takes a packet, or for a `PEEK` copies it. One without bytes is a packet too, and so is one that
/// has no room.
pub(super) struct Receive<'a, const PEEK: bool = false>(pub(super) &'a mut [u8]);

impl<const PEEK: bool> Op for Receive<'_, PEEK> {
    type Output = usize;
    const HALF: Half = Half::Read;
    const WAITS_FOR: &'static str = "a packet";

    fn attempt(&mut self, socket: &Socket) -> io::Result<usize> {
        sys::recv(socket.io(), self.0, PEEK)
    }

    flies!(|op, fd| if PEEK { None } else { Request::receive(fd, op.0) }, |answer| answer.count());
}

/// The same, with the sender's address.
pub(super) struct ReceiveFrom<'a, F, const PEEK: bool = false>(pub(super) &'a mut [u8], pub(super) PhantomData<F>);

impl<F: Family, const PEEK: bool> Op for ReceiveFrom<'_, F, PEEK> {
    type Output = (usize, F::Address);
    const HALF: Half = Half::Read;
    const WAITS_FOR: &'static str = "a packet";

    fn attempt(&mut self, socket: &Socket) -> io::Result<Self::Output> {
        let (count, from) = sys::recv_from(socket.io(), self.0, PEEK)?;
        Ok((count, F::from_kernel(from)?))
    }
}

/// Sends a packet to the other end. By readiness everywhere: a send of a Unix packet that waits for
/// room in its receiver's queue comes out of a ring with no bytes, and has not been sent.
#[derive(Clone, Copy)]
pub(super) struct Send<'a>(pub(super) &'a [u8]);

impl Op for Send<'_> {
    type Output = usize;
    const HALF: Half = Half::Write;
    const WAITS_FOR: &'static str = "room for a packet";

    fn attempt(&mut self, socket: &Socket) -> io::Result<usize> {
        sys::send(socket.io(), self.0)
    }
}

/// Sends a packet to an address.
#[derive(Clone, Copy)]
pub(super) struct SendTo<'a>(pub(super) &'a [u8], pub(super) &'a SockAddr);

impl Op for SendTo<'_> {
    type Output = usize;
    const HALF: Half = Half::Write;
    const WAITS_FOR: &'static str = "room for a packet";

    fn attempt(&mut self, socket: &Socket) -> io::Result<usize> {
        sys::send_to(socket.io(), self.0, self.1)
    }
}

/// Ready when a read would not wait.
#[track_caller]
pub(super) fn readable(socket: &Arc<Socket>) -> Waitable<impl Source<Output = io::Result<()>>> {
    source(socket, Ready::<false>, WaitsFor::new(Ready::<false>::WAITS_FOR))
}

/// Ready when a write would not wait.
#[track_caller]
pub(super) fn writable(socket: &Arc<Socket>) -> Waitable<impl Source<Output = io::Result<()>>> {
    source(socket, Ready::<true>, WaitsFor::new(Ready::<true>::WAITS_FOR))
}
