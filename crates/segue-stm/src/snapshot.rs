//! The clock of commits, the attempts that are under way, and the end of memory that these may
//! still see.
//!
//! Used by attempts, which are a [`Snapshot`] from their beginning to their end; by commits, which
//! number themselves, and by variables, which [`retire`] their memory.
//!
//! # The idea
//!
//! Each commit that writes has a number, the next of the *clock*. An attempt begins with the number
//! of the last commit before, its *snapshot*, and publishes that number in a *slot*. Memory that a
//! commit takes out of use is retired with the number of the commit. An attempt with an older
//! snapshot may still reach that memory; one with this snapshot or a later one can't. So retired
//! memory is freed as soon as no slot has an older number: the numbers that make a transaction
//! consistent are the epochs of the reclamation.
//!
//! Two things follow, for which an epoch scheme has no promise. An attempt reads old versions for
//! as long as it runs, since all that were replaced after its beginning are kept for it
//! (`version.rs`). And the last attempt that could see some memory frees that at its end: there is
//! a bound, and no thread has to come by later.
//!
//! # States of a slot
//!
//! ```text
//!   IDLE --begin: the attempt----> number --end: the attempt------------------> IDLE
//!                                    |                                           ^
//!                                    '--note: a retirer---> number, noted --end-+--> the attempt reclaims
//! ```
//!
//! A slot belongs to one attempt at a time. Threads keep one for their next attempt; slots are
//! never freed, so that anybody may look at all of them.
//!
//! Retired memory lies with its thread at first, and some tens of versions without drops may stay
//! there. Of more, the part that an attempt may still see goes to a heap for all, the *limbo*, the
//! oldest stamp first; and the slots of all attempts that may see the first are noted, in this
//! order and under the lock of the limbo. The end of a noted attempt reclaims: it frees from the
//! first on, and notes the attempts that may see the one that is first then. So the last attempt
//! that may see some memory is noted before all others have ended, or reclaims after them. **When
//! idle** (no attempt is under way) the limbo is empty. A step costs a logarithm, however long an
//! attempt that sees everything keeps the memory of others there.
//!
//! Memory is freed between the attempts of a thread, never within one: the drop of a value is
//! foreign code, may have a transaction of its own, and is no part of the one around.
//!
//! **The races to fear**:
//!
//! - An attempt publishes its number while somebody looks for active ones. The attempt writes the
//!   slot (W) and then reads the clock (R); the retirer has advanced the clock (A) and then
//!   reads the slots (L). All four are sequentially consistent: if L misses W, then R sees A.
//!   So the attempt has a snapshot at which the memory is out of use, and does not reach it.
//! - An attempt ends while it is being noted. Both are exchanges of the slot: either the end sees
//!   the note, or the note fails, and the retirer looks again.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | the clock's advance by a commit, behind its locks | the load at the beginning of an attempt | the locks of that commit: see `commit.rs` |
//! | the slot's exchange at the end of an attempt | the load of the slot before memory is freed | the attempt's last look at that memory |
//!
//! The table of snapshots in place of epochs is after the multi-version STMs (Multiverse, 2026),
//! the note after Hyaline, in which the last reader frees.
#![allow(unsafe_code)] // Memory is freed by address.

use crate::plain_thread_local;
use crate::version::{Head, Kind, Version};
use segue_core::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use segue_core::no_suspend;
use segue_core::scheduling::{Lock, LockGuard};
use std::cell::{Cell, RefCell};
use std::cmp::{self, Reverse};
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};

/// A word with cache lines of its own.
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

/// The number of no attempt; even, so that it is not noted.
const IDLE: u64 = !1;
const NOTED: u64 = 1;

/// The state that all transactions of the process share.
struct World {
    clock: Apart<AtomicU64>,
    /// The slots, linked; only added to.
    slots: AtomicPtr<Slot>,
    limbo: Lock<Limbo>,
}

/// Retired memory that attempts may still see; the one with the least stamp is first.
type Limbo = BinaryHeap<Reverse<Retired>>;

/// The place in which an attempt publishes its snapshot.
#[repr(align(128))]
pub(crate) struct Slot {
    /// Twice the number, and NOTED.
    state: AtomicU64,
    is_taken: AtomicBool,
    next: *const Slot,
}

