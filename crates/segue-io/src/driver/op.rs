//! The ops: each is one request to the kernel, with the memory that the op borrows for as long.
//!
//! Made by `net`, carried out by `driver::run`. A readiness driver needs of an op only
//! [`attempt`](Op::attempt): the system call, which does not wait. A completion driver needs the
//! [request](Op::request) that goes into the ring, and the meaning of an [answer](Op::completed).
//! An op without these two goes by readiness everywhere.
//!
//! A read into no room yields zero bytes and asks nobody: Linux would wait for data, and then
//! return none.

use super::readiness::Half;
use super::socket::Socket;
#[cfg(linux)]
use crate::ring::{Answer, Request};
use crate::system::sys::{self, says};
use rustix::io::Errno;
use socket2::SockAddr;
use std::io::{self, IoSlice, IoSliceMut};
#[cfg(linux)]
use std::os::fd::BorrowedFd;

/// To copy so many bytes counts as one more operation: so a turn moves at most half a MiB, and one
/// connection that streams does not hold up those that ask and answer.
pub(super) const BYTES: usize = 4096;

/// A request to the kernel.
pub(crate) trait Op {
    /// The result of a success.
    type Output;

    /// The half of the socket that must be ready.
    const HALF: Half;

    /// The words of a report for a fiber that waits in this op.
    const WAITS_FOR: &'static str;

    /// Makes the system call, which takes effect at once, or would block, and then has
    /// not taken effect.
    fn attempt(&mut self, socket: &Socket) -> io::Result<Self::Output>;

    /// Whether the op is attempted before a completion driver gets its request: where there is
    /// often more than one to be had at once, as of connections.
    #[cfg(linux)]
    const IS_EAGER: bool = false;

    /// Whether the op moves bytes into a stream: then it is attempted first where the worker finds
    /// that cheaper (`ring/sends.rs`).
    #[cfg(linux)]
    const IS_SEND: bool = false;

    /// The op in the form of a completion driver; `None` for readiness. Made by [`flies!`].
    #[cfg(linux)]
    fn request<'a>(&'a mut self, _fd: BorrowedFd<'a>) -> Option<Request<'a>> {
        None
    }

    /// The meaning of the answer to its [request](Op::request). Made by [`flies!`].
    #[cfg(linux)]
    fn completed(&mut self, _answer: Answer) -> io::Result<Self::Output> {
        unreachable!("an answer to an op that has asked for nothing")
    }

    /// Whether the op would block on a socket that has nothing to read. An op without room for a
    /// byte does not.
    fn needs_data(&self) -> bool {
        false
    }

    /// How many bytes were copied for this result.
    fn moved(&self, _output: &Self::Output) -> usize {
        0
    }

    /// Whether this result shows that nothing was left to read.
    fn drains(&self, _output: &Self::Output) -> bool {
        false
    }
}

/// How an op flies in a ring, where there are rings: its request, and the output that the answer to
/// the request means.
macro_rules! flies {
    (|$op:ident, $fd:ident| $request:expr, moves bytes) => {
        flies!(|$op, $fd| $request, |answer| answer.count());

        #[inline]
        fn moved(&self, output: &usize) -> usize {
            *output
        }
    };
    (|$op:ident, $fd:ident| $request:expr, |$answer:ident| $output:expr) => {
        #[cfg(linux)]
        #[inline]
        fn request<'a>(&'a mut self, $fd: std::os::fd::BorrowedFd<'a>) -> Option<crate::ring::Request<'a>> {
            use crate::ring::Request;
            let $op = self;
            $request
        }

        #[cfg(linux)]
        #[inline]
        fn completed(&mut self, $answer: crate::ring::Answer) -> std::io::Result<Self::Output> {
            Ok($output)
        }
    };
}

pub(crate) use flies;

/// Connects a new socket. The first attempt sends the request; the later ones look at the
/// outcome. A connect that was under way before is waited for, as by a call that blocks.
pub(crate) struct Connect<'a> {
    to: &'a SockAddr,
    begun: Begun,
}

/// Whether the kernel has a connect's request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begun {
    No,
    /// A ring had the request, and may have begun the connect before giving the request back. So
    /// the next attempt sends the request, and takes a connection that is there for an outcome.
    #[cfg_attr(not(linux), allow(dead_code, reason = "no rings"))]
    Perhaps,
    Yes,
}

impl<'a> Connect<'a> {
    pub(crate) fn new(to: &'a SockAddr) -> Self {
        Self { to, begun: Begun::No }
    }

