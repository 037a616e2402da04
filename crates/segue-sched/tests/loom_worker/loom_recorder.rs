//! Model of the recorder's ring as it ships (`src/recorder/ring.rs`): whatever a reader copies
//! while the writer goes round, it is a run of the words that were written, without a gap, and ends
//! with the last word or a later one than those that were there at first.
#![cfg(loom)]
#![allow(dead_code)] // The model uses a part of the files.

#[path = "../../src/recorder/ring.rs"]
mod ring;
#[path = "../../src/recorder/word.rs"]
mod word;

use loom::sync::Arc;
use loom::thread;
use ring::Ring;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use word::{Kind, Word};

fn numbers(ring: &Ring) -> Vec<u64> {
    ring.copy().into_iter().map(Word::content).collect()
}

#[test]
fn a_copy_is_a_run_of_words_without_a_gap() {
    // How often a copy had words, and how often the writer had taken some of them away meanwhile.
    static FULL: AtomicUsize = AtomicUsize::new(0);
    static SHORT: AtomicUsize = AtomicUsize::new(0);
    loom::model(|| {
        let ring = Arc::new(Ring::new(2));
        ring.push(Word::new(Kind::Time, 1));
        ring.push(Word::new(Kind::Time, 2));
        let writer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || (3..=5).for_each(|number| ring.push(Word::new(Kind::Time, number))))
        };
        let copy = numbers(&ring);
        assert!(copy.windows(2).all(|pair| pair[1] == pair[0] + 1), "{copy:?}");
        match copy.last() {
            Some(last) => {
                assert!((2..=5).contains(last), "{copy:?}");
                FULL.fetch_add(1, SeqCst);
            }
            None => _ = SHORT.fetch_add(1, SeqCst),
        }
        writer.join().unwrap();
        let copy = numbers(&ring);
        assert_eq!(copy, [5], "the slot of word 4 may be the next one that is written");
    });
    assert!(FULL.load(SeqCst) != 0 && SHORT.load(SeqCst) != 0);
}
