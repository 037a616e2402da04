//! A crate talks over streams of Segue's in many fibers at once, both sides on one worker, and a
//! byte at a time comes through.
//!
//! Used by the tests of protocols, and by examples.

use crate::{Inside, Wire, on_one_worker};
use segue::net::TcpStream;
use segue::{scope, yield_now};
use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Mutex;

/// Who has passed on a byte last, and how often it was somebody else than before.
#[derive(Default)]
struct Turns {
    last: usize,
    changes: usize,
    bytes: usize,
}

/// What the clients come to: `count` clients and servers, all fibers of one worker. Of what they send
/// each other nothing comes through before all have begun, and from then on it comes a byte at a
/// time.
///
/// # Panics
/// If the bytes of one connection came after each other, and not in turns with those of others.
pub fn talk<T: Send>(
    count: usize,
    client: impl Fn(TcpStream) -> T + Sync,
    server: impl Fn(TcpStream) + Sync,
) -> Vec<T> {
    let (inside, turns) = (Inside::default(), Mutex::new(Turns::default()));
    let (client, server) = (&client, &server);
    let results = on_one_worker(|| {
        scope(|s| {
            let (inside, turns) = (&inside, &turns);
            let mut fibers = vec![];
            for number in 0..count {
                let (near, middle) = TcpStream::pair().expect("a pair of streams");
                let (far_middle, far) = TcpStream::pair().expect("a pair of streams");
                fibers.push(s.spawn(move || inside.during(|| client(near))));
                s.spawn(move || inside.during(|| server(far)));
                s.spawn(move || {
                    inside.wait_for(2 * count);
                    scope(|s| {
                        s.spawn(|| pass_on(number, &middle, &far_middle, turns));
                        s.spawn(|| pass_on(number, &far_middle, &middle, turns));
                    });
                });
            }
            fibers.into_iter().map(|fiber| fiber.join().expect("it does not panic")).collect()
        })
    });
    let Turns { changes, bytes, .. } = turns.into_inner().expect("nobody has panicked");
    assert!(count == 1 || changes > bytes / 2, "{bytes} bytes have come in only {changes} turns");
    results
}

/// Passes on what it hears, a byte at a time, and the end.
fn pass_on(number: usize, mut from: &TcpStream, mut to: &TcpStream, turns: &Mutex<Turns>) {
    let mut buffer = [0; 64];
    // An end that has gone, or was reset, ends this too.
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        for byte in &buffer[..len] {
            if to.write_all(&[*byte]).is_err() {
                return;
            }
            {
                let mut turns = turns.lock().expect("nobody panics here");
                turns.changes += usize::from(turns.last != number);
                turns.last = number;
                turns.bytes += 1;
            }
            yield_now().expect("nobody cancels a test");
        }
    }
    let _gone = to.shutdown(Shutdown::Write);
}

/// As [`talk`], and every client has to come to what one comes to that talks over std's sockets, on
/// plain threads.
///
/// # Panics
/// If one does not.
pub fn talk_alike<T: PartialEq + Debug + Send>(
    count: usize,
    client: impl Fn(TcpStream) -> T + Sync,
    server: impl Fn(TcpStream) + Sync,
    plain_client: impl FnOnce(std::net::TcpStream) -> T,
    plain_server: impl FnOnce(std::net::TcpStream) + Send,
) -> T {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = std::net::TcpStream::connect(listener.local_addr().expect("a port")).expect("it listens");
    let (far, _peer) = listener.accept().expect("it was connected to");
    let expected = std::thread::scope(|s| {
        s.spawn(|| plain_server(far));
        plain_client(near)
    });
    for result in talk(count, client, server) {
        assert_eq!(result, expected, "a fiber has come to what a plain thread has not");
    }
    expected
}
