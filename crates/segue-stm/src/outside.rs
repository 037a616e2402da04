//! State that is no variable, and that bodies wait for: a value that somebody else computes.
//!
//! Used by authors of such state, segue's cells for one. They [look] at it, tell after each
//! [change](changed), and keep transactions out of what they compute in a body ([`apart`]).
//!
//! # The idea
//!
//! A body can't wait in place: the references that it has read, and the memory behind these, are
//! the attempt's. Nor can the transaction stand in a queue of the state after the attempt, since
//! the state may be in a variable, and go. So all such state has one variable, the *event*, which a
//! change replaces. A look in vain has read the event, and stops the attempt as a
//! [`retry`](crate::Tx::retry) would; the difference is that no `or_else` takes this back. The
//! transaction is undone, waits, and begins again, as if it had waited before. It may begin again
//! for the change of other state, and then looks in vain once more.
//!
//! Without a waiter, a change takes one load or two: the event has a handle for each
//! waiter, and is replaced if there is one.
//!
//! # The race to fear
//!
//! A change between the look and the registration. The body takes its handle and the version of
//! the event, and then looks again, under the lock of the state. Either this look finds the change;
//! or the look has had the lock before the change, and that lock brings the handle along: so the
//! change, which counts handles after its hold of the lock, finds one and replaces the event after
//! the version that the body has. Then `commit.rs` has the argument: the registration sees another
//! version, or the publication sees the waiter.
//!
//! **Idle**: nobody has a handle but the event itself. **Cancellation**: the waiter leaves the
//! queue of the event, and lets go of its handle.

use crate::commit::{tell, write_blindly};
use crate::log::Taken;
use crate::open;
use crate::stop::stopped;
use crate::tx::Tx;
use crate::var::TVar;
use crate::version::Holding;
use segue_core::{Cancelled, check};
#[cfg(loom)]
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::ptr::NonNull;
#[cfg(not(loom))]
use std::sync::OnceLock;

#[cfg(not(loom))]
static EVENT: OnceLock<TVar<()>> = OnceLock::new();

#[cfg(loom)]
loom::lazy_static! {
    static ref EVENT: Always = Always(ManuallyDrop::new(TVar::new(())));
}

/// A model has the event from its beginning, and to its end, when nothing is freed any more.
#[cfg(loom)]
struct Always(ManuallyDrop<TVar<()>>);

#[cfg(loom)]
impl Always {
    fn get(&self) -> Option<&TVar<()>> {
        Some(&self.0)
    }

    fn get_or_init(&self, _init: impl FnOnce() -> TVar<()>) -> &TVar<()> {
        &self.0
    }
}

/// The result of `look` for a caller inside of the body of a transaction: state that is no variable
/// and that has, or will have, something that the body needs. `None` for other callers, which wait
/// in their own way.
///
/// If `look` finds nothing, twice, the body is to end: the call fails, the transaction is undone,
/// and begins again after a [change](changed) of such state, or of a variable that was read. So
/// `look` and all changes of its state are under one lock, and `look` has no effect where it finds
/// nothing.
///
/// # Cancellation
/// *No effect*.
///
/// # Errors
/// [`Cancelled`] inside of a body that is to end, which passes that on, and of a cancelled caller.
///
/// # Examples
///
/// ```
/// use segue_stm::{atomically, outside};
/// use std::sync::Mutex;
///
/// let found = Mutex::new(None);
/// let look = || *found.lock().unwrap();
/// assert!(outside::look(look).is_none()); // not in a body
/// let first = std::thread::scope(|s| {
///     s.spawn(|| {
///         *found.lock().unwrap() = Some(7);
///         outside::changed();
///     });
///     atomically(|_| Ok(outside::look(look).expect("in a body")?))
/// });
/// assert_eq!(first, Ok(7));
/// ```
#[inline]
#[track_caller]
pub fn look<R>(look: impl FnMut() -> Option<R>) -> Option<Result<R, Cancelled>> {
    let site = Location::caller();
    open::with_outer(|attempt| look_in_body(attempt, look, site))
}

#[cold]
fn look_in_body<R>(
    attempt: &Tx<'_>,
    mut look: impl FnMut() -> Option<R>,
    site: &'static Location<'static>,
) -> Result<R, Cancelled> {
    check()?;
    if attempt.is_stopped() {
        return Err(stopped());
    }
    if let Some(found) = look() {
        return Ok(found);
    }
    let event = EVENT.get_or_init(|| TVar::new(())).clone();
    // The attempt is a snapshot, which keeps the version.
    let seen = event.head().load_unlocked().version();
    attempt.point();
    look().ok_or_else(|| {
        attempt.wait_outside(event, seen, site);
        stopped()
    })
}

/// Runs `f`, the computation of a value that outlives the attempt. In a body a transaction in `f`
/// would be a part of the one around, and could be undone while the value stays: so the
/// transaction in `f` fails, and with it the one around. Elsewhere a plain call.
///
/// # Panics
/// If `f` does.
///
/// # Examples
///
/// ```
/// use segue_stm::{TVar, atomically, outside};
///
/// let next = TVar::new(0);
/// let take = || atomically(|tx| tx.modify(&next, |next| next + 1));
/// assert_eq!(outside::apart(take), Ok(()));
/// assert!(atomically(|_| Ok(outside::apart(take)?)).is_err());
/// assert_eq!(next.get(), 1);
/// ```
#[inline]
pub fn apart<R>(f: impl FnOnce() -> R) -> R {
    let before = open::with_outer(|attempt| attempt.set_apart(true));
    let _back = before.map(Back);
    f()
}

/// The end of code that is apart, also by a panic.
struct Back(bool);

impl Drop for Back {
    fn drop(&mut self) {
        open::with_outer(|attempt| attempt.set_apart(self.0));
    }
}

/// Tells bodies that have [looked](look) in vain to look again: after a change, and not under the
/// lock of the state, since a waiter's waker is called. Never waits. Without such a body, one load
/// or two.
#[inline]
#[track_caller]
pub fn changed() {
    if let Some(event) = EVENT.get().filter(|event| event.head().is_shared()) {
        replace(event, Location::caller());
    }
}

#[cold]
fn replace(event: &TVar<()>, site: &'static Location<'static>) {
    let mut log = Taken::take();
    log.get().write(NonNull::from(event.head()), Holding::make((), site), event.head().kind);
    tell(write_blindly(log.get()).expect("nobody has the event in turn"));
}
