//! The ring of this thread's worker.
//!
//! Set by `DriverPark`; asked before an op or a call of a file flies, and when the limit of a
//! flight is over.

use super::flying::{LazyRing, Ring};
use super::limited::Limited;
use std::cell::RefCell;
use std::rc::Rc;

thread_local! {
    /// The ring of the worker that idles in it; `None` for a worker that is to do without, too.
    static RING: RefCell<Option<Rc<LazyRing>>> = const { RefCell::new(None) };
}

/// Says which ring this thread's worker has, and gives back what was said before.
pub(crate) fn set(ring: Option<Rc<LazyRing>>) -> Option<Rc<LazyRing>> {
    RING.try_with(|slot| slot.replace(ring)).ok().flatten()
}

/// The ring in which a request of the caller's can fly: that of its worker, if the caller is a
/// fiber that may be suspended.
#[inline]
pub(crate) fn of_caller() -> Option<Rc<Ring>> {
    if !segue_core::in_fiber() {
        return None;
    }
    let ring = RING.try_with(|slot| slot.borrow().as_ref()?.get().map(Rc::clone)).ok().flatten()?;
    segue_core::with_current(|fiber| !fiber.must_not_suspend() && fiber.scheduler().leave_to_park()).then_some(ring)
}

/// The ring of this thread's worker, if it was made.
pub(crate) fn here() -> Option<Rc<Ring>> {
    RING.try_with(|slot| slot.borrow().as_ref()?.made().map(Rc::clone)).ok().flatten()
}

/// A limit is over: the flight that has it, if it is one of this thread's, is to end.
pub(crate) fn expire(limited: &Limited) {
    if limited.is_taken()
        && let Some(ring) = here()
    {
        ring.expire(limited);
    }
}
