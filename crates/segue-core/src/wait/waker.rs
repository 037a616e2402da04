//! The wait for any `Future`, in a fiber or a plain thread: polls it on the caller's stack and
//! suspends the caller in between.
//!
//! Used by bridges and by applications that call async libraries from straight-line code.
//!
//! # The idea
//!
//! A waker may be cloned, kept, sent away and called at any time, also long after the wait and
//! after the end of the fiber. So a waker can't be the waiter's frame, and is a *bell*, a small
//! counted allocation with a [`Trigger`]. Its waiter listens, over and over; to wake is to ring
//! (`wait/bell.rs` draws the states). Bells are taken from a pool of the thread's and go back there
//! at the end of the wait if no waker is left by then; so a wait allocates nothing as a rule. A
//! bell with wakers left is abandoned to them, and the last one frees the bell.
//!
//! Per wait that is two read-modify-writes, one to listen and one to ring, and none for a poll. A
//! future that wakes itself in its poll needs neither: that ring comes from the thread of the wait,
//! which does not listen then, and is a store into a plain cell.
//!
//! A fiber that is itself a task of an executor needs no bell (`as_task.rs`).
//!
//! # Which side frees a bell
//!
//! Most wakers are cloned and dropped by the thread that polls. So the count is in two parts:
//! `here`, which belongs to the thread of the wait (the *owner*) and needs no atomics, and `away`,
//! for all others. Either part may be negative, since a waker may be cloned on one side and dropped
//! on the other; their sum is the number of references, the wait's own included.
//!
//! ```text
//!   pooled (sum 1) --take--> owned (sum >= 1, nobody frees) --end of the wait, sum 1--> pooled, or freed
//!                                      \--end of the wait, sum > 1: merge--> abandoned --the last drop--> freed
//! ```
//!
//! While the bell is owned, the wait's own reference keeps the bell, so nobody looks whether the
//! sum is zero. To *merge* is to clear `owner` and to add `here` to `away`, with a bit that says
//! so; from then on `away` is the whole count, and the thread that brings the count to zero frees.
//!
//! **The race to fear**: the owner reads a sum of one while another thread clones. This can't
//! happen: the cloning thread has a waker, and that one is in the sum. That waker was counted in
//! `here`, by the owner itself, or in `away` before the operation that the owner does not see yet;
//! and can have left the sum again only by a drop on the owner's thread, which the clone happened
//! before, and then the owner sees that clone too.
//!
//! # Rings of the owner's thread
//!
//! Only the owner's thread begins to listen. So if that thread rings, and sees that nobody listens,
//! nobody does before the thread is through with the ring. The trigger's word stays untouched: the
//! thread sets `rung_here`, where the waiter looks just before listening. Rings of other threads
//! stay in the word meanwhile, for the next look. A thread that sees the waiter listen rings as any
//! other.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | `ring` | `listen`, or the resume | the ringer's earlier work, which the next poll is to see |
//! | the `fetch_sub` of a waker that is dropped elsewhere | the owner's load of `away`; the `fetch_sub` that frees | the last use of the bell |
//!
//! `owner` needs none: the value is one thread's number or none, and each thread compares it with
//! its own. Nor does `rung_here`, which one thread sets and takes.
//!
//! Biased counts are after Choi, Shull and Torrellas, "Biased reference counting" (2018).
#![allow(unsafe_code)] // A waker is a raw pointer to a counted allocation.

use crate::contract::current;
use crate::contract::fiber::Fiber;
use crate::contract::trigger::Trigger;
use crate::primitives::atomic::{AtomicUsize, Ordering, local};
use crate::primitives::waits_for::WaitsFor;
use crate::thread::here;
use crate::tree::cancelled::Cancelled;
use crate::tree::context;
use crate::wait::admission::{admit, exhausted};
use crate::wait::as_task;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::pin::{Pin, pin};
use std::ptr::{self, NonNull};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

/// The target of wakers.
struct Bell {
    trigger: Trigger,
    /// The number of the waiting thread, or [`NOBODY`].
    owner: AtomicUsize,
    /// The owner's part of the count. For its thread alone.
    here: Cell<isize>,
    /// Whether the owner's thread has rung since the waiter looked last. For that thread alone.
    rung_here: Cell<bool>,
    /// Twice the others' part of the count, wrapping, and [`MERGED`].
    away: AtomicUsize,
    /// The next in the pool.
    next: Cell<*const Bell>,
}

