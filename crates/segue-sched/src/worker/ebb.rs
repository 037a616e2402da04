//! Queues of what is ready give back their memory after a burst.
//!
//! Used by a worker that is about to sleep, by policies that are told of that, and by shelves when
//! they become empty: a burst of a million spawns has ended then, and the room for it would stay
//! for as long as the worker.

use std::collections::VecDeque;

/// Up to so many places are kept: what comes and goes all the time allocates nothing.
pub(crate) const KEPT: usize = 1024;

/// Gives up the room of a queue that is empty, if it is large. The caller drops it, under no lock.
#[inline]
pub(crate) fn ebb<T>(queue: &mut VecDeque<T>) -> Option<VecDeque<T>> {
    (queue.is_empty() && queue.capacity() > KEPT).then(|| std::mem::take(queue))
}
