//! Both directions between two streams, until both have ended: the heart of a proxy.
//!
//! Used by programs. Each direction is a loop of a read and writes; one runs in the caller, the
//! other in a fiber of a scope.
//!
//! # The end
//!
//! ```text
//!   both copy --a stream ends--> the other one's writing is shut down; the other way goes on --it ends--> done
//!       \--an error, a cancellation, or nothing has come for too long: the other way is cancelled--> failed
//! ```
//!
//! **The idle limit** is that of both ways together. Each wait lasts until the limit after the last
//! byte, as known at the beginning of the wait; when that comes up, the waiter looks at the last
//! byte again, which the other way may have moved, and waits for the rest. So a byte costs a look
//! at the clock and a store, and no timer is moved.
//!
//! **Commit point**: each system call. **Cancellation**: a read that has not happened has had no
//! effect. Bytes that were read and not written are in the error: nothing is lost.
//!
//! **Ordering**: the time of the last byte is relaxed. Both ways end by the scope, and a waiter
//! that sees an old time cancels only after one more look.

use super::protocol::Protocol;
use super::stream::Stream;
use crate::driver::op::{Read, Write};
use crate::driver::run::run;
use segue_core::{Cancelled, JoinError, now, scope, shield};
use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fmt, mem};

/// How much a way takes in at a time.
const CHUNK: usize = 32 << 10;

/// A copy in both directions that was broken off, with the counts of each. The error of
/// [`copy_bidirectional`].
///
/// `?` takes this error into a function that fails with [`io::Error`].
#[derive(Debug)]
pub struct CopyError {
    /// How many bytes were written from the first stream to the second, and from the second to the
    /// first.
    pub copied: (u64, u64),
    /// The bytes that were read from the first stream and not written to the second, and the other
    /// way round.
    pub unsent: (Vec<u8>, Vec<u8>),
    /// Why: the first error there was.
    pub error: io::Error,
}

impl From<CopyError> for io::Error {
    /// Drops the counts and the unsent bytes.
    fn from(broken: CopyError) -> Self {
        broken.error
    }
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (there, back) = self.copied;
        write!(f, "{}; {there} bytes had gone there, and {back} back", self.error)
    }
}

impl Error for CopyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

/// Copies from each of two streams to the other, until both have ended, and returns how many bytes
/// went from the first to the second, and from the second to the first.
///
/// Where one stream ends, [writing](Stream::shutdown) to the other is shut down, behind all that
/// was copied; the other way goes on. So a client that ends its request by the end of its stream
/// gets its answer. An error of one way ends both.
///
/// With an `idle` limit the call ends when that has passed since the last byte, in whichever
/// direction: a connection on which one side talks and the other is silent is not idle. A byte
/// counts at its read, and at its write: so a side that takes nothing is idle, too. The
/// streams' own time-outs do not count.
///
/// One way runs in the caller, the other in a fiber of its scheduler. Others must not read from the
/// streams, nor write to them, meanwhile.
///
/// # Cancellation
/// *May already have happened*: the error says how much was copied, and has the bytes that were
/// read and not written.
///
/// # Errors
/// [`CopyError`], with the error of a stream; that of a cancellation, which
/// [`Cancelled::caused`] knows; or `TimedOut` after the idle limit. The streams stay open.
///
/// # Examples
///
/// ```
/// use segue_io::net::{UnixStream, copy_bidirectional};
/// use std::io::{Read, Write};
/// use std::net::Shutdown;
/// use std::time::Duration;
///
/// let (mut client, near) = UnixStream::pair()?;
/// let (far, mut server) = UnixStream::pair()?;
/// let answer = segue_core::scope(|s| -> std::io::Result<String> {
///     let proxy = s.spawn(|| copy_bidirectional(&near, &far, Some(Duration::from_secs(60))));
///     client.write_all(b"how long?")?;
///     client.shutdown(Shutdown::Write)?;
///     let mut request = String::new();
///     server.read_to_string(&mut request)?;
///     write!(server, "{} bytes", request.len())?;
///     server.shutdown(Shutdown::Write)?;
///     assert_eq!(proxy.join().unwrap()?, (9, 7));
///     let mut answer = String::new();
///     client.read_to_string(&mut answer).map(|_| answer)
/// })?;
/// assert_eq!(answer, "9 bytes");
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn copy_bidirectional<P: Protocol, Q: Protocol>(
    first: &Stream<P>,
    second: &Stream<Q>,
    idle: Option<Duration>,
) -> Result<(u64, u64), CopyError> {
    let pace = Pace { idle, start: now(), last: AtomicU64::new(0) };
    let (mut there, mut back) = (Way::default(), Way::default());
    let broken = OnceLock::new();
    scope(|s| {
        let end = |way: io::Result<()>| {
            if let Err(error) = way {
                // The other way's error comes of this one.
                let _ = broken.set(error);
                s.cancel();
            }
        };
        let (pace, back) = (&pace, &mut back);
        let other = s.spawn(move || end(back.copy(second, first, pace)));
        end(there.copy(first, second, pace));
        // A way that is cancelled before its beginning has not said so. A panic is the scope's.
        if let Err(JoinError::NeverRan(cancelled)) = shield(|| other.join()) {
            end(Err(cancelled.into()));
        }
    });
    let copied = (there.copied, back.copied);
    match broken.into_inner() {
        None => Ok(copied),
        Some(error) => Err(CopyError { copied, unsent: (there.unsent, back.unsent), error }),
    }
}

