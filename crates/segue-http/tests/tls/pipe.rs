//! A stream in memory that cuts its bytes into pieces, and can be cut off.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use segue_core::{Ended, WaitQueue, WaitsFor, check, now, wait_until};
use segue_http::Transport;

#[derive(Default)]
struct Half {
    bytes: VecDeque<u8>,
    ended: bool,
    /// All bytes that were ever written.
    seen: usize,
}

/// One end.
pub struct Pipe {
    input: Arc<WaitQueue<Half>>,
    output: Arc<WaitQueue<Half>>,
    /// The most bytes that one read or write moves.
    pub piece: usize,
    /// The most bytes that are on their way.
    pub room: usize,
    limits: [Cell<Option<Duration>>; 2],
    /// How often this end was written to.
    pub writes: Arc<std::sync::atomic::AtomicUsize>,
}

pub fn pipe() -> (Pipe, Pipe) {
    let [one, other] = [(); 2].map(|()| Arc::new(WaitQueue::new(Half::default())));
    let end = |input: &Arc<_>, output: &Arc<_>| Pipe {
        input: Arc::clone(input),
        output: Arc::clone(output),
        piece: usize::MAX,
        room: usize::MAX,
        limits: Default::default(),
        writes: Arc::default(),
    };
    (end(&one, &other), end(&other, &one))
}

/// As [`pipe`], of which both ends move so many bytes at a time.
pub fn pieces(piece: usize) -> (Pipe, Pipe) {
    let (mut one, mut other) = pipe();
    (one.piece, other.piece) = (piece, piece);
    (one, other)
}

/// Waits until `ready`, or for as long as the limit says.
fn within(half: &WaitQueue<Half>, limit: Option<Duration>, ready: impl Fn(&Half) -> bool) -> io::Result<()> {
    check()?;
    let source = half.source(WaitsFor::new("the other end of a pipe"), ready, |_| ());
    wait_until(source, limit.and_then(|limit| now().checked_add(limit))).map_err(|ended| match ended {
        Ended::TimedOut => io::ErrorKind::TimedOut.into(),
        Ended::Cancelled(cancelled) => cancelled.into(),
    })
}

impl Pipe {
    /// Ends the direction to the other end, as a reset connection does.
    pub fn cut(&self) {
        let mut half = self.output.lock();
        half.state().ended = true;
        half.notify_all(0);
    }

    /// Gives back the room of both directions, in which nothing is.
    pub fn shrink(&self) {
        for half in [&self.input, &self.output] {
            half.lock().state().bytes.shrink_to_fit();
        }
    }

    /// How many bytes this end has ever written.
    pub fn written(&self) -> usize {
        self.output.lock().state().seen
    }
}

impl Read for Pipe {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        assert!(!buf.is_empty(), "a read into nothing looks like the end of the stream");
        let ready = |half: &Half| half.ended || !half.bytes.is_empty();
        within(&self.input, self.limits[0].get(), ready)?;
        let mut half = self.input.lock();
        let count = buf.len().min(self.piece).min(half.state().bytes.len());
        buf.iter_mut().zip(half.state().bytes.drain(..count)).for_each(|(to, from)| *to = from);
        half.notify_all(0);
        Ok(count)
    }
}

impl Write for Pipe {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let room = self.room;
        let ready = move |half: &Half| half.ended || half.bytes.len() < room;
        within(&self.output, self.limits[1].get(), ready)?;
        self.writes.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut half = self.output.lock();
        if half.state().ended {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let count = buf.len().min(self.piece).min(room - half.state().bytes.len());
        half.state().bytes.extend(&buf[..count]);
        half.state().seen += count;
        half.notify_all(0);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for Pipe {
    fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.limits[0].set(time);
        Ok(())
    }

    fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.limits[1].set(time);
        Ok(())
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.cut();
        Ok(())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.cut();
    }
}
