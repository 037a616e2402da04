//! A proxy for TCP. It passes the end of each side on, so that a client that ends its request gets
//! its answer; hangs up when neither side has said anything for a while; has a limit on connections
//! at a time; and in the end accepts no more, and leaves those that are open a grace.

use segue::cancel::finishing_source;
use segue::net::{CopyError, TcpListener, TcpStream, copy_bidirectional};
use segue::sync::{Latch, Mutex, Semaphore};
use segue::{Either, run, scope, shield, sleep};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

const LIMIT: usize = 3;
const IDLE: Duration = Duration::from_millis(1_000);
const GRACE: Duration = Duration::from_millis(900);

/// How a connection has ended: the bytes that went there and back, and an error if there was one.
type End = ((u64, u64), Option<io::Error>);

/// Relays connections to a server until it is asked to finish, and then those that are open.
fn proxy(listener: TcpListener, server: SocketAddr, ends: &Mutex<Vec<End>>) -> io::Result<()> {
    let places = Semaphore::new(LIMIT);
    scope(|s| {
        let listener = listener; // Closed when this block ends, and not after the last connection.
        loop {
            let Either::Left(place) = places.acquire_source().or(finishing_source()).wait()? else { return Ok(()) };
            let Either::Left(accepted) = listener.accept_source().or(finishing_source()).wait()? else { return Ok(()) };
            let (client, _) = accepted?;
            s.spawn(move || {
                let end = relay(&client, server);
                // Also that of one that was cancelled, when the grace was over.
                shield(|| ends.lock()).expect("nobody panics with it").push(end);
                drop((client, place));
            });
        }
    })
}

fn relay(client: &TcpStream, server: SocketAddr) -> End {
    match TcpStream::connect(server).map(|server| copy_bidirectional(client, &server, Some(IDLE))) {
        Ok(Ok(copied)) => (copied, None),
        Ok(Err(CopyError { copied, error, .. })) => (copied, Some(error)),
        Err(error) => ((0, 0), Some(error)),
    }
}

/// Clients of the server, the most there were, and what opens when the proxy is asked to finish.
static OPEN: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static ASKED: Latch = Latch::new(1);

fn serve(listener: &TcpListener) {
    scope(|s| {
        while let Ok((mut stream, _)) = listener.accept() {
            s.spawn(move || {
                MOST.fetch_max(OPEN.fetch_add(1, SeqCst) + 1, SeqCst);
                let _ = answer(&mut stream); // An error is the end of a client.
                OPEN.fetch_sub(1, SeqCst);
            });
        }
    });
}

/// Answers a request when that has ended.
fn answer(stream: &mut TcpStream) -> io::Result<()> {
    let mut request = String::new();
    stream.read_to_string(&mut request)?;
    if request == "late" {
        ASKED.wait()?;
    }
    for _ in 0..if request == "endless" { u64::MAX } else { 1 } {
        write!(stream, "{} bytes", request.len())?;
        sleep(Duration::from_millis(5))?;
    }
    Ok(())
}

/// Sends a request, ends it, and reads the answer.
fn ask(proxy: SocketAddr, request: &str) -> io::Result<String> {
    let (mut answer, mut stream) = (String::new(), TcpStream::connect(proxy)?);
    stream.write_all(request.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    stream.read_to_string(&mut answer).map(|_| answer)
}

fn main() -> io::Result<()> {
    let (behind, door) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    let (server_at, at) = (behind.local_addr()?, door.local_addr()?);
    let (ends, long) = (Mutex::default(), "x".repeat(300_000));
    let open = |count| {
        while OPEN.load(SeqCst) != count {
            sleep(Duration::from_millis(1)).unwrap();
        }
    };
    let clients = || {
        scope(|world| {
            world.spawn_daemon(|| serve(&behind));
            scope(|s| {
                let proxy = s.spawn(|| proxy(door, server_at, &ends));
                // More clients than places, with requests of many pieces: each has its answer.
                let clients = [(); 20].map(|()| world.spawn(|| ask(at, &long)));
                clients.into_iter().for_each(|client| assert_eq!(client.join().unwrap().unwrap(), "300000 bytes"));
                // Nobody says anything: it is the proxy that hangs up, and not too early.
                let begun = Instant::now();
                assert_eq!(TcpStream::connect(at).and_then(|mut stream| stream.read(&mut [0])).unwrap(), 0);
                assert!(begun.elapsed() >= IDLE);
                open(0);
                let last = ["late", "endless"].map(|request| world.spawn(move || ask(at, request)));
                open(2);
                s.cancel_soft(GRACE);
                ASKED.count_down(1);
                shield(|| proxy.join()).unwrap().unwrap();
                last
            })
            .map(|client| client.join().unwrap())
        })
    };
    let [late, endless] = run(clients);
    assert_eq!(late?, "4 bytes", "it had its grace");
    assert!(endless.is_ok_and(|answer| answer.starts_with("7 bytes7 bytes")), "it was cut after that");
    assert!((2..=LIMIT).contains(&MOST.load(SeqCst)), "so many at a time");
    let ends = ends.into_inner();
    let whole = ends.iter().filter(|(copied, error)| *copied == (300_000, 12) && error.is_none()).count();
    let errors: Vec<_> = ends.iter().filter_map(|(_, error)| error.as_ref()).collect();
    assert_eq!((ends.len(), whole, errors.len()), (23, 20, 2), "{errors:?}");
    assert_eq!(errors[0].kind(), ErrorKind::TimedOut, "the one that was idle");
    assert!(errors[1].to_string().contains("asked to finish, and not over after 900ms"), "{errors:?}");
    println!("{whole} connections, {LIMIT} at a time; one in its grace; ended were: {}; {}", errors[0], errors[1]);
    Ok(())
}
