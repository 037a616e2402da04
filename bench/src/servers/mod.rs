//! The servers of `http_loop` and `echo`, each in a process of its own with one thread for all
//! connections. A server is a function that listens on loopback, tells its address by
//! [`announce`], and serves until its process ends: when the input ends, which the client holds.
//!
//! `session` is what all do for a request, the other files are how they wait for it. `client` asks.

mod bare_epoll;
mod bare_ring;
mod client;
mod completions;
mod fibers;
mod process;
mod ring_buffers;
mod session;
mod system_calls;
mod tasks;

pub use client::{ask, slowest};
pub use process::{Process, allow_descriptors, time_of};
pub use session::{Service, TEXT};

use std::io::{Read, Write};
use std::net::SocketAddr;

/// The subcommand with which this program is one of the servers.
pub const SUBCOMMAND: &str = "serve";

/// Where the servers listen.
const ANYWHERE: (&str, u16) = ("127.0.0.1", 0);

/// Serves for as long as the process lives; answers with why it could not.
type Serve = fn(Service) -> std::io::Result<()>;

/// A server's name as a contestant, and what it is.
type Row = (&'static str, Serve);

/// A ring's loop that can do less than the others: its clients wait for each answer.
pub const MULTISHOT: &str = "bare io_uring, multishot";

/// A loop around epoll, and nothing else.
pub const BARE_EPOLL: &str = "bare epoll";

/// Those that take part in both workloads.
const LOOPS: &[Row] = &[
    ("segue, ring", |service| fibers::segue(service, fibers::RING)),
    ("segue, epoll", |service| fibers::segue(service, fibers::EPOLL)),
    ("tokio", tasks::tokio),
    ("monoio", completions::monoio),
    ("may", fibers::may),
    ("bare io_uring", bare_ring::serve),
    (MULTISHOT, bare_ring::multishot),
    (BARE_EPOLL, bare_epoll::serve),
];

/// Whole HTTP servers.
const HTTP: &[Row] = &[
    ("segue, server, ring", |_| fibers::segue_http(fibers::RING)),
    ("segue, server, epoll", |_| fibers::segue_http(fibers::EPOLL)),
    ("hyper", |_| tasks::hyper()),
];

/// Who only echoes.
const ECHO: &[Row] = &[("compio", |_| completions::compio())];

/// The servers of a service that are in this program.
fn table(service: Service) -> impl Iterator<Item = &'static Row> {
    let others = match service {
        Service::Http => HTTP,
        Service::Echo => ECHO,
    };
    LOOPS.iter().chain(others)
}

/// Their names.
pub fn names(service: Service) -> impl Iterator<Item = &'static str> {
    table(service).map(|(who, _)| *who)
}

/// The word for a service on command lines, Go's as well.
fn word(service: Service) -> &'static str {
    match service {
        Service::Echo => "echo",
        Service::Http => "http",
    }
}

/// Is a server until the input ends.
pub fn serve(service: &str, who: &str) -> Result<(), String> {
    let service = [Service::Echo, Service::Http].into_iter().find(|known| word(*known) == service);
    let service = service.ok_or("no such service")?;
    let (_, serve) = table(service).find(|(name, _)| *name == who).ok_or_else(|| format!("no server `{who}`"))?;
    allow_descriptors();
    // It sleeps until the client is gone.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    serve(service).map_err(|error| format!("{who}: {error}"))
}

/// Tells the client where the server listens.
fn announce(address: std::io::Result<SocketAddr>) -> std::io::Result<()> {
    println!("{}", address?);
    std::io::stdout().flush()
}
