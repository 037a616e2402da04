//! The default scheduler: a plain OS thread, which suspends by parking and spawns by starting
//! another.
//!
//! Used wherever no other scheduler is installed, so that every structure works in a bare thread,
//! in a foreign pool, in a `Drop` at exit, and under the model checker.
//!
//! A thread has no lasting header. Each wait builds one in its own frame and takes it down at the
//! end; so nothing depends on thread-local destructors. The rule that makes this safe is the
//! contract's: a resume is sent once, the frame does not leave before its arrival, and the resumer
//! touches the frame for the last time when it sets the RESUME bit.
//!
//! # The mail
//!
//! A word in the frame. A resume of a thread that is awake costs one exchange; only a thread that
//! sleeps, or is about to, needs its handle and a system call.
//!
//! ```text
//!   0 --wake: anybody--> RESUME, INTERRUPT or both --read: the thread--> 0
//!   |  ^                                    ^
//!   |  '-read: the thread, disturbed---.    |
//!   '--lie down: the thread--------> PARKED-'  wake, and then unpark
//! ```
//!
//! The thread reads its mail, looks a while for more (`adaptive_spin.rs` says how often), lies down
//! if there is none, parks, and reads again. **Idle**: the frame is gone. **Cancellation**: an
//! interrupt is mail that ends the wait only if the thread itself then wins the trigger.
//!
//! **The race to fear**: mail that comes between the last look and the park. Lying down is an
//! exchange of 0 for PARKED, so either it fails, because the mail was there, or the sender of the
//! mail finds PARKED and unparks; and std's park returns at once after an earlier unpark. An unpark
//! that comes late disturbs a later park, which reads no mail and parks again.
//!
//! The handle is in the frame, too, written before the thread lies down for the first time and
//! never again. So a sender that has seen PARKED may read it until the delivery of its mail, in any
//! state of the thread: the frame waits for the resume, or, before an interrupt has arrived, for
//! the lock of the context.
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | the exchange or `fetch_or` that delivers a RESUME | the thread's swap that reads it | the resumer's earlier work; its last use of the frame |
//! | `lie_down`'s exchange to PARKED | `wake`'s failed exchange that sees PARKED | the handle |
#![allow(unsafe_code)] // Headers of parked threads are reached by address from other threads.

use crate::contract::clock::Clock;
use crate::contract::current::{CONTEXT, FAMILY};
use crate::contract::fiber::{Fiber, Scheduler, Spawn, Wake};
use crate::contract::job::{Identity, Job, Name};
use crate::contract::slots::{ContextHead, FamilyId};
use crate::primitives::at_end::at_end;
use crate::primitives::atomic::{self, AtomicU8, Ordering, UnsafeCell, local, plain_thread_local};
use crate::primitives::switch::Switch;
use crate::thread::adaptive_spin::Patience;
use crate::thread::waiting::Sleep;
use crate::timers::of_threads::thread_timers;
use crate::values::locals;
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;

const RESUME: u8 = 1;
const INTERRUPT: u8 = 2;
const PARKED: u8 = 4;

/// The scheduler of plain threads. The type has a size so that its address is its own.
struct Threads {
    _address: u8,
}

static THREADS: Threads = Threads { _address: 0 };

/// A thread that waits. Its fiber's host pointer leads here.
struct Header {
    fiber: Fiber,
    /// Set before `mail` says PARKED.
    thread: UnsafeCell<Option<atomic::Thread>>,
    mail: AtomicU8,
}

impl Header {
    /// Reads the mail, and answers whether the wait ends.
    #[inline]
    fn is_over(&self, fiber: &Fiber) -> bool {
        let mail = self.mail.swap(0, Ordering::Acquire);
        mail & RESUME != 0 || (mail & INTERRUPT != 0 && fiber.interrupted())
    }

