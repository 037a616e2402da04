//! A door and workers: one process, or here one fiber, accepts all clients, and passes the
//! connections over a Unix socket to those who serve them.
//!
//! What is passed is the descriptor. So a worker that is another program serves the client as if it
//! had accepted it, and the door may end meanwhile.

use segue::net::{TcpListener, TcpStream, UnixSeqpacket};
use segue::try_scope;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;

const CLIENTS: usize = 12;
const WORKERS: usize = 3;

/// Accepts, and passes each connection to the next worker. A packet says who the client is.
fn door(listener: &TcpListener, workers: &[UnixSeqpacket]) -> io::Result<()> {
    for worker in workers.iter().cycle().take(CLIENTS) {
        let (stream, peer) = listener.accept()?;
        worker.send_fds(peer.to_string().as_bytes(), &[stream.as_fd()])?;
        // It is open as long as the worker has it.
    }
    workers.iter().try_for_each(|worker| worker.shutdown(Shutdown::Write))
}

/// Serves what it is passed, until the door is closed.
fn work(number: usize, door: &UnixSeqpacket) -> io::Result<usize> {
    for served in 0.. {
        let mut client = [0; 64];
        let received = door.recv_fds(&mut client, 1)?;
        let Some(fd) = received.fds.into_iter().next() else { return Ok(served) };
        let mut stream = TcpStream::from(fd);
        let client = String::from_utf8_lossy(&client[..received.len]).into_owned();
        write!(stream, "worker {number} greets {client}")?;
    }
    unreachable!("it serves on and on")
}

fn main() -> io::Result<()> {
    segue::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let addr = listener.local_addr()?;
        let pairs: Vec<_> = (0..WORKERS).map(|_| UnixSeqpacket::pair()).collect::<Result<_, _>>()?;
        let (inside, outside): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        try_scope(|s| {
            let workers: Vec<_> =
                inside.into_iter().enumerate().map(|(number, door)| s.spawn(move || work(number, &door))).collect();
            let doors = s.spawn(move || door(&listener, &outside));
            for _ in 0..CLIENTS {
                let mut stream = TcpStream::connect(addr)?;
                let mut greeting = String::new();
                stream.read_to_string(&mut greeting)?;
                assert!(greeting.ends_with(&stream.local_addr()?.to_string()), "{greeting}");
            }
            doors.join().expect("it has not panicked")?;
            for worker in workers {
                assert_eq!(worker.join().expect("it has not panicked")?, CLIENTS / WORKERS);
            }
            println!("{WORKERS} workers have served {CLIENTS} clients whom they had not accepted");
            Ok::<_, io::Error>(())
        })?;
        Ok(())
    })
}
