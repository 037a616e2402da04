//! Scopes: jobs that borrow, and that the scope's caller waits for.
//!
//! Used by applications; broadcasts are scopes, too.
//!
//! # Borrowing
//!
//! A job's closure borrows from what lives as long as `'scope`, and is kept as if it borrowed
//! nothing. That is sound since the function that has opened the scope, whose caller lends all
//! that, does not return, nor unwind, before each job was run or dropped: it counts them
//! (`State::pending`). A [`Job`] counts down when it is dropped, which comes after its closure: by
//! field order if it never ran, else by `run`.
//!
//! # Order
//!
//! As in `spawning.rs`, each job comes with a fiber that takes one out of the scope's queue, which
//! has the order. When the scope's body has returned, its fiber takes jobs out as well, before it
//! waits.
//!
//! **Cancellation** has *no effect* on the wait. Where the fiber can't suspend, since it panics or
//! is in `no_suspend`, it runs the jobs that are left, and what is for its own worker
//! (`targeted.rs`), and looks again until the others have run theirs.
#![allow(unsafe_code)] // Closures are kept longer than the compiler can see that they may be.

use crate::broadcast::BroadcastContext;
use crate::place::{Place, on_worker};
use crate::targeted;
use segue_core::{WaitQueue, WaitsFor, shield};
use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::mem::transmute;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// What all of a scope's jobs share.
pub(crate) struct State {
    place: Place,
    is_fifo: bool,
    jobs: Mutex<VecDeque<Job>>,
    pending: WaitQueue<usize>,
    /// The first panic.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A closure of a scope.
type Borrowing<'scope> = dyn FnOnce(&Arc<State>) + Send + 'scope;

/// A closure of a scope, as if it borrowed nothing.
type Body = Box<dyn FnOnce(&Arc<State>) + Send>;

/// A job that was counted. The closure is dropped before it is counted down.
pub(crate) struct Job {
    body: Option<Body>,
    counted: Counted,
}

/// One of the pending jobs.
struct Counted(Arc<State>);

impl Drop for Counted {
    fn drop(&mut self) {
        let mut pending = self.0.pending.lock();
        *pending.state() -= 1;
        pending.notify_all(0);
    }
}

impl Job {
    fn new(state: &Arc<State>, body: Body) -> Self {
        *state.pending.lock().state() += 1;
        Self { body: Some(body), counted: Counted(Arc::clone(state)) }
    }

    pub(crate) fn run(mut self) {
        let state = &self.counted.0;
        if let Some(body) = self.body.take()
            && let Err(payload) = catch_unwind(AssertUnwindSafe(|| body(state)))
        {
            state.has_panicked(payload);
        }
    }
}

impl State {
    fn has_panicked(&self, payload: Box<dyn Any + Send>) {
        let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = Some(payload);
        } else {
            drop(first);
            // Its drop may panic, too.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
        }
    }

    fn take(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_fifo { jobs.pop_front() } else { jobs.pop_back() }
    }

    /// Runs what nobody has begun, and waits for the rest.
    fn wait(&self) {
        loop {
            while let Some(job) = self.take() {
                job.run();
            }
            let all_ended = WaitsFor::new("the jobs of a scope of rayon's");
            if shield(|| self.pending.wait(all_ended, |pending| *pending == 0, |_| ())).is_ok() {
                return;
            }
            // The fiber can't suspend.
            match targeted::take_here() {
                Some(job) => job.run(),
                None => std::thread::yield_now(),
            }
        }
    }
}

