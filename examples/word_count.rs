//! Counts the words of all text files of a directory on all processors: the files side by side, and
//! in each one its halves, and so on, until a piece is small.
//!
//! What is counted borrows from the texts, on whichever worker it was counted. A file that can't be
//! read ends the count when asked to; otherwise all such files are reported, and the others
//! counted.
//!
//! `word_count [--strict] [PATH...]` counts files, and the text files of directories; without a
//! path, those of this repository's `docs`.

use segue::par::prelude::*;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

type Counts<'t> = HashMap<&'t str, usize>;

/// Below this many bytes, to count takes less than to share.
const SMALL: usize = 16 << 10;

fn count(text: &str) -> Counts<'_> {
    let half = text.len() / 2;
    match text.as_bytes()[half..].iter().position(u8::is_ascii_whitespace) {
        Some(space) if text.len() > SMALL => {
            let (left, right) = text.split_at(half + space);
            let (left, right) = segue::join(|| count(left), || count(right));
            both(left, right)
        }
        _ => count_here(text),
    }
}

fn count_here(text: &str) -> Counts<'_> {
    let mut counts = Counts::new();
    text.split_ascii_whitespace().for_each(|word| *counts.entry(word).or_default() += 1);
    counts
}

fn both<'t>(mut counts: Counts<'t>, others: Counts<'t>) -> Counts<'t> {
    others.into_iter().for_each(|(word, n)| *counts.entry(word).or_default() += n);
    counts
}

/// A file that was not read, and why.
#[derive(Debug)]
struct Unreadable {
    path: PathBuf,
    error: io::Error,
}

/// Reads a file on a thread that may block. The fiber waits meanwhile, and others go on.
fn read(path: &Path) -> Result<String, Unreadable> {
    let text = segue::blocking(|| std::fs::read_to_string(path)).map_err(io::Error::from).flatten();
    text.map_err(|error| Unreadable { path: path.to_owned(), error })
}

/// All texts, or the first file that can't be read: then no more are begun with.
fn read_all(paths: &[PathBuf]) -> Result<Vec<String>, Unreadable> {
    paths.par_iter().map(|path| read(path)).collect()
}

/// The texts that can be read, and all files that can't.
fn read_some(paths: &[PathBuf]) -> (Vec<String>, Vec<Unreadable>) {
    let results: Vec<_> = paths.par_iter().map(|path| read(path)).collect();
    let (mut texts, mut unreadable) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(text) => texts.push(text),
            Err(it) => unreadable.push(it),
        }
    }
    (texts, unreadable)
}

fn count_all(texts: &[String]) -> Counts<'_> {
    texts.par_iter().map(|text| count(text)).reduce(Counts::new, both)
}

/// The files that a path names, in order: itself, or the text files below it.
fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(path) else { return vec![path.to_owned()] };
    let mut below: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    below.sort();
    let is_text = |path: &PathBuf| path.is_dir() || path.extension().is_some_and(|it| it == "md");
    below.iter().filter(|path| is_text(path)).flat_map(|path| files(path)).collect()
}

fn main() -> Result<(), Unreadable> {
    let mut arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let strict = arguments.first().is_some_and(|first| first == Path::new("--strict"));
    arguments.drain(..usize::from(strict));
    let is_shown = arguments.is_empty();
    if is_shown {
        arguments.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs"));
    }
    let paths: Vec<PathBuf> = arguments.iter().flat_map(|path| files(path)).collect();

    segue::run(|| {
        let (texts, unreadable) = if strict { (read_all(&paths)?, vec![]) } else { read_some(&paths) };
        unreadable.iter().for_each(|it| eprintln!("{}: {}", it.path.display(), it.error));
        let counts = count_all(&texts);
        let by_one = texts.iter().map(|text| count_here(text)).reduce(both).unwrap_or_default();
        assert_eq!(counts, by_one, "as by one");

        let mut most: Vec<_> = counts.into_iter().collect();
        most.sort_by_key(|&(word, n)| (std::cmp::Reverse(n), word));
        most.iter().take(10).for_each(|(word, n)| println!("{n:8} {word}"));
        Ok(())
    })?;
    if is_shown {
        check(paths).expect("a directory for files that can't be read");
    }
    Ok(())
}

/// Counts these files once more, with a directory that has a readable one, one that is no text, and
/// one that is not there.
fn check(mut paths: Vec<PathBuf>) -> io::Result<()> {
    let directory = std::env::temp_dir().join(format!("segue-word-count-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let [good, no_text, gone] = ["good.md", "no text.md", "gone.md"].map(|name| directory.join(name));
    std::fs::write(&good, "a word")?;
    std::fs::write(&no_text, b"a w\xf6rd")?;
    std::os::unix::fs::symlink("nowhere", &gone)?;
    let readable = paths.len();
    paths.extend(files(&directory));
    let ended = segue::run(|| {
        let first = read_all(&paths).expect_err("two files can't be read");
        let (texts, unreadable) = read_some(&paths);
        let alone = read_some(std::slice::from_ref(&good)).0;
        (first.path, texts.len(), unreadable, count_all(&alone).len())
    });
    std::fs::remove_dir_all(&directory)?;
    let (first, texts, unreadable, words) = ended;
    assert!([&no_text, &gone].contains(&&first), "it ends with one of them: {}", first.display());
    assert_eq!((paths.len(), texts, words), (readable + 3, readable + 1, 2));
    let reported: Vec<_> = unreadable.iter().map(|it| (&it.path, it.error.kind())).collect();
    assert_eq!(reported, [(&gone, io::ErrorKind::NotFound), (&no_text, io::ErrorKind::InvalidData)]);
    Ok(())
}
