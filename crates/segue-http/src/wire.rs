//! A transport with the connection's one input buffer and one output buffer.
//! Used by the connection loop, by request bodies and by response writers.

use std::io::{self, IoSlice};
use std::time::Duration;

use crate::transport::Transport;

/// What an idle connection keeps of each buffer, and what a fresh one starts with.
pub(crate) const SMALL: usize = 4 << 10;
/// How much room a read gets while a body arrives.
pub(crate) const MEDIUM: usize = 16 << 10;
/// Output is sent once it has grown beyond this.
pub(crate) const HIGH_WATER: usize = 64 << 10;
/// A body up to this size is copied behind its head, so that one write sends both.
pub(crate) const COPY_LIMIT: usize = 16 << 10;
/// How much a slow client must take within each write time-out.
const PACE: usize = 256 << 10;

/// The stream and its buffers. `T` is last so that `Wire<T>` coerces to `Wire<dyn Transport>`.
pub(crate) struct Wire<T: ?Sized> {
    /// Always initialised to its full length; `start..end` has arrived and is not consumed.
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// Written but not sent.
    pub(crate) out: Vec<u8>,
    write_timeout: Duration,
    read_limit: Option<Option<Duration>>,
    write_limit: Option<Option<Duration>>,
    pub(crate) transport: T,
}

impl<T> Wire<T> {
    pub(crate) fn new(transport: T, write_timeout: Duration) -> Wire<T> {
        Wire {
            input: Vec::new(),
            start: 0,
            end: 0,
            out: Vec::new(),
            write_timeout,
            read_limit: None,
            write_limit: None,
            transport,
        }
    }
}

impl Wire<dyn Transport> {
    /// What has arrived and is not consumed.
    pub(crate) fn arrived(&self) -> &[u8] {
        &self.input[self.start..self.end]
    }

    /// Marks the first `count` arrived bytes as used.
    pub(crate) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        self.start += count;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Sends what is written, then waits at most `time` for more input, with room for `room` bytes
    /// of it including what has arrived already. Zero is the end of the stream.
    pub(crate) fn fill(&mut self, time: Duration, room: usize) -> io::Result<usize> {
        self.flush()?;
        self.make_room(room);
        self.limit_read(time)?;
        let count = retry(|| self.transport.read(&mut self.input[self.end..]))?;
        self.end += count;
        Ok(count)
    }

    /// Sends what is written, then waits at most `time` for input straight into `dst`.
    /// Nothing may have arrived and be left unconsumed.
    pub(crate) fn read_past(&mut self, dst: &mut [u8], time: Duration) -> io::Result<usize> {
        debug_assert!(self.arrived().is_empty());
        self.flush()?;
        self.limit_read(time)?;
        retry(|| self.transport.read(dst))
    }

    /// Gives back what an idle connection does not need. Nothing is lost: arrived bytes stay.
    pub(crate) fn rest(&mut self) {
        if self.start == self.end && self.input.len() > SMALL {
            self.input = Vec::new();
        }
        if self.out.is_empty() && self.out.capacity() > SMALL {
            self.out = Vec::new();
        }
    }

    /// Makes the buffer hold `room` bytes from `start` on, at least one of them free.
    fn make_room(&mut self, room: usize) {
        let kept = self.end - self.start;
        let room = room.max(kept + 1);
        if self.start > 0 && self.input.len() - self.start < room {
            self.input.copy_within(self.start..self.end, 0);
            self.start = 0;
            self.end = kept;
        }
        if self.input.len() < room {
            self.input.reserve_exact(room - self.input.len());
            self.input.resize(room, 0);
        }
    }

    fn limit_read(&mut self, time: Duration) -> io::Result<()> {
        let limit = limit(time)?;
        if self.read_limit != Some(limit) {
            self.transport.set_read_timeout(limit)?;
            self.read_limit = Some(limit);
        }
        Ok(())
    }

    fn limit_write(&mut self, time: Duration) -> io::Result<()> {
        let limit = limit(time)?;
        if self.write_limit != Some(limit) {
            self.transport.set_write_timeout(limit)?;
            self.write_limit = Some(limit);
        }
        Ok(())
    }

    /// Sends what is written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.send(&[])
    }

    /// Sends what is written if it has become much.
    pub(crate) fn flush_if_much(&mut self) -> io::Result<()> {
        if self.out.len() > HIGH_WATER { self.flush() } else { Ok(()) }
    }

    /// Sends what is written and `bytes` behind it, without copying them.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.out.is_empty() && bytes.is_empty() {
            return Ok(());
        }
        let mut out = std::mem::take(&mut self.out);
        let result = self.send_pair(&out, bytes);
        out.clear();
        self.out = out;
        result
    }

    fn send_pair(&mut self, first: &[u8], second: &[u8]) -> io::Result<()> {
        let mut slices = [IoSlice::new(first), IoSlice::new(second)];
        let mut left = &mut slices[..];
        IoSlice::advance_slices(&mut left, 0);
        let mut deadline = None;
        let mut pace = 0;
        loop {
            let time = match deadline {
                None => self.write_timeout,
                Some(deadline) => std::time::Instant::saturating_duration_since(&deadline, self.transport.now()),
            };
            self.limit_write(time)?;
            let count = match left {
                [one] => retry(|| self.transport.write(one))?,
                _ => retry(|| self.transport.write_vectored(left))?,
            };
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            IoSlice::advance_slices(&mut left, count);
            if left.is_empty() {
                return Ok(());
            }
            pace += count;
            if deadline.is_none() || pace >= PACE {
                deadline = self.transport.now().checked_add(self.write_timeout);
                pace = 0;
            }
        }
    }
}

/// A time as a transport takes it; none left is a time-out already.
fn limit(time: Duration) -> io::Result<Option<Duration>> {
    match time {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        Duration::MAX => Ok(None),
        time => Ok(Some(time)),
    }
}

/// Whether a read or write ended because its time was over.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

fn retry(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
