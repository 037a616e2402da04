//! Asking a running thread for its calls.
//!
//! Used by monitors, through [`Watched`]: a worker that has not come back to its loop for long is
//! in some function, and this says which.
//!
//! # How
//!
//! Nobody can read another thread's registers but the thread itself, in a signal handler. So the
//! asker sends the thread a signal (`platform/linux/asking.rs`); the handler copies registers and
//! stacks ([`Sample`]) into memory that the asker has prepared, and the asker unwinds the copy. A
//! dump has the handler copy the thread's resting fibers, too, by a *visit*. The slow parts, and
//! those that allocate, are on the asker's side. The thread loses the time of a signal and of the
//! copying.
//!
//! # The hand-over word, one for each thread
//!
//! ```text
//!            asker                 handler                 handler
//!    IDLE ----------->  ASKED  ---------------> COPYING -----------> COPIED
//!     ^  ^                |                                            |
//!     |  +----------------+  asker, when its time is over              |
//!     +----------------------------------------------------------------+  asker, when it has read
//!
//!    any but COPYING ----> ENDED   the thread, when it ends; for good
//! ```
//!
//! Sample and visit are the handler's while the word is COPYING, and the asker's otherwise. There
//! is one asker at a time, by a mutex on the askers' side. The asker leaves ASKED by a
//! compare-and-swap, and so does the handler, so that one of the two has the sample. An asker that
//! runs out of time while the word is COPYING leaves the word to the handler, which ends soon (the
//! thread is running the handler); the next asker finds COPIED, and stores IDLE.
//!
//! When idle, the word is IDLE and nothing refers to the thread but the handles.
//!
//! # Orderings
//!
//! The handler's COPIED (release) pairs with the asker's loads (acquire): the asker reads the
//! handler's copy. The asker's ASKED (release) pairs with the handler's compare-and-swap (acquire):
//! the handler finds the sample, and writes after the last asker has read.
//!
//! # The race to fear: the thread ends
//!
//! The handler finds the thread's [`Shared`] in a variable of its own thread, never by something
//! that came with the signal. The thread itself clears that variable at its end (`of_thread.rs`),
//! before giving up its share of the memory, and the handler cannot run in between: both run on the
//! same thread, before or after. So a signal that arrives late, or at another thread that has got
//! the number of one which has ended, or in the child of a fork, finds nothing or a word that is
//! not ASKED, and does nothing. The asker owns a share of its own, and is told by ENDED. To leak a
//! handle keeps the memory, and nothing else: there is no guard to forget.
//!
//! # The handler's reads
//!
//! `sample` and `segments` have the argument. Two things are particular. A thread may be
//! interrupted in the middle of a switch; the platform then puts the registers right, so that the
//! trace is of one side or of the other. And a stack pointer that is neither in an arena nor on the
//! thread's own stack (an alternate signal stack, a foreign library's coroutine) is not followed at
//! all.

#![allow(unsafe_code)] // Signals, and memory that is handed over by a word.

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::sample::Sample;
use crate::backtrace::Backtrace;
use crate::coroutine::Coroutine;
use crate::platform::asking::{self, Answers, Thread};
use crate::platform::of_thread::{Kept, OfThread};
use crate::platform::{Registers, ensure_alternate_stack};
use crate::unanswered::Unanswered;

const IDLE: u32 = 0;
const ASKED: u32 = 1;
const COPYING: u32 = 2;
const COPIED: u32 = 3;
const ENDED: u32 = 4;

/// The state that the thread, its signal handler and the askers share.
struct Shared {
    word: AtomicU32,
    thread: Thread,
    /// The thread's own stack.
    stack: Range<usize>,
    asker: Mutex<()>,
    /// Made by the first asker.
    sample: OnceLock<Box<UnsafeCell<Sample>>>,
    /// Handed over as the sample is.
    visit: UnsafeCell<Option<Visit>>,
}

/// A function that the handler is to call after it has taken the sample.
#[derive(Clone, Copy)]
struct Visit {
    state: *mut (),
    visit: *const (),
    call: unsafe fn(*mut (), *const (), &Interrupted<'_>),
}

/// A thread, and its stacks, where a [visit](Watched::visit) has interrupted that.
pub struct Interrupted<'a>(&'a Sample);

impl Interrupted<'_> {
    /// Whether the thread runs in this coroutine, or in one that this has resumed; else the
    /// coroutine rests, or has returned. `None` if that is not known.
    pub fn runs_in<H>(&self, coroutine: &Coroutine<H>) -> Option<bool> {
        self.0.runs_in(coroutine.raw().0.as_ptr().cast())
    }
}

impl fmt::Debug for Interrupted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interrupted")
    }
}

// SAFETY: the sample is accessed by one side at a time, as the word says; see the head of this
// file.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

