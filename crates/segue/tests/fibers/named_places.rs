//! A report of a deadlock names the line that waits, whatever that waits in: each row of these
//! tables is stuck in a public function, and its report names this row and no line of ours.
#![cfg(feature = "sched")]

#[path = "../common/places.rs"]
mod places;

use places::{check, misplaced, never, row};
use segue::channel::{self, broadcast, oneshot, watch};
use segue::concurrent::{Retry, at_most, first_ok, join_all, race};
use segue::sync::{Barrier, Condvar, Latch, Lazy, MVar, Mutex, Notify, Once, OnceCell, Promise};
use segue::sync::{RwLock, Semaphore, WaitGroup, promise};
use segue::{Builder, CancelToken, Cancelled, scope, shield, spawn};
use std::time::Duration;

#[test]
fn a_place_outside_of_a_row_is_found() {
    let elsewhere = || _ = never();
    assert!(matches!(&misplaced(&[row(elsewhere)])[..], [one] if one.contains(": deadlock (seed 1)")));
}

#[test]
fn locks_name_who_waits() {
    check(&[
        row(|| {
            let mutex = Mutex::new(());
            let _held = mutex.lock();
            _ = mutex.lock();
        }),
        row(|| {
            let mutex = Mutex::new(());
            let _held = mutex.lock();
            _ = mutex.lock_source().wait();
        }),
        row(|| {
            let lock = RwLock::new(());
            let _held = lock.write();
            _ = lock.read();
        }),
        row(|| {
            let lock = RwLock::new(());
            let _held = lock.read();
            _ = lock.write();
        }),
        row(|| _ = Semaphore::new(0).acquire()),
        row(|| _ = Semaphore::new(1).acquire_many(2)),
        row(|| {
            let (mutex, never) = (Mutex::new(()), Condvar::new());
            _ = never.wait(mutex.lock().unwrap());
        }),
        row(|| {
            let (mutex, never) = (Mutex::new(()), Condvar::new());
            _ = never.wait_while(mutex.lock().unwrap(), |()| true);
        }),
        row(|| {
            let (mutex, never) = (Mutex::new(()), Condvar::new());
            _ = never.wait_source(mutex.lock().unwrap()).wait();
        }),
        row(|| _ = Barrier::new(2).wait()),
        row(|| _ = Latch::new(1).wait()),
        row(|| {
            let group = WaitGroup::new();
            group.add(1);
            _ = group.wait();
        }),
        row(|| _ = Notify::new().wait()),
    ]);
}

#[test]
fn cells_name_who_waits() {
    check(&[
        row(|| _ = MVar::<u32>::empty().take()),
        row(|| _ = MVar::new(1).put(2)),
        row(|| _ = MVar::<u32>::empty().read()),
        row(|| _ = MVar::empty().swap(1)),
        row(|| _ = MVar::<u32>::empty().borrow()),
        row(|| _ = MVar::<u32>::empty().modify(|_| ())),
        row(|| {
            let (_resolver, promise) = promise::<u32>();
            _ = promise.wait().copied();
        }),
        row(|| {
            let (_resolver, promise) = promise::<u32>();
            _ = Promise::take(promise);
        }),
        row(|| {
            let (resolver, _promise) = promise::<u32>();
            _ = resolver.closed_source().wait();
        }),
        row(|| _ = OnceCell::<u32>::new().wait()),
        row(|| {
            let cell = OnceCell::<u32>::new();
            let _held = cell.entry();
            _ = cell.entry();
        }),
        row(|| {
            let cell = OnceCell::new();
            scope(|s| (0..2).for_each(|_| drop(s.spawn(|| _ = cell.get_or_init(|| drop(never()))))));
        }),
        row(|| {
            let cell = OnceCell::new();
            scope(|s| (0..2).for_each(|_| drop(s.spawn(|| _ = cell.get_or_try_init(|| never())))));
        }),
        row(|| {
            let cell = OnceCell::new();
            let _held = cell.entry();
            _ = cell.set(());
        }),
        row(|| {
            let once = Once::new();
            scope(|s| (0..2).for_each(|_| drop(s.spawn(|| once.call_once(|| drop(never()))))));
        }),
        row(|| _ = Once::new().wait()),
        row(|| {
            let lazy = Lazy::new(|| drop(never()));
            scope(|s| (0..2).for_each(|_| drop(s.spawn(|| _ = lazy.force()))));
        }),
        row(|| {
            let lazy = Lazy::new(|| never());
            scope(|s| (0..2).for_each(|_| drop(s.spawn(|| _ = lazy.force_fallible()))));
        }),
    ]);
}

