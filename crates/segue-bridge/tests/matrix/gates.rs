//! Barriers, latches, wait groups and notifications.

use crate::rig::{HOLDS, How, MIX, ROUNDS, Structure, Until, Way, by};
use segue::Either;
use segue::sync::{Barrier, BarrierWaitResult, Latch, Notify, WaitGroup};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// One for the two sides, and one for the crowd of four.
pub struct ABarrier {
    pair: Barrier,
    crowd: Barrier,
    leaders: AtomicUsize,
    /// Of which rounds the first waiter has passed.
    passed: Vec<Latch>,
}

impl ABarrier {
    fn of(&self, round: usize) -> &Barrier {
        if round < ROUNDS { &self.pair } else { &self.crowd }
    }

    fn passed(&self, result: BarrierWaitResult) {
        self.leaders.fetch_add(result.is_leader().into(), SeqCst);
    }
}

impl Structure for ABarrier {
    const NAME: &'static str = "Barrier";

    fn new() -> Self {
        Self {
            pair: Barrier::new(2),
            crowd: Barrier::new(4),
            leaders: AtomicUsize::new(0),
            passed: (0..HOLDS).map(|_| Latch::new(1)).collect(),
        }
    }

    /// It lets them go by coming, too.
    async fn hold(self: Arc<Self>, way: Way, round: usize, until: Until) {
        until(way).await;
        let barrier = self.of(round);
        self.passed(by!(way, barrier.wait().unwrap(), barrier.wait_source().await));
    }

    /// A task that is dropped when the barrier has opened was counted, and the others are off. So
    /// whoever begins anew looks out for them.
    async fn wait(self: Arc<Self>, how: &How, round: usize) -> bool {
        let arriving = self.of(round).wait_source();
        if how.begins_anew() {
            match how.wait(arriving.or(self.passed[round].wait_source())).await {
                Some(Either::Left(result)) => self.passed(result),
                _ => assert!(self.passed[round].try_wait()),
            }
            return true;
        }
        let Some(result) = how.wait(arriving).await else { return false };
        self.passed(result);
        if how.who == 0 {
            self.passed[round].count_down(1);
        }
        true
    }

    async fn mix(self: Arc<Self>, way: Way, _side: usize) {
        for _ in 0..MIX {
            self.passed(by!(way, self.pair.wait().unwrap(), self.pair.wait_source().await));
        }
    }

    fn check(&self) {
        assert_eq!(self.leaders.load(SeqCst), HOLDS + MIX, "one of each generation leads");
    }
}

/// One for each round, and two for each step.
pub struct ALatch {
    rounds: Vec<Latch>,
    steps: [Vec<Latch>; 2],
}

impl Structure for ALatch {
    const NAME: &'static str = "Latch";

    fn new() -> Self {
        let steps = |_| (0..MIX).map(|_| Latch::new(1)).collect();
        Self { rounds: (0..HOLDS).map(|_| Latch::new(2)).collect(), steps: [0, 1].map(steps) }
    }

    async fn hold(self: Arc<Self>, way: Way, round: usize, until: Until) {
        self.rounds[round].count_down(1);
        until(way).await;
        self.rounds[round].count_down(1);
    }

    async fn wait(self: Arc<Self>, how: &How, round: usize) -> bool {
        how.wait(self.rounds[round].wait_source()).await.is_some()
    }

    async fn mix(self: Arc<Self>, way: Way, side: usize) {
        for (mine, others) in self.steps[side].iter().zip(&self.steps[1 - side]) {
            mine.count_down(1);
            by!(way, others.wait().unwrap(), others.wait_source().await);
        }
    }

    fn check(&self) {
        assert!(self.rounds.iter().chain(self.steps.iter().flatten()).all(Latch::try_wait));
    }
}

/// One that is used again and again, and one for each step.
pub struct AWaitGroup {
    group: WaitGroup,
    steps: Vec<WaitGroup>,
}

impl Structure for AWaitGroup {
    const NAME: &'static str = "WaitGroup";

    fn new() -> Self {
        let one = |_| {
            let group = WaitGroup::new();
            group.add(1);
            group
        };
        Self { group: WaitGroup::new(), steps: (0..2 * MIX).map(one).collect() }
    }

    async fn hold(self: Arc<Self>, way: Way, _round: usize, until: Until) {
        let _hold = self.group.hold();
        until(way).await;
    }

    async fn wait(self: Arc<Self>, how: &How, _round: usize) -> bool {
        how.wait(self.group.wait_source()).await.is_some()
    }

    async fn mix(self: Arc<Self>, way: Way, side: usize) {
        for (step, group) in self.steps.iter().enumerate() {
            if step % 2 == side {
                group.done();
            } else {
                by!(way, group.wait().unwrap(), group.wait_source().await);
            }
        }
    }

    fn check(&self) {
        assert!(self.group.try_wait() && self.steps.iter().all(WaitGroup::try_wait));
    }
}

/// A permit that is passed around, and a level that both raise in turn, with news of it for all.
pub struct ANotify {
    permit: Notify,
    level: AtomicUsize,
    risen: Notify,
}

impl Structure for ANotify {
    const NAME: &'static str = "Notify";

    fn new() -> Self {
        let permit = Notify::new();
        permit.notify_one();
        Self { permit, level: AtomicUsize::new(0), risen: Notify::new() }
    }

    async fn hold(self: Arc<Self>, way: Way, _round: usize, until: Until) {
        by!(way, self.permit.wait().unwrap(), self.permit.wait_source().await);
        until(way).await;
        self.permit.notify_one();
    }

    async fn wait(self: Arc<Self>, how: &How, _round: usize) -> bool {
        let told = how.wait(self.permit.wait_source()).await;
        told.inspect(|()| self.permit.notify_one()).is_some()
    }

    async fn mix(self: Arc<Self>, way: Way, side: usize) {
        for _ in 0..MIX {
            loop {
                let risen = self.risen.wait_source();
                if self.level.load(SeqCst) % 2 == side {
                    break;
                }
                way.wait(risen).await;
            }
            self.level.fetch_add(1, SeqCst);
            self.risen.notify_all();
        }
    }

    fn check(&self) {
        assert!(self.permit.try_wait(), "the permit was lost");
        assert!(!self.permit.try_wait() && !self.risen.try_wait());
        assert_eq!(self.level.load(SeqCst), 2 * MIX);
    }
}
