//! A fiber, a thread and a task of tokio wait by `retry` on the same variables; and a choice takes
//! whichever comes first of a transaction, a message, a connection and a deadline.

use segue::channel::{self, Receiver};
use segue::net::{TcpListener, TcpStream};
use segue::stm::{Stop, TMVar, TVar, Tx, atomically, transaction};
use segue::{after, scope, select};
use std::error::Error;
use std::thread;
use std::time::Duration;

const NAMES: [&str; 3] = ["fiber", "thread", "task"];
const ROUNDS: usize = 100;

/// A baton that goes round, and a list of those that have had it.
struct Baton {
    at: TVar<usize>,
    passed: TVar<Vec<&'static str>>,
}

impl Baton {
    /// Waits for the baton, signs the list, and passes the baton on: in one step.
    fn pass(&self, tx: &Tx<'_>, me: usize) -> Result<(), Stop> {
        tx.check(*tx.read(&self.at)? == me)?;
        tx.modify(&self.passed, |passed| [passed.as_slice(), &[NAMES[me]]].concat())?;
        tx.write(&self.at, (me + 1) % NAMES.len())
    }
}

/// Three kinds of callers, one kind of wait.
fn pass_around() -> Vec<&'static str> {
    let baton = Baton { at: TVar::new(0), passed: TVar::new(Vec::new()) };
    scope(|s| {
        s.spawn(|| (0..ROUNDS).try_for_each(|_| atomically(|tx| baton.pass(tx, 0))));
        thread::scope(|threads| {
            threads.spawn(|| (0..ROUNDS).try_for_each(|_| atomically(|tx| baton.pass(tx, 1))));
            threads.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().build().expect("it starts");
                runtime.block_on(async {
                    for _ in 0..ROUNDS {
                        transaction(|tx| baton.pass(tx, 2)).await;
                    }
                });
            });
        });
    });
    baton.passed.get()
}

/// The first of four, whichever that is. The others have not happened.
fn first(
    place: &TMVar<u32>,
    inbox: &Receiver<u32>,
    listener: &TcpListener,
    limit: Duration,
) -> Result<String, Box<dyn Error>> {
    select! {
        number = transaction(|tx| place.take(tx).copied()) => Ok(format!("a transaction: {number}")),
        message = inbox.recv_source() => Ok(format!("a message: {}", message?)),
        connection = listener.accept_source() => {
            let (_stream, peer) = connection?;
            Ok(format!("a connection from {}", peer.ip()))
        }
        () = after(limit) => Ok("the deadline".to_owned()),
    }?
}

fn main() -> Result<(), Box<dyn Error>> {
    let passed = pass_around();
    assert!(passed.iter().eq(NAMES.iter().cycle().take(ROUNDS * NAMES.len())));
    println!("a fiber, a thread and a task have passed a baton {ROUNDS} times around");

    let place = TMVar::empty();
    let (sender, inbox) = channel::unbounded();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let (far, near) = (Duration::from_secs(60), Duration::from_millis(1));
    let put = |n| atomically(|tx| place.put(tx, n));

    let beside = |limit, event: &(dyn Fn() + Sync)| {
        scope(|s| {
            s.spawn(event);
            first(&place, &inbox, &listener, limit).map_err(|error| error.to_string())
        })
    };
    assert_eq!(beside(far, &|| put(1).expect("nobody cancels"))?, "a transaction: 1");
    assert_eq!(beside(far, &|| sender.send(2).expect("it is open"))?, "a message: 2");
    assert_eq!(beside(far, &|| drop(TcpStream::connect(address).expect("it listens")))?, "a connection from 127.0.0.1");
    assert_eq!(beside(near, &|| ())?, "the deadline");
    // Of two that are there one is taken, and the other stays.
    put(3)?;
    sender.send(4)?;
    println!("first {}, then {}", first(&place, &inbox, &listener, far)?, first(&place, &inbox, &listener, far)?);
    assert_eq!(first(&place, &inbox, &listener, near)?, "the deadline");
    Ok(())
}
