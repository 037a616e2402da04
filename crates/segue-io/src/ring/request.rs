//! What ops ask of a ring: one submission each, with the memory that the kernel reads and writes.
//!
//! Made by `op`, which names buffers as borrowed slices; pushed by `Ring::carry_out`. This file
//! alone knows opcodes and addresses.
#![allow(unsafe_code)] // Descriptors and addresses come back out of the kernel as numbers.

use crate::system::sys::taken_at_once;
use io_uring::squeue::Entry;
use io_uring::{opcode, types};
use rustix::net::SocketAddrAny;
use rustix::net::addr::SocketAddrStorage;
use socket2::SockAddr;
use std::io::{IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The room for an address, and the length of one that is nothing but a family.
const ADDRESS: libc::socklen_t = size_of::<SocketAddrStorage>() as libc::socklen_t;
const FAMILY: libc::socklen_t = size_of::<libc::sa_family_t>() as libc::socklen_t;

/// The first look at a socket that is likely to have nothing is left out: the kernel waits first.
const POLL_FIRST: u16 = 1;

/// A submission with what it borrows. The kernel may use all of it from the push of its
/// [`entry`](Request::entry) to its completion: so it stays where it is for as long.
pub(crate) struct Request<'a> {
    fd: RawFd,
    form: Form,
    borrowed: PhantomData<&'a mut [u8]>,
}

enum Form {
    Receive { start: *mut u8, length: u32 },
    Send { start: *const u8, length: u32 },
    ReceiveMessage { header: libc::msghdr },
    SendMessage { header: libc::msghdr },
    Accept { peer: MaybeUninit<SocketAddrStorage>, length: libc::socklen_t, flags: i32 },
    Connect { to: *const libc::sockaddr, length: libc::socklen_t },
    Poll { events: u32 },
}

/// What a completion that succeeded brings.
pub(crate) enum Answer {
    /// So many bytes were moved.
    Bytes(usize),
    /// A connection, and its other end.
    Accepted(OwnedFd, Option<SocketAddrAny>),
    Done,
}

impl Answer {
    /// How many bytes were moved; for the ops that move some.
    #[inline]
    pub(crate) fn bytes(self) -> usize {
        let Answer::Bytes(bytes) = self else { unreachable!("the op asked for bytes") };
        bytes
    }

    /// The connection; for an accept.
    pub(crate) fn accepted(self) -> (OwnedFd, Option<SocketAddrAny>) {
        let Answer::Accepted(accepted, peer) = self else { unreachable!("the op asked for a connection") };
        (accepted, peer)
    }
}

