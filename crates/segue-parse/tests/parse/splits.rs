//! One grammar, one input, all ways for the bytes to come.
//!
//! `SEGUE_SPLITS` is the number of random splits for each input, by default 100.

use fastrand::Rng;
use segue::incremental::{Fed, Feed, push};
use segue_parse::{Error, Input, Position, Refill};
use std::fmt::Debug;
use std::io::{self, BufReader, Read};

/// A parser that does not depend on the source of its bytes.
pub trait Grammar: Copy + 'static {
    type Value: Debug + PartialEq + 'static;
    const LIMIT: usize = 1 << 20;

    fn parse<S: Refill>(self, input: &mut Input<S>) -> Result<Self::Value, Error>;

    /// The value, and where the parser was then; or the report.
    fn outcome<S: Refill>(self, input: Input<S>) -> Result<(Self::Value, Position), String> {
        let mut input = input.limit(Self::LIMIT);
        match self.parse(&mut input) {
            Ok(value) => Ok((value, input.position())),
            Err(error) => {
                let error = input.report(error);
                Err(format!("{error}, at {:?}: {:?}", error.position(), error.error()))
            }
        }
    }
}

type Outcome<G> = Result<(<G as Grammar>::Value, Position), String>;

/// Pushes the pieces; the number of bytes that were left comes with the outcome.
pub fn pushed<G: Grammar>(grammar: G, pieces: &[&[u8]]) -> (Outcome<G>, usize) {
    let mut machine = push(move |feed: &mut Feed| grammar.outcome(Input::over(feed)));
    let mut pieces = pieces.iter();
    while let Some(piece) = pieces.next() {
        if let Fed::Done { value, unread } = machine.feed(piece) {
            return (value, unread.len() + pieces.map(|piece| piece.len()).sum::<usize>());
        }
    }
    (machine.finish(), 0)
}

/// A reader of one piece at a time.
pub struct ShortReads<'i> {
    pub pieces: Vec<&'i [u8]>,
}

impl Read for ShortReads<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(piece) = self.pieces.first_mut() {
            let length = piece.read(buffer)?;
            if length > 0 {
                return Ok(length);
            }
            self.pieces.remove(0);
        }
        Ok(0)
    }
}

/// Splits the input in two in all ways, byte by byte, and in random ways; pushed, and read. Answers
/// with the one outcome.
pub fn check<G: Grammar>(grammar: G, input: &[u8]) -> Outcome<G> {
    let expected = grammar.outcome(Input::of(input));
    let left = expected.as_ref().ok().map(|(_, place)| input.len() - place.offset as usize);
    let compare = |pieces: &[&[u8]]| {
        let lengths = || pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>();
        let (outcome, unread) = pushed(grammar, pieces);
        assert_eq!(outcome, expected, "pushed: {:?} of {}", lengths(), input.escape_ascii());
        // After an error the cursor may be far before the place that the report names.
        assert!(left.is_none_or(|left| left == unread), "{unread} were left: {:?}", lengths());
        let mut reader = BufReader::with_capacity(1 + input.len() / 2, ShortReads { pieces: pieces.to_vec() });
        assert_eq!(grammar.outcome(Input::over(&mut reader)), expected, "read: {:?}", lengths());
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert!(left.is_none_or(|left| rest == input[input.len() - left..]), "the reader's rest: {:?}", lengths());
    };
    compare(&[input]);
    // A long input is not split at each byte.
    for at in (0..=input.len()).step_by(1 + input.len() / 2000) {
        let (first, second) = input.split_at(at);
        compare(&[first, second]);
    }
    compare(&input.chunks(1).collect::<Vec<_>>());
    let splits = std::env::var("SEGUE_SPLITS").map_or(100, |number| number.parse().expect("a number of splits"));
    let mut random = Rng::with_seed(7);
    for _ in 0..splits {
        let most = 1 + random.usize(..input.len().max(2));
        let (mut pieces, mut rest) = (Vec::new(), input);
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(random.usize(..rest.len().min(most) + 1));
            pieces.push(piece);
            rest = behind;
        }
        compare(&pieces);
    }
    expected
}

/// Checks the inputs, and each again cut off in places, and with a bit that is wrong somewhere.
/// Hands each with its outcome on.
pub fn check_all<G: Grammar>(grammar: G, inputs: &[&[u8]], mut also: impl FnMut(&[u8], Outcome<G>)) {
    let mut random = Rng::with_seed(11);
    let (mut good, mut bad) = (0, 0);
    let mut checked = |input: &[u8]| {
        let outcome = check(grammar, input);
        *(if outcome.is_ok() { &mut good } else { &mut bad }) += 1;
        also(input, outcome);
    };
    for input in inputs {
        checked(input);
        for part in 1..6 {
            checked(&input[..input.len() * part / 6]);
            let mut wrong = input.to_vec();
            if let Some(byte) = random.choice(&mut wrong) {
                *byte ^= 1 << random.usize(..8);
            }
            checked(&wrong);
        }
    }
    assert!(good > 0 && bad > 0, "{good} inputs were good, {bad} were bad");
}
