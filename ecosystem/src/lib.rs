//! What the tests of the ecosystem share: fibers of one worker that are all in the middle of
//! something, and real servers.
//!
//! Used by the tests and examples of this package; `docs/ecosystem.md` has what they show.
//!
//! A crate runs in [`FIBERS`] fibers of *one* worker, and the other side of each of its streams is
//! a fiber of that worker too. So a crate that blocked the thread would hang, and each call counts
//! who is inside: no stream has its second half before all are.

mod pairs;
mod servers;
mod streaming;
mod talking;

pub use pairs::Wire;
pub use servers::Server;
pub use streaming::{read_alike, write_alike, write_alike_on};
pub use talking::{Talk, talk, talk_alike};

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many fibers are in the middle of something at once.
pub const FIBERS: usize = 50;

/// Runs `f` in a fiber of a runtime with one worker, whatever it spawns with it.
///
/// # Panics
/// If `f` does, or there is no runtime to be had.
pub fn on_one_worker<T>(f: impl FnOnce() -> T) -> T {
    segue::runtime().workers(1).run(f).expect("a runtime with one worker can be started")
}

/// How many are inside of calls at this moment, and how many have gone in.
#[derive(Default)]
pub struct Inside {
    count: AtomicUsize,
    entries: AtomicUsize,
}

impl Inside {
    /// Counts the caller as inside for as long as `f` takes.
    pub fn during<T>(&self, f: impl FnOnce() -> T) -> T {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.entries.fetch_add(1, Ordering::SeqCst);
        let result = f();
        self.count.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// How many are inside.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits, by letting others run, until `count` have gone in, also if some have left.
    ///
    /// # Panics
    /// If the caller is cancelled.
    pub fn wait_for(&self, count: usize) {
        while self.entries.load(Ordering::SeqCst) < count {
            segue::yield_now().expect("nobody cancels a test");
        }
    }
}

/// Bytes that can't be compressed much: `len` of a row that depends on `seed`.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}
