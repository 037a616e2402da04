//! Ends of fibers, timers, and selects.

use crate::rig::{HOLDS, How, Line, MIX, Structure, Until, WAITS, Way, by};
use segue::sync::{Latch, MVar, Semaphore};
use segue::{Either, JoinHandle, after, sleep, timeout};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A fiber that somebody joins.
#[derive(Default)]
struct Spawned {
    handle: Mutex<Option<JoinHandle<usize>>>,
    ended: Arc<Line>,
}

/// A fiber for each waiter of each round, spawned by who holds; they end when it says so. In the
/// steps, each side joins what the other has spawned.
pub struct AJoinHandle {
    rounds: Vec<[Spawned; 3]>,
    steps: [MVar<JoinHandle<usize>>; 2],
}

impl Structure for AJoinHandle {
    const NAME: &'static str = "JoinHandle";

    fn new() -> Self {
        Self { rounds: (0..HOLDS).map(|_| Default::default()).collect(), steps: Default::default() }
    }

    async fn hold(self: Arc<Self>, way: Way, round: usize, until: Until) {
        let open = Arc::new(Latch::new(1));
        for spawned in &self.rounds[round] {
            let (open, ended) = (Arc::clone(&open), Arc::clone(&spawned.ended));
            let fiber = segue::spawn(move || {
                open.wait().unwrap();
                ended.ring();
                round
            });
            *spawned.handle.lock().unwrap() = Some(fiber);
        }
        until(way).await;
        open.count_down(1);
    }

    /// A fiber whose join was cancelled goes on by itself.
    async fn wait(self: Arc<Self>, how: &How, round: usize) -> bool {
        let spawned = &self.rounds[round][how.who];
        let handle = spawned.handle.lock().unwrap().take();
        match handle {
            Some(handle) => {
                let joined = how.wait(handle.join_source()).await;
                joined.inspect(|joined| assert!(joined.as_ref().is_ok_and(|joined| *joined == round))).is_some()
            }
            None => {
                spawned.ended.until(how.way, 1).await;
                true
            }
        }
    }

    async fn mix(self: Arc<Self>, way: Way, side: usize) {
        let [mine, others] = [side, 1 - side].map(|side| &self.steps[side]);
        for step in 0..MIX {
            let fiber = segue::spawn(move || step);
            by!(way, mine.put(fiber).unwrap(), mine.put_source(fiber).await);
            let fiber = by!(way, others.take().unwrap(), others.take_source().await);
            assert_eq!(by!(way, fiber.join().unwrap(), fiber.await.unwrap()), step);
        }
    }

    fn check(&self) {
        assert!(self.steps.iter().all(MVar::is_empty));
    }
}

const MOMENT: Duration = Duration::from_micros(200);

/// Who waits looks at the clock again and again, until who holds has slept. The clock is each
/// host's own.
pub struct ATimer {
    rounds: Vec<Latch>,
    steps: [Vec<Latch>; 2],
    timeouts: AtomicUsize,
}

impl Structure for ATimer {
    const NAME: &'static str = "timers";

    fn new() -> Self {
        let latches = |count| (0..count).map(|_| Latch::new(1)).collect();
        Self { rounds: latches(HOLDS), steps: [0, 1].map(|_| latches(MIX)), timeouts: AtomicUsize::new(0) }
    }

    async fn hold(self: Arc<Self>, way: Way, round: usize, until: Until) {
        until(way).await;
        by!(way, sleep(MOMENT).unwrap(), after(MOMENT).await);
        self.rounds[round].count_down(1);
    }

    /// It counts as being in line after the first time-out.
    async fn wait(self: Arc<Self>, how: &How, round: usize) -> bool {
        loop {
            match how.wait_silently(self.rounds[round].wait_source().or(after(MOMENT))).await {
                None => return false,
                Some(Either::Left(())) => return true,
                Some(Either::Right(())) => {
                    self.timeouts.fetch_add(1, SeqCst);
                    how.ring();
                }
            }
        }
    }

    async fn mix(self: Arc<Self>, way: Way, side: usize) {
        let never = Latch::new(1);
        for (mine, others) in self.steps[side].iter().zip(&self.steps[1 - side]) {
            match way {
                Way::Direct => assert!(timeout(MOMENT, || never.wait()).is_err_and(|cancelled| cancelled.timed_out())),
                Way::Task => assert_eq!(never.wait_source().or(after(MOMENT)).await, Either::Right(())),
            }
            mine.count_down(1);
            by!(way, others.wait().unwrap(), others.wait_source().await);
        }
    }

    fn check(&self) {
        assert!(self.timeouts.load(SeqCst) >= WAITS);
        assert!(self.rounds.iter().chain(self.steps.iter().flatten()).all(Latch::try_wait));
    }
}

/// A value or a permit, whichever comes first; and in the steps, two paths in either direction.
pub struct ASelect {
    value: MVar<()>,
    permit: Semaphore,
    chosen: [AtomicUsize; 2],
    paths: [[MVar<usize>; 2]; 2],
}

impl Structure for ASelect {
    const NAME: &'static str = "select";

    fn new() -> Self {
        Self { value: MVar::new(()), permit: Semaphore::new(1), chosen: Default::default(), paths: Default::default() }
    }

    /// Has both, and gives them away in either order.
    async fn hold(self: Arc<Self>, way: Way, round: usize, until: Until) {
        by!(way, self.value.take().unwrap(), self.value.take_source().await);
        let permit = by!(way, self.permit.acquire().unwrap(), self.permit.acquire_source().await.unwrap());
        until(way).await;
        if round.is_multiple_of(2) {
            self.value.try_put(()).unwrap();
            drop(permit);
        } else {
            drop(permit);
            self.value.try_put(()).unwrap();
        }
    }

    async fn wait(self: Arc<Self>, how: &How, _round: usize) -> bool {
        let Some(either) = how.wait(self.value.take_source().or(self.permit.acquire_source())).await else {
            return false;
        };
        match either {
            Either::Left(()) => {
                self.chosen[0].fetch_add(1, SeqCst);
                self.value.try_put(()).unwrap();
            }
            Either::Right(permit) => {
                let _permit = permit.unwrap();
                self.chosen[1].fetch_add(1, SeqCst);
            }
        }
        true
    }

    async fn mix(self: Arc<Self>, way: Way, side: usize) {
        for (direction, [even, odd]) in self.paths.iter().enumerate() {
            let mut next = [0, 1];
            for step in 0..MIX {
                if direction == side {
                    let path = if step % 2 == 0 { even } else { odd };
                    by!(way, path.put(step).unwrap(), path.put_source(step).await);
                } else {
                    let (path, value) = match way.wait(even.take_source().or(odd.take_source())).await {
                        Either::Left(value) => (0, value),
                        Either::Right(value) => (1, value),
                    };
                    assert_eq!(value, next[path]);
                    next[path] += 2;
                }
            }
        }
    }

    fn check(&self) {
        assert_eq!((self.value.try_take(), self.permit.available_permits()), (Some(()), 1));
        let [values, permits] = [0, 1].map(|arm: usize| self.chosen[arm].load(SeqCst));
        assert_eq!(values + permits, WAITS);
        assert!(values > 0 && permits > 0);
        assert!(self.paths.iter().flatten().all(MVar::is_empty));
    }
}
