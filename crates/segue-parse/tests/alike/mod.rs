//! Grammars: the outcome does not depend on how the bytes come, and is that of the crate that the
//! grammar's field trusts: one input at a time.
//!
//! Used by the tests, which bring inputs and splits, and by the fuzz targets, which draw both.

#[path = "../grammars/csv.rs"]
pub mod csv_grammar;
#[path = "../grammars/http.rs"]
pub mod http_grammar;
#[path = "../grammars/json.rs"]
pub mod json_grammar;
#[path = "../grammars/resp.rs"]
pub mod resp_grammar;

pub mod csv;
pub mod http;
pub mod json;
pub mod resp;

use segue::incremental::{Fed, Feed, push};
use segue_parse::{Error, Input, Position, Refill};
use std::fmt::Debug;
use std::io::{self, BufReader, Read};

/// A parser that does not depend on the source of its bytes.
pub trait Grammar: Copy + 'static {
    /// Of an input that is right.
    type Value: Debug + PartialEq + 'static;
    /// Of the input.
    const LIMIT: usize = 1 << 20;

    /// Parses the begin of the input.
    fn parse<S: Refill>(self, input: &mut Input<S>) -> Result<Self::Value, Error>;

    /// Compares with the established crate.
    fn beside(self, input: &[u8], outcome: &Outcome<Self>);

    /// The value, and where the parser was then; or the report.
    fn outcome<S: Refill>(self, input: Input<S>) -> Outcome<Self> {
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

/// See [`Grammar::outcome`].
pub type Outcome<G> = Result<(<G as Grammar>::Value, Position), String>;

/// Another grammar with a limit that it reaches.
#[derive(Clone, Copy)]
pub struct OfShortTokens<G>(pub G);

impl<G: Grammar> Grammar for OfShortTokens<G> {
    type Value = G::Value;
    const LIMIT: usize = 16;

    fn parse<S: Refill>(self, input: &mut Input<S>) -> Result<G::Value, Error> {
        self.0.parse(input)
    }

    /// Others have other limits.
    fn beside(self, _: &[u8], _: &Outcome<Self>) {}
}

/// Pushes the pieces; the number of bytes that were left comes with the outcome.
fn pushed<G: Grammar>(grammar: G, pieces: &[&[u8]]) -> (Outcome<G>, usize) {
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
    /// Those that are not read.
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

/// Pushes these pieces of the input, and reads them: with the outcome of the whole, and as many
/// bytes left.
pub fn compare<G: Grammar>(grammar: G, input: &[u8], expected: &Outcome<G>, pieces: &[&[u8]]) {
    let left = expected.as_ref().ok().map(|(_, place)| input.len() - place.offset as usize);
    let lengths = || pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>();
    let (outcome, unread) = pushed(grammar, pieces);
    assert_eq!(&outcome, expected, "pushed: {:?} of {}", lengths(), input.escape_ascii());
    // After an error the cursor may be far before the place that the report names.
    assert!(left.is_none_or(|left| left == unread), "{unread} were left: {:?}", lengths());
    let mut reader = BufReader::with_capacity(1 + input.len() / 2, ShortReads { pieces: pieces.to_vec() });
    assert_eq!(&grammar.outcome(Input::over(&mut reader)), expected, "read: {:?}", lengths());
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    assert!(left.is_none_or(|left| rest == input[input.len() - left..]), "the reader's rest: {:?}", lengths());
}

/// Checks an input of a fuzzer: a number, so many lengths of pieces, which are taken in turns, and
/// the text.
pub fn fuzzed<G: Grammar>(grammar: G, data: &[u8]) {
    fn check<G: Grammar>(grammar: G, text: &[u8], pieces: &[&[u8]]) {
        let expected = grammar.outcome(Input::of(text));
        compare(grammar, text, &expected, pieces);
        grammar.beside(text, &expected);
    }
    let Some((number, rest)) = data.split_first() else { return };
    let (lengths, text) = rest.split_at(rest.len().min(usize::from(number % 8)));
    let (mut pieces, mut behind) = (Vec::new(), text);
    for length in lengths.iter().cycle().take(2 * text.len()) {
        let (piece, others) = behind.split_at(behind.len().min((*length).into()));
        pieces.push(piece);
        behind = others;
    }
    pieces.push(behind);
    check(grammar, text, &pieces);
    check(OfShortTokens(grammar), text, &pieces);
}
