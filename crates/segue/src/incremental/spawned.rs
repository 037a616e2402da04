//! Push parsers that go from thread to thread: the body is a fiber, and is fed by hand-over.
//!
//! Used where a [`Machine`](super::Machine) can't be, which stays on its thread: in the tasks of an
//! executor with many threads, and between fibers.
//!
//! # States
//!
//! ```text
//!   HUNGRY --feed, finish, drop of the machine--> FED --the body has read all, and wants more--> HUNGRY
//!                                                  \--the body returns or panics--> the fiber ends
//! ```
//!
//! The pieces lie in `pending`, in their order, from the feed until the body reads them: the reader
//! takes that buffer. All this changes under the wait queue's lock. At most two wait there: the
//! reader while HUNGRY, and the feeder while FED; the one that makes a transition tells the other.
//! The body begins after the reader's first wait. The feeder waits for the fiber's end as well,
//! which has the value, or the panic.
//!
//! **Commit point** of a feed: the append under the lock. **Idle**: the reader in the queue.
//! **Cancellation**: of a feeder that waits for the answer, the piece stays handed over, and the
//! next feed waits for the answer to both. Of the fiber: the body's reads fail.
//!
//! **The race to fear**: a fiber that ends while its feeder begins to wait. The rest of the input
//! is back in `pending` before the end, and an ended fiber stays so: the choice finds that.
//!
//! A piece is copied, once: a feeder that is cancelled takes its piece away.

use super::Fed;

use segue_core::{Cancelled, Either, JoinError, Joining, Source, WaitQueue, Waitable, WaitsFor, preemption_point};
use std::io::{self, BufRead, Read};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::{mem, thread};

type Queue = WaitQueue<State>;

struct State {
    /// Handed over, and not read.
    pending: Vec<u8>,
    end: End,
    /// The reader has nothing, or the body has not started.
    hungry: bool,
}

/// The end of the input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Finished,
    /// The machine was dropped.
    Dropped,
}

/// The payload that unwinds the body of a machine that was dropped.
struct Dropped;

/// Starts a fiber with `body`, a parser that reads its input from the [`Pieces`], and makes a
/// machine that feeds the body.
///
/// As [`push`](super::push), for machines that go to other threads. The fiber is one of
/// [`spawn`](crate::spawn()). The body starts at the first feed; or when the fiber is cancelled, or
/// the machine dropped, and then its reads fail.
///
/// # Examples
///
/// ```
/// use segue::incremental::{Fed, Pieces, spawn};
/// use std::io::BufRead;
///
/// let mut machine = spawn(|input: &mut Pieces| input.lines().next().unwrap().unwrap());
/// assert_eq!(machine.feed(b"fed by ").unwrap(), Fed::NeedMore);
/// // Elsewhere.
/// let line = std::thread::spawn(move || match machine.feed(b"hand\nrest").unwrap() {
///     Fed::Done { value, unread: b"rest" } => value,
///     _ => unreachable!(),
/// });
/// assert_eq!(line.join().unwrap(), "fed by hand");
/// ```
#[track_caller]
pub fn spawn<T, F>(body: F) -> FiberMachine<T>
where
    F: FnOnce(&mut Pieces) -> T + Send + 'static,
    T: Send + 'static,
{
    let queue = Arc::new(Queue::new(State { pending: Vec::new(), end: End::Open, hungry: true }));
    let waits_for = WaitsFor::new("the next piece of its input");
    let mut input = Pieces { queue: Arc::clone(&queue), waits_for, piece: Vec::new(), read: 0, was_told: false };
    let fiber = crate::spawn(move || {
        // A fiber that is cancelled finds that at its first read.
        _ = input.wait_for_turn();
        body(&mut input)
    });
    FiberMachine { queue, fiber: fiber.join_source(), is_over: false, unread: Vec::new() }
}

