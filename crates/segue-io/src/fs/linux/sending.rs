//! A file's bytes from the page cache to a socket, by `sendfile`.
//!
//! Used by `fs::sending`.
//!
//! # Bytes that are not in memory
//!
//! The call waits for the disk, and cannot be told not to. So a worker first looks whether the
//! first byte and the last one are in memory, by reads that must not wait. If one is not, the same
//! call is made by a thread for blocking calls: the call reads from the disk before asking for room
//! in the socket, so that the worker's next attempt finds the bytes in memory. A piece is short,
//! and the kernel reads ahead in longer ones: a hole between two bytes in memory is rare, and costs
//! the worker one read of the disk.
//!
//! # Room in the socket
//!
//! The call has no flag by which it does not wait for room: the flag of the socket's description
//! decides, which another owner may have taken away. So that flag is looked at before each call.
//! Without room the op waits as every op does that goes by readiness.

use super::in_memory::read_now;
use crate::driver::op::Op;
use crate::driver::readiness::Half;
use crate::driver::run::run;
use crate::driver::socket::Socket;
use crate::driver::workers::is_orphan;
use crate::fs::place::Place;
use crate::system::sys::says;
use rustix::fs::{OFlags, fcntl_getfl, sendfile};
use rustix::io::Errno;
use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// How much is sent by one call.
const PIECE: usize = 128 << 10;

/// Moves bytes of a file into the kernel's buffers of a socket.
struct SendFile<'a> {
    file: BorrowedFd<'a>,
    from: u64,
    count: usize,
}

impl Op for SendFile<'_> {
    type Output = usize;
    const HALF: Half = Half::Write;
    const WAITS_FOR: &'static str = "room in a socket";

    fn attempt(&mut self, socket: &Socket) -> io::Result<usize> {
        let mut from = self.from;
        Ok(sendfile(socket.io(), self.file, Some(&mut from), self.count)?)
    }

    fn moved(&self, output: &usize) -> usize {
        *output
    }
}

impl SendFile<'_> {
    /// Whether the bytes are in memory, by a look at the first one and the last one.
    fn is_in_memory(&self) -> bool {
        let is_there = |at| {
            let mut byte = [0];
            let read = read_now(self.file, &mut [IoSliceMut::new(&mut byte)], Place::At(at));
            matches!(read, Some(Ok(1)))
        };
        is_there(self.from) && is_there(self.from.saturating_add(self.count as u64 - 1))
    }
}

/// Sends some bytes of a file; `None` if the kernel does not send these, and nothing has happened.
#[track_caller]
pub(in crate::fs) fn send(
    file: BorrowedFd<'_>,
    socket: &Arc<Socket>,
    from: u64,
    count: u64,
    timeout: Option<Duration>,
) -> Option<io::Result<usize>> {
    let count = usize::try_from(count).unwrap_or(PIECE).min(PIECE);
    if count == 0 || !fcntl_getfl(socket.io()).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK)) {
        return None;
    }
    let mut op = SendFile { file, from, count };
    let sent = if !segue_core::in_fiber() || is_orphan() || op.is_in_memory() {
        run(socket, op, timeout)
    } else {
        match segue_core::blocking(|| op.attempt(socket)) {
            Ok(Err(error)) if is_undone(&error) => run(socket, op, timeout),
            Ok(sent) => sent,
            Err(cancelled) => Err(cancelled.into()),
        }
    };
    match sent {
        Err(error) if says(&error, &[Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP, Errno::PERM]) => None,
        sent => Some(sent),
    }
}

fn is_undone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