#[cfg(not(loom))]
fn world() -> &'static World {
    static WORLD: World = World {
        clock: Apart(AtomicU64::new(0)),
        slots: AtomicPtr::new(ptr::null_mut()),
        limbo: Lock::new(BinaryHeap::new()),
    };
    &WORLD
}

#[cfg(loom)]
fn world() -> &'static World {
    loom::lazy_static! {
        static ref WORLD: World = World {
            clock: Apart(AtomicU64::new(0)),
            slots: AtomicPtr::new(ptr::null_mut()),
            limbo: Lock::new(BinaryHeap::new()),
        };
    }
    &WORLD
}

// SAFETY: a slot's fields are atomic, or written before the slot is linked; retired memory may be
// freed by any thread.
unsafe impl Send for World {}
// SAFETY: as above, and the limbo has a lock.
unsafe impl Sync for World {}

/// Loom knows sequential consistency of fences alone; elsewhere the accesses have it.
#[inline]
fn full_fence() {
    #[cfg(loom)]
    segue_core::atomic::fence(Ordering::SeqCst);
}

/// The next number, for a commit that holds its locks.
#[inline]
pub(crate) fn advance_clock() -> u64 {
    let number = world().clock.0.fetch_add(1, Ordering::SeqCst) + 1;
    full_fence();
    number
}

/// The last number.
#[inline]
pub(crate) fn clock() -> u64 {
    world().clock.0.load(Ordering::SeqCst)
}

/// An attempt that is under way: the versions that were current at its beginning, and all later
/// ones, stay in memory until its drop.
pub(crate) struct Snapshot {
    slot: &'static Slot,
    /// The number of the last commit that the attempt sees.
    pub(crate) number: Cell<u64>,
}

impl Snapshot {
    #[inline]
    pub(crate) fn begin() -> Self {
        let slot = LOCAL.try_with(|local| local.slot.take()).ok().flatten().unwrap_or_else(Slot::take);
        let guess = world().clock.0.load(Ordering::Relaxed);
        slot.state.swap(2 * guess, Ordering::SeqCst);
        full_fence();
        BUSY.with(|busy| busy.set(busy.get() + 1));
        Self { slot, number: Cell::new(clock()) }
    }

    /// Ends the attempt. Answers whether memory is there that this attempt alone could see.
    #[inline]
    #[must_use]
    fn close(&mut self) -> bool {
        let noted = self.slot.state.swap(IDLE, Ordering::AcqRel) & NOTED != 0;
        let slot = self.slot;
        let kept = LOCAL.try_with(|local| local.slot.replace(Some(slot)));
        match kept {
            Ok(None) => {}
            // A thread keeps one.
            Ok(Some(other)) => other.give_back(),
            Err(_) => slot.give_back(),
        }
        noted
    }
}

impl Drop for Snapshot {
    #[inline]
    fn drop(&mut self) {
        let is_noted = self.close();
        let busy = BUSY.with(|busy| busy.replace(busy.get() - 1) - 1);
        let owes = OWES.with(Cell::get).max(if is_noted { Owes::Limbo } else { Owes::Nothing });
        if owes > Owes::Nothing && (is_noted || busy == 0) {
            reclaim(owes);
        }
    }
}

