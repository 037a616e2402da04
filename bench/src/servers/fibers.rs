//! Servers with a fiber for each connection: Segue with either driver, and may.

use super::session::{Service, Session, TEXT};
use super::{ANYWHERE, announce};
use segue_io::{Backend, DriverPark};
use std::io::{self, Read, Write};

/// Segue's driver over io_uring.
pub const RING: Backend = Backend::Ring;
/// And over epoll.
pub const EPOLL: Backend = Backend::Native;

/// Runs `main` as the first fiber of a runtime with one worker and this driver.
pub fn segue_with<T>(backend: Backend, main: impl FnOnce() -> T) -> io::Result<T> {
    segue::runtime().workers(1).park(move || DriverPark::with(backend)).run(main)
}

/// A connection, in a fiber: both libraries have std's traits.
fn talk(mut stream: impl Read + Write, service: Service) -> io::Result<()> {
    let mut session = Session::new(service);
    loop {
        let count = stream.read(session.room())?;
        let Some(answer) = session.answer(count) else { return Ok(()) };
        if !answer.is_empty() {
            stream.write_all(answer)?;
        }
    }
}

/// A loop on `segue::net::TcpStream`.
pub fn segue(service: Service, backend: Backend) -> io::Result<()> {
    segue_with(backend, || {
        let listener = segue::net::TcpListener::bind(ANYWHERE)?;
        announce(listener.local_addr())?;
        loop {
            let (stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            segue::spawn(move || talk(stream, service));
        }
    })?
}

/// The server of `segue-http`, with its time-outs.
pub fn segue_http(backend: Backend) -> io::Result<()> {
    segue_with(backend, || {
        let listener = segue::net::TcpListener::bind(ANYWHERE)?;
        announce(listener.local_addr())?;
        segue_http::Server::new(|_| TEXT).serve(listener)
    })?
}

/// The same loop on may.
pub fn may(service: Service) -> io::Result<()> {
    may::config().set_workers(1);
    let serving = may::go!(move || {
        let listener = may::net::TcpListener::bind(ANYWHERE)?;
        announce(listener.local_addr())?;
        loop {
            let (stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            may::go!(move || talk(stream, service));
        }
    });
    serving.join().expect("it does not panic")
}
