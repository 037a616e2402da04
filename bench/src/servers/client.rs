//! The client of `http_loop` and `echo`: one thread with all connections, and one message in flight
//! on each of them. When an answer has come in full, the next message goes out on its connection.
//! So a server always finds as many messages as it has not answered, and has something to do while
//! the client is the quicker one; a row tells how busy it was.
//!
//! One more connection may stream: it sends without end, and takes what comes back.

#![allow(unsafe_code)] // The kernel gets addresses of buffers.

use super::Service;
use super::process::{Process, allow_descriptors};
use super::system_calls::Count;
use crate::measure::{Span, smoke};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Connections that are made at a time: fewer than any server's backlog holds.
const GROUP: usize = 64;
/// A server that is silent for so long has failed.
const PATIENCE: types::Timespec = types::Timespec::new().sec(20);
/// `IORING_RECVSEND_POLL_FIRST`: nothing is there yet, so do not look.
const POLL_FIRST: u16 = 1;
/// The user data of what is sent and received on the connection that streams.
const STREAM: u64 = 1 << 32;
/// How much at a time.
const PIECE: usize = 256 * 1024;

/// A contestant: asks a server, which it starts when it is first called, over so many connections.
/// `who` is one of the servers in this program, or `Go`.
pub fn ask(service: Service, who: &'static str, connections: usize) -> impl FnMut(u64) -> Result<Span, String> {
    let mut client = None;
    move |n| Client::running(&mut client, service, who, connections)?.measure(n)
}

/// A contestant that measures the longest time from a message to its echo, leaving out the slowest
/// hundredth; perhaps beside a connection that streams.
pub fn slowest(who: &'static str, connections: usize, streams: bool) -> impl FnMut(u64) -> Result<Span, String> {
    let mut client = None;
    move |n| {
        let client = Client::running(&mut client, Service::Echo, who, connections)?;
        if streams && client.stream.is_none() {
            client.begin_stream().map_err(|error| format!("its server: {error}"))?;
        }
        client.slowest(n)
    }
}

struct Client {
    process: Process,
    connections: Vec<TcpStream>,
    ring: IoUring,
    /// What all answers are received into; nobody reads it.
    scratch: Vec<u8>,
    message: &'static [u8],
    answer: &'static [u8],
    stream: Option<TcpStream>,
    /// What is streamed, and where it comes back to; the kernel's alone.
    pieces: [Vec<u8>; 2],
    /// When the message in flight on each connection was sent, and how long the others took.
    asked: Vec<Instant>,
    took: Vec<Duration>,
    /// System calls of the server for an operation, where they can be counted.
    calls: Option<f64>,
}

/// How many operations the system calls are counted over, at least.
fn counted() -> u64 {
    if smoke() { 200 } else { 20_000 }
}

