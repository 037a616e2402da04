//! What is done once: `Once`, cells and lazy values.
//!
//! An initialiser that waits has to be straight-line code; a task runs it by
//! [`segue_bridge::direct`], or takes an empty cell's entry and awaits before it fills it.

use crate::rig::{HOLDS, How, MIX, Structure, Until, Way, by, straight};
use segue::sync::{Entry, ForceError, Lazy, Once, OnceCell};
use segue_bridge::direct;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// One for each round and for each step.
pub struct AOnce {
    rounds: Vec<Once>,
    steps: Vec<Once>,
    runs: AtomicUsize,
}

impl AOnce {
    fn run(&self) {
        self.runs.fetch_add(1, SeqCst);
    }
}

impl Structure for AOnce {
    const NAME: &'static str = "Once";

    fn new() -> Self {
        let some = |count| (0..count).map(|_| Once::new()).collect();
        Self { rounds: some(HOLDS), steps: some(MIX), runs: AtomicUsize::new(0) }
    }

    async fn hold(self: Arc<Self>, way: Way, round: usize, until: Until) {
        let call = move || {
            let slowly = || {
                straight(until(Way::Direct));
                self.run();
            };
            self.rounds[round].call_once(slowly).unwrap();
        };
        by!(way, call(), direct(call).await.unwrap());
    }

    async fn wait(self: Arc<Self>, how: &How, round: usize) -> bool {
        let done = how.wait(self.rounds[round].call_once_source(|| panic!("it is done twice"))).await;
        done.inspect(|done| assert_eq!(*done, Ok(()))).is_some()
    }

    async fn mix(self: Arc<Self>, way: Way, _side: usize) {
        for once in &self.steps {
            let done = by!(way, once.call_once(|| self.run()), once.call_once_source(|| self.run()).await);
            assert_eq!(done, Ok(()));
        }
    }

    fn check(&self) {
        assert!(self.rounds.iter().chain(&self.steps).all(Once::is_completed));
        assert_eq!(self.runs.load(SeqCst), HOLDS + MIX);
    }
}

/// One for each round and for each step, and how often one was initialised.
pub struct AOnceCell {
    rounds: Vec<OnceCell<usize>>,
    steps: Vec<OnceCell<usize>>,
    runs: AtomicUsize,
    seen: [AtomicUsize; 2],
}

impl Structure for AOnceCell {
    const NAME: &'static str = "OnceCell";

    fn new() -> Self {
        let some = |count| (0..count).map(|_| OnceCell::new()).collect();
        Self { rounds: some(HOLDS), steps: some(MIX), runs: AtomicUsize::new(0), seen: Default::default() }
    }

    async fn hold(self: Arc<Self>, way: Way, round: usize, until: Until) {
        let cell = &self.rounds[round];
        let slowly = || {
            straight(until(Way::Direct));
            round
        };
        match way {
            Way::Direct => assert_eq!(cell.get_or_init(slowly), Ok(&round)),
            Way::Task => {
                let Entry::Empty(initializer) = cell.entry_source().await.unwrap() else { panic!("it is full") };
                until(way).await;
                initializer.fill(round);
            }
        }
    }

    /// Each in another way.
    async fn wait(self: Arc<Self>, how: &How, round: usize) -> bool {
        let cell = &self.rounds[round];
        match how.who {
            0 => how.wait(cell.wait_source()).await.inspect(|value| assert_eq!(*value, Ok(&round))).is_some(),
            1 => {
                let value = how.wait(cell.get_or_init_source(|| panic!("it is initialised twice"))).await;
                value.inspect(|value| assert_eq!(*value, Ok(&round))).is_some()
            }
            _ => {
                let entry = how.wait(cell.entry_source()).await;
                entry.inspect(|entry| assert!(matches!(entry, Ok(Entry::Full(value)) if **value == round))).is_some()
            }
        }
    }

    /// Whoever comes first decides for both.
    async fn mix(self: Arc<Self>, way: Way, side: usize) {
        for (step, cell) in self.steps.iter().enumerate() {
            let init = || {
                self.runs.fetch_add(1, SeqCst);
                2 * step + side
            };
            let value = by!(way, cell.get_or_init(init), cell.get_or_init_source(init).await);
            self.seen[side].fetch_add(*value.unwrap(), SeqCst);
        }
    }

    fn check(&self) {
        assert!(self.rounds.iter().enumerate().all(|(round, cell)| cell.get() == Some(&round)));
        let sum: usize = self.steps.iter().map(|cell| cell.get().unwrap()).sum();
        assert_eq!(self.runs.load(SeqCst), MIX);
        assert!(self.seen.iter().all(|seen| seen.load(SeqCst) == sum), "both sides see the same");
    }
}

type Compute = Box<dyn FnMut() -> Result<usize, &'static str> + Send>;

/// One for each round, the first computation of which fails, and one for each step.
pub struct ALazy {
    rounds: Vec<Lazy<usize, Compute>>,
    /// What the next computation of a round waits for.
    until: Arc<Mutex<Option<Until>>>,
    steps: Vec<Lazy<usize, Compute>>,
    runs: Arc<AtomicUsize>,
}

impl Structure for ALazy {
    const NAME: &'static str = "Lazy";

    fn new() -> Self {
        let until = Arc::<Mutex<Option<Until>>>::default();
        let runs = Arc::<AtomicUsize>::default();
        let slow = |round| {
            let until = Arc::clone(&until);
            let compute = move || {
                let until = until.lock().unwrap().take();
                match until {
                    Some(until) => {
                        straight(until(Way::Direct));
                        Err("not yet")
                    }
                    None => Ok(round),
                }
            };
            Lazy::new(Box::new(compute) as Compute)
        };
        let quick = |step| {
            let runs = Arc::clone(&runs);
            let compute = move || {
                runs.fetch_add(1, SeqCst);
                Ok(step)
            };
            Lazy::new(Box::new(compute) as Compute)
        };
        let rounds = (0..HOLDS).map(slow).collect();
        let steps = (0..MIX).map(quick).collect();
        Self { rounds, until, steps, runs }
    }

    /// The computation waits and fails; it is run again by whoever is next.
    async fn hold(self: Arc<Self>, way: Way, round: usize, until: Until) {
        *self.until.lock().unwrap() = Some(until);
        let this = Arc::clone(&self);
        let fail = move || assert_eq!(this.rounds[round].force_fallible(), Err(ForceError::Failed("not yet")));
        by!(way, fail(), direct(fail).await.unwrap());
        let lazy = &self.rounds[round];
        assert_eq!(by!(way, lazy.force_fallible(), lazy.force_fallible_source().await), Ok(&round));
    }

    async fn wait(self: Arc<Self>, how: &How, round: usize) -> bool {
        let value = how.wait(self.rounds[round].force_fallible_source()).await;
        value.inspect(|value| assert_eq!(*value, Ok(&round))).is_some()
    }

    async fn mix(self: Arc<Self>, way: Way, _side: usize) {
        for (step, lazy) in self.steps.iter().enumerate() {
            assert_eq!(by!(way, lazy.force_fallible(), lazy.force_fallible_source().await), Ok(&step));
        }
    }

    fn check(&self) {
        assert!(self.rounds.iter().enumerate().all(|(round, lazy)| lazy.get() == Some(&round)));
        assert_eq!(self.runs.load(SeqCst), MIX);
    }
}
