//! Writes the response to one request: its framing, its head and its body. Used by the connection
//! loop.

use std::cell::RefMut;
use std::io;

use http::{StatusCode, Version, header};
use segue_core::unwind::contain;

use crate::config::Config;
use crate::message::encode::{self, BodyWriter, Extent, Framed};
use crate::message::exchange::Panicked;
use crate::message::response::{Kind, Payload, Response, leave};
use crate::message::upgrade::Upgraded;
use crate::wire::buffers::{COPY_LIMIT, Wire};
use crate::wire::line::Line;
use crate::wire::transport::Transport;

/// Writes responses to one connection.
pub(super) struct Responder<'c> {
    pub(super) line: &'c Line<dyn Transport>,
    pub(super) config: &'c Config,
}

impl<'c> Responder<'c> {
    fn wire(&self) -> RefMut<'c, Wire<dyn Transport>> {
        self.line.wire_here()
    }

    /// Writes a response. Returns whether the connection can be used again.
    pub(super) fn respond(
        &self,
        response: Response,
        is_head: bool,
        version: Version,
        keep_alive: bool,
    ) -> io::Result<bool> {
        let status = response.status();
        let bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED);
        let extent = match response.body().length() {
            _ if status == StatusCode::NO_CONTENT => Extent::Nothing,
            _ if status == StatusCode::RESET_CONTENT => Extent::Length(0),
            _ if status == StatusCode::NOT_MODIFIED => Extent::AsGiven,
            Some(0) if is_head && response.headers().contains_key(header::CONTENT_LENGTH) => Extent::AsGiven,
            Some(length) => Extent::Length(length),
            None if version == Version::HTTP_11 => Extent::Chunked,
            None => Extent::UntilClose,
        };
        let keep_alive = keep_alive && extent != Extent::UntilClose;
        let framed = Framed { extent, version, keep_alive, send_date: self.config.send_date };
        let keep_alive = {
            let wire = &mut *self.wire();
            let stays = encode::head(&mut wire.out, status, response.headers(), &framed);
            wire.body_at = wire.position();
            wire.ends_with_close = extent == Extent::UntilClose;
            stays
        };
        let (parts, payload) = response.into_parts();
        leave(parts.headers);
        if !parts.extensions.is_empty() {
            contain(|| drop(parts.extensions));
        }
        if is_head || bodiless {
            contain(|| drop(payload));
        } else {
            self.send_body(payload, extent)?;
        }
        Ok(keep_alive)
    }

    /// Sends the head of a response that upgrades the connection, and has the response's function
    /// talk. An error of the function is returned inside: then the client may still read.
    #[cold]
    #[inline(never)] // Its caller is to need little of the stack.
    pub(super) fn switch(&self, mut response: Response) -> io::Result<io::Result<()>> {
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let framed = Framed {
            extent: Extent::Upgrade,
            version: Version::HTTP_11,
            keep_alive: true,
            send_date: self.config.send_date,
        };
        let mut wire = self.wire();
        encode::head(&mut wire.out, response.status(), response.headers(), &framed);
        wire.body_at = wire.position();
        wire.flush()?;
        let Kind::Upgrade(talk) = response.into_body().0 else { return Ok(Ok(())) };
        let stream = Upgraded::new(wire);
        let talked = contain(|| talk(stream));
        Ok(talked.unwrap_or_else(|| Err(io::Error::other(Panicked("upgrade")))))
    }

    fn send_body(&self, payload: Payload, extent: Extent) -> io::Result<()> {
        match payload.0 {
            Kind::Owned(bytes) => self.send_bytes(&bytes),
            Kind::Shared(bytes) => self.send_bytes(&bytes),
            Kind::Reader(length, mut reader) => {
                let sent = self.stream(extent, |out| {
                    let copied = out.copy(&mut *reader, length.unwrap_or(u64::MAX))?;
                    match length {
                        Some(length) if copied < length => Err(io::ErrorKind::UnexpectedEof.into()),
                        _ => Ok(()),
                    }
                });
                contain(|| drop(reader));
                sent
            }
            Kind::Writer(write) => self.stream(extent, write),
            Kind::File(body) => {
                let mut wire = self.wire();
                body.send(&mut wire).or_else(|error| wire.flush().and(Err(error)))
            }
            // Not sent by `respond`.
            Kind::Upgrade(_) => Ok(()),
        }
    }

    fn send_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let mut wire = self.wire();
        if bytes.len() > COPY_LIMIT {
            return wire.send(bytes);
        }
        wire.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Has `write` write the body. After a failure or panic of `write`, the part so far is sent and
    /// the connection ends.
    fn stream(&self, extent: Extent, write: impl FnOnce(&mut BodyWriter<'_>) -> io::Result<()>) -> io::Result<()> {
        let mut out = BodyWriter::new(self.line, extent == Extent::Chunked);
        let result = contain(|| write(&mut out)).unwrap_or_else(|| Err(io::Error::other(Panicked("writer"))));
        match result {
            Ok(()) => out.finish(),
            Err(error) => {
                // Another failure here says less.
                let _ = out.abandon().and_then(|()| self.wire().flush());
                Err(error)
            }
        }
    }
}