    /// Announces that this thread is going to park, unless there is mail. The header is this
    /// thread's.
    fn lie_down(&self) -> bool {
        // SAFETY: this thread alone writes the handle, and only once, before anybody can have seen
        // PARKED and look.
        if self.thread.with(|thread| unsafe { (*thread).is_none() }) {
            let me = atomic::current();
            // SAFETY: as above.
            self.thread.with_mut(|thread| unsafe { *thread = Some(me) });
        }
        self.mail.compare_exchange(0, PARKED, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Delivers mail. The frame may be gone when this returns, and so this takes an address.
    ///
    /// # Safety
    /// The header is in place until the mail has arrived.
    unsafe fn deliver(header: *const Self, bit: u8) {
        // SAFETY: as the caller promises; the header is not used after the exchange that delivers.
        let mail = unsafe { &(*header).mail };
        // Most likely the thread is awake and has no mail.
        let mut seen = 0;
        while seen & PARKED == 0 {
            match mail.compare_exchange_weak(seen, seen | bit, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
        // SAFETY: as above; the thread has lain down once, so nobody writes the handle any more.
        let thread = unsafe { (*header).thread.with(|thread| (*thread).clone()) };
        mail.fetch_or(bit, Ordering::Release);
        thread.expect("set before PARKED").unpark();
    }
}

/// Calls `f` with a header that stands for this thread until `f` returns.
#[cold]
pub(crate) fn with_header<R>(f: impl FnOnce(&Fiber) -> R) -> R {
    let (mut f, mut result) = (Some(f), None);
    lend_header(&mut |fiber| result = f.take().map(|f| f(fiber)));
    result.expect("the closure was called")
}

/// As [`with_header`], for a closure without a type: this is compiled once.
fn lend_header(f: &mut dyn FnMut(&Fiber)) {
    let (context, family) = (CONTEXT.with(Cell::get), FAMILY.with(Cell::get));
    let identity = Identity { family, ..Identity::in_context(context) };
    let header = Header {
        // SAFETY: the scheduler is static; the context and family are those that this thread is
        // inside of.
        fiber: unsafe { Fiber::new(NonNull::from(&THREADS), 0, identity) },
        thread: UnsafeCell::new(None),
        mail: AtomicU8::new(0),
    };
    // SAFETY: this is its scheduler, and the header has not waited yet.
    unsafe { header.fiber.set_host((&raw const header).cast()) };
    let _leave = at_end(|| {
        if !atomic::has_failed() {
            header.fiber.leave_context(ptr::null());
        }
    });
    f(&header.fiber);
}

/// The scheduler of plain threads.
pub(crate) fn scheduler() -> &'static dyn Scheduler {
    &THREADS
}

// SAFETY: clause 1: `suspend` returns on RESUME, which is set once per suspension, or after
// `interrupted` won the cancellation, for which no RESUME follows. 2: a thread is a thread. 3: on a
// plain thread the current slot stays null. 4: the header lies in the frame of the wait, and `wake`
// does not touch it after the exchange that lets the frame go.
unsafe impl Scheduler for Threads {
    unsafe fn suspend(&self, fiber: &Fiber) -> Option<Switch> {
        // SAFETY: fibers of this scheduler are made by `with_header` alone, which sets the host.
        let header = unsafe { &*fiber.host().cast::<Header>() };
        let mut patience = Patience::new();
        let (mut watch, mut sleep) = (None, None);
        while !header.is_over(fiber) {
            let got_mail = patience.look(|| header.mail.load(Ordering::Relaxed) != 0);
            if !got_mail && header.lie_down() {
                watch = watch.or_else(begin_to_sleep);
                if cfg!(not(loom)) {
                    sleep = sleep.or_else(|| Sleep::begin(fiber.waits_on()));
                }
                atomic::park();
            }
        }
        patience.end();
        drop(sleep);
        if let Some(watch) = watch {
            watch.goes_on();
        }
        None
    }

    unsafe fn wake(&self, fiber: NonNull<Fiber>, why: Wake) {
        let bit = match why {
            Wake::Resume => RESUME,
            Wake::Interrupt => INTERRUPT,
        };
        // SAFETY: fibers of this scheduler have a header, which is in place until a resume has
        // arrived, or because the caller holds the context's lock, which the thread needs in order
        // to leave (interrupt).
        unsafe { Header::deliver(fiber.as_ref().host().cast::<Header>(), bit) };
    }

    unsafe fn yield_now(&self, _fiber: &Fiber) -> Option<Switch> {
        atomic::yield_now();
        None
    }

    fn spawner(&self) -> &dyn Spawn {
        self
    }

    fn timers(&self) -> &dyn Clock {
        thread_timers()
    }
}

/// Each job has a thread of its own.
impl Spawn for Threads {
    fn spawn(&self, job: Job) {
        // A thread's name can't hold a NUL.
        let name = job.name().as_deref().unwrap_or("segue").replace('\0', " ");
        let mut thread = std::thread::Builder::new().name(name);
        if let Some(bytes) = job.stack_size() {
            thread = thread.stack_size(bytes);
        }
        // A thread that can't be started drops the closure, and so the job; the job's handle then
        // reports that.
        drop(thread.spawn(|| run_job(job)));
    }

    fn share(&self) -> Arc<dyn Spawn + Send + Sync> {
        Arc::new(Self { _address: 0 })
    }
}

// Of this plain thread's job; null without one.
local!(static NAME: Cell<*const Name> = Cell::new(ptr::null()));

/// The name of the calling plain thread's job.
pub(crate) fn name() -> Option<Name> {
    // SAFETY: null, or of the frame of `run_job` around this call, which takes that back.
    unsafe { NAME.with(Cell::get).as_ref() }.cloned()
}

/// Calls `f` in a context and a family, on a plain thread.
///
/// # Safety
/// Both are null, or in place until `f` has ended or has left them.
pub(crate) unsafe fn within<R>(context: *const ContextHead, family: FamilyId, f: impl FnOnce() -> R) -> R {
    let surround = |(context, family)| {
        let outer = CONTEXT.with(|slot| slot.replace(context));
        (outer, FAMILY.with(|slot| slot.replace(family)))
    };
    let outer = surround((context, family));
    let _restore = at_end(|| _ = surround(outer));
    f()
}

/// Runs a job on the calling thread, as one of its own.
pub(crate) fn run_job(mut job: Job) {
    let Identity { name, context, family, .. } = job.identity();
    let own = name.as_deref().map_or(ptr::null(), ptr::from_ref);
    let outer = NAME.with(|slot| slot.replace(own));
    let _restore = at_end(|| NAME.with(|slot| slot.set(outer)));
    // SAFETY: there is no table yet; the job keeps context and family in place until it has left
    // them. A thread of its own, or a barrier, is around: nothing is captured across the job.
    unsafe { locals::instead(ptr::null_mut(), || within(context, family, || job.run())) };
}

/// A watcher of the waits of a thread of its own: the pool for calls that block.
pub(crate) trait Watch: Sync {
    /// The calling thread is about to sleep in a wait.
    fn waits(&'static self);
    /// The thread goes on.
    fn goes_on(&self);
}

plain_thread_local! {
    static WATCH: Cell<Option<&'static dyn Watch>> = Cell::new(None);
}

/// From now on `watch` is told of the calling thread's waits.
pub(crate) fn watch_thread(watch: &'static dyn Watch) {
    WATCH.set(Some(watch));
}

/// Tells the thread's watcher of a wait. `None` without one; so in the destructors of its local
/// variables.
fn begin_to_sleep() -> Option<&'static dyn Watch> {
    let watch = WATCH.get()?;
    watch.waits();
    Some(watch)
}
