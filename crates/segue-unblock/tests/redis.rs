//! A published client that knows nothing of fibers, against a real server: the sync `redis`, which
//! opens its own `std::net::TcpStream`.
//!
//! It needs the program `redis-server`, of Debian's package of that name. Where there is none the
//! test says so and checks nothing; `SEGUE_CI_ALL=1` makes that a failure.

mod common;

use common::{BACKENDS, on_one_worker, unblock};
use redis::{Client, Commands, RedisResult};
use segue_core::{Cancelled, scope, timeout, yield_now};
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

const CLIENTS: usize = 1_000;

/// The server, on a port of its own. It is ended by its number.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start() -> Option<Self> {
        // Somebody else may take the number in between: then the next is tried.
        for _ in 0..10 {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut command = Command::new("redis-server");
            command.args(["--port", &free.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
            let started = command
                .args(["--maxclients", "4000", "--tcp-backlog", "2000"])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn();
            let Ok(mut child) = started else {
                assert!(std::env::var_os("SEGUE_CI_ALL").is_none(), "there is no `redis-server` here");
                eprintln!("not checked: there is no `redis-server` here");
                return None;
            };
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
            if lines.any(|line| line.contains("Ready to accept connections")) {
                // It goes on writing, and somebody has to read.
                std::thread::spawn(move || lines.for_each(drop));
                return Some(Self { child, port: free });
            }
            child.wait().unwrap();
        }
        panic!("the server does not start");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Whether a cancellation is what an error of the client's comes from, which it keeps in an `Arc`.
fn is_cancelled(error: &redis::RedisError) -> bool {
    let inner = error.source().and_then(|source| source.downcast_ref::<Arc<dyn Error + Send + Sync>>());
    inner.and_then(|inner| inner.downcast_ref()).is_some_and(Cancelled::caused)
}

#[test]
fn a_thousand_fibers_of_one_worker_use_a_client_that_blocks() {
    let Some(server) = Server::start() else { return };
    more_descriptors();
    for backend in BACKENDS {
        let client = Client::open(("127.0.0.1", server.port)).unwrap();
        let begun = Instant::now();
        on_one_worker(backend, || {
            let (connected, waited) = (AtomicUsize::new(0), segue_unblock::waits());
            scope(|s| {
                // It waits for what nobody sends, and a deadline cuts it.
                let cut = s.spawn(|| {
                    let mut connection = unblock(|| client.get_connection()).unwrap();
                    let mut pops = || connection.blpop::<_, Vec<String>>("nothing", 0.0);
                    let error = timeout(Duration::from_millis(60), || unblock(&mut pops)).unwrap_err();
                    assert!(is_cancelled(&error), "{error}");
                });
                for n in 0..CLIENTS {
                    let (client, connected) = (&client, &connected);
                    s.spawn(move || asks(client, n, connected).unwrap());
                }
                cut.join().unwrap();
            });
            assert_eq!(connected.into_inner(), CLIENTS);
            assert!(segue_unblock::waits() - waited > CLIENTS as u64, "nobody waited");
        });
        eprintln!("{CLIENTS} clients over {backend:?}: {:?}", begun.elapsed());
    }
}

/// What each client does. All are connected before the first goes on.
fn asks(client: &Client, n: usize, connected: &AtomicUsize) -> RedisResult<()> {
    unblock(|| {
        let mut connection = client.get_connection()?;
        connected.fetch_add(1, Relaxed);
        while connected.load(Relaxed) < CLIENTS {
            yield_now().unwrap();
        }
        let key = format!("key {n}");
        for round in 0..3 {
            connection.set::<_, _, ()>(&key, n + round)?;
            assert_eq!(connection.get::<_, usize>(&key)?, n + round);
        }
        let (one, two): (usize, usize) = redis::pipe().get(&key).del(&key).query(&mut connection)?;
        assert_eq!((one, two), (n + 2, 1));
        Ok(())
    })
}

/// Each client has a descriptor, and one more while it waits.
fn more_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}
