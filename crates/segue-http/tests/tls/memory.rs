//! The memory of idle connections. A measurement, which is printed; its process should run nothing
//! else: `cargo test --test tls --features tls -- --ignored --nocapture memory`.

use std::fs;
use std::io::Write;
use std::thread;
use std::time::Duration;

use segue_http::Server;
use segue_io::net::TcpListener;
use segue_sched::Runtime;

use crate::common::plain;
use crate::{client, get, read_response, server_config, with_server};

const COUNT: usize = 400;

/// What this process has in memory alone, in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|text| text.parse::<usize>().ok()).unwrap_or(0) << 10
}

/// Prints the memory of each connection, its client's included, which has no fiber.
fn measure(name: &str, mut connect: impl FnMut() -> Box<dyn std::any::Any>) {
    // The first ones fill spare places.
    let first: Vec<_> = (0..50).map(|_| connect()).collect();
    thread::sleep(Duration::from_millis(1_500));
    let before = resident();
    let all: Vec<_> = (0..COUNT).map(|_| connect()).collect();
    // Idle connections give their stacks back after a second.
    thread::sleep(Duration::from_millis(2_500));
    println!("{name}: {} bytes a connection", (resident().saturating_sub(before)) / COUNT);
    drop((first, all));
}

#[test]
#[ignore = "a measurement"]
fn memory_of_idle_connections() {
    let server = Server::new(|_| "hello").config(plain());
    with_server(server, server_config(), |address| {
        measure("TLS, with the client's end", || {
            let mut stream = client(address);
            stream.write_all(get("/").as_bytes()).unwrap();
            read_response(&mut stream);
            Box::new(stream)
        });
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::new(|_| "hello").config(plain());
    let shutdown = server.shutdown_handle();
    thread::scope(|s| {
        s.spawn(move || Runtime::new().workers(2).run(|| server.serve(listener)).unwrap().unwrap());
        measure("plain", || {
            let mut stream = crate::dial(address);
            stream.write_all(get("/").as_bytes()).unwrap();
            read_response(&mut stream);
            Box::new(stream)
        });
        shutdown.shutdown();
    });
}
