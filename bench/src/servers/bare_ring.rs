//! A server that is a loop around io_uring, without tasks or fibers: what the kernel's part alone
//! takes, with the common `Session` on top.
//!
//! A connection has one op in flight: a receive, then as many sends as its answer takes, and so on.
//! One `enter` submits what a round has led to and waits for the next completion.
//!
//! `multishot` does all that a ring can do for such a loop: descriptors are registered, and each
//! connection has one receive that goes on for ever, into buffers that the kernel picks. Who sends
//! the next message before it has the whole answer is sent away.

#![allow(unsafe_code)] // The kernel gets addresses of buffers.

use super::ring_buffers::Buffers;
use super::session::{Service, Session};
use super::{ANYWHERE, announce};
use io_uring::{IoUring, cqueue, opcode, squeue, types::Fd, types::Fixed};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd};

/// The user data of the accept; a connection's is its place, and in a send this bit besides.
const ACCEPT: u64 = u64::MAX;
const SEND: u64 = 1 << 32;
/// As many connections as any load has, and some more.
const DESCRIPTORS: u32 = 12_000;
/// `IORING_RECVSEND_POLL_FIRST`: nothing is there yet, so do not look.
const POLL_FIRST: u16 = 1;

struct Connection {
    stream: TcpStream,
    session: Session,
    /// What is to be sent: it lies in the session, which stays as it is meanwhile, or in a static.
    answer: *const u8,
    left: usize,
}

struct Server {
    ring: IoUring,
    listener: TcpListener,
    service: Service,
    /// A connection is boxed by its session: what the kernel writes to does not move with this.
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Of multishot receives.
    buffers: Option<Buffers>,
}

/// Serves.
pub fn serve(service: Service) -> io::Result<()> {
    run(service, false)
}

/// Serves, with all that rings have.
pub fn multishot(service: Service) -> io::Result<()> {
    run(service, true)
}

fn run(service: Service, multishot: bool) -> io::Result<()> {
    let mut setup = IoUring::builder();
    setup.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
    let ring = setup.setup_cqsize(1 << 15).build(4096)?;
    let mut buffers = None;
    if multishot {
        ring.submitter().register_files_sparse(DESCRIPTORS)?;
        buffers = Some(Buffers::register(&ring)?);
    }
    let listener = TcpListener::bind(ANYWHERE)?;
    rustix::net::listen(&listener, 1024)?;
    announce(listener.local_addr())?;
    let mut server = Server { ring, listener, service, connections: Vec::new(), free: Vec::new(), buffers };
    server.accept()?;
    let mut found = Vec::new();
    loop {
        match server.ring.submit_and_wait(1) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => found.extend(server.ring.completion()),
        }
        for entry in found.drain(..) {
            server.complete(&entry)?;
        }
        if let Some(buffers) = &mut server.buffers {
            buffers.publish();
        }
    }
}

impl Server {
    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the callers' ops have buffers of a session, which are boxed, or of a static. A
        // connection, with its session, is dropped only when it has no op in flight.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        let (address, length) = (std::ptr::null_mut(), std::ptr::null_mut());
        let accept = opcode::Accept::new(Fd(self.listener.as_raw_fd()), address, length);
        self.push(&accept.flags(libc::SOCK_CLOEXEC).build().user_data(ACCEPT))
    }

    fn complete(&mut self, entry: &cqueue::Entry) -> io::Result<()> {
        if entry.user_data() == ACCEPT {
            self.open(entry.result())?;
            return self.accept();
        }
        let place = entry.user_data() as u32 as usize;
        let Some(connection) = self.connections[place].as_mut() else { return Ok(()) };
        if entry.result() == -libc::ENOBUFS {
            return self.receive(place); // There are some when this round is over.
        }
        let Ok(count) = usize::try_from(entry.result()) else { return self.close(place) };
        if entry.user_data() & SEND != 0 {
            connection.left -= count;
            connection.answer = connection.answer.wrapping_add(count);
        } else {
            if let (Some(buffers), Some(id)) = (&mut self.buffers, cqueue::buffer_select(entry.flags())) {
                connection.session.room()[..count].copy_from_slice(&buffers.get(id)[..count]);
                buffers.give_back(id);
            }
            if connection.left > 0 {
                return self.close(place);
            }
            match connection.session.answer(count) {
                Some(answer) => (connection.answer, connection.left) = (answer.as_ptr(), answer.len()),
                None => return self.close(place),
            }
            if self.buffers.is_some() && !cqueue::more(entry.flags()) {
                self.receive(place)?;
            }
        }
        self.go_on(place)
    }

    /// Sends what is left of an answer, or receives.
    fn go_on(&mut self, place: usize) -> io::Result<()> {
        let connection = self.connections[place].as_mut().expect("it is open");
        let (start, left) = (connection.answer, connection.left as u32);
        match (left, &self.buffers) {
            (0, Some(_)) => return Ok(()),
            (0, None) => return self.receive(place),
            _ => {}
        }
        let send = match &self.buffers {
            Some(_) => opcode::Send::new(Fixed(place as u32), start, left),
            None => opcode::Send::new(Fd(connection.stream.as_raw_fd()), start, left),
        };
        self.push(&send.flags(libc::MSG_NOSIGNAL).build().user_data(place as u64 | SEND))
    }

    fn receive(&mut self, place: usize) -> io::Result<()> {
        let connection = self.connections[place].as_mut().expect("it is open");
        let op = match &self.buffers {
            Some(buffers) => opcode::RecvMulti::new(Fixed(place as u32), buffers.group()).build(),
            None => {
                let (fd, room) = (Fd(connection.stream.as_raw_fd()), connection.session.room());
                opcode::Recv::new(fd, room.as_mut_ptr(), room.len() as u32).ioprio(POLL_FIRST).build()
            }
        };
        self.push(&op.user_data(place as u64))
    }

    fn open(&mut self, descriptor: i32) -> io::Result<()> {
        if descriptor < 0 {
            return Err(io::Error::from_raw_os_error(-descriptor));
        }
        // SAFETY: the kernel has just made it for this accept.
        let stream = unsafe { TcpStream::from_raw_fd(descriptor) };
        stream.set_nodelay(true)?;
        let session = Session::new(self.service);
        let place = self.free.pop().unwrap_or(self.connections.len());
        if place == self.connections.len() {
            self.connections.push(None);
        }
        if self.buffers.is_some() {
            self.ring.submitter().register_files_update(place as u32, &[descriptor])?;
        }
        self.connections[place] = Some(Connection { stream, session, answer: std::ptr::null(), left: 0 });
        self.receive(place)
    }

    fn close(&mut self, place: usize) -> io::Result<()> {
        self.connections[place] = None;
        if self.buffers.is_some() {
            // Its receive has ended with its stream; a place is not used again, since a send may
            // still be in flight.
            self.ring.submitter().register_files_update(place as u32, &[-1])?;
        } else {
            self.free.push(place);
        }
        Ok(())
    }
}
