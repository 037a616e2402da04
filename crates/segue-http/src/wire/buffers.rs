//! A transport with the connection's one input buffer and one output buffer.
//! Used by the connection loop, by request bodies and by response writers.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

use segue_core::Cancelled;

use crate::wire::transport::Transport;

/// The size of a new buffer.
pub(crate) const SMALL: usize = 4 << 10;
/// The length of a request that an idle connection can take in at once: there is no larger buffer.
pub(crate) const FIRST: usize = 512;
/// How many buffers of each kind a thread keeps for whichever connection needs one next, and how
/// large ones.
const SPARE: usize = 32;
const SPARE_SIZE: usize = MEDIUM;
/// And how many of the larger ones, which gather responses to requests that came together.
const LARGE: usize = 2;
const LARGE_SIZE: usize = 2 * HIGH_WATER;
/// How much room a read gets while a body arrives.
pub(crate) const MEDIUM: usize = 16 << 10;
/// Output beyond this length is sent.
pub(crate) const HIGH_WATER: usize = 64 << 10;
/// A body up to this size is copied behind its head, so that one write sends both.
pub(crate) const COPY_LIMIT: usize = 16 << 10;
/// The shortest limit of a wait, for calls that need none.
pub(crate) const AT_ONCE: Duration = Duration::from_nanos(1);
/// How much a slow client must take within each write time-out.
const PACE: usize = 256 << 10;

/// The buffers of a thread that no connection has.
struct Spare {
    /// Each is initialised to its full length.
    input: Vec<Vec<u8>>,
    /// Each is empty.
    out: Vec<Vec<u8>>,
}

thread_local! {
    static BUFFERS: RefCell<Spare> = const { RefCell::new(Spare { input: Vec::new(), out: Vec::new() }) };
}

/// Has `f` change the thread's buffers; without an effect while the thread ends.
fn with_spare<T: Default>(f: impl FnOnce(&mut Spare) -> T) -> T {
    BUFFERS.try_with(|spare| f(&mut spare.borrow_mut())).unwrap_or_default()
}

fn keep(buffers: &mut Vec<Vec<u8>>, buffer: Vec<u8>) {
    let is_large = |buffer: &Vec<u8>| buffer.capacity() > SPARE_SIZE;
    // The last one that was left is the next one that is taken: a few large ones serve all.
    let has_room = !is_large(&buffer) || buffers.iter().filter(|kept| is_large(kept)).count() < LARGE;
    if has_room && (SMALL..=LARGE_SIZE).contains(&buffer.capacity()) && buffers.len() < SPARE {
        buffers.push(buffer);
    }
}

/// The time that a client has for the next stretch of a body.
#[derive(Default)]
pub(crate) struct Pace {
    /// The time that writes may still wait; none before the client has taken anything. The time
    /// between writes is the program's own.
    left: Option<Duration>,
    /// When the present write began.
    since: Option<Instant>,
    /// How much the client has taken of this stretch.
    taken: usize,
    /// The time was over before so much was taken as is wanted: there is none for another write.
    is_late: bool,
}

/// The stream and its buffers. `T` is last so that `Wire<T>` coerces to `Wire<dyn Transport>`.
pub(crate) struct Wire<T: ?Sized> {
    /// Always initialised to its full length; `start..end` has arrived and is not consumed.
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// The room for the beginning of a request. Not on the fiber's stack: the frames of an idle
    /// wait are to fit into a page. `None` before the first read, and while a handler waits for
    /// other things than reads.
    first: Option<Box<[u8; FIRST]>>,
    /// Written but not sent.
    pub(crate) out: Vec<u8>,
    /// How much of that belongs to responses that are finished.
    pub(crate) finished: usize,
    /// How many bytes the transport has taken so far.
    pub(crate) sent: u64,
    /// Where the body of the present response begins: see [`position`](Wire::position).
    pub(crate) body_at: u64,
    /// The present response ends with its connection.
    pub(crate) ends_with_close: bool,
    /// The place of the prefix of the open chunk, if one is open.
    pub(crate) open: Option<usize>,
    /// Why finished responses could not be sent, of which the next read or write tells.
    failed: Option<io::Error>,
    write_timeout: Duration,
    /// The limits that are set; zero before the first one.
    read_limit: Duration,
    write_limit: Duration,
    pub(crate) transport: T,
}

impl<T> Wire<T> {
    pub(crate) fn new(transport: T, write_timeout: Duration) -> Wire<T> {
        Wire {
            input: Vec::new(),
            start: 0,
            end: 0,
            first: None,
            out: Vec::new(),
            finished: 0,
            sent: 0,
            body_at: 0,
            ends_with_close: false,
            open: None,
            failed: None,
            write_timeout,
            read_limit: Duration::ZERO,
            write_limit: Duration::ZERO,
            transport,
        }
    }
}

