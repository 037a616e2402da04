//! Push parsers: any code that reads is fed with its input, piece by piece.
//!
//! Used by applications: a parser over `Read` or `BufRead` becomes one that a callback, an event
//! loop or a `Decoder` feeds.
//!
//! # The idea
//!
//! The parser is the body of a generator ([`generator`](crate::generator())), and the elements are
//! its requests: a read that finds nothing gives one, and so suspends the body until the next piece
//! is there. The body's locals are the state of the parse, and no line of the parser knows of that.
//! So a parser in direct style has an interface for callbacks on top (Experiences with Effects,
//! 2021, section 2).
//!
//! # States
//!
//! ```text
//!   New --feed--> Running --starves--> Hungry --feed--> Running --returns--> Done
//!                                        \--finish: reads find the end--> Running --returns--> Done
//!                                        \--drop: one read fails, the next one unwinds--> Over
//! ```
//!
//! Each feed has a *turn* in its frame, which it lends to the body: the piece, the end of the
//! input, and a place for the outcome. A read that has starved takes the piece from the turn that
//! is there then, and a body that returns leaves its value in the turn that is there. So a whole
//! input costs one switch to the body and one back.
//!
//! # The loan
//!
//! [`fill_buf`](BufRead::fill_buf) lends the piece itself. The feeder has that piece only until
//! [`feed`](Machine::feed) returns, so no loan may be alive then. The call returns in three cases:
//!
//! - *The body starves.* Only `wait` asks for more, with a unique borrow of the [`Feed`], and each
//!   loan comes from `piece`, which borrows the `Feed` for as long. A `Feed` can't be exchanged for
//!   that of another machine, which would starve in its place: a body only has a unique borrow, and
//!   the lifetime in the type behind that is of one call of one body. Nor does a `Feed` go to
//!   another thread. A `Feed` starves only with nothing left, and so has no piece outside of a
//!   feed.
//! - *The body returns or panics.* The `Feed` is lent to the body for its call; so is the loan.
//! - *An effect captures the call* of `feed` together with the body. Then both go on together, or
//!   end together.
//!
//! The rest of the piece lies in the `Feed`. So in the loop of a parser a read that finds something
//! is a comparison, a copy and two additions. All else is in `wait`, out of line.
//!
//! Nobody reaches a turn after its feed: the body only has the address that the header has, and
//! that is null but during `feed`, `finish` and `drop`.

#![allow(unsafe_code)] // Turns and pieces are reached by their addresses.

use std::io::{self, BufRead, Read};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::thread;

use crate::backtrace::Backtrace;
use crate::generator::{Generator, Yielder};
use crate::region::{List, Region};
use crate::thread_stacks;

/// Makes a machine of `body`, a parser that reads its input from the [`Feed`].
///
/// The body starts at the first [`feed`](Machine::feed), on a stack of the [default
/// size](crate::StackConfig::set_default_slot_size); [`push_with_stack`] says another. The body
/// borrows nothing, and the machine may be kept for any time; for bodies that borrow there is
/// [`Region::push`].
///
/// The outcome is the same for each way to split the input, if the body does not depend on how many
/// bytes one read finds, which [`Read`] leaves open.
///
/// # Panics
///
/// Without a stack for the body. Panics of the body are those of [`feed`](Machine::feed) and
/// [`finish`](Machine::finish).
///
/// # Examples
///
/// ```
/// use segue_fiber::incremental::{Fed, Feed, push};
/// use std::io::{self, BufRead, Read};
///
/// /// A line with a length, and so many bytes.
/// fn frame(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
///     let mut length = String::new();
///     input.read_line(&mut length)?;
///     let mut bytes = vec![0; length.trim().parse().map_err(io::Error::other)?];
///     input.read_exact(&mut bytes)?;
///     Ok(bytes)
/// }
///
/// let mut machine = push(|input: &mut Feed| frame(input));
/// assert!(matches!(machine.feed(b"1"), Fed::NeedMore));
/// assert!(matches!(machine.feed(b"0\nstraight"), Fed::NeedMore));
/// match machine.feed(b"! and more") {
///     Fed::NeedMore => unreachable!(),
///     Fed::Done { value, unread } => assert_eq!((&value.unwrap()[..], unread), (&b"straight! "[..], &b"and more"[..])),
/// }
/// ```
#[inline]
pub fn push<T: 'static>(body: impl FnOnce(&mut Feed<'_>) -> T + 'static) -> Machine<'static, T> {
    // SAFETY: the body borrows nothing.
    unsafe { Machine::new(body, None, None) }
}

