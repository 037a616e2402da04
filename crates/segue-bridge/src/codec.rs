//! Decoders of tokio-util's made of parsers that read: a `FramedRead` takes any of them.
//!
//! Used by tasks that have a parser in straight-line code, and frames to read.

use segue::incremental::{Fed, FiberMachine, Pieces, spawn};
use std::io;
use tokio_util::bytes::{Buf, BytesMut};
use tokio_util::codec::Decoder;

/// A decoder of frames that `parse` reads, one in each call.
///
/// Each frame has a fiber of its own, which is [fed](FiberMachine) with the bytes as they arrive.
/// The task's thread waits meanwhile, as a decoder has to: some microseconds, if the parser only
/// reads and computes. A parser that waits for something else delays the other tasks of this
/// thread.
///
/// At the end of the input a frame that has begun finds the end, and has the outcome that `parse`
/// makes of that. A `parse` that returns without having read anything is called again and again, as
/// a decoder that consumes nothing is.
///
/// # Cancellation
/// A caller that is cancelled, which a task's is not, finds that as an error; the frame goes on at
/// the next call. A decoder that is dropped within a frame lets the reads of its parser fail.
///
/// # Errors
/// Those of `parse`; and if the fiber was cancelled before its start.
///
/// # Panics
/// With the panics of `parse`.
///
/// # Examples
///
/// ```
/// use futures::StreamExt;
/// use segue::incremental::Pieces;
/// use std::io::{self, Read};
/// use tokio_util::codec::FramedRead;
///
/// /// A length, and so many bytes.
/// fn frame(input: &mut Pieces) -> io::Result<Vec<u8>> {
///     let mut length = [0];
///     input.read_exact(&mut length)?;
///     let mut bytes = vec![0; length[0].into()];
///     input.read_exact(&mut bytes)?;
///     Ok(bytes)
/// }
///
/// let input = &b"\x03one\x05three"[..];
/// let frames = FramedRead::new(input, segue_bridge::codec::decoder(frame));
/// let frames: Vec<_> = futures::executor::block_on(frames.map(Result::unwrap).collect());
/// assert_eq!(frames, [&b"one"[..], b"three"]);
/// ```
pub fn decoder<F, T, E>(parse: F) -> ParserDecoder<F, T, E>
where
    F: Fn(&mut Pieces) -> Result<T, E> + Clone + Send + 'static,
    T: Send + 'static,
    E: From<io::Error> + Send + 'static,
{
    ParserDecoder { parse, begun: None, owes_answer: false }
}

/// A [`Decoder`] made of a parser that reads. Made by [`decoder`].
pub struct ParserDecoder<F, T, E> {
    parse: F,
    /// The frame that has begun.
    begun: Option<FiberMachine<Result<T, E>>>,
    /// Bytes were handed over, and the caller was cancelled before the answer.
    owes_answer: bool,
}

segue_core::impl_debug!([F, T, E] ParserDecoder<F, T, E>, |it| has_begun: it.begun.is_some());

impl<F, T, E> Decoder for ParserDecoder<F, T, E>
where
    F: Fn(&mut Pieces) -> Result<T, E> + Clone + Send + 'static,
    T: Send + 'static,
    E: From<io::Error> + Send + 'static,
{
    type Item = T;
    type Error = E;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<T>, E> {
        if bytes.is_empty() && !self.owes_answer {
            return Ok(None);
        }
        let mut machine = self.begun.take().unwrap_or_else(|| {
            let parse = self.parse.clone();
            spawn(move |input: &mut Pieces| parse(input))
        });
        self.owes_answer = false;
        match machine.feed(bytes) {
            Ok(Fed::NeedMore) => {
                bytes.clear();
                self.begun = Some(machine);
                Ok(None)
            }
            Ok(Fed::Done { value, unread }) => {
                match bytes.len().checked_sub(unread.len()) {
                    Some(read) => bytes.advance(read),
                    // Of an earlier piece as well, to which the answer was owed.
                    None => *bytes = BytesMut::from(unread),
                }
                value.map(Some)
            }
            Err(cancelled) => {
                if !machine.is_over() {
                    bytes.clear();
                    self.keep(machine);
                }
                Err(io::Error::from(cancelled).into())
            }
        }
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> Result<Option<T>, E> {
        if let Some(frame) = self.decode(bytes)? {
            return Ok(Some(frame));
        }
        let Some(mut machine) = self.begun.take() else { return Ok(None) };
        let ended = machine.finish_source().wait();
        match ended.and_then(|ended| ended) {
            Ok(frame) => frame.map(Some),
            Err(cancelled) => {
                if !machine.is_over() {
                    self.keep(machine);
                }
                Err(io::Error::from(cancelled).into())
            }
        }
    }
}

impl<F, T, E> ParserDecoder<F, T, E> {
    /// After a cancelled wait for the answer.
    fn keep(&mut self, machine: FiberMachine<Result<T, E>>) {
        self.begun = Some(machine);
        self.owes_answer = true;
    }
}
