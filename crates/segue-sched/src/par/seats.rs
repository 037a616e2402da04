//! A bound on the elements of one parallel loop that are under way at once, so that closures that
//! wait do not all hold at the same time the files that they have opened and read.
//!
//! Used by `plumbing.rs`: the loop there takes a seat for each of its pieces.
//!
//! # The idea
//!
//! The fiber that goes through a piece of the loop has a *seat* while calling closures, one after
//! the other. So as many elements are under way as seats are taken: some run, the others wait. A
//! loop has [some for each worker](EACH), or as many as `at_most` says, of which the caller has the
//! first.
//!
//! A closure that waits keeps its seat, and the piece behind its block, which another fiber begins,
//! takes one more. If there is none, that fiber waits for one. Either some other element is over
//! first, and leaves a seat. Or the block before is: then that block calls the piece back, and goes
//! on in its own seat; so a loop that waits at each element, with one seat, has two fibers.
//!
//! # States of the piece behind a block
//!
//! ```text
//!   WAITS --a seat is taken for it----------> BEGUN         by the fiber that goes through it
//!   WAITS --the block before it is over-----> CALLED_BACK   by the fiber of the block
//!   BEGUN --the block before it is over: leaves its own seat
//! ```
//!
//! All under the lock of the seats, which so decides. Invariant: of a block that is over and the
//! piece behind, one has a seat, and not both. **Cancellation** has *no effect*: a fiber that can't
//! wait, since its frames unwind or its shield's budget is over, goes on without a seat.
//!
//! **Commit point**: the taking of the seat. **The race to fear**: the block is over just when a
//! seat is left for the piece behind, and that piece's fiber was told and then does not take the
//! seat. That fiber tells the next.
//!
//! **The end**: the holder of a seat calls closures, and these do not wait for elements without
//! one: so a loop must not have elements that wait for more others than there are seats. That
//! stands on the page.

use segue_core::{WaitQueue, Waitable, WaitsFor, shield};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The elements under way at once for each worker, by default.
pub(crate) const EACH: usize = 16;

/// The seats of a loop.
pub(crate) struct Seats {
    /// How many are free.
    free: WaitQueue<usize, bool>,
}

/// A seat, which its drop leaves; or none, if a wait was impossible.
pub(crate) struct Seat<'l>(Option<&'l Seats>);

/// The state of the piece behind a block. Read and written under the lock of the seats.
pub(crate) struct Behind(AtomicU8);

const WAITS: u8 = 0;
const BEGUN: u8 = 1;
const CALLED_BACK: u8 = 2;

impl Behind {
    #[inline]
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(WAITS))
    }

    fn is(&self, state: u8) -> bool {
        self.0.load(Relaxed) == state
    }
}

impl Seats {
    /// So many, and at least one, of which the caller has the [first](Seats::first).
    #[inline]
    pub(crate) fn new(number: usize) -> Self {
        Self { free: WaitQueue::new(number.max(1) - 1) }
    }

    /// The first seat of all. Called once.
    #[inline]
    pub(crate) fn first(&self) -> Seat<'_> {
        Seat(Some(self))
    }

    /// A seat for a piece, after waiting while all are taken.
    pub(crate) fn take(&self) -> Seat<'_> {
        self.take_behind(&Behind::new()).expect("nobody calls it back")
    }

    /// A seat for the piece behind a block; `None` after a call back.
    pub(crate) fn take_behind(&self, behind: &Behind) -> Option<Seat<'_>> {
        let ready = |free: &usize| *free > 0 || behind.is(CALLED_BACK);
        let take = |free: &mut usize| {
            let has_one = !behind.is(CALLED_BACK);
            if has_one {
                *free -= 1;
                behind.0.store(BEGUN, Relaxed);
            }
            has_one
        };
        let mut seat = Waitable::new(self.free.source(WaitsFor::new("other elements of a parallel loop"), ready, take));
        match seat.attempt().map_or_else(|| shield(|| seat.wait()), Ok) {
            Ok(true) => Some(Seat(Some(self))),
            Ok(false) => {
                let mut free = self.free.lock();
                if *free.peek() > 0 {
                    free.notify_one(0);
                }
                None
            }
            Err(_) => {
                let _free = self.free.lock();
                let goes_on = !behind.is(CALLED_BACK);
                if goes_on {
                    behind.0.store(BEGUN, Relaxed);
                }
                goes_on.then_some(Seat(None))
            }
        }
    }

    /// A block is over, and a fiber has the piece behind: leaves the block's seat if that piece was
    /// begun, else calls the piece back.
    pub(crate) fn come_back(&self, seat: &mut Seat<'_>, behind: &Behind) {
        let free = self.free.lock();
        if behind.is(BEGUN) {
            drop(free);
            *seat = Seat(None);
        } else {
            behind.0.store(CALLED_BACK, Relaxed);
            free.notify_all(0);
        }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if let Some(seats) = self.0 {
            let mut free = seats.free.lock();
            *free.state() += 1;
            free.notify_one(0);
        }
    }
}
