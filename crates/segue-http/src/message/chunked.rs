//! Decodes the framing of a chunked body, byte by byte, wherever its input is cut.
//! Used by request bodies.
//!
//! Sizes are strictly hexadecimal, lines end strictly in CR LF. Chunk extensions are skipped,
//! with regard to their quotes; all of them together have a bound, so that framing cannot outweigh
//! the data without end.

use http::HeaderMap;

use crate::message::body_error::BodyError;
use crate::message::head::parse_trailers;

/// The most bytes of chunk extensions, and of white space around them, that one body may have.
const MAX_EXTENSIONS: usize = 4 << 10;
/// Hexadecimal digits of the largest size.
const MAX_DIGITS: u8 = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// In a size that has this many digits so far.
    Size(u8),
    /// White space after a size; only an extension can follow.
    Space,
    Extension,
    /// In an extension's quoted value, which no line end may cut: a proxy may take this one for a
    /// part of the value.
    Quoted,
    /// Behind a backslash in there.
    Escaped,
    SizeFeed,
    Data,
    DataReturn,
    DataFeed,
    /// In the trailers, of which this many bytes were searched for their end.
    Trailers(usize),
    Done,
}

/// The state after the input so far.
pub(crate) enum Event {
    /// Up to so many bytes of data follow.
    Data(u64),
    /// The input is used up, or is an incomplete piece that stays.
    NeedMore,
    /// The body is over.
    Done(HeaderMap),
    Failed(BodyError),
}

/// The state of one body.
pub(crate) struct Chunked {
    step: Step,
    /// Of the current chunk: its size so far, then the bytes still to be taken.
    size: u64,
    /// The bytes of all chunks so far, the current one included.
    announced: u64,
    /// The most bytes that all chunks may have.
    max_body: u64,
    extensions: usize,
    max_trailers: usize,
    max_headers: usize,
}

impl Chunked {
    pub(crate) fn new(max_body: u64, max_trailers: usize, max_headers: usize) -> Chunked {
        Chunked { step: Step::Size(0), size: 0, announced: 0, max_body, extensions: 0, max_trailers, max_headers }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.step == Step::Done
    }

    /// Sets the most bytes that the body may have.
    pub(crate) fn limit(&mut self, max_body: u64) {
        self.max_body = max_body;
    }

    /// Whether the chunks so far have more bytes than the limit allows.
    pub(crate) fn is_too_large(&self) -> bool {
        self.announced > self.max_body
    }

    /// Records that `count` bytes of data were taken from the input.
    pub(crate) fn took(&mut self, count: u64) {
        debug_assert!(self.step == Step::Data && count <= self.size);
        self.size -= count;
        if self.size == 0 {
            self.step = Step::DataReturn;
        }
    }

    /// Uses the framing at the start of `input`. Returns the number of used bytes, and the next
    /// part.
    pub(crate) fn advance(&mut self, input: &[u8]) -> (usize, Event) {
        let mut used = 0;
        loop {
            match self.step {
                Step::Data => return (used, Event::Data(self.size)),
                Step::Done => return (used, Event::Done(HeaderMap::new())),
                Step::Trailers(searched) => {
                    let (more, event) = self.trailers(&input[used..], searched);
                    return (used + more, event);
                }
                _ => {}
            }
            let Some(&byte) = input.get(used) else { return (used, Event::NeedMore) };
            used += 1;
            if let Err(error) = self.frame(byte) {
                return (used, Event::Failed(error));
            }
        }
    }

    /// One byte of framing.
    fn frame(&mut self, byte: u8) -> Result<(), BodyError> {
        self.step = match (self.step, byte) {
            (Step::Size(digits), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if digits < MAX_DIGITS => {
                let digit = (byte as char).to_digit(16).unwrap_or(0);
                self.size = self.size << 4 | u64::from(digit);
                Step::Size(digits + 1)
            }
            (Step::Size(1..) | Step::Extension, b'\r') => Step::SizeFeed,
            (Step::Size(1..) | Step::Space, b' ' | b'\t') => self.skip(Step::Space)?,
            (Step::Size(1..) | Step::Space, b';') => self.skip(Step::Extension)?,
            (Step::Extension, b'"') => self.skip(Step::Quoted)?,
            (Step::Quoted, b'"') => self.skip(Step::Extension)?,
            (Step::Quoted, b'\\') => self.skip(Step::Escaped)?,
            (Step::Extension, b'\t' | b' '..=b'~' | 0x80..) => self.skip(Step::Extension)?,
            (Step::Quoted | Step::Escaped, b'\t' | b' '..=b'~' | 0x80..) => self.skip(Step::Quoted)?,
            (Step::SizeFeed, b'\n') if self.size == 0 => Step::Trailers(0),
            (Step::SizeFeed, b'\n') => {
                let announced = self.announced.checked_add(self.size).filter(|bytes| *bytes <= self.max_body);
                self.announced = announced.ok_or(BodyError::TooLarge)?;
                Step::Data
            }
            (Step::DataReturn, b'\r') => Step::DataFeed,
            (Step::DataFeed, b'\n') => Step::Size(0),
            _ => return Err(BodyError::Malformed),
        };
        Ok(())
    }

    fn skip(&mut self, next: Step) -> Result<Step, BodyError> {
        self.extensions += 1;
        if self.extensions > MAX_EXTENSIONS { Err(BodyError::Malformed) } else { Ok(next) }
    }

    /// The trailers stay in the input until they have arrived in full.
    fn trailers(&mut self, input: &[u8], searched: usize) -> (usize, Event) {
        let end = if input.starts_with(b"\r\n") {
            Some(2)
        } else {
            let from = searched.saturating_sub(3);
            input[from..].windows(4).position(|four| four == b"\r\n\r\n").map(|at| from + at + 4)
        };
        match end {
            Some(end) if end <= self.max_trailers => match parse_trailers(&input[..end], self.max_headers) {
                Ok(trailers) => {
                    self.step = Step::Done;
                    (end, Event::Done(trailers))
                }
                Err(error) => (end, Event::Failed(error)),
            },
            None if input.len() < self.max_trailers => {
                self.step = Step::Trailers(input.len());
                (0, Event::NeedMore)
            }
            _ => (0, Event::Failed(BodyError::TrailersTooLarge)),
        }
    }
}
