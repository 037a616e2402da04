//! The head of an HTTP/1.1 request (RFC 9112), as lenient as httparse: a line may end in a bare
//! line feed.
//!
//! Names and values are spans of the input, which keeps all of the head until the next commit. So
//! nothing is copied, and the limit of the input is that of the head.

use segue_parse::{Error, Input, Mark, Refill};
use std::ops::Range;

/// The first line of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// `GET` and the like.
    pub method: Range<Mark>,
    /// The path, or another form of the target.
    pub target: Range<Mark>,
    /// 0 of HTTP/1.0, 1 of HTTP/1.1.
    pub minor: u8,
}

/// A name and its value, which may end in blanks.
pub type Field = (Range<Mark>, Range<Mark>);

/// Takes a head, up to the empty line at its end. The fields go to the end of the list.
pub fn head<S: Refill>(input: &mut Input<S>, fields: &mut Vec<Field>) -> Result<Line, Error> {
    while matches!(input.peek()?, Some(b'\r' | b'\n')) {
        line_end(input)?;
    }
    input.commit();
    let method = span(input, |input| input.take_some("a method", is_of_token).map(drop))?;
    input.literal(" ")?;
    let target = span(input, |input| input.take_some("a target", |byte| byte > b' ' && byte != 0x7f).map(drop))?;
    input.text(target.clone())?;
    input.literal(" ")?;
    input.literal("HTTP/1.")?;
    let minor = match input.peek()? {
        Some(digit @ (b'0' | b'1')) => digit - b'0',
        _ => return Err(input.unexpected("a version")),
    };
    input.byte()?;
    line_end(input)?;
    while !matches!(input.peek()?, Some(b'\r' | b'\n')) {
        let name = span(input, |input| input.take_some("a name", is_of_token).map(drop))?;
        input.literal(":")?;
        input.skip_while(|byte| byte == b' ' || byte == b'\t')?;
        let value = span(input, |input| input.skip_run(|byte| (byte >= b' ') & (byte != 0x7f) | (byte == b'\t')))?;
        line_end(input)?;
        fields.push((name, value));
    }
    line_end(input)?;
    Ok(Line { method, target, minor })
}

/// The marks around that which a parser takes.
fn span<S: Refill>(
    input: &mut Input<S>,
    parser: impl FnOnce(&mut Input<S>) -> Result<(), Error>,
) -> Result<Range<Mark>, Error> {
    let begin = input.mark();
    parser(input)?;
    Ok(begin..input.mark())
}

#[inline]
fn line_end<S: Refill>(input: &mut Input<S>) -> Result<(), Error> {
    if input.peek()? == Some(b'\r') {
        input.byte()?;
    }
    input.literal("\n")
}

/// Whether a byte may stand in a method or a name.
fn is_of_token(byte: u8) -> bool {
    const TABLE: [bool; 256] = {
        let (mut table, mut byte) = ([false; 256], 0);
        while byte < 256 {
            table[byte] = (byte as u8).is_ascii_alphanumeric();
            byte += 1;
        }
        let (others, mut index) = (b"!#$%&'*+-.^_`|~", 0);
        while index < others.len() {
            table[others[index] as usize] = true;
            index += 1;
        }
        table
    };
    TABLE[usize::from(byte)]
}
