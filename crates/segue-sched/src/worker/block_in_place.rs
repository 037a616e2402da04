//! Calls that block the worker in place: [`blocking_here`], for closures that can't go to another
//! thread.
//!
//! Used by applications where [`blocking`](segue_core::blocking) does not do.
//!
//! The worker is *away* meanwhile: the other workers get its closures that have not started. The
//! caller's private forks and the closures that its policy gives out go to its shelf, where others
//! take them; closures that were sent to this worker go to the shelf for all, and so do those that
//! are sent meanwhile. The mark and the shelf of sent closures are under one lock, so that no
//! closure is sent there unseen. Its other fibers stay, and wait for its return. Its timers and its
//! driver stay, too; for the waits of others there, another thread looks after them
//! (`timers/late.rs` of `segue-core`, `outsiders.rs` of `segue-io`).
//!
//! A monitor leaves this worker alone: it blocks on purpose. A shutdown's report has the word of
//! the caller, and names that without waiting for the worker's answer.

use crate::worker::common::{Common, with_caller, without_worker};
use crate::worker::stuck::Stuck;
use segue_core::{Fiber, WaitsFor};

/// Runs `f` in place, on the worker's own thread, which may block there: the worker's closures that
/// have not started go to the other workers of the scheduler meanwhile.
///
/// Its other fibers, which have started, wait until `f` has returned, with their timers and
/// sockets. Fibers of other workers, tasks and plain threads that wait for the same are served
/// meanwhile, some ms late at most. So prefer [`blocking`](segue_core::blocking), unless the
/// closure is not `Send`. If the scheduler has no other worker, or these are busy, closures wait as
/// well.
///
/// `f` runs as a plain thread does, in the caller's context: its waits block the thread, and its
/// spawns go where plain threads spawn. Outside of a worker of this crate this is a call. A
/// [shutdown](crate::Shutdown::deadline) reports the caller by the line of this call.
///
/// # Cancellation
/// *No effect* on the call; `f` sees the cancellation at its waits.
///
/// # Panics
/// If `f` does.
///
/// # Examples
///
/// ```
/// use std::rc::Rc;
///
/// let length = segue_sched::Runtime::new().workers(2).run(|| {
///     let path = Rc::new(std::env::temp_dir());
///     segue_sched::blocking_here(|| path.metadata().map(|found| found.len()))
/// });
/// assert!(length.unwrap().is_ok());
/// ```
#[track_caller]
pub fn blocking_here<R>(f: impl FnOnce() -> R) -> R {
    struct Back<'a>(&'a Common);
    impl Drop for Back<'_> {
        fn drop(&mut self) {
            self.0.group.come_back(self.0.index);
            self.0.tell_shutdown(None);
            self.0.begin_turn();
        }
    }
    let waits_for = WaitsFor::new("a call that blocks its worker");
    with_caller(|caller| {
        let Some((worker, fiber)) = caller else { return segue_core::scheduling::run_as_thread(f) };
        worker.hand_over();
        worker.tell_shutdown(Some((fiber, waits_for)));
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
        // The worker blocks on purpose: that is nothing to report.
        self.remote().beat.rest();
    }

    /// Says which fiber blocks the worker, if its shutdown may have to.
    fn tell_shutdown(&self, blocks: Option<(&Fiber, WaitsFor)>) {
        if let Some(ending) = self.group.ending() {
            let stuck = |(fiber, waits_for): (&Fiber, _)| Stuck {
                fiber: fiber.to_string(),
                waits_for: Some(waits_for),
                network: false,
                backtrace: None,
            };
            ending.blocks(self.index, blocks.map(stuck));
        }
    }
}
