//! Who runs, and the token by which it is parked and unparked.
//!
//! A fiber's [`Thread`] is found by the fiber's id, in one table. If the fiber was spawned by this
//! module, then the table holds it for as long as the fiber runs. Of other fibers the table has a
//! weak reference: without a handle there is nobody who could unpark. Only a token that waits for
//! such a fiber is held. What is left of fibers that have ended goes when the table has doubled. A
//! plain thread has its own in a thread-local variable, also one that was spawned by this module in
//! a program without schedulers.
//!
//! The token is the permit of a [`Notify`]: `unpark` leaves it, `park` takes it.

use crate::cancelled::{unless_cancelled, wait};
use segue::after;
use segue::fiber::{self, FiberId};
use segue::sync::Notify;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// [`std::thread::Thread`]: a handle of a fiber, or of a plain thread.
#[derive(Clone)]
pub struct Thread(Arc<Inner>);

struct Inner {
    number: u64,
    name: Option<Box<str>>,
    token: Notify,
    /// The fiber, if the table does not hold this while it runs.
    guest: Option<FiberId>,
}

/// [`std::thread::ThreadId`]: no two fibers and threads of a process share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId(u64);

#[derive(Default)]
struct Table {
    fibers: HashMap<FiberId, Entry>,
    /// At this size what has ended is taken out.
    full: usize,
}

struct Entry {
    thread: Weak<Inner>,
    /// While the fiber runs, or the token waits for it.
    held: Option<Arc<Inner>>,
}

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    fn insert(&mut self, id: FiberId, thread: &Arc<Inner>, held: bool) {
        if self.fibers.len() >= self.full {
            self.fibers.retain(|_, entry| entry.thread.strong_count() > 0);
            self.full = 2 * self.fibers.len().max(32);
        }
        let held = held.then(|| Arc::clone(thread));
        self.fibers.insert(id, Entry { thread: Arc::downgrade(thread), held });
    }
}

thread_local! {
    /// Of a plain thread.
    static OWN: RefCell<Option<Thread>> = const { RefCell::new(None) };
}

/// Exchanges a plain thread's own one. In the destructors of its thread-local variables there is
/// none.
fn exchange_own(own: Option<Thread>) -> Option<Thread> {
    OWN.try_with(|slot| slot.replace(own)).ok().flatten()
}

impl Thread {
    pub(super) fn new(name: Option<Box<str>>) -> Self {
        Self::with(name, None)
    }

    fn with(name: Option<Box<str>>, guest: Option<FiberId>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Self(Arc::new(Inner { number, name, token: Notify::new(), guest }))
    }

    /// Runs `f`, in which this is the current one.
    pub(super) fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        enum Leave {
            Fiber(FiberId),
            /// With what it was before.
            Thread(Option<Thread>),
        }
        impl Drop for Leave {
            fn drop(&mut self) {
                match self {
                    Self::Fiber(id) => drop(table().fibers.remove(id)),
                    Self::Thread(before) => drop(exchange_own(before.take())),
                }
            }
        }
        let _leave = match fiber::current() {
            Some(fiber) => {
                table().insert(fiber.id(), &self.0, true);
                Leave::Fiber(fiber.id())
            }
            None => Leave::Thread(exchange_own(Some(self.clone()))),
        };
        f()
    }

    /// Gives it the token, which ends its next [`park`], or the one that it is in. Never waits.
    pub fn unpark(&self) {
        if let Some(id) = self.0.guest
            && let Some(entry) = table().fibers.get_mut(&id)
        {
            entry.held = Some(Arc::clone(&self.0));
        }
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

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("id", &self.id()).field("name", &self.name()).finish_non_exhaustive()
    }
}

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
    let Some(fiber) = fiber::current() else {
        let own = || Thread::new(std::thread::current().name().map(Box::from));
        let found = OWN.try_with(|slot| slot.borrow_mut().get_or_insert_with(own).clone());
        return found.unwrap_or_else(|_| own());
    };
    let mut table = table();
    if let Some(found) = table.fibers.get(&fiber.id()).and_then(|entry| entry.thread.upgrade()) {
        return Thread(found);
    }
    let guest = Thread::with(fiber.name().map(Box::from), Some(fiber.id()));
    table.insert(fiber.id(), &guest.0, false);
    guest
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
    own.let_go();
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
    own.let_go();
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

impl Thread {
    /// The token has been taken.
    fn let_go(&self) {
        if let Some(id) = self.0.guest
            && let Some(entry) = table().fibers.get_mut(&id)
        {
            entry.held = None;
        }
    }
}
