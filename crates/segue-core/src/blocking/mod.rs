//! Calls that block their thread, made by fibers: on other threads, while the fiber waits.
//!
//! Used by applications and libraries for files, name lookup and foreign code. `pool.rs` has the
//! threads.
//!
//! # The idea
//!
//! The call lies in the caller's frame: closure, room for the result, and a job header by which a
//! thread of the pool runs the call, in the caller's contexts. The caller waits for the end of the
//! call in any case (clause J5: its maker waits for it), so that the closure may borrow.
//!
//! # States of a call
//!
//! ```text
//!   queued --taken--> running --the closure has returned--> over
//!     \--cancelled: taken back out of the queue: no effect
//! ```
//!
//! The caller waits at most twice, at one trigger: the first wait may be ended by a cancellation,
//! which leaves the trigger unchanged; then the caller calls the hook and waits again, shielded.
//! The thread signals when the call is over. If that is refused, the caller was cancelled at this
//! very moment, and finds that the call is over.
//!
//! **Commit point**: the taking off the queue, under the pool's lock. **The race to fear**: the
//! frame ends while the thread still signals. This can't happen: the signal is the last touch (T6),
//! or, after a refusal, the resume (T11), before which the caller does not go on.
//!
//! After the safe foreign calls of Li, Marlow, Peyton Jones and Tolmach, and of the scheduler
//! activations in papers on GHC: there another thread takes over the processor while the call is
//! out; here fibers are bound to their thread, so the call moves.
#![allow(unsafe_code)] // Calls lie in the frames of their callers.

use crate::chain::barrier;
use crate::contract::current;
use crate::thread::here;
use crate::tree::cancelled::Cancelled;
use crate::wait::admission::admit;
pub(crate) mod pool;

use self::pool::Entry;
use crate::chain::unwind::__rust_begin_short_backtrace;
use crate::contract::job::{JobHeader, Place, Work};
use crate::contract::trigger::Trigger;
use crate::primitives::list::Links;
use crate::primitives::waits_for::WaitsFor;
use crate::sim::external_work::outside_work;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::thread;

/// A closure on its way to a thread and back. The closure keeps its result, and has no type here:
/// all calls are one piece of code.
#[repr(C)] // The entry comes first, and its header.
struct Call<'f> {
    entry: Entry,
    done: Trigger,
    closure: UnsafeCell<&'f mut (dyn FnMut() + Send)>,
    /// The end of the closure, once that was called.
    ended: UnsafeCell<Option<std::thread::Result<()>>>,
}

impl<'f> Call<'f> {
    /// # Safety
    /// The call is waited for inside of the contexts in which it is made, by a member of its
    /// family.
    unsafe fn new(closure: &'f mut (dyn FnMut() + Send)) -> Self {
        // SAFETY: contexts and family outlive the call, as its maker waits inside of both.
        let header = here::on_current(|fiber| unsafe { JobHeader::of::<Self>(Place::here(), fiber.detaches_to()) });
        Self {
            entry: Entry { header, links: Links::new() },
            done: Trigger::new(),
            closure: UnsafeCell::new(closure),
            ended: UnsafeCell::new(None),
        }
    }

    /// Goes on as the closure has ended. The call is over.
    fn finish(self) {
        match self.ended.into_inner() {
            Some(Ok(())) => {}
            Some(Err(payload)) => resume_unwind(payload),
            None => panic!("a blocking call was dropped instead of run"),
        }
    }
}

// SAFETY: `repr(C)` puts the header first, of the entry as well; the closure is `Send`, and so is
// the end.
unsafe impl Work for Call<'_> {
    #[inline(always)] // As that of a task.
    unsafe fn run(this: NonNull<Self>) {
        // SAFETY: the frame stays until the signal, and the waiter does not look before; the job is
        // run once. This is where the work begins.
        unsafe {
            let this = this.as_ref();
            let closure = AssertUnwindSafe(&mut **this.closure.get());
            *this.ended.get() =
                Some(here::retire(|| catch_unwind(|| __rust_begin_short_backtrace(|| { closure }.0()))));
            // The last touch.
            this.done.signal(0);
        }
    }

    unsafe fn abandon(this: NonNull<Self>) {
        // SAFETY: as in `run`.
        unsafe { this.as_ref() }.done.signal(0);
    }
}

/// Whether the caller is a fiber that can wait for another thread.
fn can_hand_over() -> bool {
    current::with_running(|fiber| fiber.is_some_and(|fiber| !fiber.must_not_suspend()))
}

