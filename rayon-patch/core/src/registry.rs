//! A pool of workers, with what its builder has said of it.
//!
//! Used by everything here. It lives as long as a `ThreadPool` does, or a job that was spawned in
//! it.

use crate::builder::{Config, ThreadBuilder, ThreadPoolBuildError};
use crate::spawning::Queues;
use segue_sched::{Handle, Pool};
use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::AccessError;

/// What the panics of spawned jobs are handed to.
pub(crate) type PanicHandler = Box<dyn Fn(Box<dyn Any + Send>) + Send + Sync>;

/// See the file's head.
pub(crate) struct Registry {
    pool: Workers,
    handle: Handle,
    /// The number of its first worker: 1 if the thread that has built it counts as number 0.
    first: usize,
    /// How many threads it counts.
    threads: usize,
    panic_handler: Option<PanicHandler>,
    pub(crate) queues: Queues,
}

/// Whose the workers are.
enum Workers {
    Own(Pool),
    /// Segue's default runtime.
    Default(&'static Pool),
}

/// How a thread finds the registry that it belongs to, which does not exist when the thread starts.
type Slot = Arc<OnceLock<Weak<Registry>>>;

/// A thread that a registry has built, or that counts as its number 0.
struct Member {
    slot: Slot,
    is_first: bool,
    /// The registry's scheduler, and how many threads the registry counts: what the loops on this
    /// thread ask for is not to be written by others' questions.
    counted: OnceCell<(Handle, usize)>,
}

thread_local! {
    /// What this thread is.
    static MINE: RefCell<Option<Member>> = const { RefCell::new(None) };
}

/// What `look` finds in what this thread is, if that is anything. It calls no foreign code.
fn of_thread<R>(look: impl FnOnce(&Member) -> Option<R>) -> Option<R> {
    MINE.try_with(|mine| mine.borrow().as_ref().and_then(look)).ok().flatten()
}

/// This thread belongs to the registry that will be in `slot`; but not if the thread ends and has
/// no place for that any more, which is the error.
fn belong_to(slot: Slot, is_first: bool) -> Result<(), AccessError> {
    let member = Member { slot, is_first, counted: OnceCell::new() };
    // What was there is dropped when it can be looked at again.
    MINE.try_with(|mine| mine.replace(Some(member))).map(drop)
}

impl Member {
    fn registry(&self) -> Option<Arc<Registry>> {
        self.slot.get()?.upgrade()
    }

    /// How many threads the registry counts, if the calling fiber is one of its scheduler's.
    fn threads_of_fiber(&self) -> Option<usize> {
        if self.counted.get().is_none() {
            let registry = self.registry()?;
            let _ = self.counted.set((registry.handle.clone(), registry.threads));
        }
        let (handle, threads) = self.counted.get()?;
        handle.is_current().then_some(*threads)
    }
}

/// The registry that has built the calling thread; and whether the thread is its number 0, and so
/// no worker.
pub(crate) fn mine() -> Option<(Arc<Registry>, bool)> {
    of_thread(|mine| Some((mine.registry()?, mine.is_first)))
}

/// How many threads the pool of the calling fiber counts, if that is the pool that has built this
/// thread, or the global one. Each loop asks, so nothing is written that workers share.
pub(crate) fn threads_of_fiber() -> Option<usize> {
    let global = || GLOBAL.get().filter(|global| global.handle.is_current()).map(|global| global.threads);
    of_thread(Member::threads_of_fiber).or_else(global)
}

/// The pool behind plain threads.
pub(crate) fn global() -> &'static Arc<Registry> {
    GLOBAL.get_or_init(|| {
        let asked = std::env::var("RAYON_NUM_THREADS").is_ok_and(|n| n.parse().is_ok_and(|n: usize| n > 0));
        let own = asked.then(|| Registry::new(Config::default(), |thread| thread.start()).ok()).flatten();
        own.unwrap_or_else(|| Arc::new(Registry::of_default()))
    })
}

/// The global pool, if it is in use: to look is not to start it.
pub(crate) fn global_if_there() -> Option<&'static Arc<Registry>> {
    GLOBAL.get()
}

static GLOBAL: OnceLock<Arc<Registry>> = OnceLock::new();