segue_core::plain_thread_local! {
    /// The word that the handler looks at. Without a destructor, so that a read is possible at any
    /// time.
    static ASKABLE: Cell<*const Shared> = Cell::new(ptr::null());
}

/// The thread's own share.
static REGISTERED: OfThread<Shared> = OfThread::new();

/// A thread that other threads may ask for its calls.
///
/// Made by the thread itself, and valid as long as anybody likes; when the thread has ended there
/// are no more answers. The handle costs nothing until somebody asks.
///
/// # Examples
///
/// ```
/// use segue_fiber::Watched;
/// use std::time::Duration;
///
/// let (send, watched) = std::sync::mpsc::channel();
/// let (stop, stopped) = std::sync::mpsc::channel::<()>();
/// let worker = std::thread::spawn(move || {
///     send.send(Watched::register().unwrap()).unwrap();
///     let _ = stopped.recv();
/// });
/// let watched = watched.recv().unwrap();
/// println!("{}", watched.backtrace(Duration::from_secs(10)).unwrap());
/// drop(stop);
/// worker.join().unwrap();
/// assert!(watched.backtrace(Duration::from_secs(10)).is_err());
/// ```
#[derive(Clone)]
pub struct Watched(Arc<Shared>);

impl Watched {
    /// Lets other threads ask the calling thread for its calls, until its end.
    ///
    /// The first call in a process installs a handler for SIGURG; an earlier one still gets foreign
    /// signals. Gives the thread an alternate stack for signals, see
    /// [`ensure_alternate_stack`](crate::ensure_alternate_stack). A thread may register again, and
    /// gets the same.
    ///
    /// # Errors
    ///
    /// The kernel refuses memory, or the handler, or does not tell the bounds of the thread's
    /// stack.
    pub fn register() -> io::Result<Watched> {
        if let Some(shared) = REGISTERED.get() {
            // SAFETY: the thread keeps a share, of which this makes another.
            return Ok(Watched(unsafe {
                Arc::increment_strong_count(shared.as_ptr());
                Arc::from_raw(shared.as_ptr())
            }));
        }
        asking::install::<Shared>()?;
        ensure_alternate_stack()?;
        let shared = Arc::new(Shared {
            word: AtomicU32::new(IDLE),
            thread: Thread::current(),
            stack: asking::own_stack()?,
            asker: Mutex::new(()),
            sample: OnceLock::new(),
            visit: UnsafeCell::new(None),
        });
        // SAFETY: the thread's share, below, keeps the value in place.
        unsafe { REGISTERED.keep(NonNull::new(Arc::as_ptr(&shared).cast_mut()).expect("a share is somewhere"))? };
        // The thread's, until `end`.
        let shared = ManuallyDrop::new(shared);
        ASKABLE.set(Arc::as_ptr(&shared));
        Ok(Watched(Arc::clone(&shared)))
    }

    /// Asks the thread for its calls, and blocks the caller until the answer or the end of
    /// `timeout`.
    ///
    /// The thread answers from any place, also from inside of a system call or a loop without an
    /// end. Stacks of fibers are followed into those of their resumers, and to the thread's own.
    /// Deep stacks are cut: of the innermost, 64 KiB are looked at, and less of those below. The
    /// thread may ask itself. Askers of the same thread take turns; the time begins with the turn.
    ///
    /// To be asked costs the thread a signal and the copying, and system calls that the kernel does
    /// not restart after signals fail with `EINTR`, which std's functions hide.
    ///
    /// # Errors
    ///
    /// The thread has ended, or did not answer in time.
    pub fn backtrace(&self, timeout: Duration) -> Result<Backtrace, Unanswered> {
        self.ask(timeout, None).1
    }

