//! Calls that block the worker in place: [`blocking_here`], for closures that can't go to another
//! thread.
//!
//! Used by applications where [`blocking`](segue_core::blocking) does not do.
//!
//! The worker is *away* meanwhile: the other workers get what it has not started. The caller's
//! private forks and the closures that its policy gives out go to its shelf, where others take
//! them; closures that were sent to it go to the shelf for all, and so do those that are sent while
//! it is away. The mark and the shelf of what was sent are under one lock, so that nothing is sent
//! to it unseen. Its other fibers, its timers and its driver stay, and wait for its return.

use crate::worker::common::{Common, with_caller, without_worker};

/// Runs `f` in place, on the worker's own thread, which may block there: what the worker has not
/// started goes to the other workers of the scheduler meanwhile.
///
/// Its other fibers, which have started, wait until `f` has returned, with their timers and
/// sockets; so prefer [`blocking`](segue_core::blocking), unless the closure is not `Send`. If the
/// scheduler has no other worker, or these are busy, closures wait as well.
///
/// `f` runs as a plain thread does, in the caller's context: what it waits for blocks the thread,
/// and what it spawns goes where plain threads spawn. Outside of a worker of this crate it is a
/// call.
///
/// # Cancellation
/// *No effect* on the call; `f` sees it at its waits.
///
/// # Panics
/// If `f` does.
///
/// # Examples
///
/// ```
/// use std::rc::Rc;
///
/// let length = segue_sched::Builder::new().workers(2).run(|| {
///     let path = Rc::new(std::env::temp_dir());
///     segue_sched::blocking_here(|| path.metadata().map(|found| found.len()))
/// });
/// assert!(length.unwrap().is_ok());
/// ```
pub fn blocking_here<R>(f: impl FnOnce() -> R) -> R {
    struct Back<'a>(&'a Common);
    impl Drop for Back<'_> {
        fn drop(&mut self) {
            self.0.group.come_back(self.0.index);
            self.0.begin_turn();
        }
    }
    with_caller(|caller| {
        let Some((worker, _)) = caller else { return segue_core::scheduling::run_as_thread(f) };
        worker.hand_over();
        let _back = Back(worker);
        without_worker(|| segue_core::scheduling::run_as_thread(f))
    })
}

impl Common {
    /// Gives all that has not been started to the other workers, and says that this one is away.
    fn hand_over(&self) {
        self.expose_forks();
        self.whole().offer_spare(true);
        self.group.release(self.index, true);
        // It blocks on purpose: that is nothing to report.
        self.remote().beat.rest();
    }
}
