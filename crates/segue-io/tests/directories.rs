//! Directories: large ones, ones that change or go while they are read, and trees.
#![cfg(target_os = "linux")]
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

mod common;

use common::everywhere;
use segue_core::{CancelToken, Cancelled, scope, yield_now};
use segue_io::fs;
use segue_sched::Runtime;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirEntryExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A directory with so many files, which goes when this is dropped.
struct Many(PathBuf);

impl Many {
    fn new(count: usize) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("segue-dirs-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let many = Self(path);
        (0..count).for_each(|file| std::fs::write(many.file(file), "").unwrap());
        many
    }

    /// Names that are long, so that there are several batches.
    fn file(&self, number: usize) -> PathBuf {
        self.0.join(format!("{:x<200}", format!("file-{number}-")))
    }
}

impl Drop for Many {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn len(entry: &std::fs::DirEntry) -> u64 {
    entry.metadata().unwrap().len()
}

#[test]
fn the_entries_of_a_large_directory_are_there_once_and_in_stds_order() {
    let many = Many::new(600);
    std::fs::write(many.0.join(OsString::from_vec(vec![0xff, b'x'])), "no text").unwrap();
    everywhere(|| {
        let ours: Vec<_> = fs::read_dir(&many.0).unwrap().map(Result::unwrap).collect();
        let theirs: Vec<_> = std::fs::read_dir(&many.0).unwrap().map(Result::unwrap).collect();
        assert_eq!(ours.len(), 601);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!((ours.path(), ours.file_name()), (theirs.path(), theirs.file_name()));
            assert_eq!((ours.ino(), ours.file_type().unwrap().is_file()), (theirs.ino(), true));
        }
        assert_eq!(ours[300].metadata().unwrap().len(), theirs[300].metadata().unwrap().len());
        // What is known of them is of now, and not of when they were fetched.
        std::fs::write(ours[301].path(), "12345").unwrap();
        assert_eq!([300, 301].map(|at| ours[at].metadata().unwrap().len()), [300, 301].map(|at| len(&theirs[at])));
        std::fs::write(ours[301].path(), "").unwrap();
        assert_eq!(ours[301].metadata().unwrap().len(), 0);
        let mut empty = fs::read_dir(&many.0).unwrap();
        assert_eq!((empty.by_ref().count(), empty.next().is_none()), (601, true));
    });
    assert_eq!(fs::read_dir(many.file(0)).unwrap_err().kind(), ErrorKind::NotADirectory);
    assert_eq!(fs::read_dir(many.0.join("none")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn what_stays_in_a_directory_that_changes_is_named_once() {
    everywhere(|| {
        let many = Many::new(450);
        let (mut seen, mut twice) = (BTreeSet::new(), 0);
        for (number, entry) in fs::read_dir(&many.0).unwrap().enumerate() {
            let entry = entry.unwrap();
            twice += usize::from(!seen.insert(entry.file_name()));
            // Every third goes, and as many come.
            if number < 150 {
                std::fs::remove_file(many.file(number * 3)).unwrap();
                std::fs::write(many.0.join(format!("{:y<200}", format!("new-{number}-"))), "").unwrap();
            }
            match entry.metadata() {
                Ok(metadata) => assert!(metadata.is_file()),
                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
            }
        }
        assert_eq!(twice, 0);
        for number in (0..450).filter(|number| number % 3 != 0) {
            assert!(seen.contains(many.file(number).file_name().unwrap()), "{number} was passed over");
        }
    });
}

#[test]
fn a_directory_that_is_removed_while_it_is_read_ends() {
    everywhere(|| {
        let many = Many::new(400);
        let mut entries = fs::read_dir(&many.0).unwrap();
        let first = entries.next().unwrap().unwrap();
        fs::remove_dir_all(&many.0).unwrap();
        assert!(entries.by_ref().all(|entry| entry.is_ok()));
        assert!(entries.next().is_none());
        assert_eq!(first.metadata().unwrap_err().kind(), ErrorKind::NotFound);
        std::fs::create_dir(&many.0).unwrap();
    });
}

#[test]
fn a_cancelled_reader_is_told_once_and_goes_on_later() {
    everywhere(|| {
        let many = Many::new(450);
        let mut entries = fs::read_dir(&many.0).unwrap();
        let token = CancelToken::new();
        token.cancel();
        let (mut before, mut told) = (0, 0);
        // Also a loop that passes errors over comes to an end.
        token.run(|| {
            for entry in entries.by_ref() {
                match entry {
                    Ok(_) => before += 1,
                    Err(error) => {
                        assert!(Cancelled::caused(&error));
                        told += 1;
                    }
                }
            }
            assert!(entries.next().is_none());
        });
        assert!(before < 450 && told == 1, "{before} {told}");
        assert_eq!(before + entries.map(Result::unwrap).count(), 450);
    });
}

/// Of a row of directories, those during which another fiber of the worker had a turn: a thread
/// for blocking calls read them.
#[test]
fn of_directories_in_memory_most_are_read_without_leaving_the_worker() {
    const ROW: usize = 48;
    let rows = [(); ROW].map(|()| Many::new(2));
    let trips = Runtime::new().workers(1).run(|| {
        let (turns, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        scope(|s| {
            s.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    turns.fetch_add(1, Ordering::Relaxed);
                    yield_now().unwrap();
                }
            });
            yield_now().unwrap();
            let trip = |dir: &&Many| {
                // It has its operations left, and does not give up its turn for want of them.
                yield_now().unwrap();
                let before = turns.load(Ordering::Relaxed);
                assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 2);
                turns.load(Ordering::Relaxed) > before
            };
            // Threads sleep also for locks of the kernel's, which other tests have.
            let trips = (0..50).map(|_| rows.iter().filter(trip).count()).find(|trips| *trips <= ROW / 2);
            is_over.store(true, Ordering::Relaxed);
            trips
        })
    });
    // One in sixteen, as a rule.
    assert!(trips.unwrap().is_some());
}

