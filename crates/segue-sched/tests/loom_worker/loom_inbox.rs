//! Model of the worker's mailbox as it ships: no letter and no wake-up is lost, merged letters come
//! once, and a sender touches nothing after its exchange. The worker parks without a time-out, so
//! that a lost wake-up is a deadlock that the checker reports.
#![cfg(loom)]
#![allow(unsafe_code, dead_code)] // Letters are posted by address; not all of the file is used.

#[path = "../../src/worker/inbox.rs"]
mod inbox;

use inbox::{Inbox, Letter, Post};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize as Count, Ordering::SeqCst};

/// A letter around a value that a sender writes before it posts and the worker reads after it has
/// drained.
struct Item {
    letter: Letter<Item>,
    value: UnsafeCell<u32>,
}

// SAFETY: it answers with the one field.
unsafe impl Post for Item {
    fn letter(&self) -> &Letter<Self> {
        &self.letter
    }
}

// SAFETY: the inbox orders the accesses to the value, which the checker verifies.
unsafe impl Sync for Item {}

impl Item {
    fn new() -> Self {
        Self { letter: Letter::new(), value: UnsafeCell::new(0) }
    }

    fn at(&self) -> NonNull<Self> {
        NonNull::from(self)
    }
}

/// What the senders and the worker share.
struct Desk {
    inbox: Inbox<Item>,
    items: [Item; 2],
    worker: thread::Thread,
}

impl Desk {
    fn post(&self, item: usize, bits: u8) {
        let wake = || {
            let worker = self.worker.clone();
            move || worker.unpark()
        };
        // SAFETY: the desk is shared until every thread has ended.
        unsafe { self.inbox.post(self.items[item].at(), bits, wake) };
    }
}

/// Drains until `wanted` says that it has all; sleeps in between, without a time-out. Answers how
/// often it slept.
fn work(desk: &Desk, mut take: impl FnMut(usize, u8) -> bool) -> usize {
    let mut slept = 0;
    loop {
        let mut done = false;
        if !desk.inbox.is_empty() {
            desk.inbox.drain(|item, bits| {
                let index = usize::from(item != desk.items[0].at());
                done |= take(index, bits);
            });
        }
        if done {
            return slept;
        }
        if desk.inbox.doze() {
            slept += 1;
            thread::park();
            desk.inbox.rouse();
        }
    }
}

