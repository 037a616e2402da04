//! The suite of sources passes what keeps the contract, and finds the clause that a planted fault
//! breaks.
#![cfg(not(loom))]

use crate::mailbox;

use mailbox::Mailbox;
use segue_conformance::Sources;
use segue_core::{
    BoxSource, CancelToken, Guard, Nack, Operation, WaitQueue, Waitable, Waiting, WaitsFor, future_source, guard,
    merge, with_nack,
};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

#[test]
fn queues_that_hand_over_or_tell_and_cancellations_keep_the_contract() {
    Sources::new(
        "handed",
        Mailbox::new,
        |mailbox| mailbox.receive_source().map(drop).boxed(),
        |m| {
            m.send(1);
        },
    )
    .check();
    Sources::new("told", Mailbox::new, |mailbox| mailbox.receive_source().map(drop).boxed(), |m| m.leave(1)).check();
    Sources::new(
        "cancelled",
        CancelToken::new,
        |token| token.cancelled_source().map(drop).boxed(),
        CancelToken::cancel,
    )
    .lasting()
    .check();
}

/// Each of the sources that are made of others, around one that is handed and one that is told.
#[test]
fn sources_that_are_made_of_others_keep_the_contract_if_those_do() {
    type Serve = fn(&Mailbox<u32>);
    let ways: [Serve; 2] = [|mailbox| _ = mailbox.send(1), |mailbox| mailbox.leave(1)];
    for serve in ways {
        Sources::new("there", Mailbox::new, |m| Waitable::new(Some(m.receive_source().map(drop))).boxed(), serve)
            .check();
        Sources::new(
            "beside what is not there",
            Mailbox::new,
            |m| m.receive_source().map(drop).or(None::<Waitable<BoxSource<'_, ()>>>).map(drop).boxed(),
            serve,
        )
        .check();
        Sources::new(
            "all pass",
            Mailbox::new,
            |m| m.receive_source().filter_map(|n| (n == 1).then_some(())).boxed(),
            serve,
        )
        .check();
        Sources::new("guard", Mailbox::new, |m| guard(|| m.receive_source().map(drop).boxed()).boxed(), serve).check();
        Sources::new("with a nack", Mailbox::new, |m| with_nack(|_| m.receive_source()).map(drop).boxed(), serve)
            .check();
    }
}

/// What does not pass comes with each value that does; it is taken, in whatever way it comes.
#[test]
fn what_does_not_pass_keeps_nobody_from_what_does() {
    Sources::new(
        "some pass",
        Mailbox::new,
        |mailbox| mailbox.receive_source().filter_map(|n: u32| n.is_multiple_of(2).then_some(())).boxed(),
        |mailbox| {
            mailbox.send(1);
            mailbox.leave(3);
            mailbox.send(2);
        },
    )
    .check();
}

#[test]
fn nacks_keep_the_contract() {
    type World = (Waitable<Nack>, Mutex<Option<Waitable<BoxSource<'static, ()>>>>);
    let world = || -> World {
        let (give, given) = mpsc::channel();
        let mut event = with_nack(move |nack| {
            give.send(nack).unwrap();
            None::<Waitable<BoxSource<'static, ()>>>
        });
        assert_eq!(event.attempt(), None);
        (given.recv().unwrap(), Mutex::new(Some(event.boxed())))
    };
    let lose = |world: &World| drop(world.1.lock().unwrap().take());
    Sources::new("nack", world, |world| world.0.clone().map(drop).boxed(), lose).lasting().check();
}

#[test]
fn futures_keep_the_contract() {
    Sources::new(
        "a future",
        Mailbox::new,
        |mailbox| future_source(mailbox.receive_source().map(drop)).boxed(),
        |mailbox| {
            mailbox.send(1);
        },
    )
    .check();
}

/// Each wait has a merge of its own, which goes with it: so it has to give back what it has.
#[test]
fn merges_keep_the_contract() {
    type Serve = fn(&Mailbox<u32>);
    let ways: [Serve; 2] = [|mailbox| _ = mailbox.send(1), |mailbox| mailbox.leave(1)];
    for serve in ways {
        Sources::new(
            "merge",
            Mailbox::new,
            |mailbox| {
                let mut merged = merge([mailbox.receive_source()]);
                future_source(async move { _ = merged.next_source().await }).boxed()
            },
            serve,
        )
        .check();
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    LosesWhatComesBack,
    KeepsWhatItWasTold,
    TakesInALook,
    GetsTwice,
    IsNeverReady,
}

/// A counter of things, each for one wait.
struct Things {
    queue: WaitQueue<usize, ()>,
    fault: Fault,
    tells: bool,
}

struct Take(Fault);

impl Operation<usize, ()> for Take {
    type Output = ();

    fn attempt(&mut self, queue: &mut Guard<'_, usize, ()>) -> Option<()> {
        let there = *queue.peek() > 0;
        *queue.state() -= usize::from(there);
        (there && self.0 != Fault::TakesInALook).then_some(())
    }

    fn is_ready(&mut self, queue: &mut Guard<'_, usize, ()>) -> bool {
        *queue.peek() > 0 && self.0 != Fault::IsNeverReady
    }

    fn commit(&mut self, slot: Option<()>) -> Option<()> {
        slot
    }

    fn give_back(&mut self, slot: Option<()>, queue: &mut Guard<'_, usize, ()>) -> Option<()> {
        match slot {
            Some(()) if self.0 == Fault::LosesWhatComesBack => {}
            Some(()) if queue.hand_over(0, ()).is_err() => *queue.state() += 1,
            None if self.0 != Fault::KeepsWhatItWasTold => {
                queue.notify_one(0);
            }
            _ => {}
        }
        None
    }
}

impl Things {
    fn new<const FAULT: usize>() -> Self {
        let faults = [
            Fault::None,
            Fault::LosesWhatComesBack,
            Fault::KeepsWhatItWasTold,
            Fault::TakesInALook,
            Fault::GetsTwice,
            Fault::IsNeverReady,
        ];
        let fault = faults[FAULT];
        Self { queue: WaitQueue::new(0), fault, tells: fault == Fault::KeepsWhatItWasTold }
    }

    fn take_source(&self) -> Waitable<Waiting<'_, Take, usize, ()>> {
        Waitable::new(self.queue.operation(WaitsFor::new("a thing"), Take(self.fault)))
    }

    fn serve(&self) {
        let mut queue = self.queue.lock();
        if !self.tells && queue.hand_over(0, ()).is_ok() {
            *queue.state() += usize::from(self.fault == Fault::GetsTwice);
            return;
        }
        *queue.state() += 1;
        queue.notify_one(0);
    }
}

fn seen<const FAULT: usize>() -> Vec<&'static str> {
    let sources = Sources::new("things", Things::new::<FAULT>, |things| things.take_source().boxed(), Things::serve);
    sources.patience(Duration::from_secs(2)).run().iter().filter_map(|violation| violation.clause).collect()
}

#[test]
fn a_source_without_a_fault_passes() {
    assert!(seen::<0>().is_empty());
}

#[test]
fn planted_what_comes_back_is_lost() {
    assert!(seen::<1>().contains(&"R10"));
}

#[test]
fn planted_what_it_was_told_is_kept() {
    assert_eq!(seen::<2>(), ["R12"]);
}

#[test]
fn planted_a_look_takes_and_yields_nothing() {
    assert!(seen::<3>().contains(&"R3"));
}

#[test]
fn planted_what_was_got_is_still_there() {
    assert!(seen::<4>().contains(&"R6"));
}

#[test]
fn planted_a_registration_does_not_see_what_has_come() {
    assert!(seen::<5>().contains(&"R4"));
}
