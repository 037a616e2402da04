//! WebSockets: the handshake, a table of frames after Autobahn's list of cases, and real sockets.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/served.rs"]
mod serving;

mod cases;
mod frames;
mod handshake;
mod limits;
mod served;
mod texts;

use segue_http::websocket::Options;
use segue_http::{Request, Response};

const ASK: &str = "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const HEAD: &str = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\
    sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nconnection: upgrade\r\n\r\n";

/// Sends each message back.
fn echo(options: &Options, request: &Request<'_>) -> Response {
    options.accept(request, |socket| {
        while let Some(message) = socket.recv()? {
            socket.send(message)?;
        }
        Ok(())
    })
}