/// The buffers are left to the next connection: most connections are short.
impl<T: ?Sized> Drop for Wire<T> {
    fn drop(&mut self) {
        self.leave_buffers();
    }
}

impl<T: ?Sized> Wire<T> {
    /// Leaves the buffers to others.
    #[inline(never)] // A wait for the first input is to need little of the stack.
    fn leave_buffers(&mut self) {
        let (input, mut out) = (std::mem::take(&mut self.input), std::mem::take(&mut self.out));
        if input.capacity() + out.capacity() > 0 {
            // A connection may end with output that could not be sent.
            out.clear();
            with_spare(|spare| {
                keep(&mut spare.input, input);
                keep(&mut spare.out, out);
            });
        }
    }
}

impl Wire<dyn Transport> {
    /// Has the transport make itself ready, within a time limit.
    pub(crate) fn handshake(&mut self, limit: Duration) -> io::Result<()> {
        if !self.transport.needs_handshake() {
            return Ok(());
        }
        segue_core::timeout(limit, || self.transport.handshake())
    }

    /// Says to the client of a secured stream that this is its end, if that takes no time. A stream
    /// in the open needs no word.
    #[inline(never)] // A wait for the first input is to need little of the stack.
    pub(crate) fn say_end(&mut self) {
        if self.transport.is_secure() {
            let set = limit(AT_ONCE, &mut self.write_limit, |limit| self.transport.set_write_timeout(limit));
            // The connection is over in any case.
            let _ = set.and_then(|()| self.transport.shutdown_write());
        }
    }

    /// The input that is not consumed.
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

    /// Sends the output, then waits at most `time` for more input, with room for `room` bytes
    /// including the present input. Zero is the end of the stream.
    pub(crate) fn fill(&mut self, time: Duration, room: usize) -> io::Result<usize> {
        self.flush()?;
        self.make_room(room);
        self.limit_read(time)?;
        let count = retry(|| self.transport.read(&mut self.input[self.end..]))?;
        self.end += count;
        Ok(count)
    }

    /// Sends the output, then waits at most `time` for input straight into `dst`. Nothing may have
    /// arrived and be left unconsumed.
    pub(crate) fn read_past(&mut self, dst: &mut [u8], time: Duration) -> io::Result<usize> {
        debug_assert!(self.arrived().is_empty());
        self.flush()?;
        self.limit_read(time)?;
        retry(|| self.transport.read(dst))
    }

    /// Waits at most `time` for the first input of a connection that is idle, which meanwhile has
    /// no buffers. Nothing may have arrived and be left unconsumed. Zero is the end of the stream.
    pub(crate) fn fill_first(&mut self, time: Duration) -> io::Result<usize> {
        debug_assert!(self.arrived().is_empty());
        self.flush()?;
        self.leave_buffers();
        self.limit_read(time)?;
        let first = self.first.get_or_insert_with(|| Box::new([0; FIRST]));
        let count = retry(|| self.transport.read(&mut first[..]))?;
        if count > 0 {
            self.take_first(count)?;
        }
        Ok(count)
    }

    /// Has the first input, of so many bytes, in a buffer.
    #[inline(never)] // As `leave_buffers`.
    fn take_first(&mut self, count: usize) -> io::Result<()> {
        self.make_room(SMALL);
        if let Some(first) = &self.first {
            self.input[..count].copy_from_slice(&first[..count]);
        }
        self.end = count;
        if count == FIRST {
            // There is more, most likely, that belongs to the same requests. An error shows at the
            // next read.
            self.limit_read(AT_ONCE)?;
            self.end += retry(|| self.transport.read(&mut self.input[count..])).unwrap_or(0);
        }
        Ok(())
    }

    /// Takes buffers that others have left, where this has none.
    fn take_spare(&mut self) {
        if self.input.is_empty() || self.out.capacity() == 0 {
            with_spare(|spare| {
                if self.input.is_empty() {
                    self.input = spare.input.pop().unwrap_or_default();
                }
                if self.out.capacity() == 0 {
                    self.out = spare.out.pop().unwrap_or_else(|| Vec::with_capacity(SMALL));
                }
            });
        }
    }

    /// Makes the buffer hold `room` bytes from `start` on, at least one of them free.
    fn make_room(&mut self, room: usize) {
        self.take_spare();
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
        let Self { read_limit, transport, .. } = self;
        limit(time, read_limit, |limit| transport.set_read_timeout(limit))
    }

