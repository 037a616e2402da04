//! An answer of a language model, shown as it comes: the model sends JSON in pieces that end
//! anywhere, in the middle of a word, of an escape, of a letter.
//!
//! The parser is in direct style, and shows each letter of a text when it has that letter. It knows
//! nothing of pieces: it is the body of a machine, which is fed with them.

use segue::incremental::{Fed, Feed};
use segue_parse::{Error, Input, Refill};
use std::cell::RefCell;
use std::time::Duration;

/// A part of the answer that can be shown.
enum Part {
    Name(String),
    Element,
    Letter(char),
}

fn value<S: Refill>(input: &mut Input<S>, show: &dyn Fn(Part)) -> Result<(), Error> {
    skip_blanks(input)?;
    match input.peek()? {
        Some(b'"') => text(input, &mut |letter| show(Part::Letter(letter)))?,
        Some(b'[') => list(input, "]", |input| {
            show(Part::Element);
            value(input, show)
        })?,
        Some(b'{') => list(input, "}", |input| {
            let mut name = String::new();
            text(input, &mut |letter| name.push(letter))?;
            show(Part::Name(name));
            skip_blanks(input)?;
            input.literal(":")?;
            value(input, show)
        })?,
        _ => return Err(input.unexpected("a text, a list or an object")),
    }
    skip_blanks(input)
}

/// Elements between brackets, of which the first one is there.
fn list<S: Refill>(
    input: &mut Input<S>,
    end: &'static str,
    mut element: impl FnMut(&mut Input<S>) -> Result<(), Error>,
) -> Result<(), Error> {
    input.nested(|input| {
        input.byte()?;
        skip_blanks(input)?;
        if input.accept(end)? {
            return Ok(());
        }
        loop {
            element(input)?;
            if !input.accept(",")? {
                return input.literal(end);
            }
            skip_blanks(input)?;
        }
    })
}

fn text<S: Refill>(input: &mut Input<S>, found: &mut dyn FnMut(char)) -> Result<(), Error> {
    input.literal("\"")?;
    loop {
        let begin = input.mark();
        match input.byte()? {
            b'"' => return Ok(()),
            b'\\' => found(match input.byte()? {
                b'n' => '\n',
                other => other.into(),
            }),
            first => {
                // The first byte of a letter in UTF-8 has its length.
                for _ in 1..first.leading_ones() {
                    input.byte()?;
                }
                input.text(begin..input.mark())?.chars().for_each(&mut *found);
            }
        }
        input.commit();
    }
}

fn skip_blanks<S: Refill>(input: &mut Input<S>) -> Result<(), Error> {
    input.skip_while(|byte| byte.is_ascii_whitespace())?;
    input.commit();
    Ok(())
}

const ANSWER: &str =
    r#"{"title": "Crème brûlée", "steps": ["Heat the \"cream\".", "Stir.", "Wait."], "note": "Serves 4"} "#;

fn main() {
    segue::run(|| {
        let (model, pieces) = segue::channel::bounded(4);
        segue::spawn(move || {
            for piece in ANSWER.as_bytes().chunks(7) {
                segue::sleep(Duration::from_millis(1))?;
                _ = model.send(piece.to_vec());
            }
            Ok::<_, segue::Cancelled>(())
        });

        let screen = RefCell::new(String::new());
        let mut seen = Vec::new();
        segue::effect::region(|region| {
            let mut machine = region.push(|feed: &mut Feed| {
                let mut input = Input::over(feed);
                let shown = value(&mut input, &|part| match part {
                    Part::Name(name) => *screen.borrow_mut() += &format!("\n{name}: "),
                    Part::Element => *screen.borrow_mut() += "\n  - ",
                    Part::Letter(letter) => screen.borrow_mut().push(letter),
                });
                shown.map_err(|error| input.report(error))
            });
            for piece in pieces.iter() {
                assert!(matches!(machine.feed(&piece), Fed::NeedMore), "blanks may come behind the answer");
                seen.push(screen.borrow().clone());
            }
            machine.finish().unwrap();
        });

        // Each piece has brought its letters, and nothing that was shown has changed.
        assert!(seen.is_sorted_by(|before, after| after.starts_with(&**before)) && seen.len() > 10);
        assert!(seen.iter().any(|screen| screen.ends_with("Crème br")), "in the middle of a word");
        println!("{}", screen.borrow());
    });
}
