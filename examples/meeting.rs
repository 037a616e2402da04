//! Four schedulers in one program meet at one MVar: one that waits for the network, a pool that
//! steals, one with priorities that runs inside of a fiber of the first, and one that this
//! program's own event loop drives.
//!
//! What they meet at knows none of them. Each takes the minutes off the table a thousand times,
//! signs, and puts them back; whoever wants them meanwhile waits as its scheduler does.

use segue::sched::{self, ByPriority, Fifo, Polled, Priority};
use segue::sync::{Barrier, MVar};
use segue::{net, runtime, scope};
use std::io::{Read, Write};
use std::sync::mpsc;
use std::thread;

const ROUNDS: u64 = 1000;

/// Who has signed how often.
#[derive(Default, Debug)]
struct Minutes {
    network: u64,
    pool: u64,
    urgent: u64,
    patient: u64,
    event_loop: u64,
}

static TABLE: MVar<Minutes> = MVar::empty();

/// Nobody begins before all five are there.
static OPENING: Barrier = Barrier::new(5);

/// Waits for the others, and then signs as often as is asked for.
fn attend(mut signature: impl FnMut(&mut Minutes)) {
    OPENING.wait().expect("nobody cancels the meeting");
    (0..ROUNDS).for_each(|_| sign(&mut signature));
}

/// Takes the minutes, reads them while others have their turns, has them signed, and puts them
/// back.
fn sign(signature: impl FnOnce(&mut Minutes)) {
    let mut minutes = TABLE.take().expect("nobody cancels the meeting");
    segue::yield_now().expect("nobody cancels the meeting");
    signature(&mut minutes);
    TABLE.put(minutes).expect("nobody cancels the meeting");
}

/// A fiber that signs whenever a byte has come over the network. Its worker sleeps in the driver
/// meanwhile.
fn network(listener: &net::TcpListener) {
    OPENING.wait().expect("nobody cancels the meeting");
    let (mut stream, _peer) = listener.accept().expect("a connection");
    let mut byte = [0];
    while stream.read(&mut byte).expect("a byte") == 1 {
        sign(|minutes| minutes.network += 1);
        stream.write_all(&byte).expect("an answer");
    }
}

/// A scheduler inside of the calling fiber: when it has nothing to run, that fiber is suspended,
/// and the others of its worker go on.
fn priorities() {
    let urgent = || attend(|minutes| minutes.urgent += 1);
    let patient = || attend(|minutes| minutes.patient += 1);
    let inside = || {
        scope(|s| {
            segue::Builder::new().attribute(Priority(0)).within(s).spawn(patient);
            segue::Builder::new().attribute(Priority(9)).within(s).spawn(urgent);
        });
    };
    sched::Runtime::new().workers(1).run_with(ByPriority::strict, inside).expect("a scheduler in a fiber");
}

/// The network's scheduler: one worker, which also runs the scheduler inside.
fn server(port: &mpsc::Sender<u16>) {
    let listener = net::TcpListener::bind("127.0.0.1:0").expect("a port");
    port.send(listener.local_addr().expect("an address").port()).expect("somebody asks for it");
    scope(|s| {
        s.spawn(priorities);
        network(&listener);
    });
}

/// Sends bytes and waits for their echoes, on a plain thread.
fn client(port: u16) {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    for _ in 0..ROUNDS {
        stream.write_all(b"x").expect("the server reads");
        stream.read_exact(&mut [0]).expect("the server answers");
    }
}

fn main() {
    TABLE.try_put(Minutes::default()).expect("the table is empty");

    let (told, port) = mpsc::channel();
    let io = thread::spawn(move || runtime().workers(1).run_with(Fifo::default, || server(&told)).expect("a driver"));
    let port = port.recv().expect("the server starts");
    let client = thread::spawn(move || client(port));

    let pool = sched::Runtime::new().workers(2).pool().expect("threads");
    let signatures = pool.spawn(|| {
        OPENING.wait().expect("nobody cancels the meeting");
        let sign = |_| segue::spawn(|| sign(|minutes| minutes.pool += 1));
        let fibers: Vec<_> = (0..ROUNDS).map(sign).collect();
        fibers.into_iter().for_each(|fiber| fiber.join().expect("a signature"));
    });

    // The event loop of this program: a queue. It sleeps until there is an event, and one kind of
    // event is that fibers are ready.
    let (events, queue) = mpsc::channel();
    let mut fibers = sched::Runtime::new().driven(move || events.send("fibers").unwrap_or(())).expect("a stack");
    let here = fibers.start(|| attend(|minutes| minutes.event_loop += 1)).expect("a stack");
    let mut events = 0;
    while !here.is_finished() {
        queue.recv().expect("somebody wakes the loop");
        events += 1;
        while fibers.poll() == Polled::Again {}
    }

    here.join().expect("the loop's fiber");
    signatures.join().expect("the pool's fibers");
    client.join().expect("the client");
    io.join().expect("the server");
    let minutes = TABLE.take().expect("the table");
    println!("{minutes:?}, the event loop was called {events} times");
    let Minutes { network, pool, urgent, patient, event_loop } = minutes;
    assert_eq!([network, pool, urgent, patient, event_loop], [ROUNDS; 5]);
}
