//! Input that means harm: too deep, too long, without an end, and readers that fail.

use super::alike::json::Json;
use super::alike::json_grammar::document;
use super::alike::resp_grammar::{Reply, reply};
use super::alike::{OfShortTokens, ShortReads};
use super::splits::check;
use segue::incremental::{Fed, Feed, push, push_with_stack};
use segue_parse::{Error, Input};
use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;

/// So many nested parsers have room in 64 KiB, also in a debug build; in release the default has.
const DEPTH: usize = if cfg!(debug_assertions) { 16 } else { 64 };

#[test]
fn a_hundred_thousand_brackets_are_too_deep_on_a_stack_of_64_kib() {
    for opening in ["[", "{\"\":", "[{\"\":", "*1\r\n"] {
        let text = opening.repeat(100_000);
        let parse = if opening.starts_with('*') {
            |feed: &mut Feed<'_>| reply(&mut Input::over(feed).depth(DEPTH)).map(drop)
        } else {
            |feed: &mut Feed<'_>| document(&mut Input::over(feed).depth(DEPTH)).map(drop)
        };
        let Fed::Done { value: Err(Error::TooDeep { at }), .. } =
            push_with_stack(64 << 10, parse).feed(text.as_bytes())
        else {
            panic!("{opening} is not too deep")
        };
        let brackets = text[..at as usize].matches(['[', '{', '*']).count();
        assert_eq!(brackets, DEPTH + usize::from(opening.starts_with('*')), "{opening}");
    }
    // By default, on the default stack of a machine.
    for (opening, at) in [("[", 64), ("{\"\":", 64 * 4)] {
        let text = opening.repeat(100_000);
        let outcome = push(|feed: &mut Feed| document(&mut Input::over(feed)).map(drop)).feed(text.as_bytes());
        assert!(
            matches!(outcome, Fed::Done { value: Err(Error::TooDeep { at: found }), .. } if found == at),
            "{outcome:?}"
        );
    }
}

/// An error is kept, and the bytes of its place go.
#[test]
fn a_report_of_an_error_whose_bytes_have_gone_names_none() {
    let text = ["?".to_owned(), "x".repeat(40_000)].concat();
    let mut input = Input::over(BufReader::new(text.as_bytes()));
    let error = input.literal("!").unwrap_err();
    let again = input.literal("!").unwrap_err();
    let kept = input.report(again);
    assert_eq!((kept.found(), kept.to_string().as_str()), (Some(b'?'), "line 1, column 1: expected `!`, found `?`"));
    while input.peek().unwrap().is_some() {
        input.byte().unwrap();
        input.commit();
    }
    let gone = input.report(error);
    assert!(gone.found().is_none() && gone.position().offset > 0, "{gone:?}");
    assert!(!gone.to_string().contains("found"), "{gone}");
}

#[test]
fn the_limit_of_tokens_is_the_same_for_each_split() {
    let just_right = format!("[\"{}\", 123456789012345,\n\"{}\"]", "x".repeat(14), "y".repeat(14));
    check(OfShortTokens(Json), just_right.as_bytes()).unwrap();
    for (text, place) in [
        (format!("[1, \"{}\"]", "x".repeat(15)), "line 1, column 5"),
        (format!("\n\n\"{}", "x".repeat(100)), "line 3, column 1"),
        (format!("[{}]", "1".repeat(17)), "line 1, column 2"),
        // The look-ahead counts: 16 digits are the number only if the next byte is none.
        (format!("[{}]", "1".repeat(16)), "line 1, column 2"),
        (format!("[1,{}1]", " ".repeat(17)), "line 1, column 4"),
    ] {
        let report = check(OfShortTokens(Json), text.as_bytes()).unwrap_err();
        assert!(report.starts_with(&format!("{place}: a token is longer than the limit")), "{text}: {report}");
    }
}

#[test]
fn a_token_without_an_end_is_an_error_at_the_limit() {
    let endless = |begin: &'static str, byte| BufReader::new(begin.as_bytes().chain(io::repeat(byte)));
    for (begin, byte) in [("\"", b'x'), ("", b'1'), ("-0.", b'0'), ("", b' '), ("[", b'\n')] {
        let mut input = Input::over(endless(begin, byte)).limit(100_000);
        let outcome = document(&mut input);
        assert!(matches!(outcome, Err(Error::TooLong { at: 0 | 1 })), "{begin}{byte}: {outcome:?}");
    }
    let mut input = Input::over(endless("$536870912\r\n", b'x')).limit(1000);
    assert!(matches!(reply(&mut input), Err(Error::TooLong { at: 0 })));
}