impl Client {
    /// The one in the slot, which is started if there is none.
    fn running<'a>(
        slot: &'a mut Option<Self>,
        service: Service,
        who: &str,
        connections: usize,
    ) -> Result<&'a mut Self, String> {
        Ok(match slot {
            Some(client) => client,
            none => none.insert(Self::start(service, who, connections)?),
        })
    }

    fn start(service: Service, who: &str, connections: usize) -> Result<Self, String> {
        let may_have = allow_descriptors();
        if may_have < connections as u64 + 100 {
            return Err(format!("a process may have {may_have} descriptors here"));
        }
        let process = Process::start(service, who)?;
        let said = |error: io::Error| format!("its server: {error}");
        let mut setup = IoUring::builder();
        setup.setup_single_issuer().setup_defer_taskrun().setup_submit_all().setup_cqsize(1 << 15);
        let ring = setup.build(4096).map_err(|error| format!("its client needs io_uring: {error}"))?;
        let (message, answer) = (service.message(), service.answer());
        let scratch = vec![0; answer.len()];
        let (connected, pieces) = (Vec::new(), [vec![b's'; PIECE], vec![0; PIECE]]);
        let (stream, asked, took) = (None, vec![Instant::now(); connections], Vec::new());
        let mut client = Self {
            process,
            connections: connected,
            ring,
            scratch,
            message,
            answer,
            stream,
            pieces,
            asked,
            took,
            calls: None,
        };
        client.connect(connections, service).map_err(said)?;
        client.run(counted()).map_err(said)?;
        if let Some(count) = Count::start(client.process.id()) {
            let ops = client.run(counted()).map_err(said)?;
            client.calls = count.stop().map(|calls| calls as f64 / ops as f64);
        }
        Ok(client)
    }

    /// Connects, and looks at the first answer on each connection.
    fn connect(&mut self, count: usize, service: Service) -> io::Result<()> {
        let mut answer = vec![0; self.answer.len()];
        while self.connections.len() < count {
            let first = self.connections.len();
            for _ in first..count.min(first + GROUP) {
                let stream = TcpStream::connect(self.process.address)?;
                stream.set_nodelay(true)?;
                self.connections.push(stream);
            }
            for stream in &mut self.connections[first..] {
                stream.write_all(self.message)?;
                stream.read_exact(&mut answer)?;
                let right = match service {
                    Service::Echo => answer == self.answer,
                    Service::Http => answer.starts_with(b"HTTP/1.1 200 OK\r\n") && answer.ends_with(super::TEXT),
                };
                if !right {
                    return Err(io::Error::other("a wrong answer, or one of another length"));
                }
            }
        }
        Ok(())
    }

    fn measure(&mut self, n: u64) -> Result<Span, String> {
        let (cpu, begun) = (self.process.time()?, Instant::now());
        let ops = self.run(n).map_err(|error| format!("its server: {error}"))?;
        let wall = begun.elapsed();
        let cpu = self.process.time()? - cpu;
        Ok(Span { ops, wall, cpu, busiest: None, migrations: None, calls: self.calls })
    }

    fn slowest(&mut self, n: u64) -> Result<Span, String> {
        self.took.clear();
        let ops = self.run(n.max(counted())).map_err(|error| format!("its server: {error}"))?;
        self.took.sort_unstable();
        let slowest = self.took[self.took.len() - self.took.len() / 100 - 1];
        // So that each operation has taken as long.
        let all = slowest * u32::try_from(ops).unwrap_or(u32::MAX);
        Ok(Span { ops, wall: all, cpu: all, busiest: None, migrations: None, calls: None })
    }

    /// From now on one connection more sends without end, and takes what comes back.
    fn begin_stream(&mut self) -> io::Result<()> {
        self.stream = Some(TcpStream::connect(self.process.address)?);
        [false, true].into_iter().try_for_each(|receives| self.go_on(receives))
    }

    /// The next piece of the stream, one way.
    fn go_on(&mut self, receives: bool) -> io::Result<()> {
        let Some(stream) = &self.stream else { return Ok(()) };
        let (fd, [sent, received]) = (types::Fd(stream.as_raw_fd()), &mut self.pieces);
        let op = match receives {
            false => opcode::Send::new(fd, sent.as_ptr(), PIECE as u32).flags(libc::MSG_NOSIGNAL).build(),
            true => opcode::Recv::new(fd, received.as_mut_ptr(), PIECE as u32).build(),
        };
        self.push(op.user_data(STREAM | u64::from(receives)))
    }

    /// At least as many operations, and one on each connection.
    fn run(&mut self, n: u64) -> io::Result<u64> {
        let connections = self.connections.len() as u64;
        let all = n.max(connections);
        for place in 0..self.connections.len() {
            self.ask(place)?;
        }
        let (mut asked, mut answered) = (connections, 0);
        let mut found: Vec<cqueue::Entry> = Vec::new();
        while answered < all {
            // While it deals with these, the server has the others.
            let batch = (asked - answered).div_ceil(4);
            let patience = types::SubmitArgs::new().timespec(&PATIENCE);
            match self.ring.submitter().submit_with_args(batch as usize, &patience) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => found.extend(self.ring.completion()),
            }
            for entry in found.drain(..) {
                if entry.user_data() & STREAM != 0 {
                    match entry.result() {
                        ..0 => return Err(io::Error::from_raw_os_error(-entry.result())),
                        _ => self.go_on(entry.user_data() & 1 != 0)?,
                    }
                    continue;
                }
                self.took.push(self.asked[entry.user_data() as usize].elapsed());
                match usize::try_from(entry.result()) {
                    Ok(count) if count == self.answer.len() => answered += 1,
                    Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Err(_) => return Err(io::Error::from_raw_os_error(-entry.result())),
                }
                if asked < all {
                    self.ask(entry.user_data() as usize)?;
                    asked += 1;
                }
            }
        }
        Ok(all)
    }

    /// Sends a message on a connection, and receives the whole answer. There is one completion: the
    /// answer's, or that of a send that failed.
    fn ask(&mut self, place: usize) -> io::Result<()> {
        let fd = types::Fd(self.connections[place].as_raw_fd());
        let send = opcode::Send::new(fd, self.message.as_ptr(), self.message.len() as u32);
        let send = send.flags(libc::MSG_NOSIGNAL).build().flags(squeue::Flags::SKIP_SUCCESS);
        let receive = opcode::Recv::new(fd, self.scratch.as_mut_ptr(), self.scratch.len() as u32);
        let receive = receive.flags(libc::MSG_WAITALL).ioprio(POLL_FIRST).build();
        self.asked[place] = Instant::now();
        [send, receive].into_iter().try_for_each(|op| self.push(op.user_data(place as u64)))
    }

    fn push(&mut self, op: squeue::Entry) -> io::Result<()> {
        // SAFETY: what is sent is a static, or a piece, which nobody writes. What is received into
        // lives as long as the ring, whose descriptor is closed first, and nobody reads or writes
        // it but the kernel.
        while unsafe { self.ring.submission().push(&op) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }
}
