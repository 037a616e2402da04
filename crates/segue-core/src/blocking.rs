//! Calls that block their thread, made by fibers: on other threads, while the fiber waits.
//!
//! Used by applications and libraries for files, name lookup and foreign code. `crew.rs` has the threads.
//!
//! # The idea
//!
//! The call lies in the caller's frame: closure, room for the result, and a job header by which a thread of the crew runs it, in the caller's contexts. The caller waits until it is over,
//! whatever happens (clause J5: its maker waits for it), so that the closure may borrow.
//!
//! # States of a call
//!
//! ```text
//!   queued --taken--> running --the closure has returned--> over
//!     \--cancelled, with `Blocking`: taken back out of the queue: no effect
//! ```
//!
//! Who waits does so at most twice, at a trigger each, since one that was cancelled accepts no signal any more: at `first`, which a cancellation may end; then it calls the hook
//! and waits at `second`, shielded. The thread signals `first`, and if that is refused, `second`.
//!
//! **Commit point**: the taking off the queue, under the crew's lock. **The race to fear**: the frame ends while the thread still signals. It does not: the signal that is accepted is
//! the last touch (T6); if `first` refuses, its waiter has gone on to `second`, and does not leave before that was signalled.
//!
//! After the safe foreign calls of Li, Marlow, Peyton Jones and Tolmach, and of the scheduler activations in papers on GHC: there another thread takes over the processor while the call
//! is out; here fibers are bound to their thread, so it is the call that moves.
#![allow(unsafe_code)] // Calls lie in the frames of those who wait for them.

use crate::budget::admit;
use crate::cancel::Cancelled;
use crate::crew;
use crate::fiber::{self, Fiber, WaitsFor};
use crate::job::{Job, JobHeader, Place, Work};
use crate::outside::outside_work;
use crate::trigger::{Outcome, Trigger};
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

/// A closure on its way to a thread and back.
#[repr(C)] // The header comes first.
struct Call<F, R> {
    header: JobHeader,
    first: Trigger,
    second: Trigger,
    closure: UnsafeCell<Option<F>>,
    result: UnsafeCell<Option<std::thread::Result<R>>>,
}

impl<F: FnOnce() -> R + Send, R: Send> Call<F, R> {
    fn new(closure: F) -> Self {
        // SAFETY: whoever makes a call waits for it inside of the contexts that it is in, as a member of its family.
        let header = fiber::with_current(|fiber| unsafe { JobHeader::of::<Self>(Place::here(), fiber.detaches_to()) });
        Self {
            header,
            first: Trigger::new(),
            second: Trigger::new(),
            closure: UnsafeCell::new(Some(closure)),
            result: UnsafeCell::new(None),
        }
    }

    /// Hands it to the crew. If no thread can be had, it is run here and now, and over.
    ///
    /// # Safety
    /// Called once; the call stays in place until it is over or was taken back.
    unsafe fn begin(this: NonNull<Self>) {
        // SAFETY: the header comes first, and this is the one job for it.
        let job = unsafe { Job::from_raw(this.cast()) };
        if let Err(job) = crew::get().submit(job) {
            fiber::run_as_thread(|| crew::run(job));
        }
    }

    /// Takes it back, if no thread has taken it.
    fn take_back(&self) -> bool {
        let job = crew::get().take_back(NonNull::from(&self.header));
        // It is no more to be run, and the frame drops the closure.
        job.map(Job::into_raw).is_some()
    }

    /// The thread's last touch.
    fn end(&self) {
        if !self.first.signal(0) {
            self.second.signal(0);
        }
    }

    /// What it has come to. The call is over.
    fn finish(self) -> R {
        match self.result.into_inner() {
            Some(Ok(value)) => value,
            Some(Err(payload)) => resume_unwind(payload),
            None => panic!("a blocking call was dropped instead of run"),
        }
    }
}

// SAFETY: `repr(C)` puts the header first; closure and result are `Send`.
unsafe impl<F: FnOnce() -> R + Send, R: Send> Work for Call<F, R> {
    unsafe fn run(this: NonNull<Self>) {
        // SAFETY: the frame stays until `end`, and who waits does not look before; the job is run once.
        unsafe {
            let this = this.as_ref();
            let closure = (*this.closure.get()).take().expect("a call runs once");
            *this.result.get() = Some(fiber::retire(|| catch_unwind(AssertUnwindSafe(closure))));
            this.end();
        }
    }

    unsafe fn abandon(this: NonNull<Self>) {
        // SAFETY: as in `run`.
        unsafe { this.as_ref() }.end();
    }
}

/// Whether the caller is a fiber that can wait for another thread.
fn can_hand_over() -> bool {
    fiber::running().is_some_and(|fiber| !fiber.must_not_suspend())
}