#[test]
fn channels_name_who_waits() {
    check(&[
        row(|| {
            let (_sender, receiver) = channel::unbounded::<u32>();
            _ = receiver.recv();
        }),
        row(|| {
            let (_sender, receiver) = channel::unbounded::<u32>();
            for _ in &receiver {}
        }),
        row(|| {
            let (_sender, receiver) = channel::unbounded::<u32>();
            for _ in receiver {}
        }),
        row(|| {
            let (_sender, receiver) = channel::unbounded::<u32>();
            assert_eq!(receiver.iter().map(u64::from).sum::<u64>(), 0);
        }),
        row(|| {
            let (_sender, receiver) = channel::unbounded::<u32>();
            _ = receiver.into_exclusive().unwrap().recv();
        }),
        row(|| {
            let (_sender, receiver) = channel::unbounded::<u32>();
            for _ in receiver.into_exclusive().unwrap() {}
        }),
        row(|| {
            let (sender, _receiver) = channel::rendezvous();
            _ = sender.send(1);
        }),
        row(|| {
            let (sender, _receiver) = channel::bounded::<u32>(1);
            let _room = sender.reserve();
            _ = sender.reserve();
        }),
        row(|| {
            let (sender, _receiver) = channel::bounded::<u32>(1);
            _ = sender.closed_source().wait();
        }),
        row(|| {
            let (_sender, receiver) = oneshot::channel::<u32>();
            _ = receiver.recv();
        }),
        row(|| {
            let (_sender, mut receiver) = broadcast::channel::<u32>(1);
            _ = receiver.recv();
        }),
        row(|| {
            let (_sender, mut receiver) = broadcast::channel::<u32>(1);
            for _ in receiver.iter() {}
        }),
        row(|| {
            let (_sender, mut receiver) = broadcast::channel::<u32>(1);
            assert_eq!(receiver.iter().flatten().count(), 0);
        }),
        row(|| {
            let (sender, _receiver) = broadcast::lossless(1);
            sender.send(1).unwrap();
            _ = sender.send(2);
        }),
        row(|| {
            let (_sender, mut receiver) = watch::channel(1);
            _ = receiver.changed();
        }),
        row(|| {
            let (_sender, mut receiver) = watch::channel(1);
            _ = receiver.wait_for(|n| *n == 2);
        }),
    ]);
}

#[test]
fn fibers_and_choices_name_who_waits() {
    check(&[
        row(|| _ = spawn(|| never()).join()),
        row(|| _ = spawn(|| never()).join_source().wait()),
        row(|| _ = Builder::new().cancellable().spawn(|| never()).join()),
        row(|| {
            // It is told at once to end, and waits for another one all the same.
            let other = spawn(|| never());
            let deaf = Builder::new().cancellable().spawn(move || shield(|| drop(other.join())));
            _ = deaf.cancel_and_join();
        }),
        row(|| scope(|s| drop(s.spawn(|| never())))),
        row(|| _ = segue::try_scope(|s| Ok::<_, Cancelled>(s.spawn_try(|| never()).is_finished()))),
        row(|| _ = segue::sleep(Duration::MAX)),
        row(|| _ = segue::timeout(Duration::MAX, || never())),
        row(|| _ = segue::any_of([segue::after(Duration::MAX), segue::at(None)]).wait()),
        row(|| {
            _ = segue::select! {
                () = segue::at(None) => (),
                () = segue::after(Duration::MAX) => (),
            };
        }),
        row(|| _ = segue::source::merge([segue::at(None)]).next()),
        row(|| _ = segue::interval(Duration::MAX).tick().and_then(|_| never())),
        row(|| _ = segue::wait_future(std::future::pending::<()>())),
        row(|| _ = segue::source::future_source(std::future::pending::<()>()).wait()),
        row(|| _ = segue::source::guard(|| segue::at(None)).wait()),
        row(|| _ = segue::source::with_nack(|_| segue::at(None)).wait()),
        row(|| _ = CancelToken::new().cancelled_source().wait()),
        row(|| _ = segue::cancel::finishing_source().wait()),
    ]);
}

#[test]
fn closures_and_items_at_a_time_name_who_waits() {
    check(&[
        row(|| _ = join_all([|| never(), || never()])),
        row(|| _ = race([|| never(), || never()])),
        row(|| _ = race(Vec::<fn()>::new())),
        row(|| _ = first_ok([|| never(), || never()])),
        row(|| _ = at_most(2).map([1, 2, 3], |_| never())),
        row(|| _ = at_most(2).any([1, 2, 3], |_| never().is_ok())),
        row(|| {
            // One has the turn, and waits for an item; the other one waits for its turn.
            let (sender, receiver) = channel::unbounded();
            sender.send(1).unwrap();
            _ = at_most(2).for_each(&receiver, |_| ());
        }),
        row(|| _ = Retry::new(2).run(|_| never())),
    ]);
}