/// Counts over all executions of a model; it must come out above zero.
struct Reached(&'static str, Count);

impl Reached {
    const fn new(what: &'static str) -> Self {
        Self(what, Count::new(0))
    }

    fn note(&self, yes: bool) {
        self.1.fetch_add(usize::from(yes), SeqCst);
    }

    fn assert(&self) {
        assert!(self.1.load(SeqCst) > 0, "never reached: {}", self.0);
    }
}

#[test]
fn two_senders_and_a_worker_that_sleeps() {
    static SLEPT: Reached = Reached::new("the worker slept");
    static AWAKE: Reached = Reached::new("the worker did not sleep");
    static TOGETHER: Reached = Reached::new("both letters came in one drain");
    loom::model(|| {
        let desk = Arc::new(Desk { inbox: Inbox::new(), items: [Item::new(), Item::new()], worker: thread::current() });
        let senders: Vec<_> = (0..2)
            .map(|n| {
                let desk = Arc::clone(&desk);
                thread::spawn(move || {
                    // SAFETY: before the post nobody else looks.
                    desk.items[n].value.with_mut(|value| unsafe { *value = 7 });
                    desk.post(n, 1);
                })
            })
            .collect();
        let mut seen = [0; 2];
        let mut drains = 0;
        let slept = work(&desk, |index, bits| {
            assert_eq!(bits, 1);
            // SAFETY: the drain acquires what the sender did before.
            assert_eq!(desk.items[index].value.with(|value| unsafe { *value }), 7);
            seen[index] += 1;
            drains += 1;
            seen == [1, 1]
        });
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert_eq!(seen, [1, 1], "each letter comes once");
        assert!(desk.items.iter().all(|item| !item.letter.is_pending()));
        SLEPT.note(slept > 0);
        AWAKE.note(slept == 0);
        TOGETHER.note(slept <= 1 && drains == 2);
    });
    [&SLEPT, &AWAKE, &TOGETHER].into_iter().for_each(Reached::assert);
}

#[test]
fn two_senders_of_one_letter_merge_or_come_one_after_the_other() {
    static MERGED: Reached = Reached::new("both bits came at once");
    static APART: Reached = Reached::new("the bits came one after the other");
    loom::model(|| {
        let desk = Arc::new(Desk { inbox: Inbox::new(), items: [Item::new(), Item::new()], worker: thread::current() });
        let senders: Vec<_> = [1, 2]
            .map(|bit| {
                let desk = Arc::clone(&desk);
                thread::spawn(move || desk.post(0, bit))
            })
            .into();
        let (mut all, mut times) = (0, 0);
        work(&desk, |_, bits| {
            assert_eq!(all & bits, 0, "no bit comes twice");
            all |= bits;
            times += 1;
            all == 3
        });
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        MERGED.note(times == 1);
        APART.note(times == 2);
    });
    [&MERGED, &APART].into_iter().for_each(Reached::assert);
}

#[test]
fn a_rouse_and_a_post_end_one_sleep() {
    static ROUSED: Reached = Reached::new("the rouser ended the sleep");
    static POSTED: Reached = Reached::new("the sender ended the sleep");
    loom::model(|| {
        let desk = Arc::new(Desk { inbox: Inbox::new(), items: [Item::new(), Item::new()], worker: thread::current() });
        let rouser = {
            let desk = Arc::clone(&desk);
            thread::spawn(move || {
                let roused = desk.inbox.rouse();
                if roused {
                    desk.worker.unpark();
                }
                roused
            })
        };
        let sender = {
            let desk = Arc::clone(&desk);
            thread::spawn(move || desk.post(0, 1))
        };
        let slept = work(&desk, |_, _| true);
        let roused = rouser.join().unwrap();
        sender.join().unwrap();
        ROUSED.note(roused);
        POSTED.note(slept > 0 && !roused);
    });
    [&ROUSED, &POSTED].into_iter().for_each(Reached::assert);
}

#[test]
fn a_sender_touches_nothing_after_its_exchange() {
    static SLEPT: Reached = Reached::new("the worker slept");
    // The worker frees inbox and letter as soon as it has drained: a later touch reaches an atomic
    // that the checker knows to be gone.
    struct Frame {
        inbox: Inbox<Item>,
        item: Item,
    }
    // SAFETY: as for `Item`.
    unsafe impl Sync for Frame {}
    loom::model(|| {
        let frame = NonNull::from(Box::leak(Box::new(Frame { inbox: Inbox::new(), item: Item::new() })));
        let worker = thread::current();
        let address = frame.as_ptr().expose_provenance();
        let sender = thread::spawn(move || {
            let frame: *const Frame = std::ptr::with_exposed_provenance(address);
            // SAFETY: the frame stays until the letter was drained, which is after the exchange.
            unsafe { (*frame).inbox.post((*frame).item.at(), 1, || || worker.unpark()) };
        });
        let mut slept = 0;
        // SAFETY: this thread frees it, below.
        let shared = unsafe { frame.as_ref() };
        let mut done = false;
        while !done {
            shared.inbox.drain(|_, _| done = true);
            if !done && shared.inbox.doze() {
                slept += 1;
                thread::park();
                shared.inbox.rouse();
            }
        }
        // SAFETY: made by `Box::leak`, and the sender is past its exchange.
        drop(unsafe { Box::from_raw(frame.as_ptr()) });
        sender.join().unwrap();
        SLEPT.note(slept > 0);
    });
    SLEPT.assert();
}

/// The broken variant: whether the worker sleeps is a second word beside the list, looked at after
/// the post and set after the last look.
struct TwoWords {
    head: AtomicUsize,
    asleep: AtomicUsize,
}

#[test]
#[should_panic(expected = "deadlock")]
fn planted_a_second_flag_loses_the_wake_up() {
    loom::model(|| {
        let words = Arc::new(TwoWords { head: AtomicUsize::new(0), asleep: AtomicUsize::new(0) });
        let worker = thread::current();
        let sender = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                words.head.store(1, Ordering::Release);
                if words.asleep.load(Ordering::Acquire) == 1 {
                    worker.unpark();
                }
            })
        };
        while words.head.swap(0, Ordering::AcqRel) == 0 {
            // The look and the announcement are two steps, and acquire and release do not order a
            // store before a load.
            words.asleep.store(1, Ordering::Release);
            if words.head.load(Ordering::Acquire) == 0 {
                thread::park();
            }
            words.asleep.store(0, Ordering::Release);
        }
        sender.join().unwrap();
    });
}
