//! A chat for browsers over WebSocket, and 100 clients that try it out: each hears each line once,
//! in one order, and the server says goodbye to all of them.
//!
//! Each member has one fiber, which waits for a message of its client or for a line of the others,
//! whichever is first. `cargo run --example websocket_chat -- 127.0.0.1:8080` serves the page until
//! the process ends.

use segue::channel::broadcast::{self, Sender};
use segue::net::{TcpListener, TcpStream};
use segue::sync::Barrier;
use segue::{Either, scope};
use segue_http::websocket::{self, Message};
use segue_http::{IntoResponse, Payload, Request, Response, Server, http};
use std::io::{self, BufReader, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

/// How many lines a member may be behind.
const LAG: usize = 1_024;

const PAGE: &str = r#"<!doctype html>
<meta charset="utf-8">
<title>Chat</title>
<ul id="lines"></ul>
<form id="form"><input id="line" autocomplete="off" autofocus></form>
<script>
    const socket = new WebSocket(location.href.replace(/^http/, "ws").replace(/\/$/, "") + "/chat");
    const show = (text) => {
        lines.append(Object.assign(document.createElement("li"), { textContent: text }));
    };
    socket.onmessage = (event) => show(event.data);
    socket.onclose = (event) => show(`the end (${event.code}) ${event.reason}`);
    form.onsubmit = (event) => {
        event.preventDefault();
        socket.send(line.value);
        line.value = "";
    };
</script>
"#;

fn answer(room: &Sender<Arc<str>>, request: &Request<'_>) -> Response {
    match request.uri().path() {
        "/" => http::Response::builder().header("content-type", "text/html").body(PAGE).into_response(),
        "/chat" => attend(room.clone(), request),
        _ => http::Response::builder().status(404).body(Payload::empty()).into_response(),
    }
}

fn attend(room: Sender<Arc<str>>, request: &Request<'_>) -> Response {
    websocket::accept(request, move |socket| {
        let mut lines = room.subscribe();
        socket.send("welcome")?;
        loop {
            match socket.recv_or(lines.recv_source())? {
                Either::Left(Some(Message::Text(line))) => {
                    // The room is there as long as this member is.
                    let _ = room.send(line.into());
                }
                Either::Left(Some(Message::Binary(_))) => return socket.close(1003, "text only"),
                Either::Left(None) => return Ok(()),
                Either::Right(Ok(line)) => socket.send(&*line)?,
                Either::Right(Err(late)) => return socket.close(1008, &late.to_string()),
            }
        }
    })
}

// The clients, which speak as much of the protocol as they need.

const CLIENTS: usize = 100;
const EACH: usize = 5;

fn client(me: usize, address: SocketAddr, all_here: &Barrier) -> io::Result<()> {
    let stream = TcpStream::connect(address)?;
    let mut input = BufReader::new(&stream);
    write!(
        &stream,
        "GET /chat HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        input.read_exact(&mut byte)?;
        head.extend(byte);
    }
    assert_eq!(read(&mut input)?, "welcome");
    all_here.wait()?;
    for n in 0..EACH {
        write_text(&stream, &format!("{me} {n}"))?;
    }
    let mut next = [0; CLIENTS];
    for _ in 0..CLIENTS * EACH {
        let line = read(&mut input)?;
        let (from, n) = line.split_once(' ').expect("a line of a client");
        let from: usize = from.parse().expect("a number");
        assert_eq!(n, next[from].to_string(), "client {me} hears {from}");
        next[from] += 1;
    }
    all_here.wait()?;
    assert_eq!(read(&mut input)?, "\u{3}\u{e9}", "the goodbye of a server that is shut down: 1001");
    // The same goodbye, masked with nothing.
    (&stream).write_all(&[0x88, 0x82, 0, 0, 0, 0, 3, 233])?;
    assert_eq!(input.read(&mut [0])?, 0);
    Ok(())
}

/// Sends a short text, with a mask that changes nothing.
fn write_text(mut stream: &TcpStream, text: &str) -> io::Result<()> {
    let head = [0x81, 0x80 | text.len() as u8, 0, 0, 0, 0];
    stream.write_all(&[&head, text.as_bytes()].concat())
}

/// Reads a short frame; each byte is a character.
fn read(input: &mut impl Read) -> io::Result<String> {
    let mut head = [0; 2];
    input.read_exact(&mut head)?;
    let mut payload = vec![0; head[1].into()];
    input.read_exact(&mut payload)?;
    Ok(payload.into_iter().map(char::from).collect())
}

fn main() -> io::Result<()> {
    segue::run(|| {
        let (room, _) = broadcast::channel(LAG);
        let server = Server::new(move |request: &mut Request<'_>| answer(&room, request));
        if let Some(address) = std::env::args().nth(1) {
            let listener = TcpListener::bind(&*address)?;
            println!("a chat at http://{}", listener.local_addr()?);
            return server.serve(listener);
        }
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, all_here) = (listener.local_addr()?, Barrier::new(CLIENTS + 1));
        scope(|s| {
            let serving = s.spawn(|| server.serve(listener));
            let all_here = &all_here;
            let clients: Vec<_> = (0..CLIENTS).map(|me| s.spawn(move || client(me, address, all_here))).collect();
            // All are here, and then: all have heard everything.
            all_here.wait()?;
            all_here.wait()?;
            server.shutdown_handle().shutdown();
            clients.into_iter().try_for_each(|client| client.join().unwrap())?;
            serving.join().unwrap()
        })?;
        println!("{CLIENTS} clients have heard {} lines each", CLIENTS * EACH);
        Ok(())
    })
}