impl Slot {
    /// A slot of no thread.
    #[cold]
    fn take() -> &'static Self {
        let world = world();
        let mut at = world.slots.load(Ordering::Acquire);
        // SAFETY: slots are never freed, and were written before they were linked.
        while let Some(slot) = unsafe { at.as_ref() } {
            if !slot.is_taken.load(Ordering::Relaxed) && !slot.is_taken.swap(true, Ordering::Acquire) {
                return slot;
            }
            at = slot.next.cast_mut();
        }
        let new = Box::leak(Box::new(Self {
            state: AtomicU64::new(IDLE),
            is_taken: AtomicBool::new(true),
            next: world.slots.load(Ordering::Relaxed),
        }));
        loop {
            let next = new.next.cast_mut();
            match world.slots.compare_exchange(next, new, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return new,
                Err(now) => new.next = now,
            }
        }
    }

    fn give_back(&self) {
        self.is_taken.store(false, Ordering::Release);
    }

    /// Calls `f` with each slot.
    fn each(mut f: impl FnMut(&Self)) {
        let mut at = world().slots.load(Ordering::SeqCst);
        // SAFETY: slots are never freed, as in `take`.
        while let Some(slot) = unsafe { at.as_ref() } {
            f(slot);
            at = slot.next.cast_mut();
        }
    }

    /// The number of the attempt in this slot, [`IDLE`] / 2 without one; one that is under `stamp`
    /// is noted.
    fn noted(&self, stamp: u64) -> u64 {
        let mut state = self.state.load(Ordering::SeqCst);
        while state & NOTED == 0 && state / 2 < stamp {
            match self.state.compare_exchange(state, state | NOTED, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        state / 2
    }
}

/// Memory that no later attempt reaches.
pub(crate) struct Retired {
    /// Attempts with an older snapshot may reach it.
    stamp: u64,
    what: Memory,
}

enum Memory {
    Version(NonNull<Version>, &'static Kind),
    Head(NonNull<Head>),
}

// SAFETY: the values are `Send` (a variable asks for that), and nobody else reaches this memory.
unsafe impl Send for Retired {}

impl Ord for Retired {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.stamp.cmp(&other.stamp)
    }
}

impl PartialOrd for Retired {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Retired {
    fn eq(&self, other: &Self) -> bool {
        self.stamp == other.stamp
    }
}

impl Eq for Retired {}

impl Retired {
    /// A version that the commit `stamp` has replaced, or that was never published (`stamp` 0).
    ///
    /// # Safety
    /// The version is of this kind, is retired once, and no attempt with the snapshot `stamp` or a
    /// later one reaches the version.
    #[inline]
    pub(crate) unsafe fn version(stamp: u64, version: NonNull<Version>, kind: &'static Kind) -> Self {
        Self { stamp, what: Memory::Version(version, kind) }
    }

    /// A variable without a handle, with its last version.
    ///
    /// # Safety
    /// The last handle has gone, and with that this call.
    #[cold]
    pub(crate) unsafe fn head(head: NonNull<Head>) -> Self {
        // Attempts that begin from now on have this snapshot, and reach only variables with
        // handles.
        Self { stamp: advance_clock(), what: Memory::Head(head) }
    }

    fn is_urgent(&self) -> bool {
        match self.what {
            Memory::Version(_, kind) => kind.has_drop,
            Memory::Head(_) => true,
        }
    }

    /// Frees the memory. The drop of a value is foreign code: its waits are refused, and a panic
    /// goes no further than the panic hook.
    ///
    /// # Safety
    /// No attempt with a snapshot before the stamp is under way.
    unsafe fn free(self) {
        // SAFETY: as the caller promises, and the code that has retired this.
        let free = || unsafe {
            match self.what {
                Memory::Version(version, kind) => (kind.free)(version),
                Memory::Head(head) => Head::free(head),
            }
        };
        if !self.is_urgent() {
            return free();
        }
        if let Err(panic) = no_suspend(|| catch_unwind(AssertUnwindSafe(free))) {
            // Its own drop may panic again.
            std::mem::forget(panic);
        }
    }
}

/// The part of this thread.
struct Local {
    slot: Cell<Option<&'static Slot>>,
    retired: RefCell<Vec<Retired>>,
}

impl Local {
    const fn new() -> Self {
        Self { slot: Cell::new(None), retired: RefCell::new(Vec::new()) }
    }
}

/// How much memory without drops a thread keeps.
const BATCH: usize = 64;

/// How much of that it keeps after a look, where attempts that are under way may still see it.
const REST: usize = BATCH / 2;

#[cfg(not(loom))]
thread_local! {
    static LOCAL: Local = const { Local::new() };
}

#[cfg(loom)]
loom::thread_local! {
    static LOCAL: Local = Local::new();
}

plain_thread_local! {
    /// The attempts that are under way on this thread, and one more while it frees. Memory is freed
    /// at none: the drop of a value is no part of a transaction, and a long list of variables needs
    /// no long stack.
    static BUSY: Cell<usize> = Cell::new(0);
    /// The [`reclaim`] that is still to come.
    static OWES: Cell<Owes> = Cell::new(Owes::Nothing);
}

/// The memory that a thread is to look at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Owes {
    Nothing,
    /// That of the thread itself.
    Own,
    /// And the limbo: a noted attempt has ended.
    Limbo,
}

impl Drop for Local {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            slot.give_back();
        }
        // A model's world may have ended before the variables of its threads.
        if cfg!(not(loom)) {
            bury(self.retired.take());
        }
    }
}

