//! What the tests of cells share: counters, and the error of a recursion.
#![allow(dead_code)] // Not every test uses all of it.

use segue::sync::{ForceError, Recursive};
use segue::{Cancelled, yield_now};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

pub const DAY: Duration = Duration::from_secs(86_400);

pub fn pauses(n: u64) -> Result<(), Cancelled> {
    (0..n).try_for_each(|_| yield_now())
}

/// How often something happened.
#[derive(Default)]
pub struct Count(AtomicUsize);

impl Count {
    pub const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    pub fn up(&self) -> usize {
        self.0.fetch_add(1, SeqCst) + 1
    }

    pub fn get(&self) -> usize {
        self.0.load(SeqCst)
    }
}

/// Counts its drops.
pub struct Counted<'a>(pub &'a Count);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.up();
    }
}

/// What a force says of its recursion.
pub trait Cause {
    fn recursive(self) -> Recursive;
}

impl<E: std::fmt::Debug> Cause for ForceError<E> {
    fn recursive(self) -> Recursive {
        match self {
            ForceError::Recursive(recursive) => recursive,
            other => panic!("{other:?}"),
        }
    }
}