/// The limit of both ways.
struct Pace {
    idle: Option<Duration>,
    start: Instant,
    /// When the last byte was moved, in nanoseconds since the start.
    last: AtomicU64,
}

impl Pace {
    fn moved(&self) {
        if self.idle.is_some() {
            self.last.store(self.passed(), Ordering::Relaxed);
        }
    }

    fn passed(&self) -> u64 {
        u64::try_from(now().saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }

    /// How long may be waited from now on.
    fn left(&self) -> Option<Duration> {
        let silent = self.passed().saturating_sub(self.last.load(Ordering::Relaxed));
        Some(self.idle?.saturating_sub(Duration::from_nanos(silent)))
    }

    /// Makes a call that waits within the limit, and notes a success.
    fn keep(&self, mut call: impl FnMut(Option<Duration>) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            let left = self.left();
            match call(left) {
                // The other way may have moved something meanwhile.
                Err(error) if is_over(&error) && left.is_some_and(|left| !left.is_zero()) => {}
                Err(error) if is_over(&error) => {
                    let idle = self.idle.unwrap_or_default();
                    let says = format!("neither side has sent or taken a byte for {idle:?}");
                    return Err(io::Error::new(ErrorKind::TimedOut, says));
                }
                result => {
                    if matches!(result, Ok(1..)) {
                        self.moved();
                    }
                    return result;
                }
            }
        }
    }
}

/// Whether a wait's own limit is over: the kernel gives up connections by this kind of error, too,
/// and so does a cancellation by a deadline.
fn is_over(error: &io::Error) -> bool {
    error.kind() == ErrorKind::TimedOut && error.raw_os_error().is_none() && !Cancelled::caused(error)
}

/// One direction.
#[derive(Default)]
struct Way {
    copied: u64,
    unsent: Vec<u8>,
}

impl Way {
    /// Copies to the end, and passes that on.
    fn copy<P: Protocol, Q: Protocol>(&mut self, from: &Stream<P>, to: &Stream<Q>, pace: &Pace) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        loop {
            let length = pace.keep(|left| run(&from.shared.0, Read::<false>(&mut chunk), left))?;
            if length == 0 {
                return end(to);
            }
            let mut sent = 0;
            while sent < length {
                match pace.keep(|left| run(&to.shared.0, Write(&chunk[sent..length]), left)) {
                    Ok(count @ 1..) => {
                        sent += count;
                        self.copied += count as u64;
                    }
                    failed => {
                        chunk.truncate(length);
                        self.unsent = mem::take(&mut chunk).split_off(sent);
                        return Err(failed.err().unwrap_or_else(|| ErrorKind::WriteZero.into()));
                    }
                }
            }
        }
    }
}

/// Shuts writing down. The other way finds that there is no connection any more.
fn end<P: Protocol>(to: &Stream<P>) -> io::Result<()> {
    to.shutdown(Shutdown::Write)
        .or_else(|error| if error.kind() == ErrorKind::NotConnected { Ok(()) } else { Err(error) })
}