/// Has a closure run as a job of this scope: at a worker, or at any in the scope's order.
///
/// # Safety
/// The caller of the function that has opened the scope lends what the closure borrows.
unsafe fn spawn<'scope>(state: &Arc<State>, at: Option<usize>, body: Box<Borrowing<'scope>>) {
    // SAFETY: only the lifetime changes. The closure is called or dropped before the scope's
    // function returns, which waits until `Counted` says so.
    let body = unsafe { transmute::<Box<Borrowing<'scope>>, Body>(body) };
    let job = Job::new(state, body);
    match at {
        Some(worker) => targeted::send(&state.place.handle, worker, job),
        None => {
            state.jobs.lock().unwrap_or_else(PoisonError::into_inner).push_back(job);
            let state = Arc::clone(state);
            drop(state.place.handle.clone().spawn(move || {
                if let Some(job) = state.take() {
                    job.run();
                }
            }));
        }
    }
}

/// Opens a scope for `op`, and waits for its jobs.
fn open<R>(place: Place, is_fifo: bool, op: impl FnOnce(&Arc<State>) -> R) -> R {
    let (jobs, pending, panic) = (Mutex::default(), WaitQueue::new(0), Mutex::new(None));
    let state = Arc::new(State { place, is_fifo, jobs, pending, panic });
    let result = catch_unwind(AssertUnwindSafe(|| op(&state)));
    state.wait();
    let panic = state.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (result, panic) {
        (Ok(result), None) => result,
        (Err(payload), _) | (_, Some(payload)) => resume_unwind(payload),
    }
}

/// Defines a kind of scope.
macro_rules! scopes {
    ($(#[$doc:meta])* $name:ident, $spawn:ident, $is_fifo:literal) => {
        $(#[$doc])*
        pub struct $name<'scope> {
            state: Arc<State>,
            /// Jobs are handed scopes of the same `'scope`, which is neither longer nor shorter.
            marker: PhantomData<Box<dyn FnOnce(&$name<'scope>) + Send + Sync + 'scope>>,
        }

        impl<'scope> $name<'scope> {
            fn of(state: &Arc<State>) -> Self {
                Self { state: Arc::clone(state), marker: PhantomData }
            }

            /// Has `body` run, which may borrow what is around the scope; the scope waits for it.
            ///
            /// # Panics
            /// The scope does, if `body` does, when all jobs have ended.
            pub fn $spawn<BODY>(&self, body: BODY)
            where
                BODY: FnOnce(&$name<'scope>) + Send + 'scope,
            {
                // SAFETY: `'scope` is what the opener's caller lends.
                unsafe { spawn(&self.state, None, Box::new(move |state| body(&Self::of(state)))) };
            }

            /// Has `body` run on each worker once; the scope waits for all.
            pub fn spawn_broadcast<BODY>(&self, body: BODY)
            where
                BODY: Fn(&$name<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
            {
                let body = Arc::new(body);
                let place = &self.state.place;
                for index in 0..place.threads() {
                    let (body, threads) = (Arc::clone(&body), place.threads());
                    let run = move |state: &Arc<State>| {
                        // Dropped before it is counted down.
                        let body = body;
                        body(&Self::of(state), BroadcastContext::new(index, threads));
                    };
                    // SAFETY: as above.
                    unsafe { spawn(&self.state, Some(place.worker_for(index)), Box::new(run)) };
                }
            }

            /// Opens one at a place, for a body that runs here.
            pub(crate) fn open_at<R>(place: Place, op: impl FnOnce(&$name<'scope>) -> R) -> R {
                open(place, $is_fifo, |state| op(&Self::of(state)))
            }
        }

        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}

scopes! {
    /// A scope whose jobs run newest first.
    Scope, spawn, false
}

scopes! {
    /// A scope whose jobs run oldest first.
    ScopeFifo, spawn_fifo, true
}

/// Opens a scope on a worker, and waits for its jobs.
///
/// # Panics
/// If `op` or a job does, when all have ended.
///
/// # Examples
///
/// ```
/// let mut numbers = [1, 2];
/// let [a, b] = &mut numbers;
/// rayon_core::scope(|s| {
///     s.spawn(|_| *a += 1);
///     s.spawn(|_| *b += 1);
/// });
/// assert_eq!(numbers, [2, 3]);
/// ```
pub fn scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    on_worker(|| Scope::open_at(Place::here(), op))
}

/// As [`scope`], whose jobs run oldest first.
///
/// # Panics
/// As for [`scope`].
pub fn scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    on_worker(|| ScopeFifo::open_at(Place::here(), op))
}

/// As [`scope`]; `op` runs where the caller is.
///
/// # Panics
/// As for [`scope`].
pub fn in_place_scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R,
{
    Scope::open_at(Place::here(), op)
}

/// As [`scope_fifo`]; `op` runs where the caller is.
///
/// # Panics
/// As for [`scope`].
pub fn in_place_scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R,
{
    ScopeFifo::open_at(Place::here(), op)
}
