//! A nack says once what has become of its source, in whatever way the wait ends; and one that is
//! told of it by the steps of the protocol, and not by the source's drop, is found wrong.
#![cfg(not(loom))]
#![allow(unsafe_code)] // A planted source.

use crate::common;
use crate::mailbox;

use common::{rounds, stagger};
use mailbox::{Calls, Mailbox, poll};
use segue_core::{
    BoxSource, CancelToken, Either, Fate, Nack, Retreat, Source, Trigger, Waitable, WaitsFor, after, future_source,
    now, with_nack,
};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

type Event<'a> = Waitable<BoxSource<'a, u8>>;

/// Where events are made that say what becomes of them.
#[derive(Default)]
struct Told {
    nacks: Mutex<Vec<Waitable<Nack>>>,
    by_protocol: Mutex<Vec<Fate>>,
}

impl Told {
    fn event<'a>(&'a self, mailbox: &'a Mailbox<u8>) -> Event<'a> {
        with_nack(move |nack| {
            self.nacks.lock().unwrap().push(nack);
            mailbox.receive_source()
        })
        .boxed()
    }

    /// As `event`, but told by the steps of the wait.
    fn careless<'a>(&'a self, mailbox: &'a Mailbox<u8>) -> Event<'a> {
        Waitable::new(Careless { source: mailbox.receive_source(), told: self }).boxed()
    }

    /// What the waits are told, each of a clone.
    fn fates(&self) -> Vec<Fate> {
        let nacks = self.nacks.lock().unwrap();
        let told = nacks.iter().filter_map(|nack| nack.clone().attempt());
        self.by_protocol.lock().unwrap().iter().copied().chain(told).collect()
    }
}

/// Takes a `withdraw` or `give_back` for the end of the wait.
struct Careless<'a, S> {
    source: S,
    told: &'a Told,
}

impl<S> Careless<'_, S> {
    fn tell<T>(&self, fate: Fate, output: T) -> T {
        self.told.by_protocol.lock().unwrap().push(fate);
        output
    }
}

// SAFETY: every step is that of the source.
unsafe impl<S: Source> Source for Careless<'_, S> {
    type Output = S::Output;
    type Slot = S::Slot;

    fn waits_for(&self) -> WaitsFor {
        self.source.waits_for()
    }

    fn address(&self, least: usize) -> Option<usize> {
        self.source.address(least)
    }

    fn attempt(&mut self) -> Option<S::Output> {
        let output = self.source.attempt()?;
        Some(self.tell(Fate::Chosen, output))
    }

    unsafe fn prepare(&mut self, slot: &mut S::Slot) {
        // SAFETY: as the caller promises.
        unsafe { self.source.prepare(slot) }
    }

    unsafe fn register(&mut self, slot: &mut S::Slot, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        // SAFETY: as the caller promises.
        unsafe { self.source.register(slot, trigger, arm) }
    }

    unsafe fn withdraw(&mut self, slot: &mut S::Slot) {
        // SAFETY: as the caller promises.
        unsafe { self.source.withdraw(slot) };
        self.tell(Fate::Lost, ());
    }

    unsafe fn commit(&mut self, slot: &mut S::Slot, arm: usize) -> Option<S::Output> {
        // SAFETY: as the caller promises.
        let output = unsafe { self.source.commit(slot, arm) }?;
        Some(self.tell(Fate::Chosen, output))
    }

    unsafe fn give_back(&mut self, slot: &mut S::Slot, arm: usize) {
        // SAFETY: as the caller promises.
        unsafe { self.source.give_back(slot, arm) };
        self.tell(Fate::Lost, ());
    }
}

/// An arm that is ready when it registers, for the first time, or then panics in its next look.
fn late<'a>(panics: bool) -> Waitable<impl Source<Output = u8> + use<'a>> {
    struct Late(usize, bool);
    // SAFETY: it registers nothing.
    unsafe impl Source for Late {
        type Output = u8;
        type Slot = ();

        fn waits_for(&self) -> WaitsFor {
            WaitsFor::new("nothing")
        }

        fn address(&self, least: usize) -> Option<usize> {
            Some(usize::MAX).filter(|address| *address >= least)
        }

        fn attempt(&mut self) -> Option<u8> {
            assert!(self.0 == 0 || !self.1, "planted");
            None
        }

        unsafe fn register(&mut self, (): &mut (), trigger: &Trigger, _: usize) -> Result<(), Retreat> {
            self.0 += 1;
            if self.0 == 1 { Err(trigger.retreat()) } else { Ok(()) }
        }

        unsafe fn withdraw(&mut self, (): &mut ()) {}

        unsafe fn commit(&mut self, (): &mut (), _: usize) -> Option<u8> {
            None
        }

        unsafe fn give_back(&mut self, (): &mut (), _: usize) {}
    }
    Waitable::new(Late(0, panics))
}

/// A way in which the wait for an event, which receives from the mailbox, ends.
type Way = (&'static str, Fate, fn(Event<'_>, &Mailbox<u8>));

