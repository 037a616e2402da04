//! A server that is a loop around epoll, without tasks or fibers: a receive and a send for each
//! event, and one wait for all events that there are.

use super::session::{Service, Session};
use super::{ANYWHERE, announce};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

/// The listener's data; a connection's is its place.
const LISTENER: u64 = u64::MAX;

struct Connection {
    stream: TcpStream,
    session: Session,
    /// What the kernel had no room for. While there is some, nothing is received.
    unsent: Vec<u8>,
}

struct Server {
    epoll: OwnedFd,
    listener: TcpListener,
    service: Service,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
}

/// Serves.
pub fn serve(service: Service) -> io::Result<()> {
    let listener = TcpListener::bind(ANYWHERE)?;
    rustix::net::listen(&listener, 1024)?;
    listener.set_nonblocking(true)?;
    announce(listener.local_addr())?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut server = Server { epoll, listener, service, connections: Vec::new(), free: Vec::new() };
    let mut events = Vec::with_capacity(1024);
    loop {
        events.clear();
        match epoll::wait(&server.epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Err(Errno::INTR) => continue,
            result => result?,
        };
        for event in &events {
            match { event.data }.u64() {
                LISTENER => server.accept()?,
                place => server.serve(place as usize)?,
            }
        }
    }
}

impl Server {
    fn accept(&mut self) -> io::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let place = self.free.pop().unwrap_or(self.connections.len());
            if place == self.connections.len() {
                self.connections.push(None);
            }
            epoll::add(&self.epoll, &stream, EventData::new_u64(place as u64), EventFlags::IN)?;
            let session = Session::new(self.service);
            self.connections[place] = Some(Connection { stream, session, unsent: Vec::new() });
        }
    }

    /// Deals with an event of a connection.
    fn serve(&mut self, place: usize) -> io::Result<()> {
        let Some(connection) = &mut self.connections[place] else { return Ok(()) };
        let had_unsent = !connection.unsent.is_empty();
        let goes_on = if had_unsent { connection.flush() } else { connection.turn() };
        let has_unsent = !connection.unsent.is_empty();
        if goes_on && had_unsent != has_unsent {
            let wanted = if has_unsent { EventFlags::OUT } else { EventFlags::IN };
            epoll::modify(&self.epoll, &connection.stream, EventData::new_u64(place as u64), wanted)?;
        }
        if !goes_on {
            self.connections[place] = None;
            self.free.push(place);
        }
        Ok(())
    }
}

impl Connection {
    /// Receives and answers once; the event comes again if there is more. False ends it.
    fn turn(&mut self) -> bool {
        let Self { stream, session, unsent } = self;
        let count = match recv(&*stream, session.room(), RecvFlags::empty()) {
            Ok((count, _)) => count,
            Err(error) => return error == Errno::WOULDBLOCK,
        };
        let Some(answer) = session.answer(count) else { return false };
        if answer.is_empty() {
            return true;
        }
        let sent = match send(&*stream, answer, SendFlags::NOSIGNAL) {
            Err(Errno::WOULDBLOCK) => Ok(0),
            sent => sent,
        };
        sent.inspect(|sent| unsent.extend_from_slice(&answer[*sent..])).is_ok()
    }

    fn flush(&mut self) -> bool {
        match send(&self.stream, &self.unsent, SendFlags::NOSIGNAL) {
            Ok(sent) => drop(self.unsent.drain(..sent)),
            Err(error) => return error == Errno::WOULDBLOCK,
        }
        true
    }
}
