//! Whose reactor an op waits in: the reactor of the caller's worker, or the one that the process
//! shares.
//!
//! Set by `DriverPark`; asked by sockets, when an op on one has to wait for the first time.

use super::reactor::{Found, Reactor};
use std::cell::{Cell, RefCell};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

thread_local! {
    /// The reactor that this thread's worker idles in.
    static REACTOR: RefCell<Option<Arc<Reactor>>> = const { RefCell::new(None) };
}

segue_core::plain_thread_local! {
    /// Its address; zero if there is none.
    static HOME: Cell<usize> = Cell::new(0);
}

/// Says which reactor this thread's worker idles in, and gives back the reactor of before.
pub(super) fn set(reactor: Option<Arc<Reactor>>) -> Option<Arc<Reactor>> {
    HOME.set(reactor.as_ref().map_or(0, Reactor::home));
    REACTOR.try_with(|slot| slot.replace(reactor)).ok().flatten()
}

/// Whether this is the child of a fork, on a thread whose reactor is still its parent's.
pub(crate) fn is_orphan() -> bool {
    REACTOR.try_with(|slot| slot.borrow().as_ref().is_some_and(|reactor| reactor.check().is_err())).unwrap_or(false)
}

/// Whether the reactor with this address is the one that the caller's worker turns while the caller
/// waits: so if the caller is a fiber, and not the worker's thread.
#[inline]
pub(super) fn is_callers(reactor: usize) -> bool {
    HOME.get() == reactor && segue_core::in_fiber()
}

/// The reactor for an op of the caller.
///
/// On a worker's thread, but not on a fiber, nobody would look after the worker's reactor while the
/// thread is parked; hence the question whether this is a fiber.
pub(super) fn of_caller() -> io::Result<Arc<Reactor>> {
    let own = || REACTOR.try_with(|slot| slot.borrow().clone()).ok().flatten();
    match segue_core::in_fiber().then(own).flatten() {
        Some(reactor) => Ok(reactor),
        None => shared(),
    }
}

/// The reactor of all fibers and threads that have none: started on first use, with a thread of its
/// own, and never closed.
pub(super) fn shared() -> io::Result<Arc<Reactor>> {
    static SHARED: Mutex<Option<Arc<Reactor>>> = Mutex::new(None);
    let mut slot = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(reactor) = &*slot {
        return Ok(Arc::clone(reactor));
    }
    let reactor = Arc::new(Reactor::shared()?);
    let threads = Arc::clone(&reactor);
    std::thread::Builder::new().name("segue-io".to_owned()).spawn(move || {
        let mut found = Found::default();
        loop {
            let _ = threads.turn(&mut found, None);
        }
    })?;
    reactor.open();
    Ok(Arc::clone(slot.insert(reactor)))
}
