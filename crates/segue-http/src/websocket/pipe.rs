//! The connection as the protocol of a WebSocket sees it: with a time limit, one frame at a time,
//! behind the rest of a frame of data. Used by the socket.

use std::io::{self, Read, Write};
use std::time::Instant;

use segue_core::Cancelled;

use crate::message::upgrade::Upgraded;
use crate::websocket::frames::Frames;
use crate::websocket::outgoing::Outgoing;
use crate::wire::buffers::AT_ONCE;

/// The most reads in one go. Frames without end that make no message, of a client that is fast,
/// would keep the socket from its other duties.
const READS: u32 = 4_096;

/// The connection as the protocol sees it.
pub(super) struct Pipe<'c> {
    pub(super) stream: Upgraded<'c>,
    pub(super) outgoing: Outgoing,
    pub(super) frames: Frames,
    /// Until when reads wait; `None` is for ever.
    until: Option<Instant>,
    /// How many reads are left before the socket has its turn.
    reads: u32,
    /// When the last byte has come, and whether a ping was sent since.
    pub(super) heard: Instant,
    pub(super) pinged: bool,
    /// A write was cancelled, whose rest is not sent.
    pub(super) owes: bool,
    /// Nothing can be sent any more.
    pub(super) broken: bool,
}

impl<'c> Pipe<'c> {
    pub(super) fn new(stream: Upgraded<'c>) -> Pipe<'c> {
        let heard = stream.now();
        Pipe {
            stream,
            outgoing: Outgoing::default(),
            frames: Frames::default(),
            until: None,
            reads: 0,
            heard,
            pinged: false,
            owes: false,
            broken: false,
        }
    }

    /// Begins to read, until then at most.
    pub(super) fn begin(&mut self, until: Option<Instant>) {
        (self.until, self.reads) = (until, READS);
    }

    pub(super) fn send_rest(&mut self) -> io::Result<()> {
        let sent = self.outgoing.send(&mut self.stream);
        self.note(sent)
    }

    /// A cancelled write can go on later; no other one can.
    fn note<T>(&mut self, written: io::Result<T>) -> io::Result<T> {
        written.map_err(|error| {
            self.owes = true;
            self.broken |= !Cancelled::caused(&error);
            // The protocol takes `WouldBlock` for an invitation to try again.
            if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
        })
    }
}

impl Read for Pipe<'_> {
    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize> {
        let Some(reads) = self.reads.checked_sub(1) else { return Err(io::ErrorKind::WouldBlock.into()) };
        self.reads = reads;
        let time = self.until.map(|until| until.saturating_duration_since(self.stream.now()).max(AT_ONCE));
        self.stream.set_read_timeout(time);
        let room = dst.len().min(self.frames.want());
        let count = self.stream.read(&mut dst[..room])?;
        if count > 0 {
            self.frames.took(&dst[..count]);
            self.heard = self.stream.now();
            self.pinged = false;
        }
        Ok(count)
    }
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send_rest()?;
        let written = self.stream.write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