/// As [`push`], on a stack with `bytes` for the body: for parsers that call themselves deeply.
///
/// # Panics
///
/// Without a stack for the body, or for such a size.
///
/// # Examples
///
/// ```
/// use segue_fiber::incremental::{Fed, Feed, push_with_stack};
/// use std::io::Read;
///
/// fn depth(input: &mut Feed) -> usize {
///     match input.bytes().next() {
///         Some(Ok(b'[')) => 1 + depth(input),
///         _ => 0,
///     }
/// }
/// let mut machine = push_with_stack(64 << 20, depth);
/// assert!(matches!(machine.feed(&[b'['; 50_000]), Fed::NeedMore));
/// assert_eq!(machine.finish(), 50_000);
/// ```
pub fn push_with_stack<T: 'static>(
    bytes: usize,
    body: impl FnOnce(&mut Feed<'_>) -> T + 'static,
) -> Machine<'static, T> {
    // SAFETY: the body borrows nothing.
    unsafe { Machine::new(body, None, Some(bytes)) }
}

impl<'r> Region<'r, '_> {
    /// As [`push`], and may borrow.
    ///
    /// # Panics
    ///
    /// Without a stack for the body.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_fiber::incremental::{Fed, Feed};
    /// use std::io::Read;
    ///
    /// let mut seen = Vec::new();
    /// segue_fiber::region(|region| {
    ///     let mut machine = region.push(|input: &mut Feed| input.read_to_end(&mut seen).unwrap());
    ///     assert_eq!(machine.feed(b"borrowed"), Fed::NeedMore);
    ///     assert_eq!(machine.finish(), 8);
    /// });
    /// assert_eq!(seen, b"borrowed");
    /// ```
    #[inline]
    pub fn push<T: 'r, F: FnOnce(&mut Feed<'_>) -> T + 'r>(&'r self, body: F) -> Machine<'r, T> {
        // SAFETY: the borrowed data outlive the region, in which the body is entered.
        unsafe { Machine::new(body, Some(self.list()), None) }
    }

    /// As [`push_with_stack`], and may borrow.
    ///
    /// # Panics
    ///
    /// Without a stack for the body, or for such a size.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_fiber::incremental::{Fed, Feed};
    /// use std::io::Read;
    ///
    /// let wanted = b"abc".to_vec();
    /// let found = segue_fiber::region(|region| {
    ///     let mut machine = region.push_with_stack(1 << 20, |input: &mut Feed| {
    ///         input.bytes().zip(&wanted).all(|(byte, wanted)| byte.unwrap() == *wanted)
    ///     });
    ///     assert_eq!(machine.feed(b"ab"), Fed::NeedMore);
    ///     machine.feed(b"cd") == Fed::Done { value: true, unread: b"" }
    /// });
    /// assert!(found);
    /// ```
    pub fn push_with_stack<T: 'r, F: FnOnce(&mut Feed<'_>) -> T + 'r>(
        &'r self,
        bytes: usize,
        body: F,
    ) -> Machine<'r, T> {
        // SAFETY: the borrowed data outlive the region, in which the body is entered.
        unsafe { Machine::new(body, Some(self.list()), Some(bytes)) }
    }
}

