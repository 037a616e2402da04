//! Sources that are made of others and of closures: when they are ready, what they call and when,
//! and what becomes of them if the wait ends otherwise.
#![cfg(not(loom))]

use crate::common;
use crate::mailbox;

use common::{Host, Jobs};
use mailbox::{Calls, Mailbox, poll};
use segue_core::{BoxSource, CancelToken, Either, MAX_ARM, Source, Waitable, after, guard, now, wait_until};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

fn panics<R>(f: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

#[test]
fn an_arm_that_is_switched_off_is_never_ready() {
    let (left, right) = (Mailbox::new(), Mailbox::new());
    left.send(1);
    right.send(2);
    for on in [true, false] {
        let arm = on.then(|| left.receive_source());
        let expected = if on { Either::Left(1) } else { Either::Right(2) };
        assert_eq!(Waitable::new(arm).or_else(right.receive_source()).wait(), Ok(expected));
    }
    let mut none: Option<Waitable<BoxSource<'_, u8>>> = None;
    assert_eq!((none.arms(), none.address(0), none.attempt()), (0, None, None));
    assert!(wait_until(none, Some(now())).is_err());
    // Of two, both of them switched off.
    let both = Waitable::new(None::<Waitable<BoxSource<'_, u8>>>).or(None::<Waitable<BoxSource<'_, u8>>>);
    let mut task = Box::pin(both.into_future());
    assert!(poll(task.as_mut(), Waker::noop()).is_pending());
    assert!(poll(task.as_mut(), Waker::noop()).is_pending());
}

#[test]
fn a_filter_takes_until_something_passes() {
    let mailbox = Mailbox::new();
    (1..=10).for_each(|n| assert!(!mailbox.send(n)));
    let large = || mailbox.receive_source().filter_map(|n| (n > 5).then_some(n * 10));
    assert_eq!(large().wait(), Ok(60));
    assert_eq!(large().attempt(), Some(70));
    let mut task = Box::pin(large().filter_map(|n| (n > 1000).then_some(n)).into_future());
    assert!(poll(task.as_mut(), Waker::noop()).is_pending());
    // One by one, in the slot: handed over, taken, and not good enough.
    assert!(mailbox.send(7) && poll(task.as_mut(), Waker::noop()).is_pending());
    mailbox.leave(8);
    assert!(poll(task.as_mut(), Waker::noop()).is_pending());
    assert!(mailbox.send(101));
    assert_eq!(poll(task.as_mut(), Waker::noop()), Poll::Ready(1010));
    drop(task);
    assert!(mailbox.into_messages().is_empty());
}

#[test]
fn what_was_handed_to_a_filter_that_is_dropped_is_not_filtered() {
    let mailbox = Mailbox::new();
    let mut task = Box::pin(mailbox.receive_source().filter_map(|_: u8| None::<()>).into_future());
    assert!(poll(task.as_mut(), Waker::noop()).is_pending());
    assert!(mailbox.send(7));
    drop(task);
    assert_eq!(mailbox.into_messages(), [7]);
}

/// A source that is always ready, and counts how often it was taken from.
fn endless(taken: &AtomicUsize) -> Waitable<impl Source<Output = usize>> {
    after(Duration::ZERO).map(|()| taken.fetch_add(1, SeqCst))
}

#[test]
fn a_look_at_a_source_that_is_always_ready_ends_if_nothing_passes() {
    let taken = AtomicUsize::new(0);
    let mut nothing = endless(&taken).filter_map(|_| None::<()>);
    assert_eq!(nothing.attempt(), None);
    assert_eq!(taken.load(SeqCst), 32);
    assert!(nothing.by_ref().wait_until(Some(now())).is_err());
    // A task looks again after a first retreat, and then lets others run.
    taken.store(0, SeqCst);
    let (calls, waker) = Calls::new();
    let mut task = Box::pin(nothing.by_ref().into_future());
    for polls in 1..5 {
        assert!(poll(task.as_mut(), &waker).is_pending());
        assert_eq!((taken.load(SeqCst), calls.count()), (polls * 64, polls));
    }
    drop(task);
    // What passes after more than one look is found, alone and as an arm.
    let after_many = |taken| endless(taken).filter_map(|n| (n % 1000 == 999).then_some(n));
    taken.store(0, SeqCst);
    assert_eq!(after_many(&taken).wait(), Ok(999));
    let mailbox = Mailbox::<u8>::new();
    taken.store(0, SeqCst);
    assert_eq!(mailbox.receive_source().or(after_many(&taken)).wait(), Ok(Either::Right(999)));
    assert!(!mailbox.has_waiters());
}

#[test]
fn an_endless_filter_starves_no_other_arm_and_is_cancelled() {
    let (taken, mailbox) = (AtomicUsize::new(0), Mailbox::new());
    let many = if cfg!(miri) { 100 } else { 1000 };
    thread::scope(|t| {
        let sender = t.spawn(|| {
            common::until(|| taken.load(SeqCst) > many);
            mailbox.send(1)
        });
        let nothing = endless(&taken).filter_map(|_| None::<()>);
        assert_eq!(nothing.or(mailbox.receive_source()).wait(), Ok(Either::Right(1)));
        sender.join().unwrap();
    });
    let token = CancelToken::new();
    let nothing = endless(&taken).filter_map(|n| {
        if n > 5 * many {
            token.cancel();
        }
        None::<()>
    });
    assert!(token.run(|| nothing.wait()).is_err());
}

#[test]
fn a_filter_that_panics_has_taken_what_it_was_given() {
    let mailbox = Mailbox::new();
    mailbox.send(1);
    mailbox.send(2);
    let bad = || mailbox.receive_source().filter_map(|n: u8| if n == 1 { panic!("planted") } else { Some(n) });
    assert!(panics(|| bad().wait()));
    assert_eq!(bad().wait(), Ok(2));
    // In a commit, next to another arm.
    let other = Mailbox::<u8>::new();
    let mut task = Box::pin(bad().or(other.receive_source()).into_future());
    assert!(poll(task.as_mut(), Waker::noop()).is_pending());
    mailbox.send(1);
    assert!(panics(|| poll(task.as_mut(), Waker::noop())));
    drop(task);
    assert!(mailbox.into_messages().is_empty() && other.into_messages().is_empty());
}

#[test]
fn a_guard_is_made_at_the_first_look_once_in_a_wait() {
    let (mailbox, made) = (Mailbox::<usize>::new(), Cell::new(0));
    let make = || {
        made.set(made.get() + 1);
        mailbox.receive_source()
    };
    drop(guard(make));
    let token = CancelToken::new();
    token.cancel();
    assert!(token.run(|| guard(make).wait()).is_err());
    assert_eq!(made.get(), 0, "no wait has begun");
    let mut task = Box::pin(guard(make).into_future());
    assert_eq!(made.get(), 0);
    for _ in 0..3 {
        assert!(poll(task.as_mut(), Waker::noop()).is_pending());
        assert_eq!(made.get(), 1);
    }
    mailbox.send(7);
    assert_eq!(poll(task.as_mut(), Waker::noop()), Poll::Ready(7));
    assert_eq!(made.get(), 1);
    // By reference: kept while it has not yielded, and then made anew.
    let mut lent = guard(make);
    assert_eq!(lent.by_ref().or_else(after(Duration::ZERO)).wait(), Ok(Either::Right(())));
    assert_eq!(lent.attempt(), None);
    assert_eq!(made.get(), 2);
    for n in [0, 1] {
        mailbox.send(n);
        assert_eq!(lent.by_ref().wait(), Ok(n));
        assert_eq!(made.get(), 2 + n);
    }
    assert_eq!(mailbox.receive_source().attempt(), None);
}

#[test]
fn a_guard_may_wait_and_is_an_arm() {
    let (first, second) = (Mailbox::new(), Mailbox::new());
    let host = Host::new(Jobs::Keep);
    thread::scope(|t| {
        let waiter = t.spawn(|| {
            host.run(0, |_| {
                let asks = guard(|| {
                    let n = first.receive().unwrap();
                    second.receive_source().map(move |m| (n, m))
                });
                asks.or(after(Duration::MAX)).wait()
            })
        });
        host.until_suspended(1);
        assert!(first.send(1));
        common::until(|| second.has_waiters());
        assert!(second.send(2));
        assert_eq!(waiter.join().unwrap(), Ok(Either::Left((1, 2))));
    });
}

#[test]
fn a_guard_that_panics_has_no_effect_and_may_be_asked_again() {
    let (mailbox, times) = (Mailbox::new(), Cell::new(0));
    mailbox.send(1);
    let mut bad = guard(|| {
        times.set(times.get() + 1);
        assert!(times.get() > 1, "planted");
        mailbox.receive_source()
    });
    assert!(panics(|| bad.by_ref().or_else(mailbox.receive_source()).wait()));
    assert_eq!(bad.wait(), Ok(1));
    assert!(mailbox.into_messages().is_empty());
}

/// A source of so many arms, none of which is ever ready.
struct Wide(usize);

// SAFETY: it registers nothing.
#[allow(unsafe_code)]
unsafe impl Source for Wide {
    type Output = ();
    type Slot = ();

    fn waits_for(&self) -> segue_core::WaitsFor {
        segue_core::WaitsFor::new("nothing")
    }

    fn arms(&self) -> usize {
        self.0
    }

    fn address(&self, _: usize) -> Option<usize> {
        None
    }

    fn attempt(&mut self) -> Option<()> {
        None
    }

    unsafe fn register(&mut self, (): &mut (), _: &segue_core::Trigger, _: usize) -> Result<(), segue_core::Retreat> {
        Ok(())
    }

    unsafe fn withdraw(&mut self, (): &mut ()) {}

    unsafe fn commit(&mut self, (): &mut (), _: usize) -> Option<()> {
        None
    }

    unsafe fn give_back(&mut self, (): &mut (), _: usize) {}
}

#[test]
fn a_guard_can_not_bring_a_choice_beyond_the_arms_of_a_trigger() {
    let half = MAX_ARM / 2;
    assert!(panics(|| Waitable::new(Wide(half)).or(Wide(half + 1))));
    let wide = |arms| guard(move || Wide(arms));
    let mailbox = Mailbox::<u8>::new();
    let too_many = mailbox.receive_source().or(wide(half).or(wide(half)));
    assert!(panics(|| too_many.wait()), "before anything is registered");
    assert!(!mailbox.has_waiters());
    let mut task = Box::pin(wide(half).or(wide(half - 1)).or(mailbox.receive_source()).into_future());
    assert!(poll(task.as_mut(), Waker::noop()).is_pending());
    mailbox.send(1);
    assert_eq!(poll(task.as_mut(), Waker::noop()), Poll::Ready(Either::Right(1)));
}

/// What a wait has looked at is not what it registers, if the one before did not pass.
#[test]
fn a_filtered_guard_registers_what_it_has_looked_at_last() {
    for many in [1, 100] {
        let (words, numbers) = (Mailbox::<&str>::new(), Mailbox::<u64>::new());
        let made = Cell::new(0);
        // In turns a source of another type, with another slot, in a box.
        let make = || -> Waitable<BoxSource<'_, Option<u64>>> {
            made.set(made.get() + 1);
            match made.get() % (many + 1) {
                0 => numbers.receive_source().map(Some).boxed(),
                1 => after(Duration::ZERO).map(|()| None).boxed(),
                _ => words.receive_source().or(after(Duration::ZERO)).map(|_| None).boxed(),
            }
        };
        let some = guard(make).filter_map(|number| number);
        let mut task = Box::pin(some.or(after(Duration::MAX)).into_future());
        let mut looks = 0;
        while !numbers.has_waiters() {
            assert!(poll(task.as_mut(), Waker::noop()).is_pending());
            looks += 1;
            assert!(looks < 20);
        }
        assert!(numbers.send(7));
        assert_eq!(poll(task.as_mut(), Waker::noop()), Poll::Ready(Either::Left(7)));
        assert!(!words.has_waiters() && !numbers.has_waiters());
    }
}
