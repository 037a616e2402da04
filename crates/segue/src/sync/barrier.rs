//! A place where a number of fibers, threads and tasks wait for each other.
//!
//! Used by computations that go in steps.
//!
//! # The idea
//!
//! The parties that have arrived stand in the queue, and an arrival is worth as much as its node:
//! the last party opens the barrier if all the others can be claimed. If not, since one of them was
//! cancelled or took another arm of its select an instant before, the barrier does not open, and
//! the last party joins the queue. Parties that were claimed by then can't be put back; they are
//! *on their way*: their arrival counts until they look, and then they arrive once more. So no
//! party goes on for an arrival that did not last, and no party that left has been counted.
//!
//! # States
//!
//! `k` are in the queue, `w` on their way, `n` is the number of parties.
//!
//! ```text
//!   (g, k, w)  --arrive, k + w + 1 < n-----------------> (g, k + 1, w)
//!   (g, k, w)  --arrive, k + w + 1 = n, k are claimed--> (g + 1, 0, 0)       all of them go on
//!   (g, k, w)  --arrive, k + w + 1 = n, c < k are------> (g, 1, w + c)       the one that tried has joined
//!   (g, k, w)  --one leaves----------------------------> (g, k - 1, w)
//!   (g, k, w)  --one on its way looks, or is dropped---> (g, k, w - 1)       and arrives once more, unless it was dropped
//! ```
//!
//! All transitions are made under the queue's lock. An attempt to open empties the queue, which
//! begins a new *round*; a waiter that leaves counts down only in the round in which it has joined.
//! A claimed party has passed if the *generation* `g` is another than at its joining.
//!
//! **Commit point**: the claim of the last of the others. **Idle**: empty queue, none that has
//! arrived. **Cancellation**: before the barrier opens a waiter leaves, and its arrival does not
//! count; after that the waiter has passed. A future that is dropped after the barrier has opened
//! for that future has arrived all the same: the others are through.
//!
//! **The race to fear**: one that was claimed in vain sees that the barrier has opened since, and
//! goes on without having been counted. In truth the party was counted: those on their way count
//! until they have looked under the lock.
//!
//! Orderings: the generation is counted up (release) under the lock, and read (acquire) after the
//! resume. Every party that goes on sees the work of each party before its arrival: through the
//! lock by the opener, and through its claim or the generation by the others.
//!
//! After the barriers of std, with generations that also survive parties that leave.

use segue_core::{Cancelled, Guard, Operation, Source, WaitQueue, Waitable, WaitsFor};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Lets a number of fibers, threads and tasks go on together.
///
/// As [`std::sync::Barrier`]: when the given number of parties wait, all go on, one of them is the
/// leader, and the barrier can be used again.
///
/// # Examples
///
/// ```
/// use segue::sync::Barrier;
///
/// let barrier = Barrier::new(3);
/// segue::scope(|s| {
///     let fibers = [(); 3].map(|()| s.spawn(|| barrier.wait().unwrap().is_leader()));
///     let leaders = fibers.into_iter().map(|fiber| fiber.join().unwrap());
///     assert_eq!(leaders.filter(|is_leader| *is_leader).count(), 1);
/// });
/// ```
pub struct Barrier {
    parties: usize,
    /// The number of openings.
    generation: AtomicUsize,
    /// The number of tries to open. Belongs to the queue's lock, as do the next two.
    round: AtomicUsize,
    /// How many joined in this round, and have not left.
    arrived: AtomicUsize,
    /// How many were claimed in vain, and have not looked.
    on_their_way: AtomicUsize,
    queue: WaitQueue<()>,
}

/// The result of a wait at a [`Barrier`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult {
    is_leader: bool,
}

impl BarrierWaitResult {
    /// Whether this one was the last to arrive: one of each generation is.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.is_leader
    }
}

impl Barrier {
    /// A barrier at which `parties` wait for each other. At one for none or one nobody waits.
    #[must_use]
    pub const fn new(parties: usize) -> Self {
        Self {
            parties,
            generation: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            arrived: AtomicUsize::new(0),
            on_their_way: AtomicUsize::new(0),
            queue: WaitQueue::new(()),
        }
    }