fn limbo() -> LockGuard<'static, Limbo> {
    world().limbo.lock()
}

/// Takes memory out of use, and frees all that nobody can see any more: at once if a drop is to
/// run, else from time to time; but not before the attempts of this thread have ended.
#[inline]
pub(crate) fn retire(memory: impl IntoIterator<Item = Retired>) {
    let mut memory = memory.into_iter();
    let kept = LOCAL.try_with(|local| {
        let mut retired = local.retired.borrow_mut();
        let before = retired.len();
        retired.extend(&mut memory);
        retired.len() >= BATCH || retired[before..].iter().any(Retired::is_urgent)
    });
    match kept {
        Ok(false) => {}
        Ok(true) => reclaim(Owes::Own),
        // The thread ends.
        Err(_) => bury(memory.collect()),
    }
}

/// [`retire`], in the destructors of a thread.
#[cold]
fn bury(mut retired: Vec<Retired>) {
    if !retired.is_empty() {
        limbo().extend(retired.drain(..).map(Reverse));
        reclaim(Owes::Limbo);
    }
}

/// Frees the memory that nobody can see any more; later, if this thread is busy.
#[cold]
#[inline(never)]
fn reclaim(owes: Owes) {
    OWES.with(|now| now.set(now.get().max(owes)));
    if BUSY.with(Cell::get) != 0 {
        return;
    }
    // Drops do not unwind out of `free`, and are not suspended: this thread comes back here.
    BUSY.with(|busy| busy.set(1));
    loop {
        let owes = OWES.with(|owes| owes.replace(Owes::Nothing));
        if owes == Owes::Nothing {
            break;
        }
        let mut retired = LOCAL.try_with(|local| local.retired.take()).unwrap_or_default();
        settle(&mut retired, owes);
        let _ = LOCAL.try_with(|local| {
            let mut more = local.retired.borrow_mut();
            // The rest, and the room of the list.
            std::mem::swap(&mut *more, &mut retired);
            more.append(&mut retired);
        });
    }
    BUSY.with(|busy| busy.set(0));
}

/// Frees all that can be freed of this. Of the rest, a short list without drops stays as it is;
/// else the rest goes to the limbo. Frees all that can be freed of the limbo, if that has got more
/// or the end of a noted attempt owes it.
fn settle(retired: &mut Vec<Retired>, owes: Owes) {
    // SAFETY: `oldest` has found no attempt that is older than the stamps.
    let free = |memory: Retired| unsafe { memory.free() };
    let oldest_now = oldest(0);
    retired.extract_if(.., |memory| memory.stamp <= oldest_now).for_each(free);
    let stays = retired.len() <= REST && !retired.iter().any(Retired::is_urgent);
    if stays && owes != Owes::Limbo {
        return;
    }
    let mut gone = Vec::new();
    let mut limbo = limbo();
    if !stays {
        limbo.extend(retired.drain(..).map(Reverse));
    }
    while let Some(Reverse(first)) = limbo.peek() {
        // Under the lock: an attempt that is noted finds the memory there.
        let oldest = oldest(first.stamp);
        if first.stamp > oldest {
            break;
        }
        while limbo.peek().is_some_and(|memory| memory.0.stamp <= oldest) {
            gone.extend(limbo.pop().map(|memory| memory.0));
        }
    }
    drop(limbo);
    gone.into_iter().for_each(free);
}

/// The oldest snapshot of the attempts that are under way; those before `stamp` are noted.
fn oldest(stamp: u64) -> u64 {
    full_fence();
    let mut oldest = IDLE / 2;
    Slot::each(|slot| oldest = oldest.min(slot.noted(stamp)));
    oldest
}
