//! The input of a parser: cursor, commit point, marks, limits, and reports of errors.
//!
//! Used by all parsers; the tokens and combinators on top are in `tokens`.
//!
//! # The idea
//!
//! A parser in direct style is a function that returns its value. Where bytes are missing, the
//! input gets more, by a call that may wait: for a disk, for a peer while the fiber is suspended,
//! for the next piece of a push parser. The state of a half-parsed input is the state of the
//! function, on its stack. So nothing is ever parsed twice because input came in two pieces: a scan
//! goes on at the byte where the last piece ended (Experiences with Effects, 2021, section 2).
//!
//! # States
//!
//! ```text
//!   0 ........... commit .............. cursor .............. end of the bytes that are there
//!     let go of         kept: marks and        ahead
//!                       spans are in here
//! ```
//!
//! `commit` moves the commit point to the cursor. Bytes before that point may go at the next time
//! that bytes are missing; marks before that point are void. From the commit point on the input
//! keeps everything, so a parser goes back to any mark there, and has any span of the kept part
//! as a slice.
//!
//! The kept part and the bytes ahead are at most as long as the limit. This bounds tokens,
//! look-ahead and memory at once: the buffer of a reader has at most the limit and a block of 8
//! KiB. A grammar for long inputs commits after each token or record; one that does not is at its
//! limit where that many bytes were parsed. A slice has the same limit, so that the outcome is the
//! same wherever bytes come from.
//!
//! # Loans
//!
//! A slice that a token returns is borrowed from the input, and so is used up before the next call
//! for which the bytes might move. To have several, a parser takes marks, and asks for the slices
//! of all at the end ([`Input::slice`]).
//!
//! # Costs
//!
//! A byte costs a comparison with the end of those that are there. All else is out of line: more
//! bytes, errors. Over a slice there is no buffer; "more" moves the end by as many bytes as the
//! limit allows. Over a reader each byte is copied once into the buffer, in blocks. An input
//! allocates its buffer, and the list of expectations at the first failure. An alternative that
//! fails costs a note in that list. Lines are counted when a report is made, and in blocks that go.

use std::cell::RefCell;
use std::io::BufRead;
use std::ops::Range;

use crate::error::{Error, Expected, Farthest, Position, Report};
use crate::source::{More, Reader, Refill, Slice};

/// A place in an input to which a parser may return, made by [`Input::mark`].
///
/// # Examples
///
/// ```
/// let mut input = segue_parse::Input::of(b"word");
/// let begin = input.mark();
/// input.take(2).unwrap();
/// assert!(begin < input.mark());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub(crate) u64);

/// The input of a parser, with a cursor.
///
/// Calls for which bytes are missing wait for the reader below.
///
/// # Cancellation
///
/// Such a wait fails with the reader's error, unchanged: as [`Error::Io`]. The cursor stays where
/// it was, and the bytes behind the cursor are there for the next call of this input.
///
/// # Errors
///
/// Each call that looks at bytes fails with the reader's error ([`Error::Io`]), and with
/// [`Error::TooLong`] where the kept part would become longer than the limit. Other failures are
/// named at the call. A token that fails leaves the cursor where it was.
///
/// # Examples
///
/// ```
/// use segue_parse::Input;
///
/// let mut input = Input::of(b"width=30");
/// assert_eq!(input.take_while(|byte| byte.is_ascii_lowercase()).unwrap(), b"width");
/// input.literal("=").unwrap();
/// assert_eq!(input.integer::<u32>().unwrap(), 30);
/// ```
#[derive(Debug)]
pub struct Input<S: Refill> {
    source: S,
    /// Indices into the source's bytes.
    cursor: usize,
    kept: usize,
    limit: usize,
    /// How many more nested parsers there may be.
    depth: usize,
    farthest: RefCell<Farthest>,
}

impl<'i> Input<Slice<'i>> {
    /// The bytes of a slice, without a copy.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut input = segue_parse::Input::of(b"all there");
    /// assert_eq!(input.peek().unwrap(), Some(b'a'));
    /// ```
    #[must_use]
    pub fn of(bytes: &'i [u8]) -> Self {
        Self::new(Slice::new(bytes))
    }
}

impl<R: BufRead> Input<Reader<R>> {
    /// The bytes of a reader: a [`BufReader`](std::io::BufReader) of a file or a socket, or the
    /// [`Feed`](https://docs.rs/segue) of a push parser. A `&mut` of the reader will do.
    ///
    /// When the input is dropped, the reader is left behind the last byte that was parsed, and may
    /// be read from there by others. Bytes that lie behind the cursor then, and that the reader had
    /// lent before its last piece, do not come back: after look-ahead that went back, or a token
    /// that failed, across two pieces.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Read;
    ///
    /// let mut reader = &b"5;rest"[..];
    /// let mut input = segue_parse::Input::over(&mut reader);
    /// assert_eq!(input.integer::<u8>().unwrap(), 5);
    /// input.literal(";").unwrap();
    /// drop(input);
    /// assert_eq!(reader, b"rest");
    /// ```
    #[must_use]
    pub fn over(reader: R) -> Self {
        Self::new(Reader::new(reader))
    }
}