#[test]
fn a_tree_is_made_and_removed_by_many_at_once() {
    everywhere(|| {
        let many = Many::new(0);
        let deep = |fiber: usize| {
            (0..30).fold(many.0.join("tree"), |path, level| path.join(format!("{}", level % 3 * fiber % 2)))
        };
        scope(|s| {
            for fiber in 0..8 {
                s.spawn(move || {
                    fs::create_dir_all(deep(fiber)).unwrap();
                    fs::write(deep(fiber).join(format!("file-{fiber}")), "x").unwrap();
                });
            }
        });
        let outside = many.0.join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("stays"), "x").unwrap();
        std::os::unix::fs::symlink(&outside, many.0.join("tree/link")).unwrap();
        scope(|s| {
            let removers: Vec<_> = (0..4).map(|_| s.spawn(|| fs::remove_dir_all(many.0.join("tree")))).collect();
            for remover in removers {
                match remover.join().unwrap() {
                    Ok(()) => {}
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
                }
            }
        });
        assert!(!many.0.join("tree").exists() && outside.join("stays").exists());
        // A link at the top is removed itself.
        std::os::unix::fs::symlink(&outside, many.0.join("link")).unwrap();
        fs::remove_dir_all(many.0.join("link")).unwrap();
        assert!(outside.join("stays").exists());
    });
}

#[test]
fn a_file_that_is_cut_while_it_is_copied_has_the_length_that_was_copied() {
    everywhere(|| {
        let many = Many::new(0);
        let (from, to) = (many.0.join("from"), many.0.join("to"));
        for round in [1, 3] {
            std::fs::write(&from, vec![b'x'; 20 << 20]).unwrap();
            let copied = scope(|s| {
                let copies = s.spawn(|| fs::copy(&from, &to).unwrap());
                (0..round).for_each(|_| segue_core::yield_now().unwrap());
                let file = std::fs::OpenOptions::new().write(true).open(&from).unwrap();
                file.set_len(1000).unwrap();
                copies.join().unwrap()
            });
            let content = std::fs::read(&to).unwrap();
            assert!(content.len() as u64 == copied && (1000..=20 << 20).contains(&copied), "{copied}");
            assert!(content[..1000].iter().all(|byte| *byte == b'x'));
        }
    });
}
