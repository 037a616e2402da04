//! The profile of conflicts names variables and lines.

use segue_stm::{Profile, TVar, atomically};
use std::cell::Cell;

/// Runs `f` on another thread, in the middle of a body.
fn elsewhere(f: impl FnOnce() + Send) {
    std::thread::scope(|s| s.spawn(f).join().unwrap());
}

#[test]
fn a_hot_spot_is_named_with_both_lines() {
    let profile = Profile::start();
    let (hot, cold) = (TVar::compared("the hot spot", 0), TVar::named("the cold spot", 0));
    let lines = Cell::new((0, 0));
    for _ in 0..3 {
        let is_first = Cell::new(true);
        atomically(|tx| {
            let (seen, read_at) = (*tx.read(&hot)?, line!());
            if is_first.take() {
                elsewhere(|| atomically(|tx| tx.write(&hot, seen + 1)).unwrap());
                lines.set((read_at, line!() - 1));
            }
            tx.write(&cold, seen)
        })
        .unwrap();
    }
    let conflicts = profile.conflicts();
    let found = conflicts.iter().find(|conflict| conflict.name == Some("the hot spot")).expect("it is hot");
    assert_eq!((found.conflicts, found.without_difference), (3, 0));
    assert_eq!((found.used.line(), found.written.line()), lines.get());
    assert!([found.used, found.written, found.made].iter().all(|place| place.file() == file!()));
    assert!(!found.lost.is_zero());
    assert!(conflicts.iter().all(|conflict| conflict.name != Some("the cold spot")));
    let table = profile.to_string();
    let row = table.lines().find(|row| row.contains("the hot spot")).unwrap();
    assert!(row.contains(&format!(":{}:", lines.get().0)) && row.contains(&format!(":{}:", lines.get().1)), "{row}");
}

#[test]
fn a_write_of_the_same_value_is_told_apart() {
    let profile = Profile::start();
    let flag = TVar::compared("a flag that stays up", true);
    let count = TVar::new(0);
    let is_first = Cell::new(true);
    atomically(|tx| {
        let up = *tx.read(&flag)?;
        if is_first.take() {
            elsewhere(|| flag.set(up).unwrap());
        }
        tx.modify(&count, |count| count + 1)
    })
    .unwrap();
    let conflicts = profile.conflicts();
    let found = conflicts.iter().find(|conflict| conflict.name == Some("a flag that stays up")).unwrap();
    assert_eq!((found.conflicts, found.without_difference), (1, 1));
    assert_eq!(count.get(), 1);
}
