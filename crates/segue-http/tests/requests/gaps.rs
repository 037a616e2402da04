//! A response that could not be sent in full is followed by nothing: the client would take the next
//! bytes for its rest.

use crate::common;

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use common::*;
use segue_http::{Payload, Request, Response, Server, Transport};

/// A client whose patience with one write ends, after some bytes, and which then goes on as if
/// nothing had been.
struct Hiccup {
    script: Script,
    /// The write that gets no further than this, and then fails.
    fails_at: Cell<usize>,
    takes: usize,
}

impl Read for Hiccup {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.script.read(buf)
    }
}

impl Write for Hiccup {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.fails_at.set(self.fails_at.get().wrapping_sub(1));
        match self.fails_at.get() {
            0 if self.takes > 0 => self.script.write(&buf[..self.takes.min(buf.len())]),
            usize::MAX => Err(io::ErrorKind::TimedOut.into()),
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => self.script.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for Hiccup {
    fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.script.set_read_timeout(time)
    }
    fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.script.set_write_timeout(time)
    }
    fn shutdown_write(&mut self) -> io::Result<()> {
        self.script.shutdown_write()
    }
    fn now(&self) -> Instant {
        self.script.now()
    }
}

/// Whatever happens, this handler goes on.
fn stubborn(request: &mut Request<'_>) -> Response {
    let read = request.body_mut().read_to_end(&mut Vec::new());
    let body = format!("{:<20}", format!("{}", read.is_ok()));
    Response::new(Payload::writer(move |out| {
        for piece in body.as_bytes().chunks(5) {
            let _ = out.write_all(piece);
            let _ = out.flush();
        }
        Ok(())
    }))
}

#[test]
fn after_a_failed_write_nothing_is_sent() {
    let get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n";
    let steps = || [send(get.repeat(2) + post), send("body"), send(get), Step::End];
    let whole = serve(plain(), steps(), stubborn);
    assert_eq!(whole.responses().len(), 4);
    let (whole, writes) = (whole.output(), whole.writes().len());
    for fails_at in 1..=writes {
        for takes in [0, 1, 7, 1_000] {
            let script = Script::new(steps());
            let log = script.log();
            let client = Hiccup { script, fails_at: Cell::new(fails_at), takes };
            let _ = Server::new(stubborn).config(plain()).serve_connection(client);
            let output = log.output();
            // The bytes of a response depend on its request alone: so a gap would show.
            assert!(whole.starts_with(&output), "{fails_at}, {takes}: {}", String::from_utf8_lossy(&output));
            assert!(output.len() < whole.len() || fails_at == writes, "{fails_at}, {takes}");
        }
    }
}