    /// Sends the output.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.send(&[])
    }

    /// Sends the output if there is much, or nothing can be sent any more.
    pub(crate) fn flush_if_much(&mut self) -> io::Result<()> {
        if self.out.len() > HIGH_WATER || self.failed.is_some() { self.flush() } else { Ok(()) }
    }

    /// Where the output ends, counted in bytes from the connection's beginning.
    pub(crate) fn position(&self) -> u64 {
        self.sent + self.out.len() as u64
    }

    /// Takes back the output from a position on. Answers whether nothing of that has been sent, and
    /// other output can follow.
    pub(crate) fn take_back(&mut self, position: u64) -> bool {
        let kept = position.checked_sub(self.sent).and_then(|kept| usize::try_from(kept).ok());
        let Some(kept) = kept.filter(|_| self.failed.is_none()) else { return false };
        self.out.truncate(kept);
        self.finished = self.finished.min(kept);
        self.open = None;
        true
    }

    /// Nothing can be sent any more, unless the error is a cancellation.
    pub(super) fn failed_by(&mut self, error: &io::Error) {
        if !Cancelled::caused(error) {
            self.failed = Some(error.kind().into());
        }
    }

    /// Forgets the output behind the responses that are finished.
    pub(crate) fn drop_unfinished(&mut self) {
        self.out.truncate(self.finished);
        self.open = None;
    }

    /// Forgets the output, and why nothing can be sent: for a caller that only reads from now on.
    pub(crate) fn forget_output(&mut self) {
        self.failed = None;
        self.out.clear();
    }

    /// Why nothing can be sent any more.
    pub(crate) fn broken(&self) -> Option<io::ErrorKind> {
        self.failed.as_ref().map(io::Error::kind)
    }

    /// Sends the output and then `bytes`, without a copy of them.
    ///
    /// After an error nothing more can be sent: the client would not notice the gap. Only a
    /// cancellation leaves the rest of the output in place, to be sent where the caller is not
    /// cancelled; `bytes` are not part of that.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.send_at(&mut Pace::default(), bytes).map(drop)
    }

    /// As [`send`](Self::send), for a part of a body that is sent at this pace. Returns the length
    /// of the last write, which the pace has not counted.
    pub(super) fn send_at(&mut self, pace: &mut Pace, bytes: &[u8]) -> io::Result<usize> {
        if self.failed.is_some() {
            return Err(self.failure());
        }
        if self.out.is_empty() && bytes.is_empty() {
            return Ok(0);
        }
        let before = self.sent;
        let mut out = std::mem::take(&mut self.out);
        let result = self.send_pair(&out, bytes, pace);
        let gone = usize::try_from(self.sent - before).unwrap_or(usize::MAX).min(out.len());
        match &result {
            Err(error) if Cancelled::caused(error) && (bytes.is_empty() || gone < out.len()) => {
                drop(out.drain(..gone));
                self.finished = self.finished.saturating_sub(gone);
            }
            result => {
                self.failed = result.as_ref().err().map(|error| error.kind().into());
                out.clear();
                self.finished = 0;
            }
        }
        self.out = out;
        result
    }

    /// Sends the responses that are finished, and keeps the rest.
    pub(crate) fn flush_finished(&mut self) {
        if self.finished == 0 || self.failed.is_some() {
            return;
        }
        let behind = self.out.split_off(self.finished);
        let mut out = std::mem::replace(&mut self.out, behind);
        self.open = self.open.map(|at| at - self.finished);
        self.finished = 0;
        let before = self.sent;
        match self.send_pair(&out, &[], &mut Pace::default()) {
            // The rest stays in front.
            Err(error) if Cancelled::caused(&error) => {
                let gone = usize::try_from(self.sent - before).unwrap_or(usize::MAX).min(out.len());
                drop(out.drain(..gone));
                self.finished = out.len();
                self.open = self.open.map(|at| at + out.len());
            }
            result => {
                self.failed = result.err();
                out.clear();
            }
        }
        out.append(&mut self.out);
        self.out = out;
    }

    /// The error there was; later on, its kind.
    #[cold]
    fn failure(&mut self) -> io::Error {
        let kind = self.failed.as_ref().map_or(io::ErrorKind::BrokenPipe, io::Error::kind);
        self.failed.replace(kind.into()).unwrap_or_else(|| kind.into())
    }

    /// Limits the next write to the time that this pace leaves.
    pub(super) fn limit_write(&mut self, pace: &mut Pace) -> io::Result<()> {
        if pace.is_late {
            return Err(io::ErrorKind::TimedOut.into());
        }
        pace.since = pace.left.map(|_| self.transport.now());
        let time = pace.left.unwrap_or(self.write_timeout);
        let Self { write_limit, transport, .. } = self;
        // Also when the time is over: the bytes taken by now count.
        limit(time.max(AT_ONCE), write_limit, |limit| transport.set_write_timeout(limit))
    }

    /// The client has taken so many bytes.
    pub(super) fn took(&mut self, pace: &mut Pace, count: usize) {
        pace.taken += count;
        match (pace.left, pace.since) {
            (Some(left), Some(since)) if pace.taken < PACE => {
                let left = left.saturating_sub(self.transport.now().saturating_duration_since(since));
                (pace.left, pace.is_late) = (Some(left), left.is_zero());
            }
            _ => {
                let left = (self.write_timeout != Duration::MAX).then_some(self.write_timeout);
                *pace = Pace { left, ..Pace::default() };
            }
        }
    }

    /// Writes some of `first` and `second` behind the output, at the pace that
    /// [`Config::write_timeout`](crate::Config::write_timeout) demands of the client. Answers how
    /// many bytes were taken.
    pub(crate) fn write_some(&mut self, first: &[u8], second: &[u8], pace: &mut Pace) -> io::Result<usize> {
        self.flush()?;
        let slices = [IoSlice::new(first), IoSlice::new(second)];
        self.limit_write(pace)?;
        let count = match (first, second) {
            (one, []) | ([], one) => retry(|| self.transport.write(one))?,
            _ => retry(|| self.transport.write_vectored(&slices))?,
        };
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.sent += count as u64;
        if count == first.len() + second.len() {
            *pace = Pace::default();
        } else {
            self.took(pace, count);
            if pace.is_late {
                // Nothing is sent any more: the reader has not got all of these bytes.
                self.failed = Some(io::ErrorKind::TimedOut.into());
            }
        }
        // As in `send_pair`; the bytes are taken. A stream of TLS that is cancelled here sends them
        // later.
        if let Err(error) = self.transport.flush()
            && !Cancelled::caused(&error)
        {
            self.failed.get_or_insert(error);
        }
        Ok(count)
    }

    /// Leaves the buffers to others, if there is nothing in them: before a wait that is no read.
    pub(crate) fn rest(&mut self) {
        if self.out.is_empty() && self.arrived().is_empty() {
            self.leave_buffers();
            self.first = None;
        }
    }

    /// Sends both. Returns the length of the last write, which the pace has not counted.
    fn send_pair(&mut self, first: &[u8], second: &[u8], pace: &mut Pace) -> io::Result<usize> {
        // One slice is sent by a simpler call.
        match (first, second) {
            (one, []) | ([], one) => self.send_one(one, pace),
            _ => self.send_both(first, second, pace),
        }
    }

    fn send_one(&mut self, mut left: &[u8], pace: &mut Pace) -> io::Result<usize> {
        loop {
            self.limit_write(pace)?;
            let count = retry(|| self.transport.write(left))?;
            self.sent += count as u64;
            match left.get(count..) {
                // A stream of TLS may have encrypted the bytes, and not sent them.
                None | Some([]) => return self.transport.flush().map(|()| count),
                Some(_) if count == 0 => return Err(io::ErrorKind::WriteZero.into()),
                Some(rest) => left = rest,
            }
            self.took(pace, count);
        }
    }

    #[inline(never)] // A response to a request alone needs none of this stack.
    fn send_both(&mut self, first: &[u8], second: &[u8], pace: &mut Pace) -> io::Result<usize> {
        let mut slices = [IoSlice::new(first), IoSlice::new(second)];
        let mut left = &mut slices[..];
        while left.len() > 1 {
            self.limit_write(pace)?;
            let count = retry(|| self.transport.write_vectored(left))?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.sent += count as u64;
            IoSlice::advance_slices(&mut left, count);
            if left.is_empty() {
                // As in `send_one`.
                return self.transport.flush().map(|()| count);
            }
            self.took(pace, count);
        }
        self.send_one(left.first().map_or(&[], |last| last), pace)
    }
}

/// Sets a time limit, if different from the last. No time left is a time-out already.
fn limit(time: Duration, last: &mut Duration, set: impl FnOnce(Option<Duration>) -> io::Result<()>) -> io::Result<()> {
    if time.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    if *last != time {
        set(Some(time).filter(|time| *time != Duration::MAX))?;
        *last = time;
    }
    Ok(())
}

/// Whether a read or write ended because its time was over. A deadline of the caller's is none of
/// these, although its error is of the same kind.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) && !Cancelled::caused(error)
}

pub(super) fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
