//! The same parsers, by the libraries that Rust's programs parse with.

use super::json::Value;
use std::str;
use winnow::Parser as _;

/// Whether a byte may stand in a method or a name.
pub fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_of_value(byte: u8) -> bool {
    byte >= b' ' && byte != 0x7f || byte == b'\t'
}

/// The number of fields, or nothing if the head is not whole.
pub fn by_httparse(bytes: &[u8]) -> Option<usize> {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut fields);
    let is_whole = request.parse(bytes).expect("it is a head").is_complete();
    is_whole.then_some(request.headers.len())
}

/// The same.
pub fn by_nom(bytes: &[u8]) -> Option<usize> {
    use nom::Parser;
    use nom::bytes::streaming::{tag, take_while, take_while1};
    use nom::multi::many0;
    use nom::sequence::{preceded, terminated};
    type Failed<'i> = nom::Err<nom::error::Error<&'i [u8]>>;

    let field =
        (terminated(take_while1(is_of_token), tag(&b": "[..])), terminated(take_while(is_of_value), tag(&b"\r\n"[..])));
    let mut head = (
        terminated(take_while1(is_of_token), tag(&b" "[..])),
        terminated(take_while1(|byte| byte > b' '), tag(&b" "[..])),
        preceded(tag(&b"HTTP/1."[..]), terminated(take_while1(|byte: u8| byte.is_ascii_digit()), tag(&b"\r\n"[..]))),
        terminated(many0(field), tag(&b"\r\n"[..])),
    );
    let parsed: Result<_, Failed> = head.parse(bytes);
    parsed.ok().map(|(_, (.., fields))| fields.len())
}

/// The same.
pub fn by_winnow(bytes: &[u8]) -> Option<usize> {
    head_by_winnow.parse_peek(bytes).ok().map(|(_, fields)| fields)
}

/// The same, for input that goes on.
pub fn by_partial_winnow(bytes: &[u8]) -> Option<usize> {
    head_by_winnow.parse_peek(winnow::Partial::new(bytes)).ok().map(|(_, fields)| fields)
}

fn head_by_winnow<'i, I>(input: &mut I) -> winnow::ModalResult<usize>
where
    I: winnow::stream::StreamIsPartial
        + winnow::stream::Stream<Token = u8, Slice = &'i [u8]>
        + winnow::stream::Compare<&'static [u8]>,
{
    use winnow::combinator::{repeat, terminated};
    use winnow::token::{literal, take_while};

    let line = (
        terminated(take_while(1.., is_of_token), literal(&b" "[..])),
        terminated(take_while(1.., |byte| byte > b' '), literal(&b" HTTP/1."[..])),
        terminated(take_while(1.., |byte: u8| byte.is_ascii_digit()), literal(&b"\r\n"[..])),
    );
    let field = (
        terminated(take_while(1.., is_of_token), literal(&b": "[..])),
        terminated(take_while(0.., is_of_value), literal(&b"\r\n"[..])),
    );
    let fields = repeat(0.., field).fold(Vec::new, |mut all: Vec<(&[u8], &[u8])>, field| {
        all.push(field);
        all
    });
    let (_, fields) = (line, terminated(fields, literal(&b"\r\n"[..]))).parse_next(input)?;
    Ok(std::hint::black_box(fields).len())
}

/// The same tree of values, by winnow. Escapes by number are left out: the input has none.
pub fn json_by_winnow(bytes: &[u8]) -> Value {
    use winnow::combinator::terminated;
    let text = str::from_utf8(bytes).expect("it is text");
    terminated(value, blanks).parse(text).expect("it is JSON")
}

fn blanks<'i>(input: &mut &'i str) -> winnow::ModalResult<&'i str> {
    winnow::token::take_while(0.., [' ', '\t', '\r', '\n']).parse_next(input)
}

fn value(input: &mut &str) -> winnow::ModalResult<Value> {
    use winnow::combinator::{delimited, dispatch, fail, peek, preceded, separated, separated_pair};
    use winnow::token::any;
    let element = |input: &mut &str| delimited(blanks, value, blanks).parse_next(input);
    let member =
        |input: &mut &str| delimited(blanks, separated_pair(string, (blanks, ':'), value), blanks).parse_next(input);
    let parse = dispatch! {peek(any);
        'n' => "null".value(Value::Null),
        't' => "true".value(Value::Bool(true)),
        'f' => "false".value(Value::Bool(false)),
        '"' => string.map(Value::String),
        '[' => delimited(('[', blanks), separated(0.., element, ','), (blanks, ']')).map(Value::Array),
        '{' => delimited(('{', blanks), separated(0.., member, ','), (blanks, '}')).map(Value::Object),
        '-' | '0'..='9' => winnow::ascii::float.map(Value::Number),
        _ => fail,
    };
    preceded(blanks, parse).parse_next(input)
}

fn string(input: &mut &str) -> winnow::ModalResult<String> {
    use winnow::combinator::{alt, delimited, preceded, repeat};
    use winnow::token::{any, take_while};
    let escaped = preceded(
        '\\',
        any.verify_map(|letter| match letter {
            '"' | '\\' | '/' => Some(letter),
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            _ => None,
        }),
    );
    enum Part<'i> {
        Text(&'i str),
        Letter(char),
    }
    let part =
        alt((take_while(1.., |letter| letter != '"' && letter != '\\').map(Part::Text), escaped.map(Part::Letter)));
    let text = repeat(0.., part).fold(String::new, |mut text, part| {
        match part {
            Part::Text(more) => text.push_str(more),
            Part::Letter(letter) => text.push(letter),
        }
        text
    });
    delimited('"', text, '"').parse_next(input)
}