    /// Arrives, and waits until all others have.
    ///
    /// # Cancellation
    /// *No effect*: the caller has not arrived, and the others wait for one more.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled before the barrier opened.
    #[track_caller]
    pub fn wait(&self) -> Result<BarrierWaitResult, Cancelled> {
        self.wait_source().wait()
    }

    /// [`wait`](Barrier::wait) as a source. The source arrives at its first poll or wait.
    ///
    /// # Cancellation
    /// *No effect*, if the source is dropped before the barrier opens.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let barrier = segue::sync::Barrier::new(1);
    /// assert!(barrier.wait_source().await.is_leader());
    /// # }
    /// ```
    #[track_caller]
    pub fn wait_source(&self) -> Waitable<impl Source<Output = BarrierWaitResult>> {
        Waitable::new(self.queue.operation(WaitsFor::new("a barrier"), Arrive { barrier: self, joined: None }))
    }

    /// Whether with the caller there are enough.
    fn is_full(&self) -> bool {
        let others = self.arrived.load(Ordering::Relaxed) + self.on_their_way.load(Ordering::Relaxed);
        others >= self.parties.saturating_sub(1)
    }

    /// Opens the barrier, if there are enough and all in the queue can be claimed.
    fn open(&self, queue: &mut Guard<'_, (), ()>) -> bool {
        if !self.is_full() {
            return false;
        }
        let mut others = self.on_their_way.load(Ordering::Relaxed);
        while queue.notify_one(0) {
            others += 1;
        }
        add(&self.round, 1);
        self.arrived.store(0, Ordering::Relaxed);
        let full = others >= self.parties.saturating_sub(1);
        if full {
            add(&self.generation, 1);
        }
        self.on_their_way.store(if full { 0 } else { others }, Ordering::Relaxed);
        full
    }

    /// Whether one that was claimed, and had joined in `generation`, has passed; if not, the party
    /// is not on its way any more. Under the lock.
    fn look(&self, generation: usize) -> bool {
        let passed = self.generation.load(Ordering::Acquire) != generation;
        if !passed {
            add(&self.on_their_way, usize::MAX);
        }
        passed
    }
}

/// Changes a counter that is written under the lock alone.
fn add(counter: &AtomicUsize, more: usize) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Release);
}

segue_core::impl_debug!([] Barrier, |it| parties: it.parties);

/// Arrives at a barrier.
struct Arrive<'a> {
    barrier: &'a Barrier,
    /// The generation and the round of its joining.
    joined: Option<(usize, usize)>,
}

impl Operation<(), ()> for Arrive<'_> {
    type Output = BarrierWaitResult;

    fn attempt(&mut self, queue: &mut Guard<'_, (), ()>) -> Option<BarrierWaitResult> {
        self.barrier.open(queue).then_some(BarrierWaitResult { is_leader: true })
    }

    fn is_ready(&mut self, queue: &mut Guard<'_, (), ()>) -> bool {
        // As far as can be said without claiming anybody; the attempt that follows may fail.
        let Barrier { parties, on_their_way, .. } = self.barrier;
        self.barrier.is_full() && queue.partners(0).count() + on_their_way.load(Ordering::Relaxed) + 1 >= *parties
    }

    fn offer(&mut self) -> Option<()> {
        let Barrier { generation, round, arrived, .. } = self.barrier;
        self.joined = Some((generation.load(Ordering::Relaxed), round.load(Ordering::Relaxed)));
        add(arrived, 1);
        None
    }

    fn retract(&mut self, _: Option<()>, _: &mut Guard<'_, (), ()>) {
        let Barrier { round, arrived, .. } = self.barrier;
        if self.joined.is_some_and(|(_, joined)| joined == round.load(Ordering::Relaxed)) {
            add(arrived, usize::MAX);
        }
    }

    fn commit(&mut self, _: Option<()>) -> Option<BarrierWaitResult> {
        let (generation, _) = self.joined?;
        let passed = self.barrier.generation.load(Ordering::Acquire) != generation || {
            let _lock = self.barrier.queue.lock();
            self.barrier.look(generation)
        };
        passed.then_some(BarrierWaitResult { is_leader: false })
    }

    fn give_back(&mut self, _: Option<()>, _: &mut Guard<'_, (), ()>) -> Option<()> {
        if let Some((generation, _)) = self.joined {
            self.barrier.look(generation);
        }
        None
    }
}
