//! A server over sockets, on plain threads and on fibers of both drivers, and the reads
//! of its clients. Used by the programs with connections that go on for long.
#![allow(dead_code)] // Each program uses its part.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use segue_http::Server;
use segue_io::net::TcpListener;
use segue_io::{Backend, DriverPark};

/// Nothing here takes nearly as long; a hang is to fail and not to hang the run.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Reads up to these bytes.
pub fn read_until(mut stream: &TcpStream, end: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end) {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "{:?}", String::from_utf8_lossy(&bytes));
        bytes.push(byte[0]);
    }
    bytes
}

pub fn read_all(mut stream: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    all
}

/// Where a server runs.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// Each connection is a thread.
    Threads,
    /// Each connection is a fiber.
    Fibers(Backend),
}

pub const PLACES: [Place; 3] = [Place::Threads, Place::Fibers(Backend::Auto), Place::Fibers(Backend::Native)];

impl Place {
    pub fn serve(self, server: &Server<'_>, listener: TcpListener) -> io::Result<()> {
        let serve = || server.serve(listener);
        match self {
            Place::Threads => serve(),
            Place::Fibers(backend) => {
                let runtime = segue_sched::Runtime::new().workers(2);
                runtime.park(move || DriverPark::with(backend)).run(serve).unwrap()
            }
        }
    }
}

/// Runs `client` while `server` serves; the client shuts the server down, or its end does.
pub fn with_server<T>(
    place: Place,
    server: Server<'_>,
    client: impl FnOnce(SocketAddr, &segue_http::Shutdown) -> T,
) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = server.shutdown_handle();
    thread::scope(|s| {
        let serving = s.spawn(move || place.serve(&server, listener));
        // However the client ends, so that its panic is seen.
        let client = || client(address, &shutdown);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(client));
        shutdown.shutdown();
        serving.join().unwrap().unwrap();
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
