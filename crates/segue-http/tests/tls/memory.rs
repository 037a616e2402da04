//! The memory of idle connections, and of slow readers of a file: measurements, printed by
//! `cargo test --release -p segue-http --all-features --test tls -- --ignored --exact --nocapture
//! memory::idle_connections memory::slow_readers`.
//!
//! The clients are in a process of their own, which is this program once more.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use segue_http::tls::rustls::server::UnbufferedServerConnection;
use segue_http::{Files, Request, Server, Transport, tls};
use segue_io::net::TcpListener;
use segue_sched::Runtime;

use crate::common::plain;
use crate::{ask, beside, client, client_config, dial, pair, server_config};

/// Connections before and in the measurement: the first ones fill spare places.
const COUNTS: [usize; 2] = [100, 900];
const VARIABLE: &str = "SEGUE_TLS_MEMORY";

/// The memory that this process alone has, in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|text| text.parse::<usize>().ok()).unwrap_or(0) << 10
}

/// Has another process connect, and prints the memory of each connection here.
fn measure(kind: &str, address: SocketAddr) {
    let mut clients = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "memory::clients"])
        .env(VARIABLE, format!("{kind} {address}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut tell, mut hear) = (clients.stdin.take().unwrap(), BufReader::new(clients.stdout.take().unwrap()).lines());
    let [before, after] = COUNTS.map(|_| {
        writeln!(tell, "go").unwrap();
        assert!(hear.by_ref().map_while(Result::ok).any(|line| line.ends_with("ready")));
        // Idle connections give back, after a second, the stacks that their requests needed.
        (0..200).for_each(|_| thread::sleep(Duration::from_millis(8)));
        resident()
    });
    println!("{kind}: {} bytes a connection", after.saturating_sub(before) / COUNTS[1]);
    drop(tell);
    clients.wait().unwrap();
}

#[test]
#[ignore = "a part of the measurement"]
fn clients() {
    let Ok(told) = env::var(VARIABLE) else { return };
    let (kind, address) = told.split_once(' ').unwrap();
    let address: SocketAddr = address.parse().unwrap();
    let (mut secured, mut open) = (Vec::new(), Vec::new());
    let mut counts = COUNTS.into_iter();
    for _ in io::stdin().lines().map_while(Result::ok) {
        for _ in 0..counts.next().unwrap_or(0) {
            if kind == "slow" {
                let mut stream = client(address);
                stream.write_all(crate::get("/large").as_bytes()).unwrap();
                stream.flush().unwrap();
                // Some of the file, and no more.
                stream.read_exact(&mut [0; 20_000]).unwrap();
                secured.push(stream);
            } else if kind == "TLS" {
                secured.push(client(address));
                ask(secured.last_mut().unwrap(), "/").unwrap();
            } else {
                open.push(dial(address));
                ask(open.last_mut().unwrap(), "/").unwrap();
            }
        }
        println!("ready");
    }
}

/// A client that takes a few bytes of a large file, and stays: the server's memory for each such
/// client, the kernel's buffers not counted.
#[test]
#[ignore = "a measurement"]
fn slow_readers() {
    let folder = crate::files::Scratch::new("slow");
    fs::File::create(folder.0.join("large")).unwrap().set_len(64 << 20).unwrap();
    let files = Files::new(&folder.0).unwrap();
    let config = plain().write_timeout(Duration::MAX);
    let server = Server::new(move |request: &mut Request<'_>| files.respond(request)).config(config);
    let shutdown = server.shutdown_handle();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let listener = tls::Listener::new(listener, server_config()).unwrap();
    thread::scope(|s| {
        s.spawn(|| Runtime::new().workers(1).run(|| server.serve(listener)).unwrap().unwrap());
        measure("slow", address);
        // The clients are gone by now, and their responses with them.
        shutdown.shutdown();
    });
}

/// The memory of a server's secured stream alone, with all that rustls has for that.
fn streams_alone() -> usize {
    let mut streams = Vec::new();
    let [before, after] = [50, 450].map(|count| {
        while streams.len() < count {
            let (mut client, mut server) = pair(client_config());
            client.set_read_timeout(Some(Duration::from_nanos(1))).unwrap();
            beside(|| server.handshake().unwrap(), || while client.handshake().is_err() {});
            server.flush().unwrap();
            // The last message, and the tickets.
            let _ = client.read(&mut [0]);
            server.get_ref().shrink();
            streams.push(server);
        }
        resident()
    });
    after.saturating_sub(before) / 400
}

#[test]
#[ignore = "a measurement"]
fn idle_connections() {
    let server = || Server::new(|_| "hello").config(plain());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let open = server();
    let shutdown = open.shutdown_handle();
    thread::scope(|s| {
        s.spawn(|| Runtime::new().workers(1).run(|| open.serve(listener)).unwrap().unwrap());
        measure("open", address);
        shutdown.shutdown();
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let listener = tls::Listener::new(listener, server_config()).unwrap();
    let secured = server();
    let shutdown = secured.shutdown_handle();
    thread::scope(|s| {
        s.spawn(|| Runtime::new().workers(1).run(|| secured.serve(listener)).unwrap().unwrap());
        measure("TLS", address);
        shutdown.shutdown();
    });
    println!("a stream alone: {}", streams_alone());
    println!("of these, rustls' connection without its boxes: {}", size_of::<UnbufferedServerConnection>());
}
