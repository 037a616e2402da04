//! Building pools.
//!
//! Used by applications.

use crate::registry::{PanicHandler, Registry, set_global};
use crate::thread_pool::{ThreadPool, max_num_threads};
use segue_sched::WorkerThread;
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::thread;

/// What a pool is to be like, apart from how its threads start.
#[derive(Default)]
pub(crate) struct Config {
    pub(crate) threads: usize,
    pub(crate) use_current_thread: bool,
    pub(crate) panic_handler: Option<PanicHandler>,
    pub(crate) thread_name: Option<Box<dyn FnMut(usize) -> String>>,
    pub(crate) stack_size: Option<usize>,
    pub(crate) start_handler: Option<Hook>,
    pub(crate) exit_handler: Option<Hook>,
    breadth_first: bool,
}

/// Called on a thread, with its number.
pub(crate) type Hook = Box<dyn Fn(usize) + Send + Sync>;

impl Config {
    /// How many threads it is to count.
    pub(crate) fn threads(&self) -> usize {
        let asked = || {
            let said = |name| std::env::var(name).ok().and_then(|n| n.parse().ok()).filter(|n: &usize| *n > 0);
            said("RAYON_NUM_THREADS").or_else(|| said("RAYON_RS_NUM_CPUS"))
        };
        let available = || thread::available_parallelism().map_or(1, NonZero::get);
        let threads = if self.threads > 0 { self.threads } else { asked().unwrap_or_else(available) };
        threads.min(max_num_threads())
    }
}

/// Builds a [`ThreadPool`], or the global one.
///
/// # Examples
///
/// ```
/// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(3).build()?;
/// assert_eq!(pool.current_num_threads(), 3);
/// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
/// ```
pub struct ThreadPoolBuilder<S = DefaultSpawn> {
    config: Config,
    spawn: S,
}

impl<S> fmt::Debug for ThreadPoolBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPoolBuilder")
            .field("num_threads", &self.config.threads)
            .field("use_current_thread", &self.config.use_current_thread)
            .field("stack_size", &self.config.stack_size)
            .finish_non_exhaustive()
    }
}

/// How a pool's threads start: sealed, [`spawn_handler`](ThreadPoolBuilder::spawn_handler) makes
/// one.
pub trait ThreadSpawn: private::Sealed {
    /// Starts one.
    #[doc(hidden)]
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()>;
}

mod private {
    pub trait Sealed {}
}

/// Starts threads by std.
#[derive(Debug, Default)]
pub struct DefaultSpawn;

/// Starts threads by a closure.
#[derive(Debug)]
pub struct CustomSpawn<F>(F);

impl private::Sealed for DefaultSpawn {}
impl<F> private::Sealed for CustomSpawn<F> {}

impl ThreadSpawn for DefaultSpawn {
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        thread.start()
    }
}

impl<F: FnMut(ThreadBuilder) -> io::Result<()>> ThreadSpawn for CustomSpawn<F> {
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        (self.0)(thread)
    }
}

/// A thread of a pool that is to be started: it calls [`run`](ThreadBuilder::run).
pub struct ThreadBuilder {
    name: Option<String>,
    stack_size: Option<usize>,
    index: usize,
    worker: WorkerThread,
}

impl ThreadBuilder {
    pub(crate) fn new(name: Option<String>, stack_size: Option<usize>, index: usize, worker: WorkerThread) -> Self {
        Self { name, stack_size, index, worker }
    }

    /// Starts it by std.
    pub(crate) fn start(self) -> io::Result<()> {
        let mut builder = thread::Builder::new();
        if let Some(name) = &self.name {
            builder = builder.name(name.clone());
        }
        builder.spawn(|| self.run()).map(drop)
    }

    /// Its number, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The name that the builder gives it.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The size that the builder has asked for. Here fibers have such stacks; what the thread
    /// itself runs needs little.
    #[must_use]
    pub fn stack_size(&self) -> Option<usize> {
        self.stack_size
    }

    /// Works, until the pool ends.
    pub fn run(self) {
        self.worker.run();
    }
}

impl fmt::Debug for ThreadBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadBuilder")
            .field("index", &self.index)
            .field("name", &self.name)
            .field("stack_size", &self.stack_size)
            .finish_non_exhaustive()
    }
}

impl Default for ThreadPoolBuilder {
    fn default() -> Self {
        Self { config: Config::default(), spawn: DefaultSpawn }
    }
}

impl ThreadPoolBuilder {
    /// As many threads as processors, or as `RAYON_NUM_THREADS` says.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds a pool on threads that are joined when `with_pool` has returned: `wrapper` is called
    /// on each, and calls [`ThreadBuilder::run`].
    ///
    /// # Errors
    /// As for [`build`](ThreadPoolBuilder::build).
    pub fn build_scoped<W, F, R>(self, wrapper: W, with_pool: F) -> Result<R, ThreadPoolBuildError>
    where
        W: Fn(ThreadBuilder) + Sync,
        F: FnOnce(&ThreadPool) -> R,
    {
        thread::scope(|scope| {
            let wrapper = &wrapper;
            let spawn = |thread: ThreadBuilder| {
                let mut builder = thread::Builder::new();
                if let Some(name) = thread.name() {
                    builder = builder.name(name.to_owned());
                }
                builder.spawn_scoped(scope, move || wrapper(thread)).map(drop)
            };
            let pool = self.spawn_handler(spawn).build()?;
            Ok(with_pool(&pool))
        })
    }
}

