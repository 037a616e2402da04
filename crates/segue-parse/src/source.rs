//! Where bytes come from: a slice, or a reader with a buffer in front.
//!
//! Used by `input`, which knows neither: the cursor and the commit point are indices into
//! [`bytes`](Source::bytes).
//!
//! # The buffer
//!
//! ```text
//!        commit    cursor
//!          v         v
//!   [ gone | kept    | ahead     | free .. ]    ahead: bytes that no parser has taken yet
//!                         [ lent ]              the last part, which the reader has still got
//! ```
//!
//! A parser that finds nothing ahead asks for more. The lent part is consumed then, and not before:
//! so an input that is dropped leaves its reader behind the last byte that was parsed. Bytes of
//! earlier parts that lie behind the cursor at the drop are lost: after look-ahead that went back,
//! or a token that failed, across two parts.
//!
//! Space is made from the part that has gone: when nothing is kept, for nothing; when the free part
//! is used up, by moving the kept part to the front. The buffer doubles where that frees too little
//! for the next part. So a byte is moved at most once for each block that comes while the byte is
//! kept, and the buffer has at most as many bytes as the limit, and a block.

use std::io::{self, BufRead};

use crate::error::Position;

/// The outcome of a wish for more bytes.
#[derive(Debug)]
pub enum More {
    /// They are there. So many at the front have gone, and indices shrink by that number.
    There(usize),
    /// The input has ended.
    End,
    /// There is more, but the kept part is as long as the limit allows.
    TooLong,
}

/// The methods of a [`Refill`]; sealed.
pub trait Source {
    /// The bytes that are there.
    fn bytes(&self) -> &[u8];
    /// The place of the first of them.
    fn origin(&self) -> Position;
    /// Gets more of them, and may let go of those before `kept`.
    fn more(&mut self, kept: usize, limit: usize) -> io::Result<More>;
    /// The input goes, with its cursor there.
    fn settle(&mut self, cursor: usize);
}

/// The bytes of an [`Input`](crate::Input): a [`Slice`], or a [`Reader`]. Parsers are generic over
/// this trait, which nothing else implements.
///
/// # Examples
///
/// ```
/// use segue_parse::{Error, Input, Refill};
///
/// fn version<S: Refill>(input: &mut Input<S>) -> Result<(u8, u8), Error> {
///     let major = input.integer()?;
///     input.literal(".")?;
///     Ok((major, input.integer()?))
/// }
///
/// assert_eq!(version(&mut Input::of(b"1.95")).unwrap(), (1, 95));
/// assert_eq!(version(&mut Input::over(&b"1.95"[..])).unwrap(), (1, 95));
/// ```
pub trait Refill: Source {}
impl<S: Source> Refill for S {}

/// A slice, made by [`Input::of`](crate::Input::of). Nothing is read or copied.
///
/// # Examples
///
/// ```
/// let input: segue_parse::Input<segue_parse::Slice<'_>> = segue_parse::Input::of(b"bytes");
/// ```
#[derive(Debug)]
pub struct Slice<'i> {
    all: &'i [u8],
    /// From the begin to the place that the limit allows.
    window: &'i [u8],
}

impl<'i> Slice<'i> {
    pub(crate) fn new(all: &'i [u8]) -> Self {
        Self { all, window: &[] }
    }
}

impl Source for Slice<'_> {
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        self.window
    }

    #[inline(always)]
    fn origin(&self) -> Position {
        Position::START
    }

    fn more(&mut self, kept: usize, limit: usize) -> io::Result<More> {
        let end = self.all.len().min(kept.saturating_add(limit));
        if end > self.window.len() {
            self.window = &self.all[..end];
            return Ok(More::There(0));
        }
        Ok(if end == self.all.len() { More::End } else { More::TooLong })
    }

    #[inline(always)]
    fn settle(&mut self, _: usize) {}
}

/// A reader with a buffer, made by [`Input::over`](crate::Input::over).
///
/// # Examples
///
/// ```
/// let input: segue_parse::Input<segue_parse::Reader<&[u8]>> = segue_parse::Input::over(&b"bytes"[..]);
/// ```
#[derive(Debug)]
pub struct Reader<R: BufRead> {
    reader: R,
    buffer: Vec<u8>,
    /// The length of the lent part.
    lent: usize,
    ended: bool,
    origin: Position,
}

/// The most that is copied at a time.
const BLOCK: usize = 8 << 10;
/// The least that is allocated.
const LEAST: usize = 256;

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), lent: 0, ended: false, origin: Position::START }
    }
}

impl<R: BufRead> Source for Reader<R> {
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    #[inline]
    fn origin(&self) -> Position {
        self.origin
    }

    fn more(&mut self, kept: usize, limit: usize) -> io::Result<More> {
        self.reader.consume(std::mem::take(&mut self.lent));
        if self.ended {
            return Ok(More::End);
        }
        let piece = loop {
            match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(piece) => break piece,
            }
        };
        let held = self.buffer.len() - kept;
        let wanted = piece.len().min(limit.saturating_sub(held)).min(BLOCK);
        if wanted == 0 {
            self.ended = piece.is_empty();
            return Ok(if self.ended { More::End } else { More::TooLong });
        }
        let buffer = &mut self.buffer;
        let mut gone = 0;
        if buffer.capacity() - buffer.len() < wanted && (held <= kept || buffer.len() == buffer.capacity()) {
            gone = kept;
            self.origin = self.origin.behind(&buffer[..gone]);
            buffer.drain(..gone);
        }
        if buffer.capacity() - buffer.len() < wanted.min(buffer.capacity() / 2).max(1) {
            let most = limit.saturating_add(BLOCK);
            let capacity = (buffer.capacity() * 2).max(buffer.len() + wanted).max(LEAST).min(most);
            buffer.reserve_exact(capacity.saturating_sub(buffer.len()));
        }
        self.lent = wanted.min(buffer.capacity() - buffer.len());
        buffer.extend_from_slice(&piece[..self.lent]);
        Ok(More::There(gone))
    }

    fn settle(&mut self, cursor: usize) {
        let ahead = self.buffer.len() - cursor;
        self.reader.consume(self.lent.saturating_sub(ahead));
    }
}