/// A parser that is fed with its input, and goes from thread to thread: the body is a fiber. Made
/// by [`spawn`].
///
/// A feed is a hand-over: the piece is copied for the fiber, and the caller waits until the body
/// has read all of that piece, or is over. In fibers of one worker this takes ten times as long as
/// a feed of a [`Machine`](super::Machine), and between two threads two wake-ups.
///
/// Dropped before the end of its input, the body finds an error at its read
/// ([`io::ErrorKind::BrokenPipe`]), and may return; a body that reads again is unwound. The drop
/// does not wait for that.
#[must_use = "a machine does nothing unless it is fed"]
pub struct FiberMachine<T> {
    queue: Arc<Queue>,
    fiber: Waitable<Joining<T>>,
    is_over: bool,
    unread: Vec<u8>,
}

impl<T> FiberMachine<T> {
    /// Hands a piece to the body, and waits until the body has returned, or has read all of the
    /// piece and wants more. An empty piece is no end of the input: [`finish`](Self::finish) says
    /// that.
    ///
    /// # Cancellation
    /// The piece stays handed over: to wait on, feed an empty one. `unread` is of both pieces then.
    ///
    /// # Errors
    /// If the caller was cancelled; or the fiber, before its start: then the machine [is
    /// over](Self::is_over).
    ///
    /// # Panics
    /// With the panic of the body. If the body has returned or panicked before; or for some bytes
    /// after the end of the input. A body that feeds itself waits for ever.
    #[track_caller]
    pub fn feed(&mut self, piece: &[u8]) -> Result<Fed<'_, T>, Cancelled> {
        self.feed_source(piece).wait()?
    }

    /// [`feed`](Self::feed) as a source: to be awaited, or chosen among others. The piece is handed
    /// over in this call.
    ///
    /// # Cancellation
    /// The piece stays handed over: to wait on, feed an empty one.
    ///
    /// # Errors
    /// The source yields one if the fiber was cancelled before its start.
    ///
    /// # Panics
    /// As for [`feed`](Self::feed).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// use segue::incremental::{Fed, Pieces, spawn};
    /// use std::io::Read;
    ///
    /// let mut machine = spawn(|input: &mut Pieces| input.bytes().count());
    /// assert_eq!(machine.feed_source(b"awaited").await.unwrap(), Fed::NeedMore);
    /// assert_eq!(machine.finish_source().await.unwrap(), 7);
    /// # }
    /// ```
    #[track_caller]
    pub fn feed_source<'m>(
        &'m mut self,
        piece: &[u8],
    ) -> Waitable<impl Source<Output = Result<Fed<'m, T>, Cancelled>>> {
        self.hand_over(piece, End::Open);
        let Self { queue, fiber, is_over, unread } = self;
        let queue = &**queue;
        let mut places = Some((is_over, unread));
        let starves = WaitsFor::new("a machine's fiber");
        let starved = Waitable::new(queue.source(starves, |state: &State| state.hungry, |_| ()));
        starved.or(fiber.by_ref()).map(move |answer| {
            let Either::Right(joined) = answer else { return Ok(Fed::NeedMore) };
            let (is_over, unread) = places.take().expect("a source yields once");
            *is_over = true;
            *unread = mem::take(&mut queue.lock().state().pending);
            // A panic goes on here.
            joined.map(|value| Fed::Done { value, unread }).map_err(JoinError::into_cancelled)
        })
    }

    /// Ends the input: the reads of the body find the end, now and ever after. Waits for the body's
    /// value.
    ///
    /// # Cancellation
    /// The input has ended: the body reads the rest, and the value is dropped.
    ///
    /// # Errors
    /// As for [`feed`](Self::feed).
    ///
    /// # Panics
    /// As for [`feed`](Self::feed).
    #[track_caller]
    pub fn finish(mut self) -> Result<T, Cancelled> {
        self.finish_source().wait()?
    }

    /// [`finish`](Self::finish) as a source: to be awaited, or chosen among others. The input ends
    /// in this call.
    ///
    /// # Cancellation
    /// The input has ended; to wait on, call this again, or feed an empty piece.
    ///
    /// # Errors
    /// As for [`feed_source`](Self::feed_source).
    ///
    /// # Panics
    /// As for [`feed`](Self::feed).
    #[track_caller]
    pub fn finish_source(&mut self) -> Waitable<impl Source<Output = Result<T, Cancelled>>> {
        self.hand_over(&[], End::Finished);
        let Self { fiber, is_over, .. } = self;
        fiber.by_ref().map(|joined| {
            *is_over = true;
            joined.map_err(JoinError::into_cancelled)
        })
    }

    /// Whether the body has ended, and a feed or the end of the input has said so.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Appends to the unread input. The end stays.
    fn hand_over(&self, piece: &[u8], end: End) {
        assert!(!self.is_over, "a machine was used after its body has ended: feed the rest to a new one");
        // Copied before the lock.
        let mut piece = piece.to_vec();
        preemption_point();
        let mut queue = self.queue.lock();
        let state = queue.state();
        if state.end == End::Open {
            state.end = end;
        } else if !piece.is_empty() {
            drop(queue);
            panic!("a machine was fed after the end of its input: feed the piece to a new one");
        }
        if state.pending.is_empty() {
            state.pending = piece;
        } else {
            state.pending.append(&mut piece);
        }
        state.hungry = false;
        queue.notify_all(0);
    }
}