/// Builds the global pool, unless there is one.
pub(crate) fn set_global(
    build: impl FnOnce() -> Result<Arc<Registry>, ThreadPoolBuildError>,
) -> Result<(), ThreadPoolBuildError> {
    let mut outcome = Err(ThreadPoolBuildError::global_is_there());
    if GLOBAL.get().is_none() {
        let registry = build()?;
        GLOBAL.get_or_init(|| {
            outcome = Ok(());
            registry
        });
    }
    outcome
}

impl Registry {
    fn of_default() -> Self {
        // Its stacks are such that programs can recurse on them that were written for threads: by
        // the feature `deep-stacks`, as another crate may be the first to start that pool.
        let pool = segue_sched::default_pool();
        let (handle, threads) = (pool.handle(), pool.workers());
        let pool = Workers::Default(pool);
        Self { pool, handle, first: 0, threads, panic_handler: None, queues: Queues::default() }
    }

    /// Builds one, whose threads `start` starts.
    pub(crate) fn new(
        config: Config,
        mut start: impl FnMut(ThreadBuilder) -> io::Result<()>,
    ) -> Result<Arc<Self>, ThreadPoolBuildError> {
        let threads = config.threads();
        let Config {
            use_current_thread, panic_handler, mut thread_name, stack_size, start_handler, exit_handler, ..
        } = config;
        if use_current_thread && mine().is_some() {
            return Err(ThreadPoolBuildError::thread_is_taken());
        }
        let first = usize::from(use_current_thread && threads > 1);
        let slot = Slot::default();
        let for_start = Arc::clone(&slot);
        let workers = segue_sched::Runtime::new()
            .workers(threads - first)
            .stacks(config_of_stacks(stack_size)?)
            .on_thread_start(move |index| {
                // A thread that ends, and is lent to a worker, knows no number of its own.
                let _ = belong_to(Arc::clone(&for_start), false);
                if let Some(handler) = &start_handler {
                    handler(index + first);
                }
            })
            .on_thread_stop(move |index| {
                if let Some(handler) = &exit_handler {
                    handler(index + first);
                }
            });
        let pool = workers.pool_on(|worker| {
            let index = worker.index() + first;
            let name = thread_name.as_mut().map(|name| name(index));
            start(ThreadBuilder::new(name, stack_size, index, worker))
        });
        let pool = pool.map_err(ThreadPoolBuildError::io)?;
        let (handle, pool) = (pool.handle(), Workers::Own(pool));
        let registry = Arc::new(Self { pool, handle, first, threads, panic_handler, queues: Queues::default() });
        let _ = slot.set(Arc::downgrade(&registry));
        if use_current_thread {
            let ends = |_| io::Error::other("the thread ends: it can't be number 0 of a pool any more");
            belong_to(slot, true).map_err(|gone| ThreadPoolBuildError::io(ends(gone)))?;
        }
        Ok(registry)
    }

    pub(crate) fn pool(&self) -> &Pool {
        match &self.pool {
            Workers::Own(pool) => pool,
            Workers::Default(pool) => pool,
        }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) fn first(&self) -> usize {
        self.first
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// A job that nobody waits for has panicked.
    pub(crate) fn report(&self, payload: Box<dyn Any + Send>) {
        let handled = self.panic_handler.as_ref().map(|handler| catch_unwind(AssertUnwindSafe(|| handler(payload))));
        if !matches!(handled, Some(Ok(()))) {
            eprintln!("Rayon: detected unexpected panic; aborting");
            std::process::abort();
        }
    }

    /// Runs `op` on a worker, if the caller is on none of them.
    pub(crate) fn call<R: Send>(&self, op: impl FnOnce() -> R + Send) -> R {
        self.pool().call(op)
    }
}

/// What fibers' stacks are like: as large as threads' are, unless the builder says otherwise.
fn config_of_stacks(size: Option<usize>) -> Result<segue_sched::StackConfig, ThreadPoolBuildError> {
    const OF_A_THREAD: usize = 2 << 20;
    const LARGEST: usize = 512 << 20;
    const GUARD: usize = 32 << 10;
    let size = size.unwrap_or(OF_A_THREAD);
    if size > LARGEST {
        let what = format!("a fiber's stack has at most {LARGEST} bytes, and {size} were asked for");
        return Err(ThreadPoolBuildError::io(io::Error::new(io::ErrorKind::InvalidInput, what)));
    }
    // With the guard, and a power of two.
    Ok(segue_sched::StackConfig::new().slot_size((size + GUARD).next_power_of_two().max(64 << 10)))
}
