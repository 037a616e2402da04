//! A queue with values for those who wait, in the manner of a channel, and threads that wait in
//! families. Used by the models of the wait queue.

use loom::thread::{self, JoinHandle};
use segue_core::scheduling::Family;
use segue_core::{Cancelled, WaitQueue, WaitsFor};
use std::sync::Arc;

pub type Queue = WaitQueue<Vec<u32>, u32>;

/// A queue, and a family of those who wait.
pub fn queue() -> (Arc<Queue>, Arc<Family>) {
    (Arc::new(WaitQueue::new(Vec::new())), Arc::new(Family::detached()))
}

pub fn receive(queue: &Queue) -> Result<u32, Cancelled> {
    queue.wait(WaitsFor::new("a value"), |kept| !kept.is_empty(), |kept| kept.remove(0))
}

/// Starts a thread that waits at `place`, in the family's context.
pub fn waiter<P: 'static, T: 'static>(
    family: &Arc<Family>,
    place: &Arc<P>,
    wait: impl FnOnce(&P) -> T + 'static,
) -> JoinHandle<T> {
    let (family, place) = (Arc::clone(family), Arc::clone(place));
    thread::spawn(move || family.enter_context(|| wait(&place)))
}

/// Starts a thread that cancels the family.
pub fn canceller(family: &Family) -> JoinHandle<()> {
    let token = family.token();
    thread::spawn(move || token.cancel())
}
