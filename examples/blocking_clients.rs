//! A server and a thousand clients, all written for threads, as fibers of one worker: std's sockets
//! and std's sleep inside of `segue_unblock::unblock`. One client waits for what never comes, until
//! its time is over.
#![allow(unsafe_code)] // The scope is entered.

use segue::{Cancelled, timeout, try_scope, yield_now};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

const CLIENTS: usize = 1_000;

/// How long the one waits.
const LIMIT: Duration = Duration::from_millis(200);

/// Serves one client after the other thinks of something.
fn serve(stream: TcpStream) -> io::Result<()> {
    for line in BufReader::new(&stream).lines() {
        let line = line?;
        // It thinks.
        sleep(Duration::from_millis(50));
        if line != "nothing" {
            writeln!(&stream, "you said {line}")?;
        }
    }
    Ok(())
}

/// Asks, and waits for the answer.
fn ask(stream: TcpStream, what: &str) -> io::Result<String> {
    writeln!(&stream, "{what}")?;
    BufReader::new(&stream).lines().next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))
}

/// Enters the scope.
fn unblock<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: for the functions above and an accept: none holds a lock, a guard or a borrow of its
    // thread's while it reads, writes, connects or sleeps.
    unsafe { segue_unblock::unblock(f) }
}

fn main() -> io::Result<()> {
    let begun = Instant::now();
    segue::runtime().workers(1).run(|| -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, accepted) = (listener.local_addr()?, AtomicUsize::new(0));
        try_scope(|s| {
            s.spawn_try(|| {
                for _ in 0..CLIENTS + 1 {
                    let (stream, _) = unblock(|| listener.accept())?;
                    accepted.fetch_add(1, Relaxed);
                    segue::spawn(move || unblock(|| serve(stream)));
                }
                Ok::<(), io::Error>(())
            });
            let waits = |stream: io::Result<TcpStream>| timeout(LIMIT, || unblock(|| ask(stream?, "nothing")));
            let cut = s.spawn(move || waits(unblock(|| TcpStream::connect(address))));
            let mut clients = Vec::new();
            for n in 0..CLIENTS {
                // No more at a time than std's listener has room for.
                while n > accepted.load(Relaxed) + 64 {
                    yield_now().map_err(io::Error::from)?;
                }
                let asks = move || unblock(|| ask(TcpStream::connect(address)?, &format!("{n}")));
                clients.push(s.spawn(asks));
            }
            for (n, client) in clients.into_iter().enumerate() {
                assert_eq!(client.join().expect("it does not panic")?, format!("you said {n}"));
            }
            let error = cut.join().expect("it does not panic").expect_err("nobody answers");
            assert!(Cancelled::caused(&error), "{error}");
            println!("one was cut: {error}");
            Ok::<_, io::Error>(())
        })?;
        Ok(())
    })??;
    println!("{CLIENTS} clients and their server, on one worker: {:?}", begun.elapsed());
    Ok(())
}