/// The outcome of a piece: the answer of [`Machine::feed`].
#[must_use = "the value of a body that is done is here alone"]
#[derive(Debug, PartialEq, Eq)]
pub enum Fed<'i, T> {
    /// The body has read all that there is, and waits for the next piece.
    NeedMore,
    /// The body has returned.
    Done {
        /// The body's value.
        value: T,
        /// The part of the piece that the body has not consumed.
        unread: &'i [u8],
    },
}

/// A parser that is fed with its input. Made by [`push`] and
/// [`Region::push`].
///
/// A machine stays on its thread. There it runs in a fiber, within one poll of a task, or in no
/// scheduler at all; a body that waits for something else suspends the fiber around the call of
/// [`feed`](Machine::feed). Effects that the body performs go to its own handlers, and then to
/// those of the feeder.
///
/// Dropped halfway, the body finds an error at its read ([`io::ErrorKind::BrokenPipe`]), and may
/// return. A body that reads again is unwound, as is the body of a
/// [`Generator`], under the same conditions. During a panic, at the end of a region that has a
/// forgotten machine, and in the destructors of thread-local variables there is no such error. A
/// panic of the body is the dropper's.
///
/// ```compile_fail,E0277
/// fn moves_to_another_thread<T: Send>() {}
/// moves_to_another_thread::<segue_fiber::incremental::Machine<u32>>();
/// ```
#[must_use = "a machine does nothing unless it is fed"]
pub struct Machine<'r, T> {
    /// The elements are requests for the next piece.
    body: Generator<'r, ()>,
    _value: PhantomData<T>,
}

/// The end of a machine's input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Not yet.
    Open,
    /// The input has ended.
    Finished,
    /// The machine is being dropped, and the body has not been told.
    Dropped,
    /// The body has been told.
    Told,
}

/// The part of a feed that its body reaches. Reads know only the beginning of it.
#[repr(C)]
struct Turn<T> {
    input: Input,
    /// The body's value, and the number of bytes that are left of the piece.
    outcome: Option<(T, usize)>,
}

#[derive(Clone, Copy)]
struct Input {
    piece: *const [u8],
    end: End,
}

/// No bytes, and no end.
const NOTHING: Input = Input { piece: ptr::slice_from_raw_parts(ptr::dangling(), 0), end: End::Open };

impl<'r, T> Machine<'r, T> {
    /// # Safety
    ///
    /// The data that the body borrows outlive the region, or nothing is borrowed.
    #[inline]
    pub(crate) unsafe fn new<F: FnOnce(&mut Feed<'_>) -> T>(
        body: F,
        list: Option<List<'r>>,
        size: Option<usize>,
    ) -> Self {
        let body = move |y: &Yielder<()>| {
            let mut feed = Feed { input: NOTHING, yielder: y };
            feed.take_turn();
            let value = body(&mut feed);
            if let Some(turn) = NonNull::new(y.input().get().cast::<Turn<T>>()) {
                // SAFETY: the turn of the call that runs this body, and does not return before the
                // body is suspended or over. The feeder does not touch that turn meanwhile.
                unsafe { (*turn.as_ptr()).outcome = Some((value, feed.input.piece.len())) };
            }
            // Else this body has caught its unwinding: nobody wants the value.
        };
        // SAFETY: the same contract.
        Self { body: unsafe { Generator::new(body, list, size) }, _value: PhantomData }
    }

