//! The first use of a file of a file system that the program has not asked about; alone in its
//! program, for what is known is known to all.
#![cfg(target_os = "linux")]
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

mod common;

use common::on_one_worker;
use segue_core::scope;
use segue_io::Backend;
use segue_io::fs::File;
use std::io::Read;

/// Who asks first is suspended, and the other one finds the question open on the same thread.
#[test]
fn two_fibers_of_a_worker_may_be_the_first_to_use_a_file() {
    on_one_worker(Backend::default(), || {
        for path in ["Cargo.toml", "/proc/self/limits", "/sys/kernel/mm/transparent_hugepage/enabled"] {
            let Ok(file) = std::fs::File::open(path).map(File::from) else { continue };
            let reads = || (&file).read(&mut [0; 1]).unwrap();
            scope(|s| {
                let both = [s.spawn(reads), s.spawn(reads)];
                assert_eq!(both.map(|read| read.join().unwrap()), [1, 1], "{path}");
            });
        }
    });
}
