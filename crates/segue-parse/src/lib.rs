//! Parsers in direct style: ordinary functions over an [`Input`], with bytes from a slice, a file,
//! a socket, or pieces that are pushed.
//!
//! ```
//! use segue_parse::{Error, Input, Refill};
//!
//! /// Numbers in brackets, and such lists in lists.
//! fn sum<S: Refill>(input: &mut Input<S>) -> Result<u64, Error> {
//!     if !input.accept("[")? {
//!         return input.integer();
//!     }
//!     let numbers = input.nested(|input| input.sep_by(|input| input.accept(","), sum))?;
//!     input.literal("]")?;
//!     input.commit();
//!     Ok(numbers.iter().sum())
//! }
//!
//! // From a slice.
//! assert_eq!(sum(&mut Input::of(b"[1,[2,3],4]")).unwrap(), 10);
//!
//! // From a reader: where this one waits, the parser waits.
//! assert_eq!(sum(&mut Input::over(&b"[1,[2,3],4]"[..])).unwrap(), 10);
//!
//! // In pieces, as they come.
//! let mut machine = segue::incremental::push(|feed: &mut segue::incremental::Feed| sum(&mut Input::over(feed)).unwrap());
//! assert_eq!(machine.feed(b"[1,[2"), segue::incremental::Fed::NeedMore);
//! assert_eq!(machine.feed(b",3],4]."), segue::incremental::Fed::Done { value: 10, unread: b"." });
//!
//! // An error says where, and all that was expected there.
//! let mut input = Input::of(b"[1,\n 2]");
//! let report = sum(&mut input).map_err(|error| input.report(error)).unwrap_err();
//! assert_eq!(report.to_string(), "line 1, column 4: expected `[` or an integer, found `\\n`");
//! ```
//!
//! # A tour
//!
//! * One byte: [`peek`](Input::peek), [`byte`](Input::byte). Text: [`literal`](Input::literal),
//!   [`accept`](Input::accept). Tokens: [`take_while`](Input::take_while), [`take`](Input::take),
//!   [`skip_while`](Input::skip_while), [`integer`](Input::integer). [`end`](Input::end).
//! * Repetition: [`many`](Input::many), [`sep_by`](Input::sep_by), or a loop.
//! * Choice: a `match` on the next byte; [`attempt`](Input::attempt) and
//!   [`first_of`](Input::first_of), which go back; by hand [`mark`](Input::mark) and
//!   [`back_to`](Input::back_to).
//! * Memory: [`commit`](Input::commit), [`limit`](Input::limit). Stack: [`nested`](Input::nested),
//!   [`depth`](Input::depth).
//! * Errors: [`unexpected`](Input::unexpected) makes one, [`report`](Input::report) a [`Report`].
#![forbid(unsafe_code)]

mod error;
mod input;
mod source;
mod tokens;

pub use crate::error::{Error, Position, Report};
pub use crate::input::{Input, Mark};
pub use crate::source::{Reader, Refill, Slice};
