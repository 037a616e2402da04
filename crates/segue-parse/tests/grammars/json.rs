//! JSON (RFC 8259): a value of any depth and length, within the limits of the input.
//!
//! Each token is committed, so a document of any length needs the memory of its longest token.

use segue_parse::{Error, Input, Refill};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number; integers beyond 53 bits are rounded.
    Number(f64),
    /// A text.
    String(String),
    /// A list.
    Array(Vec<Value>),
    /// Names with values, in order; names may come again.
    Object(Vec<(String, Value)>),
}

/// One value, and nothing behind.
pub fn document<S: Refill>(input: &mut Input<S>) -> Result<Value, Error> {
    let value = value(input)?;
    blanks(input)?;
    input.end()?;
    Ok(value)
}

/// One value, with blanks before.
pub fn value<S: Refill>(input: &mut Input<S>) -> Result<Value, Error> {
    blanks(input)?;
    match input.peek()? {
        Some(b'"') => string(input).map(Value::String),
        Some(b'{') => input.nested(object),
        Some(b'[') => input.nested(array),
        Some(b't') => input.literal("true").map(|()| Value::Bool(true)),
        Some(b'f') => input.literal("false").map(|()| Value::Bool(false)),
        Some(b'n') => input.literal("null").map(|()| Value::Null),
        Some(b'-' | b'0'..=b'9') => number(input).map(Value::Number),
        _ => Err(input.unexpected("a value")),
    }
}

/// Blanks, which stand around all tokens: so each token is committed here.
#[inline]
fn blanks<S: Refill>(input: &mut Input<S>) -> Result<(), Error> {
    input.commit();
    if input.peek()?.is_some_and(|byte| byte > b' ') {
        return Ok(());
    }
    input.skip_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))?;
    input.commit();
    Ok(())
}

fn array<S: Refill>(input: &mut Input<S>) -> Result<Value, Error> {
    input.literal("[")?;
    blanks(input)?;
    if input.accept("]")? {
        return Ok(Value::Array(Vec::new()));
    }
    let values = input.sep_by(|input| another(input, b']'), value)?;
    input.literal("]")?;
    Ok(Value::Array(values))
}

fn object<S: Refill>(input: &mut Input<S>) -> Result<Value, Error> {
    input.literal("{")?;
    blanks(input)?;
    if input.accept("}")? {
        return Ok(Value::Object(Vec::new()));
    }
    let members = input.sep_by(|input| another(input, b'}'), member)?;
    input.literal("}")?;
    Ok(Value::Object(members))
}

fn member<S: Refill>(input: &mut Input<S>) -> Result<(String, Value), Error> {
    blanks(input)?;
    let name = string(input)?;
    blanks(input)?;
    input.literal(":")?;
    Ok((name, value(input)?))
}

/// Whether there is another element: a comma, or the end of the list.
fn another<S: Refill>(input: &mut Input<S>, end: u8) -> Result<bool, Error> {
    blanks(input)?;
    // A look at the byte, as the note of an expectation takes more time than an element.
    if input.peek()? == Some(end) { Ok(false) } else { input.accept(",") }
}

fn string<S: Refill>(input: &mut Input<S>) -> Result<String, Error> {
    input.literal("\"")?;
    let mut text = String::new();
    loop {
        let begin = input.mark();
        input.skip_while(|byte| byte != b'"' && byte != b'\\' && byte >= b' ')?;
        text.push_str(input.text(begin..input.mark())?);
        match input.peek()? {
            Some(b'"') => {
                input.byte()?;
                return Ok(text);
            }
            Some(b'\\') => text.push(escaped(input)?),
            _ => return Err(input.unexpected("the end of the string")),
        }
    }
}

fn escaped<S: Refill>(input: &mut Input<S>) -> Result<char, Error> {
    let begin = input.mark();
    input.literal("\\")?;
    let here = input.mark();
    Ok(match input.byte()? {
        byte @ (b'"' | b'\\' | b'/') => byte.into(),
        b'b' => '\x08',
        b'f' => '\x0c',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let mut code = hexadecimal(input)?;
            if matches!(code, 0xd800..0xdc00) {
                input.literal("\\u")?;
                let low = hexadecimal(input)?;
                if matches!(low, 0xdc00..0xe000) {
                    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                }
            }
            return char::from_u32(code).ok_or_else(|| input.unexpected_at(begin, "a pair of surrogates"));
        }
        _ => return Err(input.unexpected_at(here, "an escape")),
    })
}

fn hexadecimal<S: Refill>(input: &mut Input<S>) -> Result<u32, Error> {
    let mut code = 0;
    for _ in 0..4 {
        let digit = input.peek()?.and_then(|byte| char::from(byte).to_digit(16));
        code = code * 16 + digit.ok_or_else(|| input.unexpected("a hexadecimal digit"))?;
        input.byte()?;
    }
    Ok(code)
}

fn number<S: Refill>(input: &mut Input<S>) -> Result<f64, Error> {
    let begin = input.mark();
    if input.peek()? == Some(b'-') {
        input.byte()?;
    }
    if input.peek()? == Some(b'0') {
        input.byte()?;
    } else {
        digits(input)?;
    }
    if input.peek()? == Some(b'.') {
        input.byte()?;
        digits(input)?;
    }
    if matches!(input.peek()?, Some(b'e' | b'E')) {
        input.byte()?;
        if matches!(input.peek()?, Some(b'+' | b'-')) {
            input.byte()?;
        }
        digits(input)?;
    }
    let number: f64 = input.text(begin..input.mark())?.parse().expect("the grammar of numbers is a part of Rust's");
    if number.is_finite() { Ok(number) } else { Err(input.out_of_range(begin)) }
}

fn digits<S: Refill>(input: &mut Input<S>) -> Result<(), Error> {
    input.take_some("a digit", |byte| byte.is_ascii_digit()).map(drop)
}
