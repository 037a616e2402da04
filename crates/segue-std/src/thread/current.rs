//! The handle of the running fiber or thread, and the token by which `unpark` ends a `park`.
//!
//! A fiber has its [`Thread`] in a fiber-local value, and a plain thread likewise: put there by the
//! spawn of this module, or made at the first use. The value ends with its fiber.
//!
//! The token is the permit of a [`Notify`]: `unpark` leaves it, `park` takes it.

use crate::cancelled::{unless_cancelled, wait};
use segue::sync::Notify;
use segue::{after, fiber, fiber_local};
use std::cell::RefCell;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// [`std::thread::Thread`]: a handle of a fiber, or of a plain thread.
#[derive(Clone)]
pub struct Thread(Arc<Inner>);

struct Inner {
    number: u64,
    name: Option<Box<str>>,
    token: Notify,
}

/// [`std::thread::ThreadId`]: no two fibers and threads of a process share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId(u64);

fiber_local! {
    static OWN: RefCell<Option<Thread>> = RefCell::new(None);
}

impl Thread {
    pub(super) fn new(name: Option<Box<str>>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Self(Arc::new(Inner { number, name, token: Notify::new() }))
    }

    /// Runs `f`, in which this is the current one.
    pub(super) fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        // A closure that runs in place has values of its own, as a fiber has.
        _ = OWN.try_with(|own| own.replace(Some(self.clone())));
        f()
    }

    /// Gives it the token, which ends its next [`park`], or the one that it is in. Never waits.
    pub fn unpark(&self) {
        self.0.token.notify_one();
    }

    /// What tells it apart from all others.
    #[must_use]
    pub fn id(&self) -> ThreadId {
        ThreadId(self.0.number)
    }

    /// The name that it was spawned with.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }
}

impl UnwindSafe for Thread {}
impl RefUnwindSafe for Thread {}

segue::core::impl_debug!([] Thread, |it| id: it.id(), name: it.name());

/// [`std::thread::current`]: the fiber that calls, or the plain thread.
///
/// # Examples
///
/// ```
/// use segue_std::thread;
///
/// let named = thread::Builder::new().name("courier".to_owned());
/// let fiber = named.spawn(|| thread::current().name().map(str::to_owned)).unwrap();
/// assert_eq!(fiber.join().unwrap().unwrap(), "courier");
/// ```
#[must_use]
pub fn current() -> Thread {
    let make = || {
        let name = match fiber::current() {
            Some(fiber) => fiber.name().map(Box::from),
            None => std::thread::current().name().map(Box::from),
        };
        Thread::new(name)
    };
    // In the destructors of fiber-local values there may be none.
    OWN.try_with(|own| own.borrow_mut().get_or_insert_with(make).clone()).unwrap_or_else(|_| make())
}

/// [`std::thread::park`]: waits for the token, and takes it. It does not return without.
///
/// # Cancellation
/// Unwinds; see [the module](crate). The token is left.
///
/// # Examples
///
/// ```
/// use segue_std::thread;
///
/// let parked = thread::spawn(thread::park);
/// parked.thread().unpark();
/// parked.join().unwrap();
/// ```
#[track_caller]
pub fn park() {
    let own = current();
    unless_cancelled(wait!(own.0.token.wait()));
}

/// [`std::thread::park_timeout`]: [`park`]s, for `limit` at most.
///
/// # Cancellation
/// Unwinds; see [the module](crate). The token is left.
#[track_caller]
pub fn park_timeout(limit: Duration) {
    let own = current();
    if !own.0.token.try_wait() {
        unless_cancelled(wait!(own.0.token.wait_source().or(after(limit)).wait()));
    }
}

/// [`std::thread::park_timeout_ms`], as [`park_timeout`].
///
/// # Cancellation
/// Unwinds; see [the module](crate). The token is left.
#[deprecated(note = "`park_timeout` takes a `Duration`")]
#[track_caller]
pub fn park_timeout_ms(ms: u32) {
    park_timeout(Duration::from_millis(ms.into()));
}

#[cfg(test)]
#[path = "../../tests/units/current.rs"]
mod tests;