const WAYS: [Way; 14] = [
    ("found by a look", Fate::Chosen, |event, mailbox| {
        mailbox.send(1);
        assert_eq!(event.wait(), Ok(1));
    }),
    ("found by a look of another kind", Fate::Chosen, |mut event, mailbox| {
        mailbox.send(1);
        assert_eq!(event.attempt(), Some(1));
    }),
    ("handed over to a task", Fate::Chosen, |event, mailbox| {
        let mut task = pin!(event.or(after(Duration::MAX)).into_future());
        assert!(poll(task.as_mut(), Waker::noop()).is_pending());
        mailbox.send(1);
        assert_eq!(poll(task.as_mut(), Waker::noop()), Poll::Ready(Either::Left(1)));
    }),
    ("told, and then found", Fate::Chosen, |event, mailbox| {
        let mut task = pin!(event.into_future());
        assert!(poll(task.as_mut(), Waker::noop()).is_pending());
        mailbox.leave(1);
        assert_eq!(poll(task.as_mut(), Waker::noop()), Poll::Ready(1));
    }),
    ("chosen after a retreat", Fate::Chosen, |event, mailbox| {
        let mut task = pin!(event.or(late(false)).into_future());
        assert!(poll(task.as_mut(), Waker::noop()).is_pending());
        mailbox.send(1);
        assert_eq!(poll(task.as_mut(), Waker::noop()), Poll::Ready(Either::Left(1)));
    }),
    ("chosen through others that hold it", Fate::Chosen, |event, mailbox| {
        mailbox.send(1);
        assert_eq!(Waitable::new(Some(event.filter_map(Some))).boxed().wait(), Ok(1));
    }),
    ("another is found by a look", Fate::Lost, |event, _| {
        assert_eq!(event.or_else(after(Duration::ZERO)).wait(), Ok(Either::Right(())));
    }),
    ("both are ready", Fate::Lost, |mut event, mailbox| {
        assert_eq!(event.attempt(), None);
        mailbox.send(1);
        assert_eq!(after(Duration::ZERO).or_else(event).wait(), Ok(Either::Left(())));
    }),
    ("another is served", Fate::Lost, |event, _| {
        let other = Mailbox::new();
        let mut task = Box::pin(event.or(other.receive_source()).into_future());
        assert!(poll(task.as_mut(), Waker::noop()).is_pending());
        other.send(2);
        assert_eq!(poll(task.as_mut(), Waker::noop()), Poll::Ready(Either::Right(2)));
        // Also if the future that has yielded is kept.
        std::mem::forget(task);
    }),
    ("the future is dropped", Fate::Lost, |event, _| {
        assert!(poll(pin!(event.into_future()), Waker::noop()).is_pending());
    }),
    ("the future is dropped when it was served", Fate::Lost, |event, mailbox| {
        let mut task = pin!(event.into_future());
        assert!(poll(task.as_mut(), Waker::noop()).is_pending());
        mailbox.send(1);
    }),
    ("the wait is cancelled", Fate::Lost, |event, _| {
        let token = CancelToken::new();
        let cancels = future_source(async { token.cancel() }).filter_map(|()| None::<()>);
        assert!(token.run(|| event.or(cancels).wait()).is_err());
    }),
    ("the time is out", Fate::Lost, |event, _| {
        assert!(event.wait_until(Some(now())).is_err());
    }),
    ("another panics", Fate::Lost, |event, _| {
        assert!(catch_unwind(AssertUnwindSafe(|| event.or(late(true)).wait())).is_err());
    }),
];

/// The ways in which what is told is not what has become of it, once.
fn wrong(make: for<'a> fn(&'a Told, &'a Mailbox<u8>) -> Event<'a>) -> Vec<&'static str> {
    let is_wrong = |(name, fate, way): &Way| {
        let (told, mailbox) = (Told::default(), Mailbox::new());
        way(make(&told, &mailbox), &mailbox);
        assert!(!mailbox.has_waiters());
        (told.fates() != [*fate]).then_some(*name)
    };
    WAYS.iter().filter_map(is_wrong).collect()
}

#[test]
fn a_nack_says_once_what_has_become_of_its_source() {
    assert!(wrong(Told::event).is_empty(), "{:?}", wrong(Told::event));
}

#[test]
fn planted_a_nack_is_told_by_the_steps_of_the_wait() {
    let wrong = wrong(Told::careless);
    // A retreat withdraws, and is taken for the end. An arm that was not registered hears nothing.
    for seen in ["chosen after a retreat", "another is found by a look", "both are ready"] {
        assert!(wrong.contains(&seen), "{wrong:?}");
    }
}

