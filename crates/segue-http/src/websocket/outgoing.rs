//! The frame of data that is being sent. Used by the socket.
//!
//! # No half frames
//!
//! A send may be cancelled, or fail, with a part of its frame sent. A client that then got another
//! frame would read that as the rest of the first. So the frame stays here, with the count of bytes
//! that the transport has taken, and whichever is sent next sends the rest first: another message,
//! a pong, a close. A frame of which nothing was sent is forgotten.
//!
//! ```text
//!   NONE --put--> WHOLE --some bytes are taken--> PART --all are taken--> NONE
//!                   |
//!                   +--the first write fails----------------------------> NONE
//! ```
//!
//! Control frames have the same in the protocol's own buffer, which is flushed before a frame is
//! put here. So at most one of the two is in the middle of a frame.

use std::io;

use bytes::Bytes;

use crate::message::upgrade::Upgraded;
use crate::websocket::message::Message;

#[derive(Default)]
pub(super) struct Outgoing {
    head: [u8; 10],
    head_length: usize,
    payload: Bytes,
    /// How much of both was taken.
    sent: usize,
}

impl Outgoing {
    /// Has a message as one frame. Nothing may be left of another one.
    pub(super) fn put(&mut self, message: Message) {
        let opcode = if message.as_text().is_some() { 1 } else { 2 };
        let payload = message.into_bytes();
        let mut head = [0; 10];
        head[0] = 0x80 | opcode;
        let length = payload.len() as u64;
        let head_length = match length {
            0..126 => {
                head[1] = length as u8;
                2
            }
            126..0x1_0000 => {
                head[1] = 126;
                head[2..4].copy_from_slice(&(length as u16).to_be_bytes());
                4
            }
            _ => {
                head[1] = 127;
                head[2..].copy_from_slice(&length.to_be_bytes());
                10
            }
        };
        *self = Outgoing { head, head_length, payload, sent: 0 };
    }

    /// Sends the rest.
    pub(super) fn send(&mut self, stream: &mut Upgraded<'_>) -> io::Result<()> {
        while self.sent < self.head_length + self.payload.len() {
            let head = &self.head[self.sent.min(self.head_length)..self.head_length];
            let payload = &self.payload[self.sent.saturating_sub(self.head_length)..];
            self.sent += stream.write_pair(head, payload)?;
        }
        *self = Outgoing::default();
        Ok(())
    }

    /// Forgets a frame of which nothing was sent.
    pub(super) fn retract(&mut self) {
        if self.sent == 0 {
            *self = Outgoing::default();
        }
    }
}
