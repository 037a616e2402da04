//! The calling fiber, as `std::thread` has the calling thread.
//!
//! Used for logs and messages, and to tell fibers apart.

use segue_core::with_current;
pub use segue_core::{
    AccessError, Attribute, Attributes, FiberLocal, Spread, attribute, attributes, name_fibers_in_panics, trim_stack,
};
use std::fmt;
use std::thread::{self, ThreadId};

/// The calling fiber; `None` on a plain thread, for which [`std::thread::current`] is there.
///
/// In a task that a scheduler of Segue's polls it is the fiber of the poll, which has the task's
/// name; the next poll has another one.
///
/// # Examples
///
/// ```
/// use segue::{Builder, fiber};
///
/// let named = Builder::new().name("courier").spawn(|| fiber::current().map(|own| own.to_string()));
/// # #[cfg(feature = "sched")]
/// assert_eq!(named.join().unwrap().unwrap(), "fiber `courier`");
/// assert!(fiber::current().is_none(), "this is the main thread");
/// ```
#[track_caller]
pub fn current() -> Option<Fiber> {
    let describe = |header: &segue_core::Fiber| Fiber {
        id: FiberId { thread: thread::current().id(), mark: header.mark() },
        number: header.id(),
        name: header.name().map(Box::from),
    };
    segue_core::in_fiber().then(|| with_current(describe))
}

/// What a fiber is called. It may outlive the fiber, and can do nothing to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fiber {
    id: FiberId,
    number: u64,
    name: Option<Box<str>>,
}

impl Fiber {
    /// What tells it apart from all others.
    #[must_use]
    pub fn id(&self) -> FiberId {
        self.id
    }

    /// The name that its [`Builder`](crate::Builder) was given.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl fmt::Display for Fiber {
    /// As reports call it: by its name, or by the number that its scheduler has for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "fiber `{name}`"),
            None => write!(f, "fiber {}", self.number),
        }
    }
}

/// What no two fibers of a process share, also if one has ended before the other begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FiberId {
    /// It stays on its thread.
    thread: ThreadId,
    mark: u64,
}