impl<S: ThreadSpawn> ThreadPoolBuilder<S> {
    /// Builds a pool.
    ///
    /// # Errors
    /// If threads or stacks can't be had; if the current thread is to be used, and belongs to a
    /// pool.
    pub fn build(self) -> Result<ThreadPool, ThreadPoolBuildError> {
        self.registry().map(ThreadPool::of)
    }

    /// Builds the pool behind plain threads.
    ///
    /// # Errors
    /// If there is one, which the first use builds; and those of
    /// [`build`](ThreadPoolBuilder::build).
    pub fn build_global(self) -> Result<(), ThreadPoolBuildError> {
        set_global(|| self.registry())
    }

    fn registry(mut self) -> Result<Arc<Registry>, ThreadPoolBuildError> {
        Registry::new(self.config, |thread| self.spawn.spawn(thread))
    }
}

impl<S> ThreadPoolBuilder<S> {
    /// Has threads started by a closure, which has each of them call [`ThreadBuilder::run`].
    #[must_use]
    pub fn spawn_handler<F>(self, spawn: F) -> ThreadPoolBuilder<CustomSpawn<F>>
    where
        F: FnMut(ThreadBuilder) -> io::Result<()>,
    {
        ThreadPoolBuilder { config: self.config, spawn: CustomSpawn(spawn) }
    }

    /// Names each thread, by its number.
    #[must_use]
    pub fn thread_name<F>(mut self, closure: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.config.thread_name = Some(Box::new(closure));
        self
    }

    /// How many threads; 0 for as many as there are processors, or as the environment says.
    #[must_use]
    pub fn num_threads(mut self, num_threads: usize) -> Self {
        self.config.threads = num_threads;
        self
    }

    /// Has the calling thread count as number 0. See the [crate](crate) for what it does then.
    #[must_use]
    pub fn use_current_thread(mut self) -> Self {
        self.config.use_current_thread = true;
        self
    }

    /// Is handed the panics of jobs that nobody waits for. Without one they end the process.
    #[must_use]
    pub fn panic_handler<H>(mut self, panic_handler: H) -> Self
    where
        H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.config.panic_handler = Some(Box::new(panic_handler));
        self
    }

    /// The size of the fibers' stacks; two mebibytes if nothing is said.
    #[must_use]
    pub fn stack_size(mut self, stack_size: usize) -> Self {
        self.config.stack_size = Some(stack_size);
        self
    }

    /// It has no effect, as in rayon-core; see [`scope_fifo`](crate::scope_fifo).
    #[deprecated(note = "use `scope_fifo` and `spawn_fifo` for similar effect")]
    #[must_use]
    pub fn breadth_first(mut self) -> Self {
        self.config.breadth_first = true;
        self
    }

    /// Is called on each thread when it starts, with its number.
    #[must_use]
    pub fn start_handler<H>(mut self, start_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.config.start_handler = Some(Box::new(start_handler));
        self
    }

    /// Is called on each thread when it ends, with its number.
    #[must_use]
    pub fn exit_handler<H>(mut self, exit_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.config.exit_handler = Some(Box::new(exit_handler));
        self
    }
}

/// Why a pool was not built.
#[derive(Debug)]
pub struct ThreadPoolBuildError(Why);

#[derive(Debug)]
enum Why {
    GlobalIsThere,
    ThreadIsTaken,
    Io(io::Error),
}

impl ThreadPoolBuildError {
    pub(crate) fn global_is_there() -> Self {
        Self(Why::GlobalIsThere)
    }

    pub(crate) fn thread_is_taken() -> Self {
        Self(Why::ThreadIsTaken)
    }

    pub(crate) fn io(error: io::Error) -> Self {
        Self(Why::Io(error))
    }
}

impl fmt::Display for ThreadPoolBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Why::GlobalIsThere => f.write_str(GLOBAL_IS_THERE),
            Why::ThreadIsTaken => f.write_str(THREAD_IS_TAKEN),
            Why::Io(error) => error.fmt(f),
        }
    }
}

// Programs compare them.
const GLOBAL_IS_THERE: &str = "The global thread pool has already been initialized.";
const THREAD_IS_TAKEN: &str = "The current thread is already part of another thread pool.";

impl Error for ThreadPoolBuildError {
    #[allow(deprecated)]
    fn description(&self) -> &str {
        match &self.0 {
            Why::GlobalIsThere => GLOBAL_IS_THERE,
            Why::ThreadIsTaken => THREAD_IS_TAKEN,
            Why::Io(error) => error.description(),
        }
    }

    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0 {
            Why::Io(error) => Some(error),
            _ => None,
        }
    }
}
