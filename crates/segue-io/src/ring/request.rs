//! Requests to a ring: one submission each, with the memory that the kernel reads and writes.
//!
//! Made by ops and by calls of files, which name buffers as borrowed slices; flown by `Ring::fly`.
//! The requests of sockets are here, and those of files in `files.rs`: these two alone know opcodes
//! and addresses.
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
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The room for an address, and the length of one that is nothing but a family.
const ADDRESS: libc::socklen_t = size_of::<SocketAddrStorage>() as libc::socklen_t;
const FAMILY: libc::socklen_t = size_of::<libc::sa_family_t>() as libc::socklen_t;

/// The first look at a socket that is likely to have nothing is left out: the kernel waits first.
const POLL_FIRST: u16 = 1;

/// The opcodes of requests that ask a socket, or any descriptor for its readiness.
const OF_SOCKETS: [u8; 7] = [
    opcode::Recv::CODE,
    opcode::Send::CODE,
    opcode::RecvMsg::CODE,
    opcode::SendMsg::CODE,
    opcode::Accept::CODE,
    opcode::Connect::CODE,
    opcode::PollAdd::CODE,
];

/// The opcodes of requests that are likely to be over as soon as the kernel has them.
const PROMPT: [u8; 5] =
    [opcode::Send::CODE, opcode::SendMsg::CODE, opcode::Read::CODE, opcode::Readv::CODE, opcode::OpenAt2::CODE];

/// A submission with the memory that is borrowed. The kernel may use all of both from the push of
/// the [`entry`](Request::entry) to its completion: so both stay in their places for as long.
pub(crate) struct Request<'a> {
    code: u8,
    form: Form,
    borrowed: PhantomData<&'a mut [u8]>,
}

/// How the submission is made, and the kind of its answer.
enum Form {
    /// A finished submission, which points to borrowed memory alone.
    Whole(Entry),
    /// The same, of a request that opens a descriptor.
    Opens(Entry),
    Receive {
        fd: types::Fd,
        start: *mut u8,
        length: u32,
    },
    ReceiveMessage {
        fd: types::Fd,
        header: libc::msghdr,
    },
    SendMessage {
        fd: types::Fd,
        header: libc::msghdr,
    },
    Accept {
        fd: types::Fd,
        /// Apart, since all other requests are small, and lie in the frames of fibers that wait.
        peer: Box<Peer>,
        flags: i32,
    },
}

/// The room for the address of the other end. The kernel alone writes there.
pub(crate) struct Peer {
    storage: MaybeUninit<SocketAddrStorage>,
    length: libc::socklen_t,
}

impl Peer {
    fn new() -> Self {
        Self { storage: MaybeUninit::zeroed(), length: ADDRESS }
    }

    /// The address that the kernel has written, if there is one.
    fn address(&self) -> Option<SocketAddrAny> {
        let is_there = (FAMILY..=ADDRESS).contains(&self.length);
        // SAFETY: the storage was zeroed, and the kernel has written an address of this length
        // there, which fits, and has a family. Before the kernel has written, the family is zero.
        is_there.then(|| unsafe { SocketAddrAny::new(self.storage, self.length) })
    }
}

/// The answer of a completion that succeeded.
pub(crate) enum Answer {
    /// So many bytes were moved; none by a request that moves no bytes.
    Count(usize),
    /// A descriptor; with the address of the other end, of a connection.
    Opened(OwnedFd, Option<Box<Peer>>),
}

impl Answer {
    /// How many bytes were moved; for requests that open nothing.
    #[inline]
    pub(crate) fn count(self) -> usize {
        let Answer::Count(count) = self else { unreachable!("nothing was to be opened") };
        count
    }

    /// The descriptor; for requests that open something.
    pub(crate) fn opened(self) -> (OwnedFd, Option<SocketAddrAny>) {
        let Answer::Opened(fd, peer) = self else { unreachable!("something was to be opened") };
        (fd, peer.and_then(|peer| peer.address()))
    }
}

/// The kernel moves at most 2 GiB at a time.
pub(super) fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// A descriptor as submissions name it.
pub(super) fn number(fd: BorrowedFd<'_>) -> types::Fd {
    types::Fd(fd.as_raw_fd())
}

impl<'a> Request<'a> {
    fn new(code: u8, form: Form) -> Self {
        Self { code, form, borrowed: PhantomData }
    }

    /// A request with a finished submission.
    ///
    /// # Safety
    /// The submission points to memory that is borrowed for `'a`, and to no other.
    pub(super) unsafe fn whole(code: u8, entry: Entry) -> Self {
        Self::new(code, Form::Whole(entry))
    }

    /// The same, of a request that opens a descriptor.
    ///
    /// # Safety
    /// As for [`whole`](Request::whole).
    pub(super) unsafe fn opens(code: u8, entry: Entry) -> Self {
        Self::new(code, Form::Opens(entry))
    }