    /// Runs the body on `piece`, until the body has returned or has read all of the piece and wants
    /// more. An empty piece is no end of the input: [`finish`](Machine::finish) says that.
    ///
    /// # Panics
    ///
    /// With the panic of the body. If the body has returned or panicked, feeds itself, or is being
    /// ended by its region.
    #[inline(always)] // As `next` of a generator.
    pub fn feed<'i>(&mut self, piece: &'i [u8]) -> Fed<'i, T> {
        match self.run(piece, End::Open) {
            None => Fed::NeedMore,
            Some((value, left)) => Fed::Done { value, unread: &piece[piece.len() - left..] },
        }
    }

    /// Ends the input: the reads of the body find the end, now and ever after. Answers with the
    /// body's value.
    ///
    /// # Panics
    ///
    /// With the panic of the body. If the body has returned or panicked.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_fiber::incremental::{Fed, Feed, push};
    /// use std::io::Read;
    ///
    /// let mut machine = push(|input: &mut Feed| input.bytes().count());
    /// assert_eq!(machine.feed(b"some "), Fed::NeedMore);
    /// assert_eq!(machine.feed(b"words"), Fed::NeedMore);
    /// assert_eq!(machine.finish(), 10);
    /// ```
    pub fn finish(mut self) -> T {
        let (value, _) = self.run(&[], End::Finished).expect("at the end of its input a body does not starve");
        value
    }

    /// The calls of the body: from the read that waits outwards. Empty before the first feed and
    /// after the end.
    pub fn backtrace(&self) -> Backtrace {
        self.body.backtrace()
    }

    /// Runs the body on a piece. Answers with its value, and the number of bytes that are left.
    #[inline(always)]
    fn run(&mut self, piece: &[u8], end: End) -> Option<(T, usize)> {
        let mut turn = Turn { input: Input { piece, end }, outcome: None };
        // This panics for a body that runs, as one does that its region is ending.
        match self.body.next_with((&raw mut turn).cast()) {
            Some(()) => None,
            None => Some(turn.outcome.unwrap_or_else(|| over())),
        }
    }
}

#[cold]
fn over() -> ! {
    panic!("a machine was used after its body, or its region, has ended: feed the rest to a new machine")
}

impl<T> Drop for Machine<'_, T> {
    /// The error; the unwinding is that of the generator, which is dropped next.
    fn drop(&mut self) {
        if self.body.is_suspended() && !thread::panicking() && !thread_stacks::are_gone() {
            drop(self.run(&[], End::Dropped));
        }
    }
}

segue_core::impl_debug!([T] Machine<'_, T>, |it| waits: it.body.is_suspended());

/// The input of a [`Machine`]'s body: a reader that waits for the next piece.
///
/// [`fill_buf`](BufRead::fill_buf) lends the piece itself, without a copy.
///
/// Two reads fail, with [`io::ErrorKind::BrokenPipe`]: the first one after the drop of the machine,
/// and those in the destructors of a body that panics, if there is nothing left of the piece.
///
/// # Panics
///
/// A read that has to wait panics where the body can't be suspended: inside of an operation, such
/// as [`no_suspend`](segue_core::no_suspend) or the initialiser of a cell, and in another fiber.
///
/// ```compile_fail,E0499
/// use segue_fiber::incremental::{Feed, push};
/// use std::io::BufRead;
///
/// // A piece is lent until the next read.
/// push(|input: &mut Feed| {
///     let piece = input.fill_buf().unwrap();
///     let length = piece.len();
///     input.consume(length);
///     input.fill_buf().unwrap();
///     piece.len()
/// });
/// ```
///
/// ```compile_fail,E0521
/// use segue_fiber::incremental::Feed;
///
/// // It can't leave the body.
/// let mut outside: Option<&mut Feed> = None;
/// segue_fiber::region(|region| {
///     region.push(|input: &mut Feed| outside = Some(input)).finish();
/// });
/// ```
///
/// ```compile_fail
/// use segue_fiber::incremental::Feed;
///
/// // Nor be exchanged for another one.
/// let exchanging = |one: &mut Feed| {
///     segue_fiber::region(|region| region.push(|other: &mut Feed| std::mem::swap(one, other)).finish())
/// };
/// # segue_fiber::incremental::push(exchanging).finish();
/// ```
///
/// Used inside of each other's bodies they are all right:
///
/// ```
/// use segue_fiber::incremental::{Feed, push};
/// use std::io::Read;
///
/// let copying = |one: &mut Feed| {
///     segue_fiber::region(|region| region.push(|other: &mut Feed| one.chain(other).bytes().count()).finish())
/// };
/// assert_eq!(push(copying).finish(), 0);
/// ```
///
/// ```compile_fail,E0277
/// fn moves_to_another_thread<T: Send>() {}
/// moves_to_another_thread::<segue_fiber::incremental::Feed>();
/// ```
pub struct Feed<'f> {
    /// The rest of the piece, and how the input ends.
    input: Input,
    yielder: &'f Yielder<()>,
}

