//! The clients of the soak: fibers, each of which has one connection at a time, for which it draws
//! a way to behave. The polite ones, and those that are slow but not too slow, have to be served
//! whatever the others do; what a hostile one gets is not looked at.

use super::{ANSWER, LIMIT};
use segue::net::TcpStream;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What to ask for how long.
#[derive(Clone, Copy)]
pub struct Load {
    /// The server's two addresses.
    pub http: SocketAddr,
    /// The echo.
    pub echo: SocketAddr,
    /// How many connections at a time.
    pub connections: usize,
    /// The middle of the pauses between two requests of a connection.
    pub pause: Duration,
    /// Until when.
    pub until: Instant,
}

/// What has become of the clients that have to be served.
#[derive(Default)]
pub struct Tally {
    /// Connections that were.
    pub served: AtomicU64,
    /// Connections that were not.
    pub failed: AtomicU64,
    /// Connections of the others.
    pub hostile: AtomicU64,
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// A polite client that waits for longer has not been served.
const PATIENCE: Duration = Duration::from_secs(30);
/// Requests of a polite connection, at most.
const REQUESTS: usize = 40;

impl Load {
    /// Runs all clients, on one worker. They end soon after the load's end.
    pub fn run(self, tally: &Tally) -> io::Result<()> {
        segue::runtime().workers(1).run(|| {
            segue::scope(|scope| {
                for _ in 0..self.connections {
                    scope.spawn(|| self.client(tally));
                }
            })
        })
    }

    fn client(&self, tally: &Tally) {
        // They do not all begin at once.
        self.rest();
        while Instant::now() < self.until {
            let began = Instant::now();
            let (hostile, ended) = match fastrand::u8(0..16) {
                0..4 => (false, self.polite_http()),
                4..8 => (false, self.polite_echo()),
                8 => {
                    let ended = self.slow(LIMIT / 4);
                    // If there was no processor for its next byte, it was too slow after all.
                    (began.elapsed() > LIMIT / 2, ended)
                }
                9 => (true, self.slow(2 * LIMIT)),
                10 => (true, self.reset()),
                11 => (true, self.half_open()),
                12 => (true, self.never_read(self.http, REQUEST)),
                13 => (true, self.never_read(self.echo, &[b'm'; 1024])),
                14 => (true, self.garbage()),
                _ => (true, self.silent()),
            };
            let count = match ended {
                _ if hostile => &tally.hostile,
                Ok(()) => &tally.served,
                Err(error) => {
                    if tally.failed.load(Relaxed) < 10 {
                        eprintln!("bench: a client was not served: {error}");
                    }
                    &tally.failed
                }
            };
            count.fetch_add(1, Relaxed);
            self.rest();
        }
    }

    /// As many as one draws, and none after the load's end.
    fn requests(&self) -> impl Iterator<Item = ()> {
        std::iter::repeat_n((), fastrand::usize(1..=REQUESTS)).take_while(|()| Instant::now() < self.until)
    }

    fn rest(&self) {
        let cancelled = segue::sleep(self.pause.mul_f64(2.0 * fastrand::f64()));
        cancelled.expect("nobody cancels a client");
    }

    fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    fn polite_http(&self) -> io::Result<()> {
        let mut stream = self.connect(self.http)?;
        for _ in self.requests() {
            stream.write_all(REQUEST)?;
            answered(&mut stream)?;
            self.rest();
        }
        Ok(())
    }

    fn polite_echo(&self) -> io::Result<()> {
        let mut stream = self.connect(self.echo)?;
        for _ in self.requests() {
            let message = [fastrand::u8(..); 256];
            let mut back = [0; 256];
            stream.write_all(&message)?;
            stream.read_exact(&mut back)?;
            if back != message {
                return Err(io::Error::other("the echo of something else"));
            }
            self.rest();
        }
        Ok(())
    }

    /// A request, a byte at a time, which takes so long in all.
    fn slow(&self, all: Duration) -> io::Result<()> {
        let mut stream = self.connect(self.http)?;
        for byte in REQUEST.chunks(1) {
            stream.write_all(byte)?;
            segue::sleep(all / REQUEST.len() as u32)?;
        }
        answered(&mut stream)
    }

    /// Resets the connection with an answer under way.
    fn reset(&self) -> io::Result<()> {
        let mut stream = self.connect(self.http)?;
        stream.write_all(REQUEST)?;
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
        Ok(())
    }

    /// Ends its own side within a request, and waits for the server to do so.
    fn half_open(&self) -> io::Result<()> {
        let mut stream = self.connect(self.http)?;
        stream.write_all(&REQUEST[..REQUEST.len() / 2])?;
        stream.shutdown(Shutdown::Write)?;
        stream.set_read_timeout(Some(2 * LIMIT))?;
        stream.read_to_end(&mut Vec::new()).map(drop)
    }

    /// Sends as much as the server takes without an answer, and reads none.
    fn never_read(&self, address: SocketAddr, message: &[u8]) -> io::Result<()> {
        let mut stream = self.connect(address)?;
        rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 4096)?;
        stream.set_write_timeout(Some(LIMIT))?;
        for _ in 0..200 {
            if stream.write_all(message).is_err() {
                break;
            }
        }
        segue::sleep(2 * LIMIT)?;
        Ok(())
    }

    fn garbage(&self) -> io::Result<()> {
        let mut stream = self.connect(self.http)?;
        let bytes: Vec<u8> = (0..512).map(|_| fastrand::u8(..)).collect();
        stream.write_all(&bytes)?;
        stream.set_read_timeout(Some(2 * LIMIT))?;
        stream.read_to_end(&mut Vec::new()).map(drop)
    }

    /// Connects and says nothing; every other one leaves at once.
    fn silent(&self) -> io::Result<()> {
        let mut stream = self.connect(self.http)?;
        if fastrand::bool() {
            return Ok(());
        }
        stream.set_read_timeout(Some(2 * LIMIT))?;
        stream.read(&mut [0]).map(drop)
    }
}

/// Reads one response, and looks at it.
fn answered(stream: &mut TcpStream) -> io::Result<()> {
    let (mut response, mut piece) = (Vec::new(), [0; 1024]);
    while !response.ends_with(ANSWER.as_bytes()) {
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => response.extend_from_slice(&piece[..count]),
        }
    }
    if response.starts_with(b"HTTP/1.1 200 OK\r\n") { Ok(()) } else { Err(io::Error::other("a wrong answer")) }
}