impl<T> Drop for FiberMachine<T> {
    fn drop(&mut self) {
        preemption_point();
        let mut queue = self.queue.lock();
        let state = queue.state();
        if state.end == End::Open {
            state.end = End::Dropped;
        }
        state.hungry = false;
        queue.notify_all(0);
    }
}

segue_core::impl_debug!([T] FiberMachine<T>, |it| is_over: it.is_over);

/// The input of a [`FiberMachine`]'s body: a reader that lets the fiber wait for the next piece.
///
/// Reads fail if the fiber is cancelled, and once after the drop of the machine.
pub struct Pieces {
    queue: Arc<Queue>,
    waits_for: WaitsFor,
    piece: Vec<u8>,
    /// The number of bytes of the piece that have been read.
    read: usize,
    /// Of the drop of the machine.
    was_told: bool,
}

impl Pieces {
    fn wait_for_turn(&self) -> Result<(), Cancelled> {
        self.queue.wait(self.waits_for, |state| !state.hungry, |_| ())
    }

    /// The rest of the piece.
    #[inline]
    fn rest(&self) -> &[u8] {
        &self.piece[self.read..]
    }

    /// Waits until there is something to read. `false` is the end.
    #[cold]
    #[inline(never)]
    fn wait(&mut self) -> io::Result<bool> {
        (self.piece, self.read) = (Vec::new(), 0);
        loop {
            let mut queue = self.queue.lock();
            let state = queue.state();
            if state.end == End::Dropped {
                drop(queue);
                return Err(self.end());
            }
            if !state.pending.is_empty() {
                self.piece = mem::take(&mut state.pending);
                return Ok(true);
            }
            if state.end == End::Finished {
                return Ok(false);
            }
            state.hungry = true;
            queue.notify_all(0);
            self.wait_for_turn()?;
        }
    }

    /// After the drop of the machine: an error, and then the end of the body.
    fn end(&mut self) -> io::Error {
        if mem::replace(&mut self.was_told, true) && !thread::panicking() && cfg!(panic = "unwind") {
            resume_unwind(Box::new(Dropped));
        }
        io::Error::new(io::ErrorKind::BrokenPipe, "the machine was dropped before its end")
    }
}

/// Puts the rest of the piece back: before the pieces that came later.
impl Drop for Pieces {
    fn drop(&mut self) {
        let mut rest = self.piece.split_off(self.read);
        let mut queue = self.queue.lock();
        let pending = &mut queue.state().pending;
        rest.append(pending);
        *pending = rest;
    }
}

impl BufRead for Pieces {
    /// The rest of the piece, or the next one after waiting for it.
    #[inline]
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.rest().is_empty() && !self.wait()? {
            return Ok(&[]);
        }
        Ok(self.rest())
    }

    /// # Panics
    ///
    /// For more than there is.
    #[inline]
    fn consume(&mut self, amount: usize) {
        let lent = self.rest().len();
        assert!(amount <= lent, "{amount} bytes were consumed, of {lent} that were lent");
        self.read += amount;
    }
}

impl Read for Pieces {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest().is_empty() && (buffer.is_empty() || !self.wait()?) {
            return Ok(0);
        }
        let amount = self.rest().read(buffer)?;
        self.read += amount;
        Ok(amount)
    }
}

segue_core::impl_debug!([] Pieces, |it| unread: it.piece.len() - it.read);