    /// As [`backtrace`](Self::backtrace), and has the thread call `visit` in the same interruption,
    /// in its signal handler. The state comes back, unless the thread is in the middle of the
    /// visit when the time is over: then nobody gets the state any more.
    ///
    /// # Safety
    ///
    /// `visit` is async-signal-safe: it does not allocate, lock, wait or panic, uses little stack,
    /// and touches of the thread's memory only what can be read between any two instructions of
    /// the code that was interrupted.
    ///
    /// # Errors
    ///
    /// As for [`backtrace`](Self::backtrace).
    pub unsafe fn visit<T: Send>(
        &self,
        timeout: Duration,
        state: Box<T>,
        visit: unsafe fn(&mut T, &Interrupted<'_>),
    ) -> (Option<Box<T>>, Result<Backtrace, Unanswered>) {
        /// # Safety
        /// The state is a `T` that nobody else has, and the function is of the type that stands
        /// here.
        unsafe fn call<T>(state: *mut (), visit: *const (), interrupted: &Interrupted<'_>) {
            // SAFETY: the state is a `T` that nobody else has, and the pointer one to a function of
            // this type, by the contract.
            unsafe {
                let visit = std::mem::transmute::<*const (), unsafe fn(&mut T, &Interrupted<'_>)>(visit);
                visit(&mut *state.cast::<T>(), interrupted);
            }
        }
        let state = Box::into_raw(state);
        let visit = Visit { state: state.cast(), visit: visit as *const (), call: call::<T> };
        let (is_back, answer) = self.ask(timeout, Some(visit));
        // SAFETY: made from a box above, and the handler does not have it any more.
        (is_back.then(|| unsafe { Box::from_raw(state) }), answer)
    }

    /// Answers whether the handler has nothing of the visit's, and the trace.
    fn ask(&self, timeout: Duration, visit: Option<Visit>) -> (bool, Result<Backtrace, Unanswered>) {
        let mut is_back = true;
        let answer = self.ask_with(timeout, visit, &mut is_back);
        (is_back, answer)
    }

    fn ask_with(&self, timeout: Duration, visit: Option<Visit>, is_back: &mut bool) -> Result<Backtrace, Unanswered> {
        let shared = &*self.0;
        let _turn = shared.asker.lock().unwrap_or_else(PoisonError::into_inner);
        // A time-out that is beyond the end of time is none.
        let deadline = Instant::now().checked_add(timeout);
        let sample = shared.sample.get_or_init(Sample::new);
        // An earlier asker may have left without the answer.
        shared.wait_while(COPYING, deadline)?;
        shared.done()?;
        // SAFETY: the word is IDLE, or ENDED for good, and this is the one asker.
        unsafe { *shared.visit.get() = visit };
        if shared.word.compare_exchange(IDLE, ASKED, Ordering::Release, Ordering::Relaxed).is_err() {
            return Err(Unanswered::Ended);
        }
        if !shared.thread.interrupt() {
            // The thread is over, or this is the child of a fork, in which the thread is not.
            let _ = shared.word.compare_exchange(ASKED, IDLE, Ordering::Relaxed, Ordering::Relaxed);
            return Err(Unanswered::Ended);
        }
        if shared.wait_while(ASKED, deadline).is_err()
            && shared.word.compare_exchange(ASKED, IDLE, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            return Err(Unanswered::TimedOut);
        }
        *is_back = false;
        shared.wait_while(COPYING, deadline)?;
        *is_back = true;
        if shared.word.load(Ordering::Acquire) != COPIED {
            return Err(Unanswered::Ended);
        }
        // SAFETY: the word was COPIED, which only an asker changes to the handler's start, and the
        // turn is ours. Should the thread end meanwhile nobody writes at all.
        let trace = unsafe { &*sample.get() }.unwind();
        let _ = shared.done();
        Ok(trace)
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("thread", &self.0.thread).finish_non_exhaustive()
    }
}

impl Shared {
    /// The copies are not needed any more.
    fn done(&self) -> Result<(), Unanswered> {
        match self.word.compare_exchange(COPIED, IDLE, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) | Err(IDLE) => Ok(()),
            Err(_) => Err(Unanswered::Ended),
        }
    }

    /// Waits for the word to become another than `state`: an answer takes microseconds, or is not
    /// to be expected soon.
    fn wait_while(&self, state: u32, deadline: Option<Instant>) -> Result<(), Unanswered> {
        let mut pause = Duration::from_micros(20);
        while self.word.load(Ordering::Acquire) == state {
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(Unanswered::TimedOut);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Answers for Shared {
    unsafe fn answer(registers: Registers) -> bool {
        let shared = ASKABLE.get();
        // SAFETY: the thread's own, with a share of its registration's as long as the pointer
        // stands there.
        let Some(shared) = (unsafe { shared.as_ref() }) else { return false };
        if shared.word.compare_exchange(ASKED, COPYING, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        if let Some(sample) = shared.sample.get() {
            // SAFETY: the word is COPYING, so that the sample is ours. By the contract this thread
            // was interrupted with these registers.
            let sample = unsafe {
                (*sample.get()).take(registers, &shared.stack);
                &*sample.get()
            };
            // SAFETY: the word is COPYING, so that the visit is ours; its state stays until the
            // word is another.
            unsafe {
                if let Some(visit) = *shared.visit.get() {
                    (visit.call)(visit.state, visit.visit, &Interrupted(sample));
                }
            }
        }
        shared.word.store(COPIED, Ordering::Release);
        true
    }
}

impl Kept for Shared {
    unsafe fn end(shared: NonNull<Self>) {
        // From here on the handler finds nothing. The handler runs on this thread, and so is not in
        // the middle of something.
        ASKABLE.set(ptr::null());
        // SAFETY: the thread has kept a share, which this takes.
        let shared = unsafe { Arc::from_raw(shared.as_ptr()) };
        shared.word.store(ENDED, Ordering::Release);
    }
}
