//! A crate talks over streams of Segue's in many fibers at once, both sides on one worker, and a
//! little at a time comes through.
//!
//! Used by the tests of protocols, and by examples.

use crate::{Inside, Wire, on_one_worker};
use segue::net::TcpStream;
use segue::{scope, yield_now};
use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::{self, Shutdown};
use std::sync::Mutex;
use std::thread;

/// How many talk at once, and how much comes through at a time: all but one in turns.
#[derive(Clone, Copy, Debug)]
pub struct Talk {
    /// Clients, each with its server.
    pub connections: usize,
    /// How many bytes come through at a time, at most.
    pub piece: usize,
}

/// By whom a piece was passed on last, and how often it was somebody else than before.
#[derive(Default)]
struct Turns {
    last: usize,
    changes: usize,
    pieces: usize,
}

/// What the clients come to. They and the servers are fibers of one worker. Of what they send each
/// other nothing comes through before all have begun.
///
/// # Panics
/// If the pieces of one connection came after each other, and not in turns with those of others.
pub fn talk<T: Send>(how: Talk, client: impl Fn(TcpStream) -> T + Sync, server: impl Fn(TcpStream) + Sync) -> Vec<T> {
    let Talk { connections, piece } = how;
    let (inside, turns) = (Inside::default(), Mutex::new(Turns::default()));
    let (client, server) = (&client, &server);
    let results = on_one_worker(|| {
        scope(|s| {
            let (inside, turns) = (&inside, &turns);
            let mut fibers = vec![];
            for number in 0..connections {
                let (near, middle) = TcpStream::pair().expect("a pair of streams");
                let (far_middle, far) = TcpStream::pair().expect("a pair of streams");
                fibers.push(s.spawn(move || inside.during(|| client(near))));
                s.spawn(move || inside.during(|| server(far)));
                s.spawn(move || {
                    inside.wait_for(2 * connections);
                    scope(|s| {
                        s.spawn(|| pass_on((number, piece), &middle, &far_middle, turns));
                        s.spawn(|| pass_on((number, piece), &far_middle, &middle, turns));
                    });
                });
            }
            fibers.into_iter().map(|fiber| fiber.join().expect("it does not panic")).collect()
        })
    });
    let Turns { changes, pieces, .. } = turns.into_inner().expect("nobody has panicked");
    assert!(connections == 1 || changes > pieces / 2, "{pieces} pieces have come in only {changes} turns");
    results
}

/// Passes on what it hears, piece by piece, and the end.
fn pass_on((number, piece): (usize, usize), mut from: &TcpStream, mut to: &TcpStream, turns: &Mutex<Turns>) {
    let mut buffer = [0; 64];
    // An end that has gone, or was reset, ends this too.
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        for piece in buffer[..len].chunks(piece) {
            if to.write_all(piece).is_err() {
                return;
            }
            {
                let mut turns = turns.lock().expect("nobody panics here");
                turns.changes += usize::from(turns.last != number);
                turns.last = number;
                turns.pieces += 1;
            }
            yield_now().expect("nobody cancels a test");
        }
    }
    let _gone = to.shutdown(Shutdown::Write);
}

/// As [`talk`], and every client has to come to what one comes to that talks over std's sockets, on
/// plain threads, likewise in pieces.
///
/// # Panics
/// If one does not.
pub fn talk_alike<T: PartialEq + Debug + Send>(
    how: Talk,
    client: impl Fn(TcpStream) -> T + Sync,
    server: impl Fn(TcpStream) + Sync,
    plain_client: impl FnOnce(net::TcpStream) -> T,
    plain_server: impl FnOnce(net::TcpStream) + Send,
) -> T {
    let ((near, middle), (far_middle, far)) = (plain_pair(), plain_pair());
    let expected = thread::scope(|s| {
        s.spawn(|| plain_server(far));
        s.spawn(|| pass_on_plainly(how.piece, &middle, &far_middle));
        s.spawn(|| pass_on_plainly(how.piece, &far_middle, &middle));
        plain_client(near)
    });
    for result in talk(how, client, server) {
        assert_eq!(result, expected, "a fiber has come to what a plain thread has not");
    }
    expected
}

fn plain_pair() -> (net::TcpStream, net::TcpStream) {
    let listener = net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = net::TcpStream::connect(listener.local_addr().expect("a port")).expect("it listens");
    let (far, _peer) = listener.accept().expect("it was connected to");
    near.set_nodelay(true).and_then(|()| far.set_nodelay(true)).expect("options");
    (near, far)
}

fn pass_on_plainly(piece: usize, mut from: &net::TcpStream, mut to: &net::TcpStream) {
    let mut buffer = [0; 64];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        for piece in buffer[..len].chunks(piece) {
            if to.write_all(piece).is_err() {
                return;
            }
            thread::yield_now();
        }
    }
    let _gone = to.shutdown(Shutdown::Write);
}