    /// Moves bytes out of a socket. Nobody is asked for no bytes.
    pub(crate) fn receive(fd: BorrowedFd<'a>, to: &'a mut [u8]) -> Option<Self> {
        let (start, length) = (to.as_mut_ptr(), length(to.len()));
        (length > 0).then(|| Self::new(opcode::Recv::CODE, Form::Receive { fd: number(fd), start, length }))
    }

    /// Moves bytes into a socket.
    pub(crate) fn send(fd: BorrowedFd<'a>, from: &'a [u8]) -> Self {
        let send = opcode::Send::new(number(fd), from.as_ptr(), length(from.len())).flags(libc::MSG_NOSIGNAL);
        // SAFETY: the submission points to `from`, borrowed for `'a`.
        unsafe { Self::whole(opcode::Send::CODE, send.build()) }
    }

    /// Moves bytes out of a socket into several buffers. Nobody is asked for no bytes.
    pub(crate) fn receive_vectored(fd: BorrowedFd<'a>, to: &'a mut [IoSliceMut<'_>]) -> Option<Self> {
        if to.iter().all(|buffer| buffer.is_empty()) {
            return None;
        }
        let range = taken_at_once(to);
        let taken = &mut to[range];
        let header = header(taken.as_mut_ptr().cast(), taken.len());
        Some(Self::new(opcode::RecvMsg::CODE, Form::ReceiveMessage { fd: number(fd), header }))
    }

    /// Moves bytes into a socket from several buffers.
    pub(crate) fn send_vectored(fd: BorrowedFd<'a>, from: &'a [IoSlice<'_>]) -> Self {
        let taken = &from[taken_at_once(from)];
        let header = header(taken.as_ptr().cast_mut().cast(), taken.len());
        Self::new(opcode::SendMsg::CODE, Form::SendMessage { fd: number(fd), header })
    }

    /// Takes a connection off a listener's queue; the new descriptor has these flags of `accept4`.
    pub(crate) fn accept(fd: BorrowedFd<'a>, flags: i32) -> Self {
        let form = Form::Accept { fd: number(fd), peer: Box::new(Peer::new()), flags };
        Self::new(opcode::Accept::CODE, form)
    }

    /// Waits for readiness, to read or to write, or for the end or an error.
    pub(crate) fn ready(fd: BorrowedFd<'a>, writes: bool) -> Self {
        let events = if writes { libc::POLLOUT } else { libc::POLLIN };
        // SAFETY: a poll points to no memory.
        unsafe { Self::whole(opcode::PollAdd::CODE, opcode::PollAdd::new(number(fd), events as u32).build()) }
    }

    /// Connects a new socket.
    pub(crate) fn connect(fd: BorrowedFd<'a>, to: &'a SockAddr) -> Self {
        let connect = opcode::Connect::new(number(fd), to.as_ptr().cast(), to.len());
        // SAFETY: the submission points to the address in `to`, borrowed for `'a`.
        unsafe { Self::whole(opcode::Connect::CODE, connect.build()) }
    }

    /// The number of its opcode.
    pub(crate) fn opcode(&self) -> u8 {
        self.code
    }

    /// Whether the request is likely to be over as soon as the kernel has the submission.
    pub(super) fn is_prompt(&self) -> bool {
        PROMPT.contains(&self.code)
    }

    /// Whether the request asks a socket, or any descriptor for its readiness; and no file system.
    pub(super) fn asks_socket(&self) -> bool {
        OF_SOCKETS.contains(&self.code)
    }

    /// The submission, which names addresses in `self` and in borrowed memory.
    pub(super) fn entry(&mut self, expects_data: bool) -> Entry {
        let patience = if expects_data { 0 } else { POLL_FIRST };
        match &mut self.form {
            Form::Whole(entry) | Form::Opens(entry) => entry.clone(),
            Form::Receive { fd, start, length } => opcode::Recv::new(*fd, *start, *length).ioprio(patience).build(),
            Form::ReceiveMessage { fd, header } => opcode::RecvMsg::new(*fd, header).ioprio(patience).build(),
            Form::SendMessage { fd, header } => {
                opcode::SendMsg::new(*fd, header).flags(libc::MSG_NOSIGNAL as u32).build()
            }
            Form::Accept { fd, peer, flags } => {
                opcode::Accept::new(*fd, peer.storage.as_mut_ptr().cast(), &mut peer.length).flags(*flags).build()
            }
        }
    }

    /// The answer of a completion with this result, which is no error.
    ///
    /// # Safety
    /// The result is that of this request's own completion.
    pub(super) unsafe fn answer(self, result: u32) -> Answer {
        let opened = || {
            // SAFETY: the completion of an accept or an open that succeeded has made a descriptor
            // for this request, which ends here: so nobody else owns the descriptor.
            unsafe { OwnedFd::from_raw_fd(result.cast_signed()) }
        };
        match self.form {
            Form::Opens(_) => Answer::Opened(opened(), None),
            Form::Accept { peer, .. } => Answer::Opened(opened(), Some(peer)),
            _ => Answer::Count(result as usize),
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
