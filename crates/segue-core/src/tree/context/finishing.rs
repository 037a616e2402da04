//! The request to finish that comes before a cancellation, and the grace between the two.
//!
//! Used by scopes, tokens and schedulers that end in two stages, and by their members, which look.
//!
//! # The idea
//!
//! Before a cancellation a context may be *asked*: a second flag that goes down the tree in the
//! same way, and is born with nested contexts. Waits go on; a fiber that wants to know looks, or
//! waits for the request by a header that stands for the waiter among the members
//! (`cancel/cancellation.rs`). The others get an interrupt that has no effect, as they are not
//! cancelled. A cancelled context counts as asked.
//!
//! # The grace
//!
//! An entry among the timers cancels the context when the grace is over. The entry knows the
//! context by a weak pointer, and the entry's key stands in a table of the process, by the
//! context's address, so that contexts without a grace, which are nearly all, have no room for one:
//! they have a flag. So a context that ends earlier, as its scope is over and its tokens are gone,
//! takes the entry out, and an hour of grace keeps nothing for an hour. Of several graces the table
//! keeps the one that ends first.
//!
//! A grace that lay among the timers of a worker would not end while a fiber computes there. So the
//! entry lies with the timers that have a thread of their own, unless the caller's clock is a
//! simulated one.
//!
//! | | |
//! | --- | --- |
//! | commit point | of the request: the flag; of the cancellation: that of `cancel` |
//! | cancelled before the grace is over | the entry cancels again, which has no effect |
//! | the timers are closed, at the end of a simulation | the rest of the grace goes to the timers of plain threads |
//!
//! **The race to fear**: the entry comes up while the last owner drops the context. The weak
//! pointer then leads to nothing, or keeps the context for the length of the cancellation, and the
//! drop of that finds its own key stale. No other context has the address before that drop has
//! taken the entry out of the table.
#![allow(unsafe_code)] // Members are reached by address.

use super::{ASKED, CANCELLED, Context, GRACE};
use crate::chain::deferred_wakers::Batch;
use crate::contract::current::with_running;
use crate::contract::fiber::{Fiber, Wake};
use crate::primitives::atomic::Ordering;
use crate::timers::of_threads::thread_timers;
use crate::timers::{Entry, Key, Rare, Timers};
use crate::tree::cancelled::Reason;
use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How many of those that were not over in time are named.
const MOST_NAMES: usize = 16;

/// The entry that cancels a context when its grace is over. Its drop takes the entry out.
pub(super) struct Grace {
    until: Instant,
    timers: Timers,
    key: Key,
}

impl Drop for Grace {
    fn drop(&mut self) {
        self.timers.remove(self.key);
    }
}

/// The graces that have begun, by the addresses of their contexts.
fn graces() -> MutexGuard<'static, HashMap<usize, Grace>> {
    static GRACES: LazyLock<Mutex<HashMap<usize, Grace>>> = LazyLock::new(Mutex::default);
    GRACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the timers call when a grace is over.
struct Unfinished {
    context: Weak<Context>,
    grace: Duration,
}

impl Unfinished {
    /// The grace is over.
    fn cancel(self) {
        if let Some(context) = self.context.upgrade() {
            context.cancel_unfinished(self.grace);
        }
    }
}

impl Context {
    /// Whether those inside are to finish, or to stop.
    #[inline]
    pub(crate) fn is_finishing(&self) -> bool {
        self.head.flags.load(Ordering::Acquire) & (ASKED | CANCELLED) != 0
    }

    /// Asks those inside, and in everything below, to finish. Again has no effect. Never waits.
    pub(crate) fn ask_to_finish(&self) {
        // Foreign code runs when this is dropped.
        let _batch = Batch::new();
        self.walk(Self::ask_members);
    }

    fn ask_members(&self, below: &mut Vec<Arc<Self>>) {
        let members = self.members.lock();
        if self.is_finishing() {
            return;
        }
        self.head.flags.fetch_or(ASKED, Ordering::Release);
        members.fibers.iter().for_each(|fiber| {
            // SAFETY: the fiber is a member, and this is its context's lock.
            unsafe { Fiber::wake(fiber, Wake::Interrupt) };
        });
        self.list_below(&members, below);
    }

    /// Asks those inside to finish, and cancels the rest after `grace`. Never waits.
    pub(crate) fn cancel_soft(self: &Arc<Self>, grace: Duration) {
        self.ask_to_finish();
        if self.is_cancelled() {
            return;
        }
        if grace.is_zero() {
            return self.cancel_unfinished(grace);
        }
        let timers = timers_of_graces();
        let Some(until) = timers.now().checked_add(grace) else { return };
        let address = ptr::from_ref(&**self).addr();
        let mut graces = graces();
        if graces.get(&address).is_some_and(|earlier| earlier.until <= until) {
            return;
        }
        let unfinished = Unfinished { context: Arc::downgrade(self), grace };
        let key = timers.insert(until, Entry::Rare(Box::new(Rare::Call(Box::new(|| unfinished.cancel())))));
        self.head.flags.fetch_or(GRACE, Ordering::Relaxed);
        let later = graces.insert(address, Grace { until, timers, key });
        drop(graces);
        drop(later);
    }

    /// The context ends, and with it its grace.
    #[cold]
    pub(super) fn end_grace(&self) {
        let grace = graces().remove(&ptr::from_ref(self).addr());
        drop(grace);
    }

    /// Cancels the contexts that were asked to finish and are not over after `grace`. The reason
    /// names the fibers that are there still.
    fn cancel_unfinished(&self, grace: Duration) {
        // One more than are named.
        let mut names = self.names(MOST_NAMES + 1);
        let others = if names.len() > MOST_NAMES { ", and others" } else { "" };
        names.truncate(MOST_NAMES);
        let named: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        let named = if named.is_empty() { String::new() } else { format!(": {}{others}", named.join(", ")) };
        self.cancel(Some(Reason::new(format!("asked to finish, and not over after {grace:?}{named}"))));
    }
}

/// The timers that end the caller's graces: those of its simulation, or those that a thread of
/// their own fires.
fn timers_of_graces() -> Timers {
    let simulated = |fiber: &Fiber| {
        let timers: &Timers = fiber.scheduler().timers();
        (!timers.is_real()).then(|| timers.clone())
    };
    with_running(|fiber| fiber.and_then(simulated)).unwrap_or_else(|| thread_timers().clone())
}
