//! Tables as text (RFC 4180): records of fields, which may be quoted. Empty lines are no records,
//! and a line ends in `\r`, `\n` or both.

use segue_parse::{Error, Input, Refill};

/// The fields of a record; to be used again for the next one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    bytes: Vec<u8>,
    /// Where each field ends.
    ends: Vec<usize>,
}

impl Record {
    /// The fields in order.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut begin = 0;
        self.ends.iter().map(move |end| &self.bytes[std::mem::replace(&mut begin, *end)..*end])
    }
}

/// Takes the next record. `false` at the end.
pub fn record<S: Refill>(input: &mut Input<S>, record: &mut Record) -> Result<bool, Error> {
    record.bytes.clear();
    record.ends.clear();
    input.skip_while(|byte| byte == b'\r' || byte == b'\n')?;
    input.commit();
    if input.peek()?.is_none() {
        return Ok(false);
    }
    loop {
        if input.peek()? == Some(b'"') {
            quoted(input, &mut record.bytes)?;
        } else {
            let field = input.take_while(|byte| !matches!(byte, b',' | b'\r' | b'\n' | b'"'))?;
            record.bytes.extend_from_slice(field);
        }
        record.ends.push(record.bytes.len());
        match input.peek()? {
            Some(b',') => input.byte()?,
            Some(b'\r' | b'\n') | None => return Ok(true),
            Some(_) => return Err(input.unexpected("a comma or the end of the line")),
        };
    }
}

/// A field in quotes, in which two of them are one.
fn quoted<S: Refill>(input: &mut Input<S>, bytes: &mut Vec<u8>) -> Result<(), Error> {
    input.literal("\"")?;
    loop {
        bytes.extend_from_slice(input.take_while(|byte| byte != b'"')?);
        input.literal("\"")?;
        if input.peek()? != Some(b'"') {
            return Ok(());
        }
        bytes.extend_from_slice(input.take(1)?);
    }
}