#[test]
fn a_nack_is_open_while_its_source_may_yet_be_chosen() {
    let (told, mailbox) = (Told::default(), Mailbox::new());
    drop(told.event(&mailbox));
    assert!(told.nacks.lock().unwrap().is_empty(), "no wait has begun");
    let mut event = told.event(&mailbox);
    for _ in 0..2 {
        assert_eq!(event.by_ref().or_else(after(Duration::ZERO)).wait(), Ok(Either::Right(())));
        drop(Box::pin(event.by_ref().into_future()));
        assert!(told.fates().is_empty() && told.nacks.lock().unwrap().len() == 1);
    }
    mailbox.send(1);
    assert_eq!(event.by_ref().wait(), Ok(1));
    assert_eq!(told.fates(), [Fate::Chosen]);
    // The next wait has the next nack.
    assert_eq!(event.attempt(), None);
    assert_eq!(told.fates(), [Fate::Chosen]);
    drop(event);
    assert_eq!(told.fates(), [Fate::Chosen, Fate::Lost]);
}

#[test]
fn a_source_that_could_not_be_made_has_lost() {
    let kept = RefCell::new(None);
    let mut never = with_nack(|nack| -> Option<Waitable<BoxSource<'_, ()>>> {
        *kept.borrow_mut() = Some(nack);
        panic!("planted")
    });
    assert!(catch_unwind(AssertUnwindSafe(|| never.attempt())).is_err());
    assert_eq!(kept.take().unwrap().attempt(), Some(Fate::Lost));
}

#[test]
fn those_that_wait_for_a_nack_are_told_and_may_leave() {
    let (told, mailbox) = (Told::default(), Mailbox::new());
    let mut event = told.event(&mailbox);
    assert_eq!(event.attempt(), None);
    let nack = told.nacks.lock().unwrap()[0].clone();
    let (calls, waker) = Calls::new();
    let mut tasks = [(); 3].map(|()| Box::pin(nack.clone().into_future()));
    assert!(tasks.iter_mut().all(|task| poll(task.as_mut(), &waker).is_pending()));
    let [first, mut second, mut third] = tasks;
    let token = CancelToken::new();
    let cancels = nack.clone().or(future_source(async { token.cancel() }).filter_map(|()| None::<()>));
    assert!(token.run(|| cancels.wait()).is_err());
    drop(first);
    // A clone is as good as the one that was given, and it need not outlive it.
    drop((nack, told.nacks.lock().unwrap().drain(..)));
    drop(event);
    assert_eq!(calls.count(), 2);
    assert_eq!(poll(second.as_mut(), &waker), Poll::Ready(Fate::Lost));
    assert_eq!(poll(third.as_mut(), &waker), Poll::Ready(Fate::Lost));
}

#[test]
fn of_two_with_a_nack_the_one_is_chosen_and_the_other_lost() {
    let (told, left, right) = (Told::default(), Mailbox::new(), Mailbox::new());
    let mut task = Box::pin(told.event(&left).or(told.event(&right)).into_future());
    assert!(poll(task.as_mut(), Waker::noop()).is_pending());
    right.send(1);
    assert!(poll(task.as_mut(), Waker::noop()).is_ready());
    let mut fates = told.fates();
    fates.sort_by_key(|fate| *fate == Fate::Lost);
    assert_eq!(fates, [Fate::Chosen, Fate::Lost]);
}

/// Waits of two arms that are served, cancelled and dropped at once, each arm with somebody who
/// waits for its nack.
#[test]
fn nacks_under_a_storm_of_threads() {
    let (chosen, lost) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (mut made, mut received) = (0, 0);
    for round in 0..rounds(4000) {
        let boxes = [Mailbox::new(), Mailbox::new()];
        let token = CancelToken::new();
        let (watches, got) = thread::scope(|t| {
            let watches = AtomicUsize::new(0);
            let watch = |nack: Waitable<Nack>| {
                watches.fetch_add(1, SeqCst);
                let (chosen, lost) = (&chosen, &lost);
                t.spawn(move || {
                    let counter = if nack.wait().unwrap() == Fate::Chosen { chosen } else { lost };
                    counter.fetch_add(1, SeqCst);
                });
            };
            for (n, mailbox) in boxes.iter().enumerate() {
                t.spawn(move || {
                    stagger(round + n);
                    if round.is_multiple_of(3) { mailbox.leave(n) } else { _ = mailbox.send(n) }
                });
            }
            if round % 4 == 1 {
                t.spawn(|| {
                    stagger(round / 7);
                    token.cancel();
                });
            }
            let [left, right] = &boxes;
            let arm = |mailbox| {
                with_nack(move |nack| {
                    watch(nack);
                    Mailbox::receive_source(mailbox)
                })
            };
            let choice = arm(left).or(arm(right));
            stagger(round / 3);
            let got = if round.is_multiple_of(2) {
                poll(pin!(choice.into_future()), Waker::noop()).is_ready()
            } else {
                token.run(|| choice.wait()).is_ok()
            };
            (watches.into_inner(), usize::from(got))
        });
        let left: usize = boxes.into_iter().map(|mailbox| mailbox.into_messages().len()).sum();
        assert_eq!(got + left, 2, "in round {round}");
        (made, received) = (made + watches, received + got);
    }
    let (chosen, lost) = (chosen.into_inner(), lost.into_inner());
    println!("{made} made, {chosen} chosen, {lost} lost");
    assert_eq!((chosen, chosen + lost), (received, made));
    assert!(cfg!(miri) || chosen > 0 && lost > 0);
}
