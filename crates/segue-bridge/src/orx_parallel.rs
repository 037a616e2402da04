//! Segue's workers as a thread pool of orx-parallel's.
//!
//! Used where orx-parallel's iterators are to run beside fibers, and their closures to wait.
//!
//! Each task of a computation lies in a queue of its scope, and comes with a fiber that takes one
//! out. When the scope's body has returned, the caller takes tasks out as well, before waiting for
//! the fibers. So no task depends on a fiber that is cancelled before it has begun: all tasks are
//! run, as orx-parallel expects, also for a cancelled caller.

use ::orx_parallel::ThreadPool;
use segue_core::chain::barrier;
use segue_core::unwind::contain;
use segue_core::{Builder, Scope, WaitsFor, scope};
use segue_sched::{Handle, Pool, default_pool};
use std::any::Any;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

/// Segue's workers, for runners of orx-parallel's iterators, and for tasks of one's own by
/// [`ThreadPool::run_all`].
///
/// A computation has as many tasks as there are workers, each of which takes elements until there
/// are none; its caller, which waits for its end, runs one of them. Closures run on fibers, and may
/// wait at anything of Segue's: other fibers go on meanwhile. A task that waits is one less that
/// takes elements, which [`at_once`](Workers::at_once) makes up for.
///
/// # Cancellation
/// *No effect* on a computation: all its closures are called, and see the caller's cancellation at
/// their waits, wherever they run.
///
/// # Panics
/// A computation does, with the first panic of a closure, when all tasks have ended.
///
/// # Effects
/// Handlers around the call are in place in no closure.
///
/// # Examples
///
/// ```
/// use orx_parallel::*;
/// use segue_bridge::orx_parallel::Workers;
/// use segue_core::sleep;
/// use std::time::Duration;
///
/// // Ten sleeps at once, however many workers there are.
/// let runner = Runner::adaptive_with_pool(Workers::here().at_once(10));
/// let slept = (1..=10).into_par().runner(runner).chunk_size(1).map(|n| {
///     sleep(Duration::from_millis(n as u64)).unwrap();
///     n
/// });
/// assert_eq!(slept.sum(), 55);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "it is to be handed to a computation"]
pub struct Workers<'p> {
    pool: Option<&'p Pool>,
    at_once: usize,
}

impl Workers<'static> {
    /// Those of the scheduler of the fiber that begins the computation; on a plain thread, and on
    /// fibers of others' schedulers, those of the [default runtime](segue_sched::default_pool).
    pub const fn here() -> Self {
        Self { pool: None, at_once: 0 }
    }
}

impl<'p> Workers<'p> {
    /// Those of `pool`. The caller runs a task in place.
    ///
    /// # Examples
    ///
    /// ```
    /// use orx_parallel::*;
    /// use segue_bridge::orx_parallel::Workers;
    ///
    /// let pool = segue_sched::Runtime::new().workers(2).pool()?;
    /// let runner = Runner::adaptive_with_pool(Workers::of(&pool));
    /// let squares: Vec<_> = (0..1000).into_par().runner(runner).map(|n| n * n).collect();
    /// assert_eq!(squares[999], 998_001);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub const fn of(pool: &'p Pool) -> Self {
        Self { pool: Some(pool), at_once: 0 }
    }

    /// Lets a computation have so many tasks, instead of as many as there are workers: so many
    /// closures wait at once, if each task takes one element at a time (`chunk_size(1)`). As in
    /// orx-parallel, 0 is for as many as there are workers.
    pub const fn at_once(self, tasks: usize) -> Self {
        Self { at_once: tasks, ..self }
    }

    /// Where fibers start, if not where the caller's do.
    fn elsewhere(&self) -> Option<&Pool> {
        self.pool.or_else(|| Handle::current().is_none().then(default_pool))
    }
}

impl ThreadPool for Workers<'_> {
    type ScopeRef<'s, 'env, 'scope>
        = Tasks<'s, 'scope>
    where
        'scope: 's,
        'env: 'scope + 's;

    fn scope<'env, 'scope, F>(&'env self, f: F)
    where
        'env: 'scope,
        for<'s> F: FnOnce(Tasks<'s, 'scope>) + Send,
    {
        let state = State { queue: Mutex::default(), panic: Mutex::new(None) };
        let on = self.elsewhere();
        // An effect in a closure could capture the frames of a computation else, while others run
        // parts of it.
        barrier(WaitsFor::new("a computation of orx-parallel's"), || {
            scope(|fibers| {
                f(Tasks { state: &state, fibers, on });
                while state.run_one() {}
            });
        });
        if let Some(payload) = state.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(payload);
        }
    }

    fn max_num_threads(&self) -> NonZeroUsize {
        let workers = || self.elsewhere().map(Pool::workers).or_else(|| Some(Handle::current()?.workers()));
        let tasks = NonZeroUsize::new(self.at_once).or_else(|| NonZeroUsize::new(workers()?));
        tasks.unwrap_or(NonZeroUsize::MIN)
    }
}

/// The tasks of one computation, which may borrow.
struct State<'scope> {
    queue: Mutex<VecDeque<Box<dyn FnOnce() + Send + 'scope>>>,
    /// The first one.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl State<'_> {
    /// Runs the oldest task that nobody has taken. Answers whether there was one.
    fn run_one(&self) -> bool {
        // A statement of its own: a `match` on the call would keep the lock.
        let task = self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(task) = task else { return false };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(task)) {
            let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
            let later = if first.is_none() { first.replace(payload) } else { Some(payload) };
            drop(first);
            // Its drop may panic, too.
            contain(|| drop(later));
        }
        true
    }
}

/// Takes a task, and runs that.
trait Take: Sync {
    fn take(&self);
}

impl Take for State<'_> {
    fn take(&self) {
        self.run_one();
    }
}

/// A scope of Segue's, with any other borrow inside.
trait Fibers<'s> {
    fn start(&'s self, on: Option<&Pool>, tasks: &'s dyn Take);
}

impl<'s> Fibers<'s> for Scope<'s, '_> {
    fn start(&'s self, on: Option<&Pool>, tasks: &'s dyn Take) {
        let take = || tasks.take();
        drop(match on {
            Some(pool) => Builder::new().within(self).on(pool).spawn(take),
            None => self.spawn(take),
        });
    }
}

/// The receiver of a computation's tasks: see [`ThreadPool::scope`].
#[derive(Clone, Copy)]
pub struct Tasks<'s, 'scope> {
    state: &'s State<'scope>,
    fibers: &'s dyn Fibers<'s>,
    on: Option<&'s Pool>,
}

impl<'s, 'env, 'scope> ::orx_parallel::Scope<'s, 'env, 'scope> for Tasks<'s, 'scope> {
    /// Has `task` run on a fiber; tasks begin in the order in which they come.
    fn run<W>(self, task: W)
    where
        'scope: 's,
        'env: 'scope + 's,
        W: FnOnce() + Send + 'scope + 'env,
    {
        self.state.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(Box::new(task));
        self.fibers.start(self.on, self.state);
    }
}

segue_core::impl_debug!([] Tasks<'_, '_>);
