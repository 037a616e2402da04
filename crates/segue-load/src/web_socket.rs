//! WebSockets, as far as an echo needs them: the handshake, and one message whose bytes are always
//! the same. Used by the first exchange and by each connection of `ws://` and `wss://`.
//!
//! A client may choose the key of its handshake and the mask of its frames. Here both are always
//! the same: so a message and its echo are bytes to be sent and compared, as a request and its
//! reply are.

use std::io::{self, Read, Write};

use crate::link::Link;
use crate::options::Options;

/// The key and its answer, of RFC 6455, 1.3.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
/// The first byte of a binary message in one frame.
const BINARY: u8 = 0x82;
const MASKED: u8 = 0x80;
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
/// A longer answer is none.
const MOST: usize = 16 << 10;

/// Has the server leave HTTP.
pub(crate) fn open(link: &mut Link, options: &Options) -> io::Result<()> {
    let (path, host) = (options.uri.path_and_query(), options.uri.authority());
    let mut head = format!("GET {} HTTP/1.1\r\n", path.map_or("/", |path| path.as_str())).into_bytes();
    head.extend_from_slice(format!("Host: {}\r\n", host.map_or("", |host| host.as_str())).as_bytes());
    for (name, value) in &options.headers {
        head.extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    head.extend_from_slice(b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n");
    head.extend_from_slice(format!("Sec-WebSocket-Key: {KEY}\r\n\r\n").as_bytes());
    link.write_all(&head)?;
    let mut answer = Vec::new();
    // By bytes: a message of the server may follow.
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        link.read_exact(&mut byte)?;
        answer.push(byte[0]);
        if answer.len() > MOST {
            break;
        }
    }
    let text = String::from_utf8_lossy(&answer);
    if !text.starts_with("HTTP/1.1 101 ") || !text.contains(ACCEPT) {
        let line = text.lines().next().unwrap_or_default();
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the server answers the handshake with {line:?}"),
        ));
    }
    Ok(())
}

/// Sends the message once, and looks at the echo.
pub(crate) fn ask(link: &mut Link, body: &[u8]) -> io::Result<()> {
    link.write_all(&message(body))?;
    let expected = echo(body);
    let mut bytes = vec![0; expected.len()];
    link.read_exact(&mut bytes)?;
    if bytes == expected {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the server answers a message with something else"))
}

/// A message, as a client sends it.
pub(crate) fn message(body: &[u8]) -> Vec<u8> {
    let mut frame = head(body.len(), MASKED);
    frame.extend_from_slice(&MASK);
    frame.extend(body.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// The same message, as a server sends it.
pub(crate) fn echo(body: &[u8]) -> Vec<u8> {
    [head(body.len(), 0), body.to_vec()].concat()
}

fn head(length: usize, masked: u8) -> Vec<u8> {
    match length {
        0..126 => vec![BINARY, masked | length as u8],
        126..0x1_0000 => [&[BINARY, masked | 126], &(length as u16).to_be_bytes()[..]].concat(),
        _ => [&[BINARY, masked | 127], &(length as u64).to_be_bytes()[..]].concat(),
    }
}