    /// A connect that is under way: its first attempt was made.
    pub(crate) fn begun(to: &'a SockAddr) -> Self {
        Self { to, begun: Begun::Yes }
    }
}

impl Op for Connect<'_> {
    type Output = ();
    const HALF: Half = Half::Write;
    const WAITS_FOR: &'static str = "an answer to a connect";

    fn attempt(&mut self, socket: &Socket) -> io::Result<()> {
        let io = socket.io();
        let begun = std::mem::replace(&mut self.begun, Begun::Yes);
        if begun != Begun::Yes {
            return match io.connect(self.to) {
                // Interrupted or not, the connect goes on by itself.
                Err(error) if is_in_progress(&error) => Err(io::ErrorKind::WouldBlock.into()),
                Err(error) if begun == Begun::Perhaps && says(&error, &[Errno::ISCONN]) => Ok(()),
                done => done,
            };
        }
        if let Some(error) = io.take_error()? {
            return Err(error);
        }
        match io.peer_addr() {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Err(io::ErrorKind::WouldBlock.into()),
            connected => connected.map(drop),
        }
    }

    flies!(
        |op, fd| {
            op.begun = Begun::Perhaps;
            Some(Request::connect(fd, op.to))
        },
        |_answer| ()
    );
}

fn is_in_progress(error: &io::Error) -> bool {
    says(error, &[Errno::INPROGRESS, Errno::ALREADY])
        || matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Moves bytes out of the kernel; or, for a `PEEK`, copies them and leaves them there.
pub(crate) struct Read<'a, const PEEK: bool = false>(pub(crate) &'a mut [u8]);

impl<const PEEK: bool> Op for Read<'_, PEEK> {
    type Output = usize;
    const HALF: Half = Half::Read;
    const WAITS_FOR: &'static str = "data on a socket";

    #[inline]
    fn attempt(&mut self, socket: &Socket) -> io::Result<usize> {
        if self.0.is_empty() {
            return Ok(0);
        }
        sys::recv(socket.io(), self.0, PEEK)
    }

    flies!(|op, fd| if PEEK { None } else { Request::receive(fd, op.0) }, moves bytes);

    #[inline]
    fn needs_data(&self) -> bool {
        !self.0.is_empty()
    }

    #[inline]
    fn drains(&self, output: &usize) -> bool {
        !PEEK && (1..self.0.len()).contains(output)
    }
}

/// Moves bytes out of the kernel, into several buffers.
pub(crate) struct ReadVectored<'a, 'b>(pub(crate) &'a mut [IoSliceMut<'b>]);

impl Op for ReadVectored<'_, '_> {
    type Output = usize;
    const HALF: Half = Half::Read;
    const WAITS_FOR: &'static str = "data on a socket";

    fn attempt(&mut self, socket: &Socket) -> io::Result<usize> {
        if self.0.iter().all(|buf| buf.is_empty()) {
            return Ok(0);
        }
        sys::recv_vectored(socket.io(), self.0)
    }

    flies!(|op, fd| Request::receive_vectored(fd, op.0), moves bytes);
}

/// Moves bytes into the kernel.
pub(crate) struct Write<'a>(pub(crate) &'a [u8]);

impl Op for Write<'_> {
    type Output = usize;
    const HALF: Half = Half::Write;
    const WAITS_FOR: &'static str = "room in a socket";
    #[cfg(linux)]
    const IS_SEND: bool = true;

    #[inline]
    fn attempt(&mut self, socket: &Socket) -> io::Result<usize> {
        sys::send(socket.io(), self.0)
    }

    flies!(|op, fd| Some(Request::send(fd, op.0)), moves bytes);
}

/// Moves bytes into the kernel, from several buffers.
pub(crate) struct WriteVectored<'a, 'b>(pub(crate) &'a [IoSlice<'b>]);

impl Op for WriteVectored<'_, '_> {
    type Output = usize;
    const HALF: Half = Half::Write;
    const WAITS_FOR: &'static str = "room in a socket";
    #[cfg(linux)]
    const IS_SEND: bool = true;

    #[inline]
    fn attempt(&mut self, socket: &Socket) -> io::Result<usize> {
        sys::send_vectored(socket.io(), self.0)
    }

    flies!(|op, fd| Some(Request::send_vectored(fd, op.0)), moves bytes);
}

#[cfg(test)]
#[path = "../../tests/units/op.rs"]
mod tests;