/// No thread's number.
const NOBODY: usize = usize::MAX;
/// `away` is the whole count.
const MERGED: usize = 1;
/// One reference in `away`.
const ONE: usize = 2;
/// How many bells a thread keeps. None in a model: its threads are not the system's, and end with
/// their bells.
const KEPT: usize = if cfg!(loom) { 0 } else { 256 };
/// More wakers than memory has room for: somebody forgets them.
const MOST: isize = isize::MAX / 8;

local!(static THREAD: Cell<usize> = Cell::new(0));

thread_local! {
    static POOL: Pool = const { Pool { first: Cell::new(ptr::null()), len: Cell::new(0) } };
}

/// The number of this thread, which no other ever has; zero before its first bell.
#[inline]
fn this_thread() -> usize {
    THREAD.with(Cell::get)
}

#[cold]
fn number_this_thread() -> usize {
    static LAST: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    THREAD.with(|slot| slot.set(number));
    number
}

/// A thread's bells that nobody has a waker of.
struct Pool {
    first: Cell<*const Bell>,
    len: Cell<usize>,
}

impl Pool {
    #[inline]
    fn take(&self) -> Option<NonNull<Bell>> {
        let first = NonNull::new(self.first.get().cast_mut())?;
        // SAFETY: a bell in the pool is allocated and the pool's alone.
        self.first.set(unsafe { first.as_ref() }.next.get());
        self.len.set(self.len.get() - 1);
        Some(first)
    }

    /// Keeps a bell for the next wait. Answers whether there was room.
    ///
    /// # Safety
    /// The bell is allocated, and the caller's alone. If there was room, the bell is the pool's.
    #[inline]
    unsafe fn put(&self, bell: NonNull<Bell>) -> bool {
        if self.len.get() == KEPT {
            return false;
        }
        // SAFETY: the bell is in place, and the caller has it to itself, as it promises.
        unsafe { bell.as_ref() }.next.set(self.first.replace(bell.as_ptr()));
        self.len.set(self.len.get() + 1);
        true
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        while let Some(bell) = self.take() {
            // SAFETY: the bell was the pool's alone.
            unsafe { Bell::free(bell) };
        }
    }
}

impl Bell {
    #[cold]
    fn make() -> NonNull<Self> {
        let owner = match this_thread() {
            0 => number_this_thread(),
            number => number,
        };
        let bell = Self {
            trigger: Trigger::new(),
            owner: AtomicUsize::new(owner),
            here: Cell::new(1),
            rung_here: Cell::new(false),
            away: AtomicUsize::new(0),
            next: Cell::new(ptr::null()),
        };
        NonNull::from(Box::leak(Box::new(bell)))
    }

    /// # Safety
    /// There is no reference left, or the caller's is the only one.
    unsafe fn free(this: NonNull<Self>) {
        // SAFETY: the bell was leaked as a box by `make`, and this is the only free.
        drop(unsafe { Box::from_raw(this.as_ptr()) });
    }

    #[inline]
    fn is_owned_here(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == this_thread()
    }

    #[inline]
    fn ring(&self) {
        if self.is_owned_here() && !self.trigger.is_listened_to() {
            self.rung_here.set(true);
        } else {
            // SAFETY: the trigger is a bell's, of which `Listener` alone is the waiter.
            unsafe { self.trigger.ring() }.wake();
        }
    }

    #[inline]
    fn retain(&self) {
        let count = if self.is_owned_here() {
            self.here.set(self.here.get() + 1);
            self.here.get()
        } else {
            self.away.fetch_add(ONE, Ordering::Relaxed).cast_signed()
        };
        if count > MOST {
            std::process::abort();
        }
    }

    /// # Safety
    /// The caller has a reference, which this uses up.
    #[inline]
    unsafe fn release(this: NonNull<Self>) {
        // SAFETY: the caller's reference keeps the bell in place until that reference is given up
        // below.
        let bell = unsafe { this.as_ref() };
        if bell.is_owned_here() {
            bell.here.set(bell.here.get() - 1);
        } else if bell.away.fetch_sub(ONE, Ordering::AcqRel).wrapping_sub(ONE) == MERGED {
            // SAFETY: `away` is the whole count, and is zero.
            unsafe { Self::free(this) };
        }
    }
}

