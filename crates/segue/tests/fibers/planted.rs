//! Faults that were planted in a copy of a structure: a permit that is lost, and a wake-up that is
//! lost. The check that finds nothing in the sound copy has to find each of them, and to say who
//! waits in vain.

#![cfg(feature = "sched")]

use crate::meet::{poll_once, task};
use segue::core::{Guard, Operation, WaitQueue, Waitable, Waiting, WaitsFor};
use segue::testing::Sim;
use segue::{Cancelled, scope, yield_now};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// What is wrong with a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// A permit that was handed to a task that has gone is dropped with it.
    LosesPermits,
    /// It is put back, and nobody who waits is told.
    LosesWakeUps,
}

/// A semaphore in its simplest form, with a fault.
struct Permits {
    queue: WaitQueue<usize, ()>,
    fault: Fault,
}

struct Acquire(Fault);

impl Operation<usize, ()> for Acquire {
    type Output = ();

    fn attempt(&mut self, queue: &mut Guard<'_, usize, ()>) -> Option<()> {
        *queue.state() = queue.state().checked_sub(1)?;
        Some(())
    }

    fn is_ready(&mut self, queue: &mut Guard<'_, usize, ()>) -> bool {
        *queue.peek() > 0
    }

    fn commit(&mut self, slot: Option<()>) -> Option<()> {
        slot
    }

    fn give_back(&mut self, _: Option<()>, queue: &mut Guard<'_, usize, ()>) -> Option<()> {
        match self.0 {
            Fault::None => release(queue),
            Fault::LosesPermits => {}
            Fault::LosesWakeUps => *queue.state() += 1,
        }
        None
    }
}

fn release(queue: &mut Guard<'_, usize, ()>) {
    if queue.hand_over(0, ()).is_err() {
        *queue.state() += 1;
    }
}

impl Permits {
    #[track_caller]
    fn acquire_source(&self) -> Waitable<Waiting<'_, Acquire, usize, ()>> {
        Waitable::new(self.queue.operation(WaitsFor::new("a permit"), Acquire(self.fault)))
    }
}

/// Fibers that acquire and release, among tasks that are dropped at any moment, under many
/// schedules. An error says what was found.
fn check(fault: Fault) -> Result<usize, String> {
    let given_back = AtomicUsize::new(0);
    for seed in 0..100 {
        let permits = Permits { queue: WaitQueue::new(1), fault };
        let outcome = Sim::new(seed).run(|| {
            scope(|s| {
                for n in 0..6 {
                    let (permits, given_back) = (&permits, &given_back);
                    s.spawn(move || {
                        for turn in 0..4 {
                            if (n + turn) % 2 == 0 {
                                let mut waits = task(permits.acquire_source());
                                let acquired = poll_once(&mut waits).is_some();
                                (0..n).try_for_each(|_| yield_now())?;
                                let before = *permits.queue.lock().peek();
                                drop(waits);
                                if acquired {
                                    release(&mut permits.queue.lock());
                                } else {
                                    given_back.fetch_add(permits.queue.lock().peek().saturating_sub(before), SeqCst);
                                }
                            } else {
                                permits.acquire_source().wait()?;
                                yield_now()?;
                                release(&mut permits.queue.lock());
                            }
                        }
                        // A deadlock that was found cancels all that wait.
                        Ok::<(), Cancelled>(())
                    });
                }
            });
        });
        outcome.map_err(|deadlock| deadlock.to_string())?;
        match permits.queue.into_inner() {
            1 => {}
            left => return Err(format!("of 1 permit there are {left} left, with seed {seed}")),
        }
    }
    Ok(given_back.into_inner())
}

#[test]
fn the_sound_copy_passes() {
    let given_back = check(Fault::None).unwrap_or_else(|found| panic!("{found}"));
    assert!(given_back > 0, "no task was dropped after it was handed a permit");
}

#[test]
fn a_lost_permit_is_found() {
    let found = check(Fault::LosesPermits).expect_err("a permit was lost, and nobody noticed");
    assert!(found.contains("waits for a permit") || found.contains("0 left"), "{found}");
}

#[test]
fn a_lost_wake_up_is_found() {
    let found = check(Fault::LosesWakeUps).expect_err("a wake-up was lost, and nobody noticed");
    assert!(found.contains("waits for a permit at"), "{found}");
}
