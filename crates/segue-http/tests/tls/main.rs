//! TLS: handshakes, streams cut into pieces, ends, limits, and a server behind them; over memory,
//! and over real sockets.
#![cfg(feature = "tls")]

#[path = "../common/mod.rs"]
mod common;

mod files;
mod handshakes;
mod memory;
mod openssl;
mod pipe;
mod server;
mod streams;

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pipe::{Pipe, pipe};
use segue_http::tls::rustls::{self, ClientConfig, ServerConfig};
use segue_http::{Server, Transport, tls};
use segue_io::net::TcpListener;
use segue_sched::{Runtime, Sim};

/// Nothing here takes nearly as long; a hang is to fail and not to hang the run.
const PATIENCE: Duration = Duration::from_secs(20);

const CHAIN: &[u8] = include_bytes!("fixtures/server.pem");
const KEY: &[u8] = include_bytes!("fixtures/server.key");
const CLIENT_CHAIN: &[u8] = include_bytes!("fixtures/client.pem");
const CLIENT_KEY: &[u8] = include_bytes!("fixtures/client.key");

fn server_config() -> ServerConfig {
    tls::server_config(CHAIN, KEY).unwrap()
}

fn client_config() -> ClientConfig {
    tls::client_config(CHAIN).unwrap()
}

/// A client that knows one version alone.
fn client_of(version: &'static rustls::SupportedProtocolVersion) -> ClientConfig {
    let provider = Arc::clone(client_config().crypto_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rustls::pki_types::pem::PemObject::from_pem_slice(CHAIN).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
    builder.with_root_certificates(roots).with_no_client_auth()
}

const VERSIONS: [&rustls::SupportedProtocolVersion; 2] = [&rustls::version::TLS12, &rustls::version::TLS13];

fn connect<T: Transport>(below: T, config: ClientConfig) -> tls::Stream<T> {
    tls::Stream::connect(below, Arc::new(config), "localhost".try_into().unwrap()).unwrap()
}

fn accept<T: Transport>(below: T, config: ServerConfig) -> tls::Stream<T> {
    tls::Acceptor::new(config).unwrap().accept(below).unwrap()
}

/// Two ends of a stream in memory, before their handshake: the client's and the server's.
fn pair(client: ClientConfig) -> (tls::Stream<Pipe>, tls::Stream<Pipe>) {
    let (one, other) = pipe();
    (connect(one, client), accept(other, server_config()))
}

/// Runs a test on plain threads, on fibers, and in simulations.
fn everywhere(test: &(dyn Fn() + Sync)) {
    test();
    Runtime::new().workers(1).run(test).unwrap();
    Runtime::new().workers(2).run(test).unwrap();
    for seed in 0..5 {
        Sim::new(seed).run(test).unwrap_or_else(|deadlock| panic!("{deadlock}"));
    }
}

/// Runs `f` beside `g`, and waits for both.
fn beside<A: Send, B>(f: impl FnOnce() -> A + Send, g: impl FnOnce() -> B) -> (A, B) {
    segue_core::scope(|s| {
        let other = s.spawn(f);
        let mine = g();
        (other.join().unwrap(), mine)
    })
}

/// Bytes that repeat late.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 31 % 251) as u8).collect()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// Reads one response with a length.
fn read_response(stream: &mut impl Read) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "{:?}", String::from_utf8_lossy(&text));
        text.push(byte[0]);
    }
    let head = String::from_utf8(text).unwrap();
    let length =
        head.split("content-length: ").nth(1).map_or(0, |rest| rest.split("\r\n").next().unwrap().parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    head + &String::from_utf8_lossy(&body)
}

/// Runs `client` while `server` serves TLS, then shuts it down and waits for it.
fn with_server<T>(server: Server<'_>, config: ServerConfig, client: impl FnOnce(SocketAddr) -> T) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let listener = tls::Listener::new(listener, config).unwrap();
    let shutdown = server.shutdown_handle();
    thread::scope(|s| {
        let serving = s.spawn(move || Runtime::new().workers(2).run(|| server.serve(listener)).unwrap());
        // However the client ends, so that its panic is seen.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| client(address)));
        shutdown.shutdown();
        serving.join().unwrap().unwrap();
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A socket whose silence fails a test.
fn dial(address: SocketAddr) -> std::net::TcpStream {
    let stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn client(address: SocketAddr) -> tls::Stream<std::net::TcpStream> {
    connect(dial(address), client_config())
}

fn ask(stream: &mut (impl Read + Write), path: &str) -> io::Result<String> {
    stream.write_all(get(path).as_bytes())?;
    stream.flush()?;
    Ok(read_response(stream))
}