/// A bell in the hands of a wait.
struct Listener(NonNull<Bell>);

impl Listener {
    #[inline]
    fn new() -> Self {
        Self(POOL.try_with(Pool::take).ok().flatten().unwrap_or_else(Bell::make))
    }

    #[inline]
    fn bell(&self) -> &Bell {
        // SAFETY: the wait's own reference keeps the bell in place.
        unsafe { self.0.as_ref() }
    }

    /// A waker that borrows this wait's reference.
    #[inline]
    fn waker(&self) -> ManuallyDrop<Waker> {
        // SAFETY: the functions of the table keep the contract of `RawWaker`; the waker's reference
        // stays the wait's, since that waker is not dropped.
        ManuallyDrop::new(unsafe { Waker::new(self.0.as_ptr().cast_const().cast(), &WAKER) })
    }

    /// Suspends the caller until the bell is rung.
    #[inline(always)] // A fiber that goes on returns from one call less, which is predicted wrongly.
    fn listen(&self, waits_for: WaitsFor) -> Result<(), Cancelled> {
        // Not by `with_running`, since its closure may become a function.
        // SAFETY: as there: the slot is null, or has the header of the fiber that runs this.
        match unsafe { current::current().as_ref() } {
            Some(fiber) => self.listen_as(fiber, waits_for),
            // In parts, which are passed in registers.
            None => self.listen_as_thread(waits_for.what, waits_for.at),
        }
    }

    /// The same in no context, since a shield has a budget that may be over; and in the place of a
    /// plain thread, which blocks, where the fiber must not be suspended. So this wait does not
    /// fail.
    fn listen_shielded(&self, waits_for: WaitsFor) -> Result<(), Cancelled> {
        let listen = || context::enter(None, || self.listen(waits_for));
        match here::on_current(Fiber::must_not_suspend) {
            // SAFETY: `listen` is code of ours, which captures nothing.
            true => unsafe { here::as_plain_thread(listen) },
            false => listen(),
        }
    }

    #[cold]
    #[inline(never)]
    fn listen_as_thread(&self, what: &'static str, at: &'static Location<'static>) -> Result<(), Cancelled> {
        here::on_current(|thread| self.listen_as(thread, WaitsFor { what, at }))
    }

    #[inline(always)]
    fn listen_as(&self, fiber: &Fiber, waits_for: WaitsFor) -> Result<(), Cancelled> {
        if fiber.must_not_suspend() {
            return Err(fiber.refused());
        }
        let bell = self.bell();
        let trigger = &bell.trigger;
        fiber.join_context();
        // No ring of this thread comes between the two looks.
        // SAFETY: the fiber is the calling one. The wait withdraws below, or slumbers.
        if bell.rung_here.take() || !unsafe { trigger.listen(fiber) } {
            // The future has woken itself: perhaps too much was begun in this turn.
            return if fiber.is_spent() { exhausted(fiber) } else { Ok(()) };
        }
        if fiber.is_cancelled() && trigger.withdraw().is_some() {
            return Err(fiber.cancelled());
        }
        // SAFETY: the fiber is the calling one; it listens since the look above, and has not
        // withdrawn.
        if unsafe { trigger.slumber(fiber, waits_for) } { Ok(()) } else { Err(fiber.cancelled()) }
    }
}

impl Drop for Listener {
    #[inline]
    fn drop(&mut self) {
        let bell = self.bell();
        let here = bell.here.get();
        let away = bell.away.load(Ordering::Acquire).cast_signed() >> 1;
        if here + away == 1 {
            bell.here.set(1);
            bell.rung_here.set(false);
            bell.away.store(0, Ordering::Relaxed);
            // SAFETY: the one reference is this one, so nobody else knows the trigger.
            unsafe { bell.trigger.rearm(ptr::null_mut()) };
            // SAFETY: the wait's reference is the only one, and is given up here.
            if !POOL.try_with(|pool| unsafe { pool.put(self.0) }).unwrap_or(false) {
                // SAFETY: the wait's reference is the only one.
                unsafe { Bell::free(self.0) };
            }
        } else {
            // SAFETY: the wait's reference is given up here, by its last use.
            unsafe { abandon(self.0) };
        }
    }
}

