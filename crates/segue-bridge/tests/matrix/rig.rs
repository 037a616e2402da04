//! What the programs of the matrix are made of: a body that is written once and waits in either
//! way, and waits that are known to be in line.
//!
//! A body is an `async` block with a [`Way`]. In the straight-line way it calls the direct forms,
//! which suspend the fiber or park the thread, and never awaits anything that is not ready: such a
//! block is straight-line code, and one poll runs it. In the other way it awaits the sources.

use crate::common::Side;
use segue::core::{Either, Source, WaitQueue, Waitable, WaitsFor};
use segue::sync::Latch;
use segue::{CancelToken, Cancelled};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::Sender;
use std::task::{Context, Poll, Waker};

/// How a body waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By suspending its fiber, or parking its thread.
    Direct,
    /// By awaiting.
    Task,
}

/// The one or the other form of an operation.
macro_rules! by {
    ($way:expr, $direct:expr, $task:expr) => {
        match $way {
            $crate::rig::Way::Direct => $direct,
            $crate::rig::Way::Task => $task,
        }
    };
}
pub(crate) use by;

impl Way {
    /// Waits for a source.
    pub async fn wait<S: Source>(self, waitable: Waitable<S>) -> S::Output {
        by!(self, waitable.wait().unwrap(), waitable.await)
    }
}

/// Runs a body in the straight-line way.
pub fn straight<F: Future>(body: F) -> F::Output {
    match pin!(body).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("straight-line code has awaited"),
    }
}

/// Tells `ended` whether a body has come to its end.
struct Report(Sender<bool>);

impl Drop for Report {
    fn drop(&mut self) {
        // Nobody may listen any more.
        let _ = self.0.send(!std::thread::panicking());
    }
}

