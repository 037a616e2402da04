//! HTTP requests to a whole server, from memory: the path between a socket and the handler. Used by
//! the table of paths.

use crate::paths::on_worker;
use segue_http::{Listener, Server, Transport};
use std::cell::Cell;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The header lines of a browser, as often as they are needed. Each name comes once.
const LINES: [&str; 30] = [
    "Host: localhost",
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Accept-Language: en-GB,en;q=0.5",
    "Accept-Encoding: gzip, deflate, br, zstd",
    "Connection: keep-alive",
    "Cookie: session=0123456789abcdef0123456789abcdef; theme=dark",
    "Cache-Control: max-age=0",
    "Referer: http://localhost/index.html",
    "Origin: http://localhost",
    "If-None-Match: \"0123456789abcdef\"",
    "If-Modified-Since: Fri, 27 Nov 2026 08:00:00 GMT",
    "Upgrade-Insecure-Requests: 1",
    "Sec-Fetch-Dest: document",
    "Sec-Fetch-Mode: navigate",
    "Sec-Fetch-Site: same-origin",
    "Sec-Fetch-User: ?1",
    "Sec-CH-UA: \"Browser\";v=\"140\"",
    "Sec-CH-UA-Mobile: ?0",
    "Sec-CH-UA-Platform: \"Linux\"",
    "DNT: 1",
    "Priority: u=0, i",
    "Pragma: no-cache",
    "X-Request-Id: 9f2c7d0e-4a1b-4f6e-8f3a-5c2d1e0b7a69",
    "X-Forwarded-For: 192.0.2.7",
    "X-Forwarded-Proto: http",
    "X-Forwarded-Host: localhost",
    "Forwarded: for=192.0.2.7;proto=http;host=localhost",
    "Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "Via: 1.1 proxy",
];

/// Has a server answer `n` requests of so many headers, on one connection. Each arrives by a read
/// of its own, and each response goes by a write.
pub fn requests(headers: usize, n: u64) {
    let text = format!("GET /page HTTP/1.1\r\n{}\r\n\r\n", LINES[..headers].join("\r\n"));
    let client = Client::new(text.into_bytes(), n, &Arc::new(AtomicUsize::new(1)));
    on_worker(move || {
        let server = Server::new(|_| "hello, world");
        server.serve_connection(client).expect("the client makes no mistakes");
    });
}

/// Has a server answer `n` connections of one request with so many headers, each in a fiber of its
/// own, as from a listener.
pub fn connections(headers: usize, n: u64) {
    let text = format!("GET /page HTTP/1.1\r\n{}\r\nConnection: close\r\n\r\n", LINES[..headers].join("\r\n"));
    let text = text.into_bytes();
    on_worker(move || {
        let listener = Clients { text, left: Cell::new(n), present: Arc::default() };
        let ended = Server::new(|_| "hello, world").serve(listener).expect_err("there are so many clients");
        assert_eq!(ended.kind(), io::ErrorKind::InvalidInput);
    });
}

/// Clients that come one after the other.
struct Clients {
    text: Vec<u8>,
    left: Cell<u64>,
    /// How many there are that have not gone.
    present: Arc<AtomicUsize>,
}

impl Listener for Clients {
    type Stream = Client;

    fn accept(&self) -> io::Result<Client> {
        while self.present.load(Ordering::Relaxed) > 0 {
            segue::yield_now()?;
        }
        let left = self.left.get().checked_sub(1).ok_or(io::ErrorKind::InvalidInput)?;
        self.left.set(left);
        self.present.fetch_add(1, Ordering::Relaxed);
        Ok(Client::new(self.text.clone(), 1, &self.present))
    }
}

/// A transport from memory.
struct Client {
    text: Vec<u8>,
    /// How much of the text the server has read of this request.
    read: usize,
    /// The requests that are to come after this one.
    left: u64,
    answers: u64,
    expected: u64,
    /// One less when this one goes.
    present: Arc<AtomicUsize>,
}

impl Client {
    fn new(text: Vec<u8>, requests: u64, present: &Arc<AtomicUsize>) -> Client {
        let present = Arc::clone(present);
        Client { read: text.len(), text, left: requests, answers: 0, expected: requests, present }
    }
}

impl Read for Client {
    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize> {
        if self.read == self.text.len() {
            if self.left == 0 {
                return Ok(0);
            }
            self.left -= 1;
            self.read = 0;
        }
        let rest = &self.text[self.read..];
        let count = rest.len().min(dst.len());
        dst[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        Ok(count)
    }
}

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(bytes.starts_with(b"HTTP/1.1 200 OK\r\n"), "a response goes out whole");
        self.answers += 1;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for Client {
    fn set_read_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn set_write_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        assert_eq!(self.answers, self.expected, "each request has an answer");
        self.present.fetch_sub(1, Ordering::Relaxed);
    }
}