/// Runs `f`, which may block its thread, on another thread, and suspends the calling fiber until
/// the end of `f`.
///
/// `f` may borrow. `f` runs in the caller's context as on a plain thread: its waits park that
/// thread, and its spawns go where plain threads spawn. On a plain thread, and while the caller
/// panics, `f` runs in place.
///
/// The threads are made on demand, up to a [limit](crate::set_blocking_limit); calls beyond that
/// limit are begun in the order in which they came. Threads that wait for one of our structures do
/// not count: others take their places, so that calls may wait for each other. A thread that had
/// nothing to do [for a while](crate::set_blocking_idle) ends. If no thread can be had at all, `f`
/// runs in place.
///
/// A scheduler's run ends only after the calls of its fibers have. A process that exits meanwhile
/// does not wait for them. In the child of a fork there are no threads at first, and calls of
/// before the fork are forgotten there.
///
/// # Cancellation
/// Before `f` has begun: *no effect*, `f` is dropped, also in the queue for a thread. Afterwards
/// `f` sees the cancellation at its waits, and its result is returned. [`Blocking`] has a way to
/// cut one short; a call that must be made is made under a [`shield`](crate::shield).
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled before `f` had begun.
///
/// # Panics
/// If `f` does, with its payload.
///
/// # Examples
///
/// ```
/// let path = std::env::temp_dir();
/// let is_there = segue_core::blocking(|| path.exists())?;
/// assert!(is_there);
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[track_caller]
pub fn blocking<T: Send>(f: impl FnOnce() -> T + Send) -> Result<T, Cancelled> {
    Blocking::new().run(f)
}

/// A blocking call that can be cancelled also after its start, by a hook.
///
/// # Examples
///
/// A read that is cut short by a close of its source:
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
    /// Has `hook` called if the caller is cancelled while the closure runs: once, by the caller,
    /// which waits for the closure all the same. The hook is to make the closure return soon, and
    /// must not block.
    pub fn on_cancel<G: FnOnce()>(self, hook: G) -> Blocking<G> {
        Blocking { on_cancel: Some(hook) }
    }

    /// As [`blocking()`]. With a hook, a plain thread that can be cancelled hands the closure over,
    /// too, since that thread has to wait for the cancellation.
    ///
    /// # Cancellation
    /// Before `f` has begun: *no effect*, `f` is dropped. Afterwards the hook is called, and the
    /// result of `f` is returned.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled before `f` had begun.
    ///
    /// # Panics
    /// If `f` does, or the hook, when `f` has ended.
    #[track_caller]
    pub fn run<T: Send>(self, f: impl FnOnce() -> T + Send) -> Result<T, Cancelled> {
        admit()?;
        let (mut f, mut result) = (Some(f), None);
        let mut hook = self.on_cancel.map(|hook| {
            let mut hook = Some(hook);
            move || _ = hook.take().map(|hook| hook())
        });
        let hook = hook.as_mut().map(|hook| -> &mut dyn FnMut() { hook });
        let hooked = hand_over(&mut || result = f.take().map(|f| f()), hook)?;
        if let Err(payload) = hooked {
            // Not while it unwinds: the drop of a result is the user's.
            drop(result);
            resume_unwind(payload);
        }
        Ok(result.expect("the closure was called"))
    }
}

/// Runs `f` on another thread, or in place, and calls the hook if the caller is cancelled
/// meanwhile. Returns whether the hook panicked.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled before `f` had begun: `f` is not called.
#[track_caller]
fn hand_over(f: &mut (dyn FnMut() + Send), hook: Option<&mut dyn FnMut()>) -> Result<thread::Result<()>, Cancelled> {
    let watches = hook.is_some() && !current::in_fiber() && crate::tree::context::can_be_cancelled();
    if !can_hand_over() && !watches {
        f();
        return Ok(Ok(()));
    }
    let _outside = outside_work();
    // SAFETY: this frame waits for the call below, or takes the call back.
    let call = unsafe { Call::new(f) };
    let waits_for = WaitsFor::new("a blocking call");
    let pool = pool::get();
    // SAFETY: the call stays in this frame, which does not move the call before its end; where
    // the wait is cancelled, the call is taken back or waited for. The entry comes first.
    unsafe { pool.submit(NonNull::from(&call).cast()) };
    if let Err(cancelled) = call.done.wait_once_more(waits_for) {
        // SAFETY: the call was submitted there, and is in this frame. A call that is taken back
        // is not run.
        if unsafe { pool.take_back(NonNull::from(&call.entry)) } {
            return Err(cancelled);
        }
        // Nothing unwinds before the thread is done with this frame.
        let hook = AssertUnwindSafe(|| hook.map(|hook| hook()));
        let hooked = barrier(WaitsFor::new("the hook of a blocking call"), || catch_unwind(hook));
        call.done.wait_shielded(WaitsFor::new("a blocking call that was cancelled"));
        call.finish();
        return Ok(hooked.map(|_| ()));
    }
    call.finish();
    Ok(Ok(()))
}