impl<S: Refill> Input<S> {
    fn new(source: S) -> Self {
        Self { source, cursor: 0, kept: 0, limit: 1 << 20, depth: 64, farthest: RefCell::default() }
    }

    /// Sets the most bytes between the commit point and the farthest byte that is looked at: the
    /// limit of tokens, look-ahead and memory. By default 1 MiB.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_parse::{Error, Input};
    ///
    /// let endless = std::io::BufReader::new(std::io::repeat(b'x'));
    /// let mut input = Input::over(endless).limit(1000);
    /// assert!(matches!(input.take_while(|byte| byte == b'x'), Err(Error::TooLong { at: 0 })));
    /// ```
    #[must_use]
    pub fn limit(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// Sets how many [`nested`](Self::nested) parsers there may be inside of each other. By default
    /// 64: the stack of a fiber has room for so many calls of the grammar of JSON, also in a debug
    /// build.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_parse::{Error, Input};
    ///
    /// let mut input = Input::of(b"").depth(0);
    /// assert!(matches!(input.nested(|_| Ok(())), Err(Error::TooDeep { at: 0 })));
    /// ```
    #[must_use]
    pub fn depth(mut self, most: usize) -> Self {
        self.depth = most;
        self
    }

    /// The bytes ahead that are there.
    #[inline(always)]
    pub(crate) fn ahead(&self) -> &[u8] {
        &self.source.bytes()[self.cursor..]
    }

    /// Takes bytes that are there.
    #[inline(always)]
    pub(crate) fn take_ahead(&mut self, length: usize) -> &[u8] {
        let begin = self.cursor;
        self.cursor += length;
        &self.source.bytes()[begin..][..length]
    }

    /// Moves the cursor over bytes that are there.
    #[inline(always)]
    pub(crate) fn advance(&mut self, length: usize) {
        self.cursor += length;
        debug_assert!(self.cursor <= self.source.bytes().len());
    }

    /// Gets more bytes. `false` at the end.
    #[cold]
    #[inline(never)]
    pub(crate) fn more(&mut self) -> Result<bool, Error> {
        match self.source.more(self.kept, self.limit)? {
            More::There(gone) => {
                self.cursor -= gone;
                self.kept -= gone;
                Ok(true)
            }
            More::End => Ok(false),
            More::TooLong => Err(Error::TooLong { at: self.offset(self.kept) }),
        }
    }

    /// The next byte, which stays; `None` at the end.
    ///
    /// # Cancellation
    ///
    /// *No effect*: the cursor stays.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut input = segue_parse::Input::of(b"a");
    /// assert_eq!(input.peek().unwrap(), Some(b'a'));
    /// assert_eq!(input.byte().unwrap(), b'a');
    /// assert_eq!(input.peek().unwrap(), None);
    /// ```
    #[inline(always)]
    pub fn peek(&mut self) -> Result<Option<u8>, Error> {
        match self.source.bytes().get(self.cursor) {
            Some(byte) => Ok(Some(*byte)),
            None => self.peek_beyond(),
        }
    }

    #[cold]
    #[inline(never)]
    fn peek_beyond(&mut self) -> Result<Option<u8>, Error> {
        Ok(if self.more()? { self.ahead().first().copied() } else { None })
    }

    /// Lets go of all bytes before the cursor: no parser goes back over this place. Inside of an
    /// [`attempt`](Self::attempt) this decides for that alternative.
    ///
    /// # Examples
    ///
    /// ```
    /// // Any number of bytes, of which no 100 are kept.
    /// let endless = std::io::BufReader::new(std::io::repeat(b'x'));
    /// let mut input = segue_parse::Input::over(endless).limit(100);
    /// for _ in 0..10_000 {
    ///     input.take(50).unwrap();
    ///     input.commit();
    /// }
    /// assert_eq!(input.position().offset, 500_000);
    /// ```
    #[inline(always)]
    pub fn commit(&mut self) {
        self.kept = self.cursor;
    }

    #[inline(always)]
    fn offset(&self, index: usize) -> u64 {
        self.source.origin().offset + index as u64
    }

    /// The index of a mark. Panics before the commit point.
    #[inline(always)]
    fn index(&self, mark: Mark) -> usize {
        assert!(
            mark.0 >= self.offset(self.kept),
            "a mark lies before the commit point: the parser must not commit before the last use of the mark"
        );
        (mark.0 - self.source.origin().offset) as usize
    }

    /// The place of the cursor.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut input = segue_parse::Input::of(b"a word");
    /// let begin = input.mark();
    /// input.take(2).unwrap();
    /// let word = input.mark();
    /// input.take(4).unwrap();
    /// assert_eq!(input.slice(word..input.mark()), b"word");
    /// input.back_to(begin);
    /// assert_eq!(input.peek().unwrap(), Some(b'a'));
    /// ```
    #[inline(always)]
    pub fn mark(&self) -> Mark {
        Mark(self.offset(self.cursor))
    }

    /// Moves the cursor back to a mark.
    ///
    /// # Panics
    ///
    /// For a mark before the commit point.
    ///
    /// # Examples
    ///
    /// ```should_panic
    /// let mut input = segue_parse::Input::of(b"word");
    /// let begin = input.mark();
    /// input.take(4).unwrap();
    /// input.commit();
    /// input.back_to(begin);
    /// ```
    pub fn back_to(&mut self, mark: Mark) {
        let index = self.index(mark);
        assert!(index <= self.source.bytes().len(), "a mark of another input");
        self.cursor = index;
    }

    /// The bytes between two marks, without a copy.
    ///
    /// # Panics
    ///
    /// For marks before the commit point, and for a range that begins behind its end.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut input = segue_parse::Input::of(b"two words");
    /// let begin = input.mark();
    /// input.skip_while(|byte| byte != b' ').unwrap();
    /// assert_eq!(input.slice(begin..input.mark()), b"two");
    /// ```
    #[inline]
    pub fn slice(&self, marks: Range<Mark>) -> &[u8] {
        &self.source.bytes()[self.index(marks.start)..self.index(marks.end)]
    }

    /// The place of the cursor, with line and column. Counts the lines of the bytes that are there,
    /// so this is nothing for each token; [`mark`](Self::mark) is.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut input = segue_parse::Input::of(b"\n\nthird");
    /// input.take(4).unwrap();
    /// assert_eq!(input.position().to_string(), "line 3, column 3");
    /// ```
    pub fn position(&self) -> Position {
        self.source.origin().behind(&self.source.bytes()[..self.cursor])
    }

    /// Tries one alternative: `None` if the bytes are others, and then the cursor is back where it
    /// was.
    ///
    /// # Cancellation
    ///
    /// *May already have happened*: the tokens before the one that waited are taken.
    ///
    /// # Errors
    ///
    /// Those of the alternative, if it has committed; [`Error::TooLong`], [`Error::TooDeep`] and
    /// [`Error::Io`] in any case.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_parse::Input;
    ///
    /// let mut input = Input::of(b"10:30");
    /// let date = input.attempt(|input| {
    ///     let year: u16 = input.integer()?;
    ///     input.literal("-").map(|()| year)
    /// });
    /// assert_eq!(date.unwrap(), None);
    /// assert_eq!(input.integer::<u8>().unwrap(), 10);
    /// ```
    #[inline]
    pub fn attempt<T>(&mut self, parser: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<Option<T>, Error> {
        let begin = self.mark();
        match parser(self) {
            Ok(value) => Ok(Some(value)),
            Err(error) => self.undo(begin, error).map(|_| None),
        }
    }

    /// Goes back after a failed alternative, and answers with its error; else fails with that.
    #[cold]
    pub(crate) fn undo(&mut self, begin: Mark, error: Error) -> Result<Error, Error> {
        if !error.leaves_alternatives() || begin.0 < self.offset(self.kept) {
            return Err(error);
        }
        self.back_to(begin);
        Ok(error)
    }

    /// Runs a parser that may contain itself, so many inside of each other as the
    /// [limit](Self::depth) allows.
    ///
    /// # Cancellation
    ///
    /// *May already have happened*: the tokens before the one that waited are taken.
    ///
    /// # Errors
    ///
    /// [`Error::TooDeep`] beyond the limit; and those of the parser.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_parse::{Error, Input, Refill};
    ///
    /// fn brackets<S: Refill>(input: &mut Input<S>) -> Result<usize, Error> {
    ///     if input.accept("[")? { Ok(1 + input.nested(brackets)?) } else { Ok(0) }
    /// }
    /// assert_eq!(brackets(&mut Input::of(b"[[[")).unwrap(), 3);
    /// assert!(matches!(brackets(&mut Input::of(&[b'['; 1000])), Err(Error::TooDeep { at: 65 })));
    /// ```
    #[inline]
    pub fn nested<T>(&mut self, parser: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        let Some(depth) = self.depth.checked_sub(1) else {
            return Err(Error::TooDeep { at: self.offset(self.cursor) });
        };
        self.depth = depth;
        let outcome = parser(self);
        self.depth += 1;
        outcome
    }

    /// An error at the cursor: something else was expected there. The name stands in the report.
    ///
    /// # Cancellation
    ///
    /// The error says whether the input ends there, for which this waits for a byte: a wait that
    /// fails is the error then.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_parse::Input;
    ///
    /// let mut input = Input::of(b"?");
    /// let error = input.unexpected("a letter");
    /// assert_eq!(input.report(error).to_string(), "line 1, column 1: expected a letter, found `?`");
    /// ```
    #[cold]
    #[must_use]
    pub fn unexpected(&mut self, expected: &'static str) -> Error {
        self.failure(self.mark(), Expected::Named(expected))
    }

    /// An error at a mark. As [`unexpected`](Self::unexpected).
    ///
    /// # Panics
    ///
    /// For a mark before the commit point.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_parse::Input;
    ///
    /// let mut input = Input::of(b"nut");
    /// let begin = input.mark();
    /// let known = matches!(input.take(3).unwrap(), b"yes" | b"no.");
    /// let error = (!known).then(|| input.unexpected_at(begin, "`yes` or `no.`")).unwrap();
    /// assert_eq!(error.at(), Some(0));
    /// ```
    #[cold]
    #[must_use]
    pub fn unexpected_at(&mut self, mark: Mark, expected: &'static str) -> Error {
        self.failure(mark, Expected::Named(expected))
    }

    /// An error for a number that begins at the mark.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_parse::{Error, Input};
    ///
    /// let mut input = Input::of(b"25:00");
    /// let begin = input.mark();
    /// let hour = input.integer::<u8>().unwrap();
    /// assert!(matches!(input.out_of_range(begin), Error::OutOfRange { at: 0 } if hour > 23));
    /// ```
    #[must_use]
    pub fn out_of_range(&self, mark: Mark) -> Error {
        Error::OutOfRange { at: mark.0 }
    }

    /// Notes and makes the error at a mark in the kept part, or at the cursor.
    #[cold]
    pub(crate) fn failure(&mut self, mark: Mark, expected: Expected) -> Error {
        // Whether the input ends there must be known.
        if self.index(mark) == self.source.bytes().len()
            && let Err(error) = self.more()
        {
            return error;
        }
        self.failure_at(mark.0, expected)
    }

    /// The same for an offset where the input is known.
    #[cold]
    pub(crate) fn failure_at(&self, at: u64, expected: Expected) -> Error {
        self.farthest.borrow_mut().note(at, expected);
        if self.is_there(at) { Error::Unexpected { at } } else { Error::End { at } }
    }

    /// Notes that a literal would have been right at so many bytes behind the cursor.
    #[cold]
    pub(crate) fn literal_failure(&self, matched: usize, text: &'static str) -> Error {
        self.failure_at(self.offset(self.cursor + matched), Expected::Literal(text))
    }

    fn is_there(&self, at: u64) -> bool {
        self.offset(self.source.bytes().len()) > at
    }

    /// Says of an error all that is known: its line and column, the byte there, and what was
    /// expected. If alternatives have failed farther on, that place is reported; alternatives that
    /// have failed at the same place are reported together.
    ///
    /// Of an error before the commit point the bytes may have gone: then the report has no byte
    /// that was found, and the position is that of the first byte that is still there.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_parse::Input;
    ///
    /// let mut input = Input::of(b"tree");
    /// let word = input.first_of([|input| input.literal("true"), |input| input.literal("try")]);
    /// let report = input.report(word.unwrap_err());
    /// assert_eq!(report.to_string(), "line 1, column 3: expected `true` or `try`, found `e`");
    /// ```
    #[must_use]
    pub fn report(&self, error: Error) -> Report {
        let here = self.offset(self.cursor);
        let (mut error, mut expected) = (error, Vec::new());
        if let Error::Unexpected { at } | Error::End { at } = error {
            let farthest = self.farthest.borrow();
            if farthest.at >= at && !farthest.expected.is_empty() {
                expected.clone_from(&farthest.expected);
                let at = farthest.at;
                error = if self.is_there(at) { Error::Unexpected { at } } else { Error::End { at } };
            }
        }
        let (bytes, origin) = (self.source.bytes(), self.source.origin());
        let at = error.at().unwrap_or(here);
        let index = at.saturating_sub(origin.offset).min(bytes.len() as u64) as usize;
        let is_kept = error.at().is_some_and(|at| at >= origin.offset);
        let found = bytes.get(index).copied().filter(|_| is_kept);
        Report { error, position: origin.behind(&bytes[..index]), found, expected }
    }
}

impl<S: Refill> Drop for Input<S> {
    fn drop(&mut self) {
        self.source.settle(self.cursor);
    }
}
