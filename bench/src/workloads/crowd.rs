//! A program and what it spawns, on each runtime. Used by the workloads in which many fibers or
//! tasks take part.
//!
//! A program spawns through one of two traits: [`SpawnFiber`] where waiting is a call,
//! [`SpawnTask`] where it is an `.await`.

use super::policies::Policy;
use super::{may_run, smol_executor, smol_threads, tokio_runtime};
use smol::Executor;
use std::sync::Arc;

/// Something that starts fibers or threads.
pub trait SpawnFiber: Sync {
    /// What is kept of one until it is joined.
    type Handle<T: Send + 'static>;

    /// Starts one.
    fn spawn<T: Send + 'static>(&self, fiber: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T>;

    /// Waits for its end.
    fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T;
}

/// Something that starts tasks.
pub trait SpawnTask: Clone + Send + Sync + 'static {
    /// What is kept of one until it is joined. To drop it may stop the task.
    type Handle<T: Send + 'static>: Send;

    /// Starts one.
    fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Self::Handle<T>;

    /// Waits for its end.
    fn join<T: Send + 'static>(handle: Self::Handle<T>) -> impl Future<Output = T> + Send;
}

/// Fibers of the Segue runtime in which the caller is.
#[derive(Clone, Copy)]
pub struct Segue;

impl SpawnFiber for Segue {
    type Handle<T: Send + 'static> = segue::JoinHandle<T>;

    fn spawn<T: Send + 'static>(&self, fiber: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
        segue::spawn(fiber)
    }

    fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T {
        handle.join().expect("no panic")
    }
}

/// A pool, for programs that say where their fibers run.
impl SpawnFiber for segue::Pool {
    type Handle<T: Send + 'static> = segue::JoinHandle<T>;

    fn spawn<T: Send + 'static>(&self, fiber: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
        self.spawn(fiber)
    }

    fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T {
        handle.join().expect("no panic")
    }
}

/// Runs `main` as a fiber.
pub fn segue<T>(policy: &Policy, workers: usize, main: impl FnOnce(Segue) -> T) -> T {
    policy.run(workers, || main(Segue))
}

/// Coroutines of may.
#[derive(Clone, Copy)]
pub struct May;

impl SpawnFiber for May {
    type Handle<T: Send + 'static> = may::coroutine::JoinHandle<T>;

    fn spawn<T: Send + 'static>(&self, fiber: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
        may::go!(fiber)
    }

    fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T {
        handle.join().expect("no panic")
    }
}

/// Runs `main` as a coroutine of may.
pub fn may<T: Send + 'static>(workers: usize, main: impl FnOnce(May) -> T + Send + 'static) -> T {
    may_run(workers, || main(May))
}

/// A thread for each.
#[derive(Clone, Copy)]
pub struct Threads;

impl SpawnFiber for Threads {
    type Handle<T: Send + 'static> = std::thread::JoinHandle<T>;

    fn spawn<T: Send + 'static>(&self, fiber: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
        std::thread::spawn(fiber)
    }

    fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T {
        handle.join().expect("no panic")
    }
}

/// Tasks of the tokio runtime in which the caller is.
#[derive(Clone, Copy)]
pub struct Tokio;

impl SpawnTask for Tokio {
    type Handle<T: Send + 'static> = tokio::task::JoinHandle<T>;

    fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Self::Handle<T> {
        tokio::spawn(task)
    }

    async fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T {
        handle.await.expect("no panic")
    }
}

/// Runs `main` as a task of tokio.
pub fn tokio<T, F>(workers: usize, main: impl FnOnce(Tokio) -> F) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let main = main(Tokio);
    tokio_runtime(workers).block_on(async { tokio::spawn(main).await }).expect("no panic")
}

/// Tasks of smol: of this thread's executor, or of one that several threads run.
#[derive(Clone)]
pub enum Smol {
    /// This thread's.
    Local,
    /// The one of several threads.
    Shared(Arc<Executor<'static>>),
}

impl SpawnTask for Smol {
    type Handle<T: Send + 'static> = smol::Task<T>;

    fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Self::Handle<T> {
        match self {
            Self::Local => smol_executor().spawn(task),
            Self::Shared(executor) => executor.spawn(task),
        }
    }

    async fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T {
        handle.await
    }
}

/// Runs `main` as a task of smol.
pub fn smol<T, F>(workers: usize, main: impl FnOnce(Smol) -> F) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    if workers == 1 {
        let executor = smol_executor();
        let main = executor.spawn(main(Smol::Local));
        return smol::future::block_on(executor.run(main));
    }
    let executor = Arc::new(Executor::new());
    smol_threads(workers, &executor, || {
        let main = executor.spawn(main(Smol::Shared(executor.clone())));
        smol::future::block_on(main)
    })
}