/// Runs `f`, which may block its thread, on another thread, and suspends the calling fiber until it has ended.
///
/// `f` may borrow. It runs in the caller's context as a plain thread does: what it waits for parks that thread, and what it spawns goes where plain threads spawn. On a plain thread, and while the
/// caller panics, it runs in place.
///
/// The threads are made as they are needed, up to a [limit](set_blocking_limit); calls beyond it are begun in the order in which they came. Threads that wait for one of our structures
/// do not count: others take their places, so that calls may wait for each other. A thread that had nothing to do [for a while](set_blocking_idle) ends. If no thread can
/// be had at all, `f` runs in place.
///
/// A scheduler's run ends only after the calls of its fibers have. A process that exits meanwhile does not wait for them. In the child of a fork there are no threads at first, and
/// calls of before the fork are forgotten there.
///
/// # Cancellation
/// *No effect* on the call; `f` sees it at its waits. [`Blocking`] has a call that is not begun, and a way to cut one short.
///
/// # Panics
/// If `f` does, with its payload.
///
/// # Examples
///
/// ```
/// let path = std::env::temp_dir();
/// let is_there = segue_core::blocking(|| path.exists());
/// assert!(is_there);
/// ```
pub fn blocking<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    if !can_hand_over() {
        return f();
    }
    let _outside = outside_work();
    let call = Call::new(f);
    // SAFETY: the call stays in this frame, which does not move it before it is over.
    unsafe { Call::begin(NonNull::from(&call)) };
    call.first.wait_shielded(WaitsFor::new("a blocking call"));
    call.finish()
}

/// A blocking call that can be cancelled: before it begins, and by a hook afterwards.
///
/// # Examples
///
/// A read that is cut short by closing what it reads from:
///
/// ```
/// use segue_core::{Blocking, timeout, wait_future};
/// use std::io::Read;
/// use std::net::{Shutdown, TcpListener, TcpStream};
/// use std::time::Duration;
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let client = TcpStream::connect(listener.local_addr()?)?;
/// let read = timeout(Duration::from_millis(1), || {
///     let hook = || drop(client.shutdown(Shutdown::Both));
///     Blocking::new().on_cancel(hook).run(|| (&client).read(&mut [0]))
/// });
/// assert!(matches!(read, Ok(Ok(0)) | Err(_)));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing happens before it is run"]
pub struct Blocking<H = fn()> {
    on_cancel: Option<H>,
}

impl Blocking {
    /// A call without a hook.
    pub fn new() -> Self {
        Self { on_cancel: None }
    }
}

impl Default for Blocking {
    fn default() -> Self {
        Self::new()
    }
}

impl<H: FnOnce()> Blocking<H> {
    /// Has `hook` called if the caller is cancelled while the closure runs: once, by the caller, which waits for the closure all the same. It is to make the closure return soon, and
    /// must not block.
    pub fn on_cancel<G: FnOnce()>(self, hook: G) -> Blocking<G> {
        Blocking { on_cancel: Some(hook) }
    }

    /// As [`blocking`]. With a hook, a plain thread that can be cancelled hands the closure over, too, since it has to wait for the cancellation.
    ///
    /// # Cancellation
    /// Before `f` has begun: *no effect*, `f` is dropped. Afterwards the hook is called, and what `f` returns is returned.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled before `f` had begun.
    ///
    /// # Panics
    /// If `f` does, or the hook, when `f` has ended.
    pub fn run<T: Send>(self, f: impl FnOnce() -> T + Send) -> Result<T, Cancelled> {
        admit()?;
        let watches = self.on_cancel.is_some() && !fiber::in_fiber() && crate::context::innermost(|_| ()).is_some();
        if !can_hand_over() && !watches {
            return Ok(f());
        }
        let _outside = outside_work();
        let call = Call::new(f);
        // SAFETY: as in `blocking`; where the wait is cancelled, the call is taken back or waited for.
        unsafe { Call::begin(NonNull::from(&call)) };
        if call.first.wait(WaitsFor::new("a blocking call")) == Outcome::Cancelled {
            if call.take_back() {
                return Err(fiber::with_current(Fiber::cancelled));
            }
            // Nothing unwinds before the thread is done with this frame.
            let hooked = catch_unwind(AssertUnwindSafe(|| self.on_cancel.map(|hook| hook())));
            call.second.wait_shielded(WaitsFor::new("a blocking call that was cancelled"));
            let value = call.finish();
            return hooked.map(|_| value).map_err(|payload| resume_unwind(payload));
        }
        Ok(call.finish())
    }
}

/// How many threads may run blocking calls at the same time; 512 if this was not called. For the whole process, from now on.
///
/// # Panics
/// For zero.
pub fn set_blocking_limit(threads: usize) {
    assert!(threads > 0, "blocking calls need at least one thread");
    crew::set_limit(threads);
}

/// After what time without a call a thread for blocking calls ends; ten seconds if this was not called. For the whole process, from the next time that a thread has nothing to do.
pub fn set_blocking_idle(time: std::time::Duration) {
    crew::set_idle(time);
}
