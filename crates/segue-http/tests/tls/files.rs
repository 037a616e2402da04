//! Files over TLS: whole and in ranges, for clients that read slowly, and that end.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use segue_http::{Files, Request, Server};

use crate::common::plain;
use crate::{client, pattern, server_config, with_server};

/// A folder of its own, which goes with it.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("segue-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn get(path: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n")
}

/// Reads one response, in pieces of so many bytes, with a pause of the reader before each.
fn read_slowly(stream: &mut impl Read, piece: usize) -> (String, Vec<u8>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    for part in body.chunks_mut(piece) {
        stream.read_exact(part).unwrap();
        std::thread::yield_now();
    }
    (head, body)
}

#[test]
fn a_file_comes_whole_and_in_ranges_however_slowly_it_is_read() {
    let folder = Scratch::new("ranges");
    // More than the kernel takes for a client that does not read.
    let content = pattern(9_000_000);
    std::fs::write(folder.0.join("large"), &content).unwrap();
    std::fs::write(folder.0.join("small"), "small").unwrap();
    let files = Files::new(&folder.0).unwrap();
    let server = Server::new(move |request: &mut Request<'_>| files.respond(request)).config(plain());
    with_server(server, server_config(), |address| {
        for piece in [9_000_000, 100_000, 1_000] {
            let mut stream = client(address);
            let requests = [
                get("/large", ""),
                get("/small", ""),
                get("/large", "Range: bytes=1000000-1099999\r\n"),
                get("/small", ""),
            ];
            stream.write_all(requests.concat().as_bytes()).unwrap();
            stream.flush().unwrap();
            assert!(read_slowly(&mut stream, piece).1 == content, "{piece}");
            assert_eq!(read_slowly(&mut stream, piece).1, b"small");
            let (head, range) = read_slowly(&mut stream, piece);
            assert!(head.starts_with("HTTP/1.1 206 ") && range == content[1_000_000..1_100_000], "{head}");
            assert_eq!(read_slowly(&mut stream, piece).1, b"small");
        }
    });
}

#[test]
fn a_client_that_does_not_take_a_file_is_ended_and_others_are_served() {
    let folder = Scratch::new("stuck");
    std::fs::write(folder.0.join("large"), pattern(20_000_000)).unwrap();
    let files = Files::new(&folder.0).unwrap();
    let config = plain().write_timeout(Duration::from_millis(100));
    let server = Server::new(move |request: &mut Request<'_>| files.respond(request)).config(config);
    with_server(server, server_config(), |address| {
        let mut stuck = client(address);
        stuck.write_all(get("/large", "").as_bytes()).unwrap();
        stuck.flush().unwrap();
        let mut other = client(address);
        other.write_all(get("/large", "Range: bytes=5-30004\r\n").as_bytes()).unwrap();
        other.flush().unwrap();
        assert!(read_slowly(&mut other, 30_000).1 == pattern(30_005)[5..]);
        // The server ends this client, or the shutdown below would wait.
        let rest = io::copy(&mut stuck, &mut io::sink());
        assert!(rest.is_err() || rest.unwrap() < 20_000_000);
    });
}