/// The kernel moves at most 2 GiB at a time.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl<'a> Request<'a> {
    fn new(fd: BorrowedFd<'a>, form: Form) -> Option<Self> {
        Some(Self { fd: fd.as_raw_fd(), form, borrowed: PhantomData })
    }

    /// Moves bytes out of a socket. Nobody is asked for no bytes.
    pub(crate) fn receive(fd: BorrowedFd<'a>, to: &'a mut [u8]) -> Option<Self> {
        let (start, length) = (to.as_mut_ptr(), length(to.len()));
        if length == 0 { None } else { Self::new(fd, Form::Receive { start, length }) }
    }

    /// Moves bytes into a socket.
    pub(crate) fn send(fd: BorrowedFd<'a>, from: &'a [u8]) -> Option<Self> {
        Self::new(fd, Form::Send { start: from.as_ptr(), length: length(from.len()) })
    }

    /// Moves bytes out of a socket into several buffers. Nobody is asked for no bytes.
    pub(crate) fn receive_vectored(fd: BorrowedFd<'a>, to: &'a mut [IoSliceMut<'_>]) -> Option<Self> {
        if to.iter().all(|buffer| buffer.is_empty()) {
            return None;
        }
        let range = taken_at_once(to);
        let taken = &mut to[range];
        let header = header(taken.as_mut_ptr().cast(), taken.len());
        Self::new(fd, Form::ReceiveMessage { header })
    }

    /// Moves bytes into a socket from several buffers.
    pub(crate) fn send_vectored(fd: BorrowedFd<'a>, from: &'a [IoSlice<'_>]) -> Option<Self> {
        let taken = &from[taken_at_once(from)];
        let header = header(taken.as_ptr().cast_mut().cast(), taken.len());
        Self::new(fd, Form::SendMessage { header })
    }

    /// Takes a connection off a listener's queue.
    pub(crate) fn accept(fd: BorrowedFd<'a>) -> Option<Self> {
        Self::accept_as(fd, libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC)
    }

    /// The same, with the flags of the new descriptor.
    pub(crate) fn accept_as(fd: BorrowedFd<'a>, flags: i32) -> Option<Self> {
        Self::new(fd, Form::Accept { peer: MaybeUninit::zeroed(), length: ADDRESS, flags })
    }

    /// Waits for readiness, to read or to write, or for the end or an error.
    pub(crate) fn ready(fd: BorrowedFd<'a>, writes: bool) -> Option<Self> {
        let events = if writes { libc::POLLOUT } else { libc::POLLIN };
        Self::new(fd, Form::Poll { events: events as u32 })
    }

    /// Connects a new socket.
    pub(crate) fn connect(fd: BorrowedFd<'a>, to: &'a SockAddr) -> Option<Self> {
        Self::new(fd, Form::Connect { to: to.as_ptr().cast(), length: to.len() })
    }

    /// The number of its opcode.
    pub(super) fn opcode(&self) -> u8 {
        match &self.form {
            Form::Receive { .. } => opcode::Recv::CODE,
            Form::Send { .. } => opcode::Send::CODE,
            Form::ReceiveMessage { .. } => opcode::RecvMsg::CODE,
            Form::SendMessage { .. } => opcode::SendMsg::CODE,
            Form::Accept { .. } => opcode::Accept::CODE,
            Form::Connect { .. } => opcode::Connect::CODE,
            Form::Poll { .. } => opcode::PollAdd::CODE,
        }
    }

    /// Whether it is likely to be over as soon as the kernel has it.
    pub(super) fn is_prompt(&self) -> bool {
        matches!(self.form, Form::Send { .. } | Form::SendMessage { .. })
    }

    /// The submission. It names addresses in `self` and in what that borrows.
    pub(super) fn entry(&mut self, expects_data: bool) -> Entry {
        let fd = types::Fd(self.fd);
        let patience = if expects_data { 0 } else { POLL_FIRST };
        match &mut self.form {
            Form::Receive { start, length } => opcode::Recv::new(fd, *start, *length).ioprio(patience).build(),
            Form::Send { start, length } => opcode::Send::new(fd, *start, *length).flags(libc::MSG_NOSIGNAL).build(),
            Form::ReceiveMessage { header } => opcode::RecvMsg::new(fd, header).ioprio(patience).build(),
            Form::SendMessage { header } => opcode::SendMsg::new(fd, header).flags(libc::MSG_NOSIGNAL as u32).build(),
            Form::Accept { peer, length, flags } => {
                opcode::Accept::new(fd, peer.as_mut_ptr().cast(), length).flags(*flags).build()
            }
            Form::Connect { to, length } => opcode::Connect::new(fd, *to, *length).build(),
            Form::Poll { events } => opcode::PollAdd::new(fd, *events).build(),
        }
    }

    /// What its completion with this result, which is no error, brings.
    ///
    /// # Safety
    /// The result is that of this request's own completion, and is asked about once.
    pub(super) unsafe fn answer(self, result: u32) -> Answer {
        match self.form {
            Form::Receive { .. } | Form::Send { .. } | Form::ReceiveMessage { .. } | Form::SendMessage { .. } => {
                Answer::Bytes(result as usize)
            }
            Form::Accept { peer, length, .. } => {
                // SAFETY: the result of an accept is a descriptor that is ours from now on.
                let accepted = unsafe { OwnedFd::from_raw_fd(result.cast_signed()) };
                let is_there = (FAMILY..=ADDRESS).contains(&length);
                // SAFETY: the storage was zeroed, and the kernel has written an address of this
                // length there, which fits, and has a family.
                Answer::Accepted(accepted, is_there.then(|| unsafe { SocketAddrAny::new(peer, length) }))
            }
            Form::Connect { .. } | Form::Poll { .. } => Answer::Done,
        }
    }
}

/// A message without an address and without control data, of as many slices as a call takes.
fn header(slices: *mut libc::iovec, count: usize) -> libc::msghdr {
    // SAFETY: all fields are numbers and pointers, for which zero is a value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = slices;
    header.msg_iovlen = count as _;
    header
}
