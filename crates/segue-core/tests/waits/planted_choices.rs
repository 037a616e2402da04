//! Faults that were planted in choices: one that meets itself, and one that takes the value of a
//! second arm. The checks that find nothing in the sound ones have to find them. (A nack that is
//! lost is planted in `nacks.rs`.)
#![cfg(not(loom))]
#![allow(unsafe_code)] // Sources that pass every step on.

use crate::mailbox;
use crate::rendezvous;

use mailbox::{Calls, poll};
use rendezvous::{Receive, Rendezvous, Send};
use segue_core::{AnyOf, Arms, Guard, Operation, Retreat, Source, Trigger, WaitQueue, Waitable, WaitsFor, any_of};
use std::future::IntoFuture;
use std::pin::pin;
use std::task::Poll;

type Queue<'a> = Guard<'a, Vec<u32>, u32, 2>;

/// An operation at a rendezvous which takes whoever waits there for a partner, also itself.
struct Selfish<O> {
    operation: O,
    /// The list of its partners.
    partners: usize,
}

impl<O: Operation<Vec<u32>, u32, 2>> Operation<Vec<u32>, u32, 2> for Selfish<O> {
    type Output = O::Output;

    fn attempt(&mut self, queue: &mut Queue<'_>) -> Option<O::Output> {
        self.operation.attempt(queue)
    }

    fn is_ready(&mut self, queue: &mut Queue<'_>) -> bool {
        !queue.is_empty(self.partners)
    }

    fn place(&self) -> (usize, bool) {
        self.operation.place()
    }

    fn offer(&mut self) -> Option<u32> {
        self.operation.offer()
    }

    fn retract(&mut self, offered: Option<u32>, queue: &mut Queue<'_>) {
        self.operation.retract(offered, queue);
    }

    fn commit(&mut self, slot: Option<u32>) -> Option<O::Output> {
        self.operation.commit(slot)
    }

    fn give_back(&mut self, slot: Option<u32>, queue: &mut Queue<'_>) -> Option<u32> {
        self.operation.give_back(slot, queue)
    }
}

/// Whether a choice of both ends sleeps until somebody comes: a task that has met itself has itself
/// woken, to look again.
fn sleeps(both: impl Source) -> bool {
    let (calls, waker) = Calls::new();
    let mut both = pin!(Waitable::new(both).into_future());
    let polls = [(); 3].map(|()| poll(both.as_mut(), &waker).is_ready());
    polls == [false; 3] && calls.count() == 0
}

#[test]
fn a_choice_that_meets_itself_is_found() {
    let channel = Rendezvous::new();
    assert!(sleeps(any_of((channel.send_source(1), channel.receive_source()))));
    let queue: WaitQueue<Vec<u32>, u32, 2> = WaitQueue::new(Vec::new());
    let send = queue.operation(WaitsFor::new("a receiver"), Selfish { operation: Send(Some(1)), partners: 0 });
    let receive = queue.operation(WaitsFor::new("a sender"), Selfish { operation: Receive, partners: 1 });
    assert!(!sleeps(any_of((send, receive))));
}

/// A choice that looks at its arms once more after it was served.
struct Greedy<L>(AnyOf<L>);

// SAFETY: every step is that of the choice; what it does once more follows a commit, when nothing
// is registered.
unsafe impl<L: Arms> Source for Greedy<L> {
    type Output = L::Output;
    type Slot = <AnyOf<L> as Source>::Slot;

    fn waits_for(&self) -> WaitsFor {
        self.0.waits_for()
    }

    fn arms(&self) -> usize {
        self.0.arms()
    }

    fn address(&self, least: usize) -> Option<usize> {
        self.0.address(least)
    }

    fn attempt(&mut self) -> Option<L::Output> {
        self.0.attempt()
    }

    unsafe fn prepare(&mut self, slot: &mut Self::Slot) {
        // SAFETY: as the caller promises.
        unsafe { self.0.prepare(slot) }
    }

    unsafe fn register(&mut self, slot: &mut Self::Slot, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        // SAFETY: as the caller promises.
        unsafe { self.0.register(slot, trigger, arm) }
    }

    unsafe fn withdraw(&mut self, slot: &mut Self::Slot) {
        // SAFETY: as the caller promises.
        unsafe { self.0.withdraw(slot) }
    }

    unsafe fn commit(&mut self, slot: &mut Self::Slot, arm: usize) -> Option<L::Output> {
        // SAFETY: as the caller promises.
        let output = unsafe { self.0.commit(slot, arm) };
        drop(self.0.attempt());
        output
    }

    unsafe fn give_back(&mut self, slot: &mut Self::Slot, arm: usize) {
        // SAFETY: as the caller promises.
        unsafe { self.0.give_back(slot, arm) }
    }
}

/// How many of two senders, each at a channel of its own, a choice of both receivers serves, which
/// has waited before they came.
fn serves<'a, S: Source>(
    channels: &'a [Rendezvous<u32>; 2],
    choose: impl FnOnce(&'a [Rendezvous<u32>; 2]) -> S,
) -> usize {
    let (_calls, waker) = Calls::new();
    let mut choice = pin!(Waitable::new(choose(channels)).into_future());
    assert!(poll(choice.as_mut(), &waker).is_pending());
    let mut senders = channels.each_ref().map(|channel| Box::pin(channel.send_source(7).into_future()));
    let mut sent = [false; 2];
    let mut poll_senders = || {
        for (sender, sent) in senders.iter_mut().zip(&mut sent) {
            *sent = *sent || poll(sender.as_mut(), &waker) == Poll::Ready(());
        }
        sent.iter().filter(|sent| **sent).count()
    };
    assert_eq!(poll_senders(), 1);
    assert!(poll(choice.as_mut(), &waker).is_ready());
    poll_senders()
}

#[test]
fn a_choice_that_takes_a_second_value_is_found() {
    fn either(channels: &[Rendezvous<u32>; 2]) -> AnyOf<[impl Source<Output = u32>; 2]> {
        any_of(channels.each_ref().map(Rendezvous::receive_source)).into_source()
    }
    let channels = [Rendezvous::new(), Rendezvous::new()];
    assert_eq!(serves(&channels, either), 1);
    assert_eq!(serves(&channels, |channels| Greedy(either(channels))), 2);
}
