//! The server of the soak: `segue-http` and an echo, on one worker, with short time-outs or the
//! default ones, which count the connections that have a fiber.

use super::{ANSWER, LIMIT};
use segue::net::{TcpListener, TcpStream};
use segue_http::{Config, Listener, Server, Transport};
use std::io::{self, BufRead, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Connections that are there: each has one fiber.
static OPEN: AtomicU64 = AtomicU64::new(0);
/// Requests and pieces that were answered.
static ANSWERED: AtomicU64 = AtomicU64::new(0);

/// Tells its two addresses in a line, and then `connections answers` for each line of its input;
/// the end of its input ends the process. A patient server has the default time-outs.
pub fn serve(patient: bool) -> Result<(), String> {
    crate::servers::allow_descriptors();
    segue::runtime().workers(1).run(|| listen(patient)).flatten().map_err(|error| format!("the server: {error}"))
}

fn listen(patient: bool) -> io::Result<()> {
    let [http, echo] = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    println!("{} {}", http.local_addr()?, echo.local_addr()?);
    std::thread::spawn(|| {
        for _ in io::stdin().lock().lines().map_while(Result::ok) {
            println!("{} {}", OPEN.load(Relaxed), ANSWERED.load(Relaxed));
        }
        std::process::exit(0);
    });
    segue::spawn(move || {
        loop {
            match Counting(&echo).accept() {
                Ok(stream) => drop(segue::spawn(move || talk(stream))),
                // As the HTTP server does, it waits until there are descriptors again.
                Err(_) if segue::sleep(Duration::from_millis(5)).is_ok() => {}
                Err(_) => return,
            }
        }
    });
    let server = Server::new(|_| {
        ANSWERED.fetch_add(1, Relaxed);
        ANSWER
    });
    if patient {
        return server.config(Config::new().max_connections(1 << 20)).serve(Counting(&http));
    }
    let config = Config::new().first_byte_timeout(LIMIT).head_timeout(LIMIT).body_timeout(LIMIT);
    let config = config.idle_timeout(10 * LIMIT).write_timeout(LIMIT).linger_timeout(LIMIT);
    server.config(config.max_connections(1 << 20)).serve(Counting(&http))
}

/// Echoes until the client ends, fails, or takes longer than it may.
fn talk(mut stream: Counted) -> io::Result<()> {
    stream.set_read_timeout(Some(10 * LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    let mut piece = [0; 1024];
    loop {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&piece[..count])?;
        ANSWERED.fetch_add(1, Relaxed);
    }
}

/// A listener whose streams are counted.
struct Counting<'l>(&'l TcpListener);

impl Listener for Counting<'_> {
    type Stream = Counted;

    fn accept(&self) -> io::Result<Counted> {
        let stream = Listener::accept(self.0)?;
        OPEN.fetch_add(1, Relaxed);
        Ok(Counted(stream))
    }
}

struct Counted(TcpStream);

impl Drop for Counted {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Relaxed);
    }
}

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl Write for Counted {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Transport for Counted {
    fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(time)
    }

    fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.0.set_write_timeout(time)
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.0.shutdown_write()
    }
}
