//! Asks a server over many connections that are all open at once, twice on each:
//! `ports PORT KIND CONNECTIONS`, of which `KIND` is `http` or `websocket`.
//!
//! Each connection is a fiber. All connect before the first one asks.

extern crate segue_std as std;

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

/// What is sent, and what an answer to it has in it.
struct Question {
    sent: &'static [u8],
    answered: &'static [u8],
}

const HTTP: [Question; 2] =
    [const { Question { sent: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", answered: b"hello" } }; 2];

/// The handshake with the key that RFC 6455 has for an example; then a text, masked with zeros.
const WEBSOCKET: [Question; 2] = [
    Question {
        sent: b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        answered: b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
    },
    Question { sent: b"\x81\x85\0\0\0\0hello", answered: b"\x81\x05hello" },
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, kind, connections] = &arguments[..] else { return Err("usage: ports PORT KIND CONNECTIONS".into()) };
    let (port, connections) = (port.parse()?, connections.parse()?);
    let questions: &[Question] = match kind.as_str() {
        "http" => &HTTP,
        "websocket" => &WEBSOCKET,
        _ => return Err(format!("no kind of server: {kind}").into()),
    };
    let answered = segue::run(|| ask_all(port, questions, connections))?;
    println!("{answered} answers over {connections} connections that were open at once");
    Ok(())
}

fn ask_all(port: u16, questions: &[Question], connections: usize) -> Result<usize, Box<dyn Error>> {
    let all_are_open = Barrier::new(connections);
    let ask = || -> std::io::Result<usize> {
        let mut stream = connect(port);
        all_are_open.wait();
        for question in questions {
            let stream = stream.as_mut().map_err(|error| std::io::Error::from(error.kind()))?;
            stream.write_all(question.sent)?;
            until(stream, question.answered)?;
        }
        stream.map(|_| questions.len())
    };
    let mut answered = 0;
    thread::scope(|s| {
        let all: Vec<_> = (0..connections).map(|_| s.spawn(ask)).collect();
        for one in all {
            answered += one.join().map_err(|_| "a fiber has panicked")??;
        }
        Ok(answered)
    })
}

/// The server may not listen yet, or be behind with accepting.
fn connect(port: u16) -> std::io::Result<TcpStream> {
    const PATIENCE: Duration = Duration::from_millis(100);
    let mut tries = 100;
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Err(_) if tries > 0 => thread::sleep(PATIENCE),
            connected => {
                let stream = connected?;
                stream.set_read_timeout(Some(300 * PATIENCE))?;
                return Ok(stream);
            }
        }
        tries -= 1;
    }
}

/// Reads until the answer has come.
fn until(stream: &mut TcpStream, answered: &[u8]) -> std::io::Result<()> {
    let (mut input, mut filled) = ([0; 2048], 0);
    while !input[..filled].windows(answered.len()).any(|part| part == answered) {
        match stream.read(&mut input[filled..])? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    Ok(())
}