/// A body as the side of a test.
pub fn side<F>(ended: Sender<bool>, body: impl Fn(Way) -> F + Send + 'static) -> Side
where
    F: Future<Output = ()> + Send + 'static,
{
    let reported = move |way| {
        let (ended, body) = (ended.clone(), body(way));
        async move {
            let _report = Report(ended);
            body.await;
        }
    };
    let task = reported(Way::Task);
    Side::new(move || straight(reported(Way::Direct)), task)
}

/// A number that only goes up, and can be waited for.
pub struct Line(WaitQueue<usize>);

impl Default for Line {
    fn default() -> Self {
        Self(WaitQueue::new(0))
    }
}

impl Line {
    pub fn ring(&self) {
        let mut count = self.0.lock();
        *count.state() += 1;
        count.notify_all(0);
    }

    pub fn count(&self) -> usize {
        *self.0.lock().state()
    }

    pub async fn until(&self, way: Way, count: usize) {
        let reached = self.0.source(WaitsFor::new("the other side"), move |n| *n >= count, |_| ());
        way.wait(Waitable::new(reached)).await;
    }
}

/// What cancels a wait: straight-line code by its token, a task by having it drop the future.
pub struct Stop {
    token: CancelToken,
    latch: Latch,
    told: AtomicBool,
}

impl Stop {
    pub fn new() -> Self {
        Self { token: CancelToken::new(), latch: Latch::new(1), told: AtomicBool::new(false) }
    }

    /// Once is enough; again has no effect.
    pub fn now(&self) {
        self.token.cancel();
        if !self.told.swap(true, SeqCst) {
            self.latch.count_down(1);
        }
    }
}

/// How, and under what, one waiter waits.
pub struct How {
    pub way: Way,
    /// Its number among those who wait for the same.
    pub who: usize,
    line: Option<Arc<Line>>,
    stop: Option<Arc<Stop>>,
    rung: AtomicBool,
}

impl How {
    /// It will count itself in `line` as soon as it is in line, and `stop` cancels it.
    pub fn new(way: Way, who: usize, line: Option<&Arc<Line>>, stop: Option<&Arc<Stop>>) -> Self {
        Self { way, who, line: line.cloned(), stop: stop.cloned(), rung: AtomicBool::new(false) }
    }

    /// Whether it was cancelled, and is here again.
    pub fn begins_anew(&self) -> bool {
        self.line.is_none()
    }

    /// It is in line. Said once, however often it is.
    pub fn ring(&self) {
        if let Some(line) = &self.line
            && !self.rung.swap(true, SeqCst)
        {
            line.ring();
        }
    }

    /// Waits for what is not there yet; `None` if it was cancelled.
    pub async fn wait<S: Source>(&self, waitable: Waitable<S>) -> Option<S::Output> {
        by!(self.way, self.wait_here(waitable), self.wait_as_task(waitable, || self.ring()).await)
    }

    /// As `wait`, and leaves it to the caller to say when it is in line.
    pub async fn wait_silently<S: Source>(&self, waitable: Waitable<S>) -> Option<S::Output> {
        by!(self.way, self.cancellable(|| waitable.wait()), self.wait_as_task(waitable, || ()).await)
    }

    fn cancellable<T>(&self, wait: impl FnOnce() -> Result<T, Cancelled>) -> Option<T> {
        match &self.stop {
            Some(stop) => stop.token.run(wait).ok(),
            None => Some(wait().expect("nobody cancels this")),
        }
    }

    /// The second arm of the select never becomes ready. It is asked when it is to be registered,
    /// and by then the first arm is.
    fn wait_here<S: Source>(&self, waitable: Waitable<S>) -> Option<S::Output> {
        if self.begins_anew() {
            return self.cancellable(|| waitable.wait());
        }
        let nobody = WaitQueue::new(());
        let asked = |&(): &()| {
            self.ring();
            false
        };
        let second = Waitable::new(nobody.source(WaitsFor::new("nobody"), asked, |&mut ()| ()));
        match self.cancellable(|| waitable.or(second).wait())? {
            Either::Left(output) => Some(output),
            Either::Right(()) => unreachable!("it is never ready"),
        }
    }

    /// A future that is pending is in line.
    async fn wait_as_task<S: Source>(&self, waitable: Waitable<S>, pending: impl Fn()) -> Option<S::Output> {
        let mut stopped = pin!(async {
            match &self.stop {
                Some(stop) => stop.latch.wait_source().await,
                None => std::future::pending().await,
            }
        });
        let mut output = pin!(waitable.into_future());
        poll_fn(|task| {
            if let Poll::Ready(output) = output.as_mut().poll(task) {
                return Poll::Ready(Some(output));
            }
            pending();
            stopped.as_mut().poll(task).map(|()| None)
        })
        .await
    }
}

/// What a holder does while it holds: says so, and waits until the others are in line.
pub type Until = Arc<dyn Fn(Way) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// How often a side of a cell holds what the other waits for, in turn.
pub const ROUNDS: usize = 4;

/// How often three wait at once, of whom the second is cancelled: first while nothing else happens,
/// then in a race with the hand-over.
pub const CROWDS: usize = 8;
pub const RACES: usize = 6;

/// How many steps both sides take together without such an order.
pub const MIX: usize = 24;

/// How often somebody has held, and has waited, when a cell is over.
pub const HOLDS: usize = ROUNDS + CROWDS;
pub const WAITS: usize = ROUNDS + 3 * CROWDS;

/// A structure in the matrix: one object, or one for each round if it is for once.
pub trait Structure: Send + Sync + 'static {
    const NAME: &'static str;

    fn new() -> Self;

    /// Has what others want, `until` that is over, and then lets them have it.
    fn hold(self: Arc<Self>, way: Way, round: usize, until: Until) -> impl Future<Output = ()> + Send;

    /// Waits for that, and lets the next have it; `false` if it was cancelled.
    fn wait(self: Arc<Self>, how: &How, round: usize) -> impl Future<Output = bool> + Send;

    /// What each side does in any order, mostly by the plain operations.
    fn mix(self: Arc<Self>, way: Way, side: usize) -> impl Future<Output = ()> + Send;

    /// Nothing was lost, and nothing is there twice.
    fn check(&self);
}
