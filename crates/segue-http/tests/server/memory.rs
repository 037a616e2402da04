//! Connections in memory, which wait by the clock of a simulation.

use segue_core::{WaitQueue, WaitsFor, after, check};
use segue_http::{Listener, Transport};
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a client has taken.
pub type Taken = Arc<WaitQueue<Vec<u8>>>;

/// Waits until the client has taken this.
pub fn until_taken(taken: &Taken, text: &str) -> io::Result<()> {
    let is_there = |taken: &Vec<u8>| String::from_utf8_lossy(taken).contains(text);
    Ok(segue_core::wait(&mut taken.source(WaitsFor::new("what a client takes"), is_there, |_| ()))?)
}

/// A connection whose client sends all of its input at once, and nothing after that.
pub struct Memory {
    pub input: io::Cursor<Vec<u8>>,
    pub limits: Mutex<[Option<Duration>; 2]>,
    pub taken: Taken,
    /// How long each write takes, and how much of it the client takes.
    pub pace: (Duration, usize),
    /// How much the client takes before the connection breaks.
    pub breaks_after: usize,
}

impl Memory {
    pub fn new(input: impl Into<Vec<u8>>) -> Memory {
        let taken = Arc::new(WaitQueue::new(Vec::new()));
        let pace = (Duration::ZERO, usize::MAX);
        Memory { input: io::Cursor::new(input.into()), limits: Mutex::default(), taken, pace, breaks_after: usize::MAX }
    }

    fn limit(&self, which: usize) -> Duration {
        self.limits.lock().unwrap()[which].unwrap_or(Duration::MAX)
    }
}

impl Read for Memory {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        check()?;
        match self.input.read(buf)? {
            0 => {
                after(self.limit(0)).wait()?;
                Err(io::ErrorKind::TimedOut.into())
            }
            count => Ok(count),
        }
    }
}

impl Write for Memory {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        check()?;
        let (time, most) = self.pace;
        if !time.is_zero() {
            let limit = self.limit(1);
            after(time.min(limit)).wait()?;
            if limit < time {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        let mut taken = self.taken.lock();
        let left = self.breaks_after - taken.state().len();
        let count = buf.len().min(most).min(left);
        if count == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        taken.state().extend_from_slice(&buf[..count]);
        taken.notify_all(0);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for Memory {
    fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.limits.lock().unwrap()[0] = time;
        Ok(())
    }

    fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.limits.lock().unwrap()[1] = time;
        Ok(())
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Accepts these connections, and then none.
pub struct Accepts(pub Mutex<Vec<Memory>>);

impl Listener for Accepts {
    type Stream = Memory;

    fn accept(&self) -> io::Result<Memory> {
        if let Some(stream) = self.0.lock().unwrap().pop() {
            return Ok(stream);
        }
        after(Duration::MAX).wait()?;
        unreachable!("nothing comes after all time")
    }
}
