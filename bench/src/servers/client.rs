//! The client of `http_loop` and `echo`: one thread with all connections, and one message in flight
//! on each of them. When an answer has come in full, the next message goes out on its connection.
//! So a server always finds as many messages as it has not answered, and has something to do while
//! the client is the quicker one; a row tells how busy it was.

use super::Service;
use super::process::{Process, allow_descriptors};
use super::system_calls::Count;
use crate::measure::Span;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Connections that are made at a time: fewer than any server's backlog holds.
const GROUP: usize = 64;
/// A server that is silent for so long has failed.
const PATIENCE: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 20, tv_nsec: 0 };
/// In this time a server that has nothing more to do goes to sleep, and its time is booked.
const REST: Duration = Duration::from_millis(1);
/// How many operations the system calls are counted over, at least.
const COUNTED: u64 = 20_000;

/// A contestant: asks a server, which it starts when it is first called, over so many connections.
/// `who` is one of the servers in this program, or `Go`.
pub fn ask(service: Service, who: &'static str, connections: usize) -> impl FnMut(u64) -> Result<Span, String> {
    let mut client = None;
    move |n| {
        let client = match &mut client {
            Some(client) => client,
            none => none.insert(Client::start(service, who, connections)?),
        };
        client.measure(n)
    }
}

struct Client {
    process: Process,
    connections: Vec<Connection>,
    epoll: OwnedFd,
    message: &'static [u8],
    answer: &'static [u8],
    /// System calls of the server for an operation, where they can be counted.
    calls: Option<f64>,
}

struct Connection {
    stream: TcpStream,
    /// How much of an answer has not come.
    due: usize,
}

impl Client {
    fn start(service: Service, who: &str, connections: usize) -> Result<Self, String> {
        let may_have = allow_descriptors();
        if may_have < connections as u64 + 100 {
            return Err(format!("a process may have {may_have} descriptors here"));
        }
        let process = Process::start(service, who)?;
        let said = |error: io::Error| format!("its server: {error}");
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| said(error.into()))?;
        let (message, answer) = (service.message(), service.answer());
        let mut client = Self { process, connections: Vec::new(), epoll, message, answer, calls: None };
        client.connect(connections, service).map_err(said)?;
        client.run(COUNTED).map_err(said)?;
        if let Some(count) = Count::start(client.process.id()) {
            let ops = client.run(COUNTED).map_err(said)?;
            client.calls = count.stop().map(|calls| calls as f64 / ops as f64);
        }
        Ok(client)
    }

    /// Connects, and looks at the first answer on each connection.
    fn connect(&mut self, count: usize, service: Service) -> io::Result<()> {
        let mut answer = vec![0; self.answer.len()];
        while self.connections.len() < count {
            let first = self.connections.len();
            for place in first..count.min(first + GROUP) {
                let stream = TcpStream::connect(self.process.address)?;
                stream.set_nodelay(true)?;
                let edges = EventFlags::IN | EventFlags::ET;
                epoll::add(&self.epoll, &stream, EventData::new_u64(place as u64), edges)?;
                self.connections.push(Connection { stream, due: 0 });
            }
            for Connection { stream, .. } in &mut self.connections[first..] {
                stream.write_all(self.message)?;
                stream.read_exact(&mut answer)?;
                let body = answer.ends_with(super::TEXT) && answer.starts_with(b"HTTP/1.1 200 OK\r\n");
                if service == Service::Echo && answer != self.answer || service == Service::Http && !body {
                    return Err(io::Error::other("a wrong answer, or one of another length"));
                }
                stream.set_nonblocking(true)?;
            }
        }
        Ok(())
    }

    fn measure(&mut self, n: u64) -> Result<Span, String> {
        let (cpu, begun) = (self.process.time()?, Instant::now());
        let ops = self.run(n).map_err(|error| format!("its server: {error}"))?;
        let wall = begun.elapsed();
        std::thread::sleep(REST);
        let cpu = self.process.time()? - cpu;
        Ok(Span { ops, wall, cpu, busiest: None, migrations: None, calls: self.calls })
    }

    /// At least as many operations, and one on each connection.
    fn run(&mut self, n: u64) -> io::Result<u64> {
        let all = n.max(self.connections.len() as u64);
        let Self { connections, epoll, message, answer, .. } = self;
        let (mut events, mut scratch) = (Vec::with_capacity(1024), vec![0; answer.len()]);
        for connection in connections.iter_mut() {
            connection.ask(message, answer)?;
        }
        let (mut asked, mut answered) = (connections.len() as u64, 0);
        while answered < all {
            events.clear();
            match epoll::wait(&*epoll, rustix::buffer::spare_capacity(&mut events), Some(&PATIENCE)) {
                Err(Errno::INTR) => continue,
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                result => result?,
            };
            for event in &events {
                let connection = &mut connections[{ event.data }.u64() as usize];
                if connection.receive(&mut scratch)? {
                    answered += 1;
                    if asked < all {
                        connection.ask(message, answer)?;
                        asked += 1;
                    }
                }
            }
        }
        Ok(all)
    }
}

impl Connection {
    fn ask(&mut self, message: &[u8], answer: &[u8]) -> io::Result<()> {
        let sent = send(&self.stream, message, SendFlags::NOSIGNAL)?;
        self.due = answer.len();
        if sent == message.len() { Ok(()) } else { Err(io::Error::other("a message did not fit")) }
    }

    /// Whether that was the rest of an answer.
    fn receive(&mut self, scratch: &mut [u8]) -> io::Result<bool> {
        // An event may be older than its connection's last answer.
        let asked = self.due > 0;
        while self.due > 0 {
            match recv(&self.stream, &mut scratch[..self.due], RecvFlags::empty()) {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((count, _)) => self.due -= count,
                Err(Errno::WOULDBLOCK) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(asked)
    }
}
