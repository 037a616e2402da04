//! An echo over UDP: one fiber answers all clients, and loses what a bad network would lose; each
//! client asks again until it has its answer.

use segue::net::UdpSocket;
use segue::{CancelToken, Either, scope};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const CLIENTS: u32 = 20;

/// Answers until it is stopped, but for each third packet.
fn serve(socket: &UdpSocket, stop: &CancelToken) -> io::Result<u32> {
    let (mut buf, mut count) = ([0; 1500], 0);
    while let Either::Right(ready) = stop.cancelled_source().or(socket.readable_source()).wait()? {
        ready?;
        let (len, from) = socket.recv_from(&mut buf)?;
        count += 1;
        if count % 3 != 0 {
            socket.send_to(&buf[..len], from)?;
        }
    }
    Ok(count)
}

/// Asks until it is answered, and says how often it had to.
fn ask(server: SocketAddr, question: &[u8]) -> io::Result<u32> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    let mut buf = [0; 64];
    for times in 1.. {
        socket.send(question)?;
        match socket.recv(&mut buf) {
            Ok(len) if buf[..len] == *question => return Ok(times),
            Err(error) if error.kind() != io::ErrorKind::TimedOut => return Err(error),
            _ => {}
        }
    }
    unreachable!("it asks on and on")
}

fn main() -> io::Result<()> {
    segue::run(|| {
        let (socket, stop, asked) = (UdpSocket::bind("127.0.0.1:0")?, CancelToken::new(), AtomicU32::new(0));
        let server = socket.local_addr()?;
        let received = scope(|s| {
            let serves = s.spawn(|| serve(&socket, &stop));
            scope(|s| {
                for number in 0..CLIENTS {
                    let asked = &asked;
                    s.spawn(move || {
                        let times = ask(server, format!("question {number}").as_bytes());
                        asked.fetch_add(times.expect("nobody else is on this port"), Ordering::Relaxed);
                    });
                }
            });
            stop.cancel();
            serves.join().expect("it has not panicked")
        })?;
        println!("{CLIENTS} clients had to ask {} times; the server heard {received}", asked.load(Ordering::Relaxed));
        assert!(asked.into_inner() > CLIENTS, "a third of the packets is lost, and nobody asked again");
        Ok(())
    })
}
