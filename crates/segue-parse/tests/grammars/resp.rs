//! The Redis protocol, version 2: replies, and requests, which are arrays of bulk strings.

use segue_parse::{Error, Input, Refill};

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A text in one line.
    Simple(String),
    /// The text of an error.
    Error(String),
    /// A number.
    Integer(i64),
    /// Any bytes.
    Bulk(Vec<u8>),
    /// A list.
    Array(Vec<Reply>),
    /// No bytes, or no list.
    Nil,
}

/// Takes one reply.
pub fn reply<S: Refill>(input: &mut Input<S>) -> Result<Reply, Error> {
    input.commit();
    let begin = input.mark();
    Ok(match input.byte()? {
        b'+' => Reply::Simple(line(input)?),
        b'-' => Reply::Error(line(input)?),
        b':' => Reply::Integer(integer(input)?),
        b'$' => match length(input)? {
            Some(length) => {
                let bytes = input.take(length)?.to_vec();
                line_end(input)?;
                Reply::Bulk(bytes)
            }
            None => Reply::Nil,
        },
        // The list grows with its elements: a length is only a promise.
        b'*' => match length(input)? {
            Some(length) => Reply::Array(input.nested(|input| (0..length).map(|_| reply(input)).collect())?),
            None => Reply::Nil,
        },
        _ => return Err(input.unexpected_at(begin, "a reply")),
    })
}

fn line<S: Refill>(input: &mut Input<S>) -> Result<String, Error> {
    let begin = input.mark();
    input.skip_while(|byte| byte != b'\r' && byte != b'\n')?;
    let line = input.text(begin..input.mark())?.to_owned();
    line_end(input)?;
    Ok(line)
}

fn integer<S: Refill>(input: &mut Input<S>) -> Result<i64, Error> {
    let number = input.integer()?;
    line_end(input)?;
    Ok(number)
}

/// The length of what follows; none is `-1`.
fn length<S: Refill>(input: &mut Input<S>) -> Result<Option<usize>, Error> {
    let begin = input.mark();
    match integer(input)? {
        -1 => Ok(None),
        // No more than Redis itself takes.
        length @ 0..=0x2000_0000 => Ok(Some(length as usize)),
        _ => Err(input.out_of_range(begin)),
    }
}

fn line_end<S: Refill>(input: &mut Input<S>) -> Result<(), Error> {
    input.literal("\r\n")
}
