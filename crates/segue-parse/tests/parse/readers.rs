//! The buffer in front of a reader: marks and positions across its moves, and the work for a byte.

use super::alike::ShortReads;
use segue::incremental::{Fed, Feed, push};
use segue_parse::{Error, Input, Refill};
use std::io::BufReader;

/// A reader of so many bytes at a time.
fn slow(text: &[u8], length: usize) -> BufReader<ShortReads<'_>> {
    BufReader::new(ShortReads { pieces: text.chunks(length).collect() })
}

#[test]
fn a_token_that_comes_byte_by_byte_is_looked_at_once() {
    let text = vec![b'x'; 300_000];
    let mut machine = push(|feed: &mut Feed| {
        let (mut looked, mut input) = (0, Input::over(feed));
        let length = input.take_while(|_| {
            looked += 1;
            true
        });
        (length.unwrap().len(), looked)
    });
    for byte in text.chunks(1) {
        assert_eq!(machine.feed(byte), Fed::NeedMore);
    }
    assert_eq!(machine.finish(), (text.len(), text.len()));
}

#[test]
fn marks_and_slices_stay_right_while_the_buffer_moves() {
    let words: Vec<String> = (0..20_000).map(|number| format!("word{number}")).collect();
    let text = words.join(" ");
    for length in [1, 7, 1000, 100_000] {
        let mut input = Input::over(slow(text.as_bytes(), length)).limit(64);
        for words in words.chunks(3) {
            let mut marks = Vec::new();
            for _ in words {
                let begin = input.mark();
                input.skip_while(|byte| byte != b' ').unwrap();
                marks.push(begin..input.mark());
                input.accept(" ").unwrap();
            }
            for (word, marks) in words.iter().zip(marks) {
                assert_eq!(input.slice(marks.clone()), word.as_bytes());
                assert_eq!(input.text(marks).unwrap(), word);
            }
            input.commit();
        }
        input.end().unwrap();
    }
}

#[test]
fn positions_count_the_lines_that_have_gone() {
    let text: String = (0..30_000).map(|number| "x".repeat(number % 7) + "\n").collect::<String>() + "yy";
    let place = |outcome: Result<(), Error>| outcome.unwrap_err().at();
    let mut whole = Input::of(text.as_bytes()).limit(100);
    for length in [1, 100, 5000] {
        let mut input = Input::over(slow(text.as_bytes(), length)).limit(100);
        fn lines<S: Refill>(input: &mut Input<S>) -> Result<(), Error> {
            while input.peek()? != Some(b'y') {
                input.skip_while(|byte| byte == b'x')?;
                input.literal("\n")?;
                input.commit();
            }
            input.byte()?;
            input.literal("z")
        }
        assert_eq!(place(lines(&mut input)), Some(text.len() as u64 - 1));
        assert_eq!(input.position().to_string(), "line 30001, column 2");
        let _ = lines(&mut whole);
        assert_eq!(input.position(), whole.position());
        whole = Input::of(text.as_bytes()).limit(100);
    }
}

#[test]
fn an_alternative_that_has_committed_is_the_last_one() {
    let mut input = Input::of(b"let x");
    let outcome = input.first_of([
        |input| {
            input.literal("let ")?;
            input.commit();
            input.literal("mut")
        },
        |input| input.literal("let x"),
    ]);
    assert!(matches!(outcome, Err(Error::Unexpected { at: 4 })));
    assert_eq!(input.position().offset, 4);
}

#[test]
fn alternatives_that_fail_at_the_same_place_are_reported_together() {
    fn keyword<S: Refill>(input: &mut Input<S>) -> Result<u8, Error> {
        if let Some(sign) = input.attempt(|input| input.literal("-").map(|()| b'-'))? {
            return Ok(sign);
        }
        input.first_of([
            |input| input.literal("for").map(|()| 1),
            |input| input.literal("fn").map(|()| 2),
            |input| input.integer(),
        ])
    }
    for (text, report) in [
        ("x", "line 1, column 1: expected `-`, `for`, `fn` or an integer, found `x`"),
        ("fx", "line 1, column 2: expected `for` or `fn`, found `x`"),
        ("fo", "line 1, column 3: expected `for`, found the end of the input"),
    ] {
        let mut input = Input::of(text.as_bytes());
        let error = keyword(&mut input).unwrap_err();
        assert_eq!(input.report(error).to_string(), report);
        let mut input = Input::over(slow(text.as_bytes(), 1));
        let error = keyword(&mut input).unwrap_err();
        assert_eq!(input.report(error).to_string(), report);
    }
}

#[test]
#[should_panic(expected = "an element that takes no byte")]
fn an_element_that_takes_no_byte_panics() {
    let _: Result<Vec<()>, _> = Input::of(b"x").many(|_| Ok(Some(())));
}
