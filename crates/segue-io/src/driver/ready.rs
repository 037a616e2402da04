//! Ops now or never; and readiness itself as an op, which asks and takes nothing.
//!
//! Used by every type that has `try_` operations and sources of readiness, and by `foreign`.

use super::op::{Op, flies};
use super::readiness::Half;
use super::socket::Socket;
use crate::system::sys::poll_now;
use rustix::event::PollFlags;
use std::io;
use std::os::fd::AsFd;

/// Makes the system call, and does not wait if it would block.
pub(crate) fn now_or_never<O: Op>(socket: &Socket, mut op: O) -> io::Result<O::Output> {
    segue_core::preemption_point();
    loop {
        match op.attempt(socket) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Asks whether a descriptor can be read, or written, and does nothing with it.
#[derive(Clone, Copy)]
pub(crate) struct Ready<const WRITE: bool>;

impl<const WRITE: bool> Op for Ready<WRITE> {
    type Output = ();
    const HALF: Half = if WRITE { Half::Write } else { Half::Read };
    const WAITS_FOR: &'static str = if WRITE { "room in a socket" } else { "data on a socket" };

    fn attempt(&mut self, socket: &Socket) -> io::Result<()> {
        let wanted = if WRITE { PollFlags::OUT } else { PollFlags::IN };
        if poll_now(socket.io().as_fd(), wanted)?.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }

    flies!(|_op, fd| Some(Request::ready(fd, WRITE)), |_answer| ());
}
