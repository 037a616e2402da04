//! A server that is a loop around io_uring, without tasks or fibers: what the kernel's part alone
//! takes, with the common `Session` on top.
//!
//! A connection has one op in flight: a receive, then as many sends as its answer takes, and so on.
//! One `enter` submits what a round has led to and waits for the next completion.

#![allow(unsafe_code)] // The kernel gets addresses of buffers.

use super::session::{Service, Session};
use super::{ANYWHERE, announce};
use io_uring::{IoUring, cqueue, opcode, squeue, types::Fd};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd};

/// The user data of the accept; a connection's is its place.
const ACCEPT: u64 = u64::MAX;
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
}

/// Serves.
pub fn serve(service: Service) -> io::Result<()> {
    let mut setup = IoUring::builder();
    setup.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
    let ring = setup.setup_cqsize(1 << 15).build(4096)?;
    let listener = TcpListener::bind(ANYWHERE)?;
    rustix::net::listen(&listener, 1024)?;
    announce(listener.local_addr())?;
    let mut server = Server { ring, listener, service, connections: Vec::new(), free: Vec::new() };
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
        let place = entry.user_data() as usize;
        let connection = self.connections[place].as_mut().expect("its op was in flight");
        let Ok(count) = usize::try_from(entry.result()) else { return self.close(place) };
        if connection.left > 0 {
            connection.left -= count;
            connection.answer = connection.answer.wrapping_add(count);
        } else {
            match connection.session.answer(count) {
                Some(answer) => (connection.answer, connection.left) = (answer.as_ptr(), answer.len()),
                None => return self.close(place),
            }
        }
        self.go_on(place)
    }

    /// Sends what is left of an answer, or receives.
    fn go_on(&mut self, place: usize) -> io::Result<()> {
        let connection = self.connections[place].as_mut().expect("it is open");
        let fd = Fd(connection.stream.as_raw_fd());
        let op = if connection.left > 0 {
            opcode::Send::new(fd, connection.answer, connection.left as u32).flags(libc::MSG_NOSIGNAL).build()
        } else {
            let room = connection.session.room();
            opcode::Recv::new(fd, room.as_mut_ptr(), room.len() as u32).ioprio(POLL_FIRST).build()
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
        self.connections[place] = Some(Connection { stream, session, answer: std::ptr::null(), left: 0 });
        self.go_on(place)
    }

    fn close(&mut self, place: usize) -> io::Result<()> {
        self.connections[place] = None;
        self.free.push(place);
        Ok(())
    }
}
