//! Mutexes, read-write locks, conditions and semaphores.

use crate::rig::{HOLDS, How, MIX, Structure, Until, WAITS, Way, by};
use segue::sync::{Condvar, Mutex, RwLock, Semaphore};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

pub struct AMutex(Mutex<usize>);

impl Structure for AMutex {
    const NAME: &'static str = "Mutex";

    fn new() -> Self {
        Self(Mutex::new(0))
    }

    async fn hold(self: Arc<Self>, way: Way, _round: usize, until: Until) {
        let mut count = by!(way, self.0.lock().unwrap(), self.0.lock_source().await);
        let before = *count;
        until(way).await;
        *count = before + 1;
    }

    async fn wait(self: Arc<Self>, how: &How, _round: usize) -> bool {
        let count = how.wait(self.0.lock_source()).await;
        count.map(|mut count| *count += 1).is_some()
    }

    async fn mix(self: Arc<Self>, way: Way, _side: usize) {
        for _ in 0..MIX {
            *by!(way, self.0.lock().unwrap(), self.0.lock_source().await) += 1;
        }
    }

    fn check(&self) {
        assert_eq!(self.0.try_lock().map(|count| *count), Some(HOLDS + WAITS + 2 * MIX));
    }
}

/// Writers wait for readers, readers for writers, and writers between readers.
pub struct AnRwLock {
    lock: RwLock<usize>,
    writes: AtomicUsize,
}

impl AnRwLock {
    fn write(&self, count: &mut usize) {
        *count += 1;
        self.writes.fetch_add(1, SeqCst);
    }
}

impl Structure for AnRwLock {
    const NAME: &'static str = "RwLock";

    fn new() -> Self {
        Self { lock: RwLock::new(0), writes: AtomicUsize::new(0) }
    }

    async fn hold(self: Arc<Self>, way: Way, round: usize, until: Until) {
        if round.is_multiple_of(2) {
            let mut count = by!(way, self.lock.write().unwrap(), self.lock.write_source().await);
            until(way).await;
            self.write(&mut count);
        } else {
            let count = by!(way, self.lock.read().unwrap(), self.lock.read_source().await);
            let before = *count;
            until(way).await;
            assert_eq!(*count, before, "somebody wrote what is read");
        }
    }

    async fn wait(self: Arc<Self>, how: &How, round: usize) -> bool {
        if round.is_multiple_of(2) && how.who != 1 {
            let count = how.wait(self.lock.read_source()).await;
            count.inspect(|count| assert!(**count <= self.writes.load(SeqCst))).is_some()
        } else {
            let count = how.wait(self.lock.write_source()).await;
            count.map(|mut count| self.write(&mut count)).is_some()
        }
    }

    async fn mix(self: Arc<Self>, way: Way, side: usize) {
        let mut seen = 0;
        for step in 0..MIX {
            if step % 2 == side {
                self.write(&mut *by!(way, self.lock.write().unwrap(), self.lock.write_source().await));
            } else {
                let now = *by!(way, self.lock.read().unwrap(), self.lock.read_source().await);
                assert!(now >= seen);
                seen = now;
            }
        }
    }

    fn check(&self) {
        assert_eq!(self.lock.try_write().map(|count| *count), Some(self.writes.load(SeqCst)));
    }
}

/// Which rounds are open, and whose step it is.
pub struct ACondvar {
    state: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl Structure for ACondvar {
    const NAME: &'static str = "Condvar";

    fn new() -> Self {
        Self { state: Mutex::new((0, 0)), changed: Condvar::new() }
    }

    /// Every other time only the first is told, who tells the next.
    async fn hold(self: Arc<Self>, way: Way, round: usize, until: Until) {
        until(way).await;
        let mut state = by!(way, self.state.lock().unwrap(), self.state.lock_source().await);
        state.0 = round + 1;
        if round.is_multiple_of(2) { self.changed.notify_one() } else { self.changed.notify_all() }
    }

    async fn wait(self: Arc<Self>, how: &How, round: usize) -> bool {
        let mut state = by!(how.way, self.state.lock().unwrap(), self.state.lock_source().await);
        while state.0 <= round {
            let Some(locked) = how.wait(self.changed.wait_source(state)).await else { return false };
            state = locked;
        }
        self.changed.notify_one();
        true
    }

    /// Each waits for its turn.
    async fn mix(self: Arc<Self>, way: Way, side: usize) {
        for _ in 0..MIX {
            let mut state = by!(way, self.state.lock().unwrap(), self.state.lock_source().await);
            match way {
                Way::Direct => state = self.changed.wait_while(state, |state| state.1 % 2 != side).unwrap(),
                Way::Task => {
                    while state.1 % 2 != side {
                        state = self.changed.wait_source(state).await;
                    }
                }
            }
            state.1 += 1;
            self.changed.notify_one();
        }
    }

    fn check(&self) {
        assert_eq!(self.state.try_lock().map(|state| *state), Some((HOLDS, 2 * MIX)));
    }
}

const PERMITS: usize = 2;

/// The permits, and how many are used.
pub struct ASemaphore {
    semaphore: Semaphore,
    used: AtomicUsize,
}

impl ASemaphore {
    fn using(&self, permits: usize) {
        assert!(self.used.fetch_add(permits, SeqCst) + permits <= PERMITS);
        self.used.fetch_sub(permits, SeqCst);
    }
}

impl Structure for ASemaphore {
    const NAME: &'static str = "Semaphore";

    fn new() -> Self {
        Self { semaphore: Semaphore::new(PERMITS), used: AtomicUsize::new(0) }
    }

    async fn hold(self: Arc<Self>, way: Way, _round: usize, until: Until) {
        let all = self.semaphore.acquire_many_source(PERMITS);
        let _permits = by!(way, self.semaphore.acquire_many(PERMITS).unwrap(), all.await.unwrap());
        self.using(PERMITS);
        until(way).await;
        self.using(PERMITS);
    }

    /// The one in the middle wants more.
    async fn wait(self: Arc<Self>, how: &How, _round: usize) -> bool {
        let count = if how.who == 1 { PERMITS } else { 1 };
        let permits = how.wait(self.semaphore.acquire_many_source(count)).await.map(Result::unwrap);
        permits.inspect(|permits| self.using(permits.count())).is_some()
    }

    async fn mix(self: Arc<Self>, way: Way, side: usize) {
        for step in 0..MIX {
            let count = 1 + (step + side) % PERMITS;
            let some = self.semaphore.acquire_many_source(count);
            let permits = by!(way, self.semaphore.acquire_many(count).unwrap(), some.await.unwrap());
            self.using(permits.count());
        }
    }

    fn check(&self) {
        assert_eq!((self.semaphore.available_permits(), self.used.load(SeqCst)), (PERMITS, 0));
    }
}
