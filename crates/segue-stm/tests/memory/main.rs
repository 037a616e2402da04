//! The life of values and variables. A value is freed when the last attempt that may see it has
//! ended, and then at once: so no two of these tests run at the same time, and the counts are
//! exact.

mod drops;
mod values;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Keeps other tests away.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts its drops.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn drops(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Runs a closure when dropped.
struct AtDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for AtDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
