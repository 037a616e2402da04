//! `unblock`: a thousand clients of one echo server, which is bare epoll in a process of its own,
//! on another processor. Each client sends 64 bytes and reads them back, one message at a time. An
//! operation is a message and its echo; what counts is the clients' processor time.
//!
//! * `segue, unblock`: fibers of one worker, each with a `std::net::TcpStream` inside of
//!   `segue_unblock::unblock`, over each driver.
//! * `segue`: the same with Segue's own streams.
//! * `threads`: the same code with a thread for each client.
//!
//! All of them are in the program of `bench/unblock`, which this workload has Cargo build: the
//! crate defines functions of the C library in whatever it is linked into. Timed with the messages:
//! to start the fibers. Not timed: to start the threads, to connect.

use crate::child;
use crate::measure::{Run, Span, Variant, Workload};
use crate::servers::{BARE_EPOLL, Process, Service};
use std::path::{Path, PathBuf};
use std::process::Command;

/// See the file's head.
pub const WORKLOAD: Workload = Workload {
    name: "unblock",
    timed: "processor time of a client of std's sockets per message to a server, in fibers and in threads",
    variants,
};

const CLIENTS: &str = "1000";

fn variants() -> Vec<Variant> {
    let rows = [
        ("segue", "streams", "ring"),
        ("segue, epoll", "streams", "epoll"),
        ("segue, unblock, ring", "unblock", "ring"),
        ("segue, unblock, epoll", "unblock", "epoll"),
        ("threads", "threads", ""),
    ];
    let variant = Variant::new("1,000 clients", "message", 1);
    vec![rows.into_iter().fold(variant, |variant, (who, kind, driver)| variant.add_client(who, clients(kind, driver)))]
}

/// A contestant: the clients, and the server that they ask, both started when it is first called.
fn clients(kind: &'static str, driver: &'static str) -> impl FnMut(u64) -> Result<Span, String> {
    let mut started: Option<(Run, Process)> = None;
    move |n| {
        let (run, _server) = match &mut started {
            Some(started) => started,
            none => {
                let program = program()?;
                let server = Process::start(Service::Echo, BARE_EPOLL)?;
                let mut command = Command::new(program);
                command.args([kind, &server.address.to_string(), CLIENTS]).env("SEGUE_IO", driver);
                none.insert((child::start(command)?, server))
            }
        };
        run(n)
    }
}

/// Has Cargo build the program, beside this one.
fn program() -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = this.ancestors().nth(2).ok_or("this program lies nowhere")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("unblock/Cargo.toml");
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--release", "--manifest-path"]).arg(manifest);
    let built = command.arg("--target-dir").arg(target).output().map_err(|error| format!("no Cargo: {error}"))?;
    if !built.status.success() {
        let said = String::from_utf8_lossy(&built.stderr);
        return Err(format!("its program can't be built: {}", said.lines().next().unwrap_or_default()));
    }
    Ok(target.join("release/unblock-clients"))
}
