//! The workers that live on a thread, whether or not they run there at the moment.
//!
//! Used by worker loops, which take up residence for their length, by moves between the schedulers
//! of one thread, and by forks on the threads of workers.
#![allow(unsafe_code)] // Workers are reached by their addresses.

use crate::worker::common::{Common, around_of};
use crate::worker::group::Group;
use crate::worker::snapshot::Residence;
use std::cell::RefCell;
use std::ptr::{self, NonNull};
use std::sync::Arc;

thread_local! {
    /// The workers that live on this thread.
    static RESIDENTS: RefCell<Vec<*const Common>> = const { RefCell::new(Vec::new()) };
}

/// A worker takes up residence on this thread. There is no list any more in the destructors of a
/// thread's local variables.
///
/// # Safety
/// The worker stays in place until it [departs](depart).
pub(crate) unsafe fn reside(worker: *const Common) {
    let _ = RESIDENTS.try_with(|residents| residents.borrow_mut().push(worker));
    // SAFETY: the worker stays in place until its departure, as the caller promises.
    unsafe { (*worker).remote().seat.reside(&raw const (*worker).residence) };
}

/// The worker has ended.
///
/// # Safety
/// The worker is in place still.
pub(crate) unsafe fn depart(worker: *const Common) {
    // SAFETY: null is always allowed; the worker is in place.
    unsafe { (*worker).remote().seat.reside(ptr::null()) };
    let _ = RESIDENTS.try_with(|residents| residents.borrow_mut().retain(|resident| *resident != worker));
}

/// Whether fibers can still run on this thread: not in the destructors of its local variables.
pub(crate) fn can_reside() -> bool {
    RESIDENTS.try_with(|_| ()).is_ok()
}

/// Whether the worker with this residence lives on this thread.
pub(crate) fn lives_here(residence: *const Residence) -> bool {
    // SAFETY: a worker leaves the list before its end.
    let is = |worker: &*const Common| ptr::eq(unsafe { &raw const (**worker).residence }, residence);
    RESIDENTS.try_with(|residents| residents.borrow().iter().any(is)).unwrap_or(false)
}

/// Whether a worker lives on this thread.
pub(crate) fn is_inhabited() -> bool {
    RESIDENTS.try_with(|residents| !residents.borrow().is_empty()).unwrap_or(false)
}

/// The worker of this group that lives on the calling thread, if one does: one around the caller,
/// before others.
pub(crate) fn resident_of(group: &Arc<Group>) -> Option<NonNull<Common>> {
    // SAFETY: a worker leaves the list before its end.
    let mine = |worker: &&*const Common| Arc::ptr_eq(unsafe { &(***worker).group }, group);
    let find = |residents: &RefCell<Vec<*const Common>>| {
        residents.borrow().iter().find(mine).and_then(|worker| NonNull::new(worker.cast_mut()))
    };
    around_of(group).or_else(|| RESIDENTS.try_with(find).ok().flatten())
}
