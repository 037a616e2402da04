//! Counts the words of a text on all processors: a half each, and so on, until a piece is small.
//!
//! `word_count FILE...` counts those of files; without one, those of the README a few hundred
//! times.

use std::collections::HashMap;

type Counts<'t> = HashMap<&'t str, usize>;

/// Below this many bytes, to count takes less than to share.
const SMALL: usize = 16 << 10;

/// What is counted borrows from the text, on whichever worker it was counted.
fn count(text: &str) -> Counts<'_> {
    let half = text.len() / 2;
    match text.as_bytes()[half..].iter().position(u8::is_ascii_whitespace) {
        Some(space) if text.len() > SMALL => {
            let (left, right) = text.split_at(half + space);
            let (mut counts, others) = segue::join(|| count(left), || count(right));
            others.into_iter().for_each(|(word, n)| *counts.entry(word).or_default() += n);
            counts
        }
        _ => count_here(text),
    }
}

fn count_here(text: &str) -> Counts<'_> {
    let mut counts = Counts::new();
    text.split_ascii_whitespace().for_each(|word| *counts.entry(word).or_default() += 1);
    counts
}

fn main() -> std::io::Result<()> {
    let files: Vec<_> = std::env::args_os().skip(1).collect();
    let text = match files[..] {
        [] => include_str!("../README.md").repeat(300),
        _ => files.iter().map(std::fs::read_to_string).collect::<std::io::Result<Vec<_>>>()?.join("\n"),
    };
    let counts = segue::run(|| count(&text));
    assert_eq!(counts, count_here(&text), "as by one");

    let mut most: Vec<_> = counts.into_iter().collect();
    most.sort_by_key(|&(word, n)| (std::cmp::Reverse(n), word));
    most.iter().take(10).for_each(|(word, n)| println!("{n:8} {word}"));
    Ok(())
}
