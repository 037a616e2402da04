//! A chat, and 200 clients that try it out: each sees each line once and in order, and those that
//! do not read hold nobody up.
//!
//! Each member has two fibers: one reads what it says, one writes what it is told. Between them is
//! its outbox, a channel with bounds, here that of the crate `async-channel`.

use async_channel::{Receiver, Sender, bounded};
use segue::net::{TcpListener, TcpStream};
use segue::sync::{Barrier, Latch, Mutex};
use segue::{CancelToken, scope, try_scope, wait_future};
use std::convert::Infallible;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;

/// How many lines a member may be behind.
const LAG: usize = 2_000;

/// The outboxes of those who are there.
type Room = Mutex<Vec<Sender<Arc<str>>>>;

fn serve(listener: &TcpListener) -> io::Result<()> {
    let room = Room::default();
    let never = try_scope(|s| -> io::Result<Infallible> {
        loop {
            let (stream, _) = listener.accept()?;
            let room = &room;
            s.spawn(move || attend(room, &stream));
        }
    })?;
    match never {}
}

fn attend(room: &Room, stream: &TcpStream) -> io::Result<()> {
    let (outbox, lines) = bounded(LAG);
    tell(&outbox, "welcome");
    room.lock()?.push(outbox.clone());
    try_scope(|s| {
        s.spawn(|| write(&lines, stream));
        for line in BufReader::new(stream).lines() {
            let line: Arc<str> = line?.into();
            // Under the lock, so that all see the same order. Who is too far behind has to go.
            room.lock()?.retain(|outbox| tell(outbox, Arc::clone(&line)) || !outbox.close());
        }
        room.lock()?.retain(|other| !other.same_channel(&outbox));
        outbox.close();
        Ok::<_, io::Error>(())
    })?;
    Ok(())
}

/// Puts a line into an outbox. Answers whether there was room.
fn tell(outbox: &Sender<Arc<str>>, line: impl Into<Arc<str>>) -> bool {
    outbox.try_send(line.into()).is_ok()
}

/// Writes what comes into the outbox until that is closed: line by line, and together what has
/// piled up.
fn write(lines: &Receiver<Arc<str>>, stream: &TcpStream) -> io::Result<()> {
    let mut out = BufWriter::new(stream);
    while let Ok(line) = wait_future(lines.recv())? {
        writeln!(out, "{line}")?;
        while let Ok(line) = lines.try_recv() {
            writeln!(out, "{line}")?;
        }
        out.flush()?;
    }
    // The fiber that reads is to end, too.
    stream.shutdown(Shutdown::Both)
}

// The clients.

const CLIENTS: usize = 200;
const LATE: usize = 10;
const EACH: usize = 5;
/// With a thousand lines of this length, more than a connection keeps.
const LENGTH: usize = 4_000;

struct Party {
    address: SocketAddr,
    all_here: Barrier,
    others_done: Latch,
}

fn client(me: usize, party: &Party) -> io::Result<()> {
    let stream = TcpStream::connect(party.address)?;
    let mut lines = BufReader::new(&stream).lines();
    assert_eq!(lines.next().unwrap()?, "welcome");
    party.all_here.wait()?;
    try_scope(|s| {
        let says = s.spawn(|| {
            let line = |n| format!("{me} {n} {:.<LENGTH$}\n", "");
            (0..EACH).try_for_each(|n| (&stream).write_all(line(n).as_bytes()))
        });
        if me < LATE {
            // It says what it has to say, and reads when all others have heard everything.
            party.others_done.wait()?;
        }
        let mut next = [0; CLIENTS];
        for line in lines.take(CLIENTS * EACH) {
            let line = line?;
            let mut words = line.split(' ').map(str::parse::<usize>);
            let (Some(Ok(from)), Some(Ok(n))) = (words.next(), words.next()) else { panic!("{line}") };
            assert_eq!(n, next[from], "client {me} hears {from}");
            next[from] += 1;
        }
        assert_eq!(next, [EACH; CLIENTS], "client {me} has heard everything");
        if me >= LATE {
            party.others_done.count_down(1);
        }
        says.join().unwrap()
    })?;
    Ok(())
}

fn main() -> io::Result<()> {
    segue::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let party = Party { address, all_here: Barrier::new(CLIENTS), others_done: Latch::new(CLIENTS - LATE) };
        let server = CancelToken::new();
        scope(|s| {
            s.spawn(|| server.run(|| serve(&listener)));
            let party = &party;
            scope(|s| (0..CLIENTS).for_each(|me| drop(s.spawn(move || client(me, party).unwrap()))));
            server.cancel();
        });
        println!("{CLIENTS} clients have heard {} lines each, {LATE} of them later than the others", CLIENTS * EACH);
        Ok(())
    })
}
