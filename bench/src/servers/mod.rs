//! The servers of `http_loop`, `echo` and the contest `web`, each in a process of its own with one
//! thread for all connections. A server is a function that listens on loopback, tells its address
//! by [`announce`], and serves until its process ends: when the input ends, which the client holds.
//!
//! `session` is what all do for a request, the other files are how they wait for it. `client` asks.
//! `profiles` has servers of TLS and WebSockets.

mod bare_epoll;
mod bare_ring;
mod client;
mod completions;
mod fibers;
mod frameworks;
mod nginx;
mod process;
pub mod profiles;
mod ring_buffers;
mod session;
mod system_calls;
mod tasks;

pub use client::{ask, slowest};
pub use nginx::version as nginx_version;
pub use process::{Process, all_processors, allow_descriptors, time_of};
pub use session::{Service, TEXT};

use std::io::{Read, Write};
use std::net::SocketAddr;

/// The subcommand with which this program is one of the servers.
pub const SUBCOMMAND: &str = "serve";

/// Where the servers listen.
pub const ANYWHERE: (&str, u16) = ("127.0.0.1", 0);

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

/// Whole servers, whose answers have lengths of their own: for clients that read them.
const WHOLE: &[Row] = &[
    ("axum", |_| frameworks::axum()),
    ("actix-web", |_| frameworks::actix()),
    ("may_minihttp", |_| frameworks::may_minihttp()),
    ("nginx", |_| nginx::serve()),
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

/// The whole HTTP servers, of which a contest asks for a page.
pub fn whole_servers() -> impl Iterator<Item = &'static str> {
    HTTP.iter().chain(WHOLE).map(|(who, _)| *who)
}

/// The word for a service on command lines, Go's as well.
pub fn word(service: Service) -> &'static str {
    match service {
        Service::Echo => "echo",
        Service::Http => "http",
    }
}

/// Is a server until the input ends.
pub fn serve(service: &str, who: &str) -> Result<(), String> {
    if let Some(served) = profiles::serve(service, who) {
        return served;
    }
    let service = [Service::Echo, Service::Http].into_iter().find(|known| word(*known) == service);
    let service = service.ok_or("no such service")?;
    let mut all = table(service).chain(WHOLE.iter().filter(|_| service == Service::Http));
    let (_, serve) = all.find(|(name, _)| *name == who).ok_or_else(|| format!("no server `{who}`"))?;
    until_the_input_ends();
    serve(service).map_err(|error| format!("{who}: {error}"))
}

/// Has this process end when its client is gone. Then it may have all connections that it can.
pub fn until_the_input_ends() {
    allow_descriptors();
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
}

/// Tells the client where the server listens.
pub fn announce(address: std::io::Result<SocketAddr>) -> std::io::Result<()> {
    println!("{}", address?);
    std::io::stdout().flush()
}

/// Tells the client why there will be no server.
fn excuse(why: &str) -> std::io::Result<()> {
    println!("error {why}");
    std::io::stdout().flush()
}
