//! Asynchronous input as an effect: straight-line code performs a read, and its handler decides
//! what waiting means.
//!
//! One handler answers at once. The other one keeps the continuation until the line has come, and
//! lets other conversations go on meanwhile: an event loop.

use segue::effect::{Continuation, Effect, Handler, perform};
use std::collections::HashMap;
use std::sync::mpsc;
use std::thread;

/// The next line from this client.
struct Read(usize);
impl Effect for Read {
    type Output = String;
}

/// Reads numbers up to an empty line, and adds them up.
fn conversation(client: usize) -> i64 {
    let mut sum = 0;
    loop {
        match perform(Read(client)).as_str() {
            "" => return sum,
            line => sum += line.parse::<i64>().expect("a number"),
        }
    }
}

/// The simplest handler: all lines are there already.
fn blocking(lines: &str) -> i64 {
    let mut lines = lines.lines();
    Handler::new().answer(|Read(_)| lines.next().unwrap_or("").to_owned()).handle(|| conversation(0))
}

/// A conversation that waits, and what it has come to when it is over.
type Waiting = Continuation<'static, String, Progress>;
enum Progress {
    Reads(usize, Waiting),
    Over(i64),
}

/// The event loop: runs all conversations at once, on one thread, as lines come in from anywhere.
fn event_loop(clients: usize, lines: &mpsc::Receiver<(usize, String)>) -> (Vec<i64>, usize) {
    let mut sums = vec![0; clients];
    let mut waiting = HashMap::new();
    let mut most = 0;
    let mut note = |client, progress, waiting: &mut HashMap<usize, Waiting>| match progress {
        Progress::Reads(from, k) => drop(waiting.insert(from, k)),
        Progress::Over(sum) => sums[client] = sum,
    };
    for client in 0..clients {
        // The clause keeps the rest of the conversation, by returning it.
        let handler = Handler::stored().on(|Read(from), k| Progress::Reads(from, k)).value(Progress::Over);
        note(client, handler.handle(move || conversation(client)), &mut waiting);
    }
    while !waiting.is_empty() {
        most = most.max(waiting.len());
        let (client, line) = lines.recv().expect("the clients end their conversations");
        let k = waiting.remove(&client).expect("nobody sends more after an empty line");
        note(client, k.resume(line), &mut waiting);
    }
    (sums, most)
}

fn main() {
    assert_eq!(blocking("1\n2\n3\n"), 6);

    let (send, lines) = mpsc::channel();
    for client in 0..3 {
        let send = send.clone();
        thread::spawn(move || {
            (1..=10).for_each(|i| send.send((client, format!("{}", i * (client + 1)))).expect("it listens"));
            send.send((client, String::new())).expect("it listens");
        });
    }
    let (sums, most) = event_loop(3, &lines);
    assert_eq!((&sums[..], most), (&[55, 110, 165][..], 3));
    println!("{sums:?}, of which {most} were under way at once");
}
