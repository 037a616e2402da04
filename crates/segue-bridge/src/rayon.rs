//! Fibers that wait for rayon's jobs, and rayon's jobs that wait.
//!
//! Used where computation is rayon's and waiting is Segue's.
//!
//! A rayon job may wait at any structure of Segue's: its worker is a plain thread, which is parked
//! meanwhile. That is one worker less; if all of them wait for the work of another job, they wait
//! for ever. [`wait_yielding`] runs other jobs meanwhile, which has a hazard of its own.

use rayon_core::{ThreadPool, Yield};
use segue_core::chain::barrier;
use segue_core::unwind::contain;
use segue_core::{Cancelled, Ended, JoinError, WaitQueue, WaitsFor, check, now, outside_work, shield};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Runs `f` as a job of rayon's global pool, and suspends the calling fiber, or parks the calling
/// thread, until the end of `f`.
///
/// On a worker of rayon's `f` runs in place.
///
/// # Cancellation
/// The job goes on, or starts later, and its result is dropped.
///
/// # Errors
/// [`JoinError::Panicked`] if `f` panicked; [`JoinError::WaitCancelled`] if the caller was
/// cancelled.
///
/// # Examples
///
/// ```
/// use rayon::prelude::*;
///
/// let fiber = segue::spawn(|| segue_bridge::rayon::run(|| (1..=8).into_par_iter().sum::<u32>()));
/// assert_eq!(fiber.join().unwrap().unwrap(), 36);
/// ```
#[track_caller]
pub fn run<F, T>(f: F) -> Result<T, JoinError>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    job(rayon_core::current_thread_index().is_some(), f, rayon_core::spawn)
}

/// As [`run`], as a job of `pool`.
///
/// # Cancellation
/// As for [`run`].
///
/// # Errors
/// As for [`run`].
///
/// # Examples
///
/// ```
/// let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
/// assert_eq!(segue_bridge::rayon::run_on(&pool, || 42).unwrap(), 42);
/// ```
#[track_caller]
pub fn run_on<F, T>(pool: &ThreadPool, f: F) -> Result<T, JoinError>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    job(pool.current_thread_index().is_some(), f, |job| pool.spawn(job))
}

fn in_place<T>(f: impl FnOnce() -> T) -> Result<T, JoinError> {
    catch_unwind(AssertUnwindSafe(f)).map_err(JoinError::panicked)
}

/// The queue in which the caller of a job waits for its result, if that is not there yet.
type Results<T> = WaitQueue<Option<Result<T, JoinError>>, Result<T, JoinError>>;

/// The job's side. Its drop sends the content: nothing, if the job never ran.
struct Sender<T> {
    results: Arc<Results<T>>,
    result: Option<Result<T, JoinError>>,
}

impl<T> Sender<T> {
    fn run(mut self, f: impl FnOnce() -> T) {
        self.result = Some(in_place(f));
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let result = self.result.take().unwrap_or_else(|| Err(JoinError::NeverRan(Cancelled::new())));
        let mut results = self.results.lock();
        if let Err(result) = results.hand_over(0, result) {
            *results.state() = Some(result);
        }
    }
}

#[track_caller]
fn job<F, T>(is_inside: bool, f: F, spawn: impl FnOnce(Box<dyn FnOnce() + Send>)) -> Result<T, JoinError>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    check()?;
    if is_inside {
        return in_place(f);
    }
    let waits_for = WaitsFor::new("a job of rayon's");
    // As long as the caller waits; a job that nobody waits for any more does not hold a
    // simulation's clock.
    let _outside = outside_work();
    let results = Arc::new(Results::new(None));
    let sender = Sender { results: Arc::clone(&results), result: None };
    // A result that nobody waits for any more is dropped there, and may panic, which would end the
    // process.
    spawn(Box::new(move || {
        contain(|| sender.run(f));
    }));
    results.wait(waits_for, Option::is_some, |result| result.take().expect("it is there"))?
}

/// The bell of a job that waits: whether a ring has come since the last look.
#[derive(Debug)]
struct Bell(WaitQueue<bool>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let mut rung = self.0.lock();
        *rung.state() = true;
        rung.notify_all(0);
    }
}

impl Bell {
    fn was_rung(&self) -> bool {
        std::mem::take(self.0.lock().state())
    }
}

/// The times that an idle worker sleeps before a further look for jobs, at first and at most.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);

/// As [`wait`](crate::wait), in a job of rayon's: runs other jobs of the pool while the future is
/// not ready, and sleeps when there are none. Elsewhere, and in a fiber on a worker of rayon's,
/// this is `wait`.
///
/// Waits of Segue's are futures by their sources: `wait_yielding(promise.wait_source())`.
///
/// # Hazard
/// A stranger's job runs *on top of the waiting frame*, and the wait can't end before that job has.
/// If that job waits for something behind the frame, a lock that the caller holds, or a result that
/// the caller would compute next, neither ever goes on. So hold nothing here that another job of
/// the pool may want. Jobs may nest as deep as there are jobs that wait, on one stack.
///
/// # Cancellation
/// The future is dropped.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled.
///
/// # Panics
/// If the future does.
///
/// # Examples
///
/// ```
/// // One worker, and a job that waits for another: parked, it would wait for ever.
/// let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
/// let answer = pool.install(|| {
///     let (resolver, promise) = segue::sync::promise();
///     rayon::spawn(move || resolver.fill(42).unwrap());
///     segue_bridge::rayon::wait_yielding(promise.wait_source()).unwrap().copied()
/// });
/// assert_eq!(answer, Ok(42));
/// ```
#[track_caller]
pub fn wait_yielding<F: IntoFuture>(future: F) -> Result<F::Output, Cancelled> {
    if rayon_core::current_thread_index().is_none() || segue_core::in_fiber() {
        return segue_core::wait_future(future);
    }
    check()?;
    let waits_for = WaitsFor::new("a future, or a job of rayon's");
    let mut future = pin!(future.into_future());
    let bell = Arc::new(Bell(WaitQueue::new(false)));
    let waker = Waker::from(Arc::clone(&bell));
    let mut task = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut task) {
            return Ok(output);
        }
        let mut sleep = SHORTEST;
        while !bell.was_rung() {
            check()?;
            // A stranger's job is not to see this one's cancellation, nor to capture its frames and
            // rayon's.
            let other_jobs = || barrier(WaitsFor::new("a job of rayon's"), rayon_core::yield_now);
            if let Some(Yield::Executed) = shield(other_jobs) {
                sleep = SHORTEST;
                continue;
            }
            match bell.0.wait_until(now().checked_add(sleep), waits_for, |rung| *rung, |rung| *rung = false) {
                Ok(()) => break,
                Err(Ended::TimedOut) => sleep = (sleep * 2).min(LONGEST),
                Err(Ended::Cancelled(cancelled)) => return Err(cancelled),
            }
        }
    }
}