/// The error of a read for which nothing comes any more.
const GONE: io::ErrorKind = io::ErrorKind::BrokenPipe;

impl Feed<'_> {
    /// Takes the piece of the turn that has just begun.
    #[inline(always)]
    fn take_turn(&mut self) {
        let turn = self.yielder.input().get().cast::<Input>();
        assert!(!turn.is_null(), "a body is run by a feed, but to be unwound");
        // SAFETY: the feeder has lent the turn to this run of the body; it begins with its input.
        self.input = unsafe { turn.read() };
    }

    /// The rest of the piece.
    #[inline(always)]
    fn piece(&self) -> &[u8] {
        // SAFETY: the piece is lent to the call of `feed` that runs this body, which does not end
        // before this loan does: see the file's head.
        unsafe { &*self.input.piece }
    }

    /// Reads from the rest of the piece as from a slice.
    #[inline(always)]
    fn of_piece<T>(&mut self, read: impl FnOnce(&mut &[u8]) -> T) -> T {
        let mut rest = self.piece();
        let read = read(&mut rest);
        self.input.piece = rest;
        read
    }

    /// Waits until there is something to read, or the end is known. `false` if neither will be.
    ///
    /// The caller makes the error, which is a constant there: the loops of parsers look whether an
    /// error is an interruption, and the compiler sees that this one is not.
    #[cold]
    #[inline(never)]
    fn wait(&mut self) -> bool {
        while self.input.piece.is_empty() {
            match self.input.end {
                End::Finished => return true,
                End::Dropped => {
                    self.input.end = End::Told;
                    return false;
                }
                // After the news of the drop, to wait is to be unwound.
                End::Open | End::Told => {}
            }
            if !self.yielder.try_give(()) {
                return false;
            }
            self.take_turn();
        }
        true
    }

    /// Fills a buffer that wants more than there is of the piece.
    #[cold]
    #[inline(never)]
    fn fill(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let amount = self.read(buffer)?;
            if amount == 0 {
                // The error of std's readers.
                return (&[][..]).read_exact(buffer);
            }
            buffer = &mut buffer[amount..];
        }
        Ok(())
    }
}

impl BufRead for Feed<'_> {
    /// The rest of the piece, or the next one after waiting for it.
    #[inline]
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.input.piece.is_empty() && !self.wait() {
            return Err(GONE.into());
        }
        Ok(self.piece())
    }

    /// # Panics
    ///
    /// For more than there is.
    #[inline]
    fn consume(&mut self, amount: usize) {
        let Some(rest) = self.piece().get(amount..) else { beyond(amount, self.input.piece.len()) };
        self.input.piece = rest;
    }
}

#[cold]
fn beyond(amount: usize, lent: usize) -> ! {
    panic!("{amount} bytes were consumed, of {lent} that were lent")
}

impl Read for Feed<'_> {
    /// Reads from the piece, or from the next one after waiting for it; at the end nothing.
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.input.piece.is_empty() && !buffer.is_empty() && !self.wait() {
            return Err(GONE.into());
        }
        self.of_piece(|rest| rest.read(buffer))
    }

    #[inline]
    fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        if buffer.len() > self.input.piece.len() {
            return self.fill(buffer);
        }
        self.of_piece(|rest| rest.read_exact(buffer))
    }

    /// Takes pieces as they are: no probing reads.
    fn read_to_end(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let before = buffer.len();
        while !self.fill_buf()?.is_empty() {
            self.of_piece(|rest| rest.read_to_end(buffer))?;
        }
        Ok(buffer.len() - before)
    }
}

segue_core::impl_debug!([] Feed<'_>);
