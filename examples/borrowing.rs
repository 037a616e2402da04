//! Fibers that borrow: each has a part of the text to read and a part of the table to write, and
//! nothing is cloned, counted or locked. When the scope has ended, the borrows have.

use segue::scope;

const TEXT: &str = "\
    Nothing outlives its scope,
    so borrowed data needs no counter,
    and no error is swallowed.";

/// How often each letter is there.
type Letters = [usize; 26];

fn count(text: &str, letters: &mut Letters) {
    for letter in text.bytes().filter(u8::is_ascii_alphabetic) {
        letters[usize::from(letter.to_ascii_lowercase() - b'a')] += 1;
    }
}

fn main() {
    segue::run(|| {
        let lines: Vec<&str> = TEXT.lines().map(str::trim).collect();
        let mut counts = vec![[0; 26]; lines.len()];
        let longest = scope(|s| {
            // To each its own line of the table.
            for (line, letters) in lines.iter().zip(&mut counts) {
                s.spawn(|| count(line, letters));
            }
            // What a fiber returns may be borrowed, too.
            s.spawn(|| *lines.iter().max_by_key(|line| line.len()).unwrap()).join().unwrap()
        });
        // The table is ours again.
        counts.push([0; 26]);
        let (sum, rows) = counts.split_last_mut().unwrap();
        rows.iter().for_each(|row| sum.iter_mut().zip(row).for_each(|(sum, n)| *sum += n));

        let letters = TEXT.bytes().filter(u8::is_ascii_alphabetic).count();
        assert_eq!((longest, sum.iter().sum()), (lines[1], letters));
        assert_eq!(sum[usize::from(b'e' - b'a')], 8);
        println!("{letters} letters in {} lines, the longest: {longest:?}", lines.len());
    });
}
