//! Heads of requests, beside httparse.

use super::http_grammar::head;
use super::{Grammar, Outcome};
use segue_parse::{Error, Input, Refill};

/// A head.
#[derive(Clone, Copy)]
pub struct Http;

/// Method, target, minor version and fields.
pub type Head = (Vec<u8>, Vec<u8>, u8, Vec<(Vec<u8>, Vec<u8>)>);

impl Grammar for Http {
    type Value = Head;
    fn parse<S: Refill>(self, input: &mut Input<S>) -> Result<Head, Error> {
        let mut fields = Vec::new();
        let line = head(input, &mut fields)?;
        let bytes = |span: &std::ops::Range<_>| input.slice(span.clone()).to_vec();
        let field = |(name, value): &_| (bytes(name), bytes(value).trim_ascii_end().to_vec());
        Ok((bytes(&line.method), bytes(&line.target), line.minor, fields.iter().map(field).collect()))
    }

    fn beside(self, input: &[u8], outcome: &Outcome<Self>) {
        let ours = outcome.clone().ok().map(|(head, place)| (head, place.offset as usize));
        assert_eq!(ours, parsed_by_httparse(input), "{}: {outcome:?}", input.escape_ascii());
    }
}

/// httparse's head and its length; `None` is an error, or a head without its end.
fn parsed_by_httparse(input: &[u8]) -> Option<(Head, usize)> {
    let mut fields = vec![httparse::EMPTY_HEADER; 1 + input.len() / 3];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(input) {
        Ok(httparse::Status::Complete(length)) => length,
        _ => return None,
    };
    let fields = request.headers.iter().map(|field| (field.name.into(), field.value.to_vec())).collect();
    Some(((request.method?.into(), request.path?.into(), request.version?, fields), length))
}