/// Leaves a bell to the wakers that are left.
///
/// # Safety
/// The wait has its reference to the bell, which this uses up. The caller is the bell's owner.
#[cold]
unsafe fn abandon(this: NonNull<Bell>) {
    // SAFETY: the wait's reference keeps the bell in place until the addition gives that reference
    // up.
    let bell = unsafe { this.as_ref() };
    bell.owner.store(NOBODY, Ordering::Relaxed);
    let rest = (bell.here.get() - 1).cast_unsigned().wrapping_mul(ONE).wrapping_add(MERGED);
    if bell.away.fetch_add(rest, Ordering::AcqRel).wrapping_add(rest) == MERGED {
        // SAFETY: `away` is the whole count, and is zero.
        unsafe { Bell::free(this) };
    }
}

// The four functions rely on this: a waker's data is a bell to which the waker has a reference. All
// of them may be called from any thread: `here` is touched by the owner alone, and the rest is
// atomic.
static WAKER: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, release);

/// # Safety
/// `data` is that of a waker of this table, which was made from the address of a bell.
unsafe fn bell_of(data: *const ()) -> NonNull<Bell> {
    // SAFETY: as the caller promises.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: the waker's reference keeps the bell in place.
    unsafe { bell_of(data).as_ref() }.retain();
    RawWaker::new(data, &WAKER)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: as above, and the reference is used up here, as required.
    unsafe {
        wake_by_ref(data);
        release(data);
    }
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: as above. The wakeup leads to the waiter and not to the bell.
    unsafe { bell_of(data).as_ref() }.ring();
}

unsafe fn release(data: *const ()) {
    // SAFETY: the waker's reference, which is used up.
    unsafe { Bell::release(bell_of(data)) };
}

/// Polls a future until its output, suspending the caller in between.
#[inline(always)] // As `listen`.
fn drive<F: Future>(mut future: Pin<&mut F>, shielded: bool, waits_for: WaitsFor) -> Result<F::Output, Cancelled> {
    let listener = Listener::new();
    let waker = listener.waker();
    let mut task = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut task) {
            return Ok(output);
        }
        // Called here and not by a closure, which may become a function.
        if shielded { listener.listen_shielded(waits_for) } else { listener.listen(waits_for) }?;
    }
}

/// Waits for any `Future`: polls it here, and suspends the calling fiber, or parks the calling
/// thread, until the future is ready.
///
/// The future need not be `Send`, and stays on this stack. It is woken through an ordinary waker,
/// from any thread; so all else that the future needs has to run elsewhere: an I/O driver of its
/// runtime, for instance. A wait allocates nothing as a rule.
///
/// # Cancellation
/// The future is dropped, which is how futures are cancelled: the effect is its own business. A
/// future that was polled ready before the cancellation was noticed yields its value. A fiber that
/// is panicking is not suspended: if the first poll does not yield the value, its wait ends like a
/// cancelled one.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled, before the call (then the future is not polled) or
/// during the call.
///
/// # Panics
/// If the future does.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// let sum = segue_core::wait_future(async {
///     segue_core::after(Duration::from_millis(1)).await;
///     20 + 22
/// });
/// assert_eq!(sum, Ok(42));
/// ```
#[inline(always)] // So that the switch is in the frame of what waits, as for `yield_now`.
#[track_caller]
pub fn wait_future<F: IntoFuture>(future: F) -> Result<F::Output, Cancelled> {
    admit()?;
    let waits_for = WaitsFor::new("a future");
    let mut future = pin!(future.into_future());
    match as_task::drive(future.as_mut(), waits_for) {
        Some(result) => result,
        None => drive(future, false, waits_for),
    }
}

/// As [`wait_future`], but neither cancellation, nor the end of a shield's budget, nor a panic
/// under way ends the wait: for the few waits that guard memory.
///
/// A fiber that is panicking, or in [`no_suspend`](crate::no_suspend), blocks its thread here,
/// since a suspension is forbidden.
///
/// # Cancellation
/// *No effect*.
///
/// # Panics
/// If the future does.
///
/// # Examples
///
/// ```
/// assert_eq!(segue_core::wait_future_shielded(async { 42 }), 42);
/// ```
#[track_caller]
pub fn wait_future_shielded<F: IntoFuture>(future: F) -> F::Output {
    let waits_for = WaitsFor::new("a future");
    let wait = || drive(pin!(future.into_future()), true, waits_for);
    context::shielded(wait).expect("nothing cancels what is shielded")
}
