//! Threads without a scheduler that wait for each other again and again, so that they have learnt
//! to look before they park: nothing is lost, whatever disturbs them. Waits are infinite: a wake-up
//! that is lost shows as a hang.

use crate::common;

use common::{rounds, stagger, until};
use segue_core::{Builder, CancelToken, Outcome, Trigger, WaitQueue, WaitsFor, try_scope, wait};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

fn triggers(rounds: usize) -> Vec<Trigger> {
    (0..rounds).map(|_| Trigger::new()).collect()
}

/// Two threads resume each other in turn; with `stray`, the caller unparks both all the time, for
/// nothing.
fn relay(rounds: usize, stray: bool) {
    let (there, back) = (triggers(rounds), triggers(rounds));
    thread::scope(|s| {
        let first = s.spawn(|| {
            for round in 0..rounds {
                assert!(there[round].signal(round % 3));
                assert_eq!(back[round].wait(WaitsFor::new("the answer")), Outcome::Taken(round % 5));
            }
        });
        let second = s.spawn(|| {
            for round in 0..rounds {
                assert_eq!(there[round].wait(WaitsFor::new("the question")), Outcome::Taken(round % 3));
                stagger(if stray { round } else { 0 });
                assert!(back[round].signal(round % 5));
            }
        });
        while stray && !(first.is_finished() && second.is_finished()) {
            first.thread().unpark();
            second.thread().unpark();
            thread::yield_now();
        }
    });
}

#[test]
fn threads_that_wait_for_each_other_in_turn_all_come_through() {
    relay(rounds(20_000), false);
}

#[test]
fn an_unpark_for_nothing_ends_no_wait() {
    relay(rounds(20_000), true);
}

/// The same thread waits round after round, while a second signals and a third cancels. In every
/// fourth round the signal comes too late, in another fourth the cancellation.
#[test]
fn signals_and_cancellations_agree_also_with_a_thread_that_looks() {
    let rounds = rounds(20_000);
    let triggers = triggers(rounds);
    let tokens: Vec<_> = (0..rounds).map(|_| CancelToken::new()).collect();
    let begun = AtomicUsize::new(0);
    let each = |late: usize, act: &dyn Fn(usize)| {
        for round in 0..rounds {
            let from = if round % 4 == late { round + 2 } else { round + 1 };
            until(|| begun.load(SeqCst) >= from);
            act(round);
        }
    };
    let (mut taken, mut cancelled) = (0, 0);
    thread::scope(|s| {
        let signalled = s.spawn(|| {
            let accepted: Vec<_> = triggers.iter().map(|_| AtomicBool::new(false)).collect();
            each(0, &|round| {
                stagger(round / 5);
                accepted[round].store(triggers[round].signal(0), SeqCst);
            });
            accepted
        });
        s.spawn(|| {
            each(2, &|round| {
                stagger(round);
                tokens[round].cancel();
            });
        });
        let waiter = s.spawn(|| {
            let wait = |round: usize| {
                begun.store(round + 1, SeqCst);
                tokens[round].run(|| triggers[round].wait(WaitsFor::new("either")))
            };
            let outcomes: Vec<_> = (0..rounds).map(wait).collect();
            begun.store(rounds + 1, SeqCst);
            outcomes
        });
        for (outcome, accepted) in waiter.join().unwrap().into_iter().zip(signalled.join().unwrap()) {
            assert_eq!(outcome == Outcome::Taken(0), accepted.into_inner());
            match outcome {
                Outcome::Taken(_) => taken += 1,
                Outcome::Cancelled => cancelled += 1,
            }
        }
    });
    assert!(taken >= rounds / 4 && cancelled >= rounds / 4, "taken {taken} times, cancelled {cancelled} times");
}

/// A thread that is told again and again, and finds nothing for itself, waits in the same frame
/// each time.
#[test]
fn a_thread_that_is_told_in_vain_waits_again() {
    let rounds = rounds(20_000) as u32;
    let queue: WaitQueue<u32, u32> = WaitQueue::new(0);
    let seen = thread::scope(|s| {
        let waiter = s.spawn(|| {
            let mut all = queue.source(WaitsFor::new("the last"), |n| *n == rounds, |n| *n);
            wait(&mut all).unwrap()
        });
        for round in 0..rounds {
            let mut guard = queue.lock();
            *guard.state() += 1;
            guard.notify_all(0);
            stagger(round as usize);
        }
        waiter.join().unwrap()
    });
    assert_eq!(seen, rounds);
}

#[test]
fn a_failure_has_the_name_of_its_thread_s_closure() {
    let failed = try_scope(|s| {
        Builder::new().name("courier").within(s).spawn_try(|| {
            // A scope inside of it has fibers of its own; one without a name has no name.
            let inner = try_scope(|s| {
                s.spawn_try(|| Err::<(), _>("out of paper"));
                Ok::<_, &str>(())
            });
            assert_eq!(inner.unwrap_err().to_string(), "a fiber failed: out of paper");
            let body = try_scope(|_| Err::<(), _>("too heavy"));
            assert_eq!(body.unwrap_err().to_string(), "the body in fiber `courier` failed: too heavy");
            Err::<(), _>("out of ink")
        });
        Ok::<_, &str>(())
    });
    let error = failed.unwrap_err();
    assert_eq!(error.first().fiber(), Some("courier"));
    assert_eq!(error.to_string(), "fiber `courier` failed: out of ink");

    // The thread that opens the scope has none.
    assert_eq!(try_scope(|_| Err::<(), _>("own")).unwrap_err().first().fiber(), None);
}