#[test]
fn a_length_that_is_only_promised_allocates_nothing() {
    let outcome = reply(&mut Input::of(b"*536870912\r\n:1\r\n"));
    assert!(matches!(outcome, Err(Error::End { at: 16 })), "{outcome:?}");
    assert_eq!(reply(&mut Input::of(b"*1\r\n:1\r\n")).unwrap(), Reply::Array(vec![Reply::Integer(1)]));
}

/// Fails once before each piece.
struct Stammering<'i>(ShortReads<'i>, bool, io::ErrorKind);

impl Read for Stammering<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 { Err(self.2.into()) } else { self.0.read(buffer) }
    }
}

#[test]
fn an_interrupted_read_is_repeated_and_others_fail() {
    let text = b"[1, true, \"text\"]";
    let reader = |kind| BufReader::new(Stammering(ShortReads { pieces: text.chunks(1).collect() }, false, kind));
    let value = document(&mut Input::over(reader(io::ErrorKind::Interrupted))).unwrap();
    assert_eq!(value, document(&mut Input::of(text)).unwrap());
    let mut input = Input::over(reader(io::ErrorKind::WouldBlock));
    let error = document(&mut input).unwrap_err();
    assert!(matches!(&error, Error::Io(error) if error.kind() == io::ErrorKind::WouldBlock), "{error:?}");
}

#[test]
fn a_token_that_the_reader_has_failed_may_be_tried_again() {
    let text = b"true12345;end";
    let pieces = ShortReads { pieces: text.chunks(1).collect() };
    let mut input = Input::over(BufReader::new(Stammering(pieces, false, io::ErrorKind::WouldBlock)));
    fn again<T>(mut parse: impl FnMut() -> Result<T, Error>) -> T {
        loop {
            match parse() {
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return outcome.unwrap(),
            }
        }
    }
    again(|| input.literal("true"));
    assert_eq!(again(|| input.integer::<u32>()), 12345);
    assert_eq!(again(|| input.byte()), b';');
    assert_eq!(again(|| input.take(3).map(<[u8]>::to_vec)), b"end");
    again(|| input.end());
}

/// Waits for ever.
struct Silent;

impl Read for Silent {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        segue::after(Duration::MAX).wait()?;
        Ok(0)
    }
}

#[test]
fn a_cancelled_wait_is_known_for_one() {
    let parse = |known: fn(Error, &Input<_>) -> io::Error| {
        let mut input = Input::over(BufReader::new(b"[1, 2".chain(Silent)));
        let error = segue::timeout(Duration::from_millis(1), || document(&mut input)).unwrap_err();
        known(error, &input)
    };
    let of_the_error = parse(|error, _| error.into());
    let of_the_report = parse(|error, input| {
        let report = input.report(error);
        assert_eq!(report.position().offset, 4);
        report.into()
    });
    assert!(segue::Cancelled::caused(&of_the_error) && segue::Cancelled::caused(&of_the_report));
    let other = io::Error::from(document(&mut Input::of(b"[")).unwrap_err());
    assert_eq!(other.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_machine_that_is_dropped_fails_the_parse() {
    let (told, errors) = std::sync::mpsc::channel();
    let mut machine = push(move |feed: &mut Feed| {
        let mut input = Input::over(feed);
        told.send(document(&mut input).map_err(|error| input.report(error).to_string())).unwrap();
    });
    assert_eq!(machine.feed(b"[1"), Fed::NeedMore);
    drop(machine);
    assert_eq!(errors.recv().unwrap().unwrap_err(), "line 1, column 2: broken pipe");
}

/// A reader with a gigabyte, of which nothing is stored.
struct Gigabyte(usize);

impl Read for Gigabyte {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        unreachable!("the input takes what is lent")
    }
}

impl BufRead for Gigabyte {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        static PAGE: [u8; 1 << 16] = [b'x'; 1 << 16];
        Ok(&PAGE[..self.0.min(PAGE.len())])
    }

    fn consume(&mut self, amount: usize) {
        self.0 -= amount;
    }
}

#[test]
fn a_reader_is_left_behind_the_last_byte_of_the_parse() {
    let mut reader = Gigabyte(1 << 30);
    let mut input = Input::over(&mut reader);
    assert_eq!(input.take(10_000).unwrap().len(), 10_000);
    let begin = input.mark();
    input.take(3).unwrap();
    input.back_to(begin);
    drop(input);
    assert_eq!(reader.0, (1 << 30) - 10_000);
}
