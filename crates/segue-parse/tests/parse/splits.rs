//! One grammar, one input, all ways for the bytes to come.
//!
//! `SEGUE_SPLITS` is the number of random splits for each grammar, by default 100 for each input.

use super::alike::{Grammar, Outcome, compare};
use fastrand::Rng;
use segue::incremental::{Feed, push};
use segue::sched::fiber::leaked_stacks;
use segue_parse::Input;

/// Splits the input in two in all ways, byte by byte, and in random ways; pushed, and read. Answers
/// with the one outcome.
pub fn check<G: Grammar>(grammar: G, input: &[u8]) -> Outcome<G> {
    check_with(grammar, input, SPLITS)
}

const SPLITS: usize = 100;

fn check_with<G: Grammar>(grammar: G, input: &[u8], splits: usize) -> Outcome<G> {
    let expected = grammar.outcome(Input::of(input));
    let compare = |pieces: &[&[u8]]| compare(grammar, input, &expected, pieces);
    compare(&[input]);
    // A long input is not split at each byte.
    for at in (0..=input.len()).step_by(1 + input.len() / 2000) {
        let (first, second) = input.split_at(at);
        compare(&[first, second]);
        // Dropped there, if it has come so far: the read fails, and so does the parse.
        let mut machine = push(move |feed: &mut Feed| grammar.outcome(Input::over(feed)));
        _ = machine.feed(first);
    }
    assert_eq!(leaked_stacks(), 0);
    compare(&input.chunks(1).collect::<Vec<_>>());
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

/// Checks the inputs, and each again cut off in places, and with a wrong bit somewhere; each one
/// beside the established crate.
pub fn check_all<G: Grammar>(grammar: G, inputs: &[&[u8]]) {
    let mut random = Rng::with_seed(11);
    let (mut good, mut bad) = (0, 0);
    let of_all = std::env::var("SEGUE_SPLITS").map(|number| number.parse::<usize>().expect("a number of splits"));
    let splits = of_all.map_or(SPLITS, |number| number.div_ceil(inputs.len() * 11));
    let mut checked = |input: &[u8]| {
        let outcome = check_with(grammar, input, splits);
        *(if outcome.is_ok() { &mut good } else { &mut bad }) += 1;
        grammar.beside(input, &outcome);
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
