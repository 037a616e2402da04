//! Handles, guards, ends and futures that are forgotten inside of a scope: the scope ends when its
//! fibers have, what these borrow is theirs until then, and nothing reaches what is gone.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{Task, everywhere};
use segue::channel::{self, broadcast, oneshot, watch};
use segue::effect::generator;
use segue::source::{merge, with_nack};
use segue::sync::{
    Barrier, Condvar, Entry, Latch, MVar, Mutex, Notify, OnceCell, RwLock, Semaphore, WaitGroup, promise,
};
use segue::{
    Builder, CancelToken, Cancelled, Scope, after, interval, scope, shield, sleep, timeout, try_scope, yield_now,
};
use std::mem::forget;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// What fibers of a scope borrow, and fill in while their handles are forgotten.
#[derive(Default)]
struct Lent {
    written: AtomicUsize,
}

impl Lent {
    /// A closure that has not ended when its handle goes, with what it borrows.
    fn writes(&self) -> impl FnOnce() -> Vec<usize> + Send {
        || {
            let _ = shield(yield_now);
            vec![self.written.fetch_add(1, SeqCst)]
        }
    }
}

/// Runs `body` in a scope that has to end, when all fibers of which it says the number have
/// written.
fn in_scope(body: impl for<'s, 'e> Fn(&'s Scope<'s, 'e>, &'s Lent) -> usize + Send + Sync) {
    everywhere(|| {
        let lent = Lent::default();
        let number = scope(|s| body(s, &lent));
        assert_eq!(lent.written.into_inner(), number, "the scope has not waited for what borrows");
    });
}

fn polled<'a, T>(future: impl IntoFuture<Output = T, IntoFuture: Send + 'a>) -> Task<'a, T> {
    let mut task = Task::new(future);
    drop(task.poll());
    task
}

#[test]
fn handles_of_fibers_and_tasks() {
    in_scope(|s, lent| {
        forget(s.spawn(lent.writes()));
        forget(Builder::new().cancellable().within(s).spawn(lent.writes()));
        forget(Builder::new().after(Duration::from_micros(1)).within(s).spawn(lent.writes()));
        forget(s.spawn_task(async { lent.writes()() }));
        forget(s.spawn_local(lent.writes()));
        forget(s.spawn(lent.writes()).join_source());
        // One that waits for the end, registered with it.
        forget(polled(s.spawn(lent.writes())));
        forget(polled(Builder::new().cancellable().within(s).spawn(lent.writes()).join_source()));
        // The error of a join that was cancelled has the handle.
        let late = s.spawn(lent.writes());
        let token = CancelToken::new();
        token.cancel();
        forget(token.run(|| late.join()));
        forget((s.token(), token));
        9
    });
    in_scope(|s, lent| {
        let failed = try_scope(|inner| {
            forget(inner.spawn_try(|| Err::<(), _>("out of ink")));
            forget(Builder::new().within(inner).spawn_try(|| Ok::<_, Cancelled>(lent.writes()())));
            Ok::<_, Cancelled>(())
        });
        assert!(failed.is_err());
        // In the failed scope it may have been cancelled before it began.
        let number = lent.written.load(SeqCst);
        forget(failed);
        forget(s.spawn(lent.writes()));
        number + 1
    });
}

#[test]
fn a_daemon_s_handle_and_what_is_to_begin_later() {
    everywhere(|| {
        let ran = AtomicUsize::new(0);
        scope(|s| {
            let (began, begins) = promise();
            let ran = &ran;
            forget(s.spawn_daemon(move || {
                began.fill(()).unwrap();
                assert!(after(Duration::MAX).wait().is_err());
                ran.fetch_add(1, SeqCst);
            }));
            begins.wait().unwrap();
            let late = Builder::new().after(HOUR).within(s).spawn(|| ran.fetch_add(100, SeqCst));
            late.cancel();
            forget(late);
        });
        assert_eq!(ran.into_inner(), 1);
    });
}

/// A structure, an operation on it that waits, and what has to hold for others afterwards.
///
/// The waiter stays in its queue, in memory that is leaked with it; the structure goes.
#[test]
fn futures_that_wait_in_a_structure_which_then_goes() {
    in_scope(|s, lent| {
        // All of them are leaked with what they have brought, and none with what it has lent.
        let (mutex, rwlock, condvar) = (Mutex::new(1), RwLock::new(1), Condvar::new());
        let (full, empty, permits) = (MVar::new(1), MVar::<u32>::empty(), Semaphore::new(1));
        let (barrier, latch, group, notify) = (Barrier::new(2), Latch::new(1), WaitGroup::new(), Notify::new());
        let cell = OnceCell::<u32>::new();
        let (resolver, mut promised) = promise::<u32>();
        let (sender, inbox) = channel::bounded::<u32>(1);
        let (watched, mut watches) = watch::channel(1);
        let (tells, mut hears) = broadcast::channel::<u32>(1);
        let (answers, mut answer) = oneshot::channel::<u32>();
        let token = CancelToken::new();

        forget(mutex.try_lock());
        forget(rwlock.try_write());
        forget(permits.try_acquire());
        forget(cell.try_entry());
        sender.try_send(1).unwrap();
        forget(Task::waiting(mutex.lock_source()));
        forget(Task::waiting(rwlock.read_source()));
        forget(Task::waiting(rwlock.write_source()));
        forget(Task::waiting(permits.acquire_source()));
        forget(Task::waiting(cell.wait_source()));
        forget(Task::waiting(cell.entry_source()));
        forget(Task::waiting(full.put_source(2)));
        forget(Task::waiting(empty.take_source()));
        forget(Task::waiting(empty.borrow_source()));
        forget(Task::waiting(barrier.wait_source()));
        forget(Task::waiting(latch.wait_source()));
        forget(Task::waiting(notify.wait_source()));
        forget(group.hold());
        forget(Task::waiting(group.wait_source()));
        forget(Task::waiting(sender.send_source(2)));
        forget(Task::waiting(sender.reserve_source()));
        forget(Task::waiting(sender.closed_source()));
        forget(Task::waiting(resolver.closed_source()));
        forget(Task::waiting(promised.wait_source()));
        forget(Task::waiting(promised.take_source()));
        forget(Task::waiting(answers.closed_source()));
        forget(Task::waiting(answer.recv_source()));
        forget(Task::waiting(watches.changed_source()));
        forget(Task::waiting(hears.recv_source()));
        forget(Task::waiting(token.cancelled_source()));
        forget(Task::waiting(after(HOUR)));
        forget(Task::waiting(interval(HOUR).tick_source()));
        forget(Task::waiting(with_nack(|_| latch.wait_source())));
        let other = Mutex::new(1);
        let held = other.lock().unwrap();
        forget(Task::waiting(condvar.wait_source(held)));
        // And in several at once.
        forget(Task::waiting(latch.wait_source().or(empty.take_source()).or(after(HOUR))));
        // Those who come after them are served, or go, with those in front still there.
        resolver.fill(1).unwrap();
        assert!(barrier.wait_source().attempt().is_some(), "the one that is forgotten has arrived");
        latch.count_down(1);
        token.cancel();
        condvar.notify_all();
        watched.set(2);
        tells.send(1).unwrap();
        drop((sender, inbox, answers, answer));
        forget(s.spawn(lent.writes()));
        1
    });
}

#[test]
fn guards_withhold_what_they_guard_and_nothing_else() {
    everywhere(|| {
        let (mutex, rwlock, place, permits) = (Mutex::new(1), RwLock::new(1), MVar::new(1), Semaphore::new(2));
        let cell = OnceCell::<u32>::new();
        scope(|s| {
            s.spawn(|| {
                forget(mutex.lock().unwrap());
                forget(rwlock.read().unwrap());
                forget(place.borrow().unwrap());
                forget(permits.acquire().unwrap());
                let Entry::Empty(initializer) = cell.entry().unwrap() else { unreachable!("it is empty") };
                forget(initializer);
            })
            .join()
            .unwrap();
            let late = |waits: &dyn Fn() -> bool| timeout(Duration::from_micros(10), waits);
            assert!(late(&|| mutex.lock().is_err()) && late(&|| rwlock.write().is_err()));
            assert!(late(&|| place.take().is_err()) && late(&|| cell.entry().is_err()));
            assert!(rwlock.read().is_ok() && permits.acquire().is_ok());
            assert!(late(&|| permits.acquire_many(2).is_err()));
        });
        // By value they are had all the same.
        assert_eq!((mutex.into_inner(), rwlock.into_inner()), (1, 1));
    });
}

#[test]
fn ends_of_channels_keep_the_other_end_open() {
    everywhere(|| {
        let value = Arc::new(());
        let weak: Weak<()> = scope(|s| {
            let (sender, receiver) = channel::unbounded();
            sender.send(Arc::clone(&value)).unwrap();
            forget(s.spawn(move || forget(sender)));
            assert!(receiver.recv().is_ok());
            let late = timeout(Duration::from_micros(10), || receiver.recv());
            assert!(matches!(late, Err(segue::WaitError::Cancelled(_))), "it is not closed");
            let (sender, receiver) = channel::bounded(2);
            let exclusive = receiver.into_exclusive().unwrap();
            forget((exclusive, sender.reserve().unwrap()));
            sender.send(Arc::clone(&value)).unwrap();
            let (resolver, promised) = promise();
            resolver.on_close(|| unreachable!("it never is dropped"));
            forget(promised);
            forget(resolver.fill(Arc::clone(&value)));
            let (resolver, promised) = promise::<Arc<()>>();
            forget(resolver);
            assert!(timeout(Duration::from_micros(10), || promised.take()).is_err());
            Arc::downgrade(&value)
        });
        drop(value);
        assert_eq!(weak.strong_count(), 2, "in the channel and in the promise whose ends were forgotten");
    });
}

#[test]
fn merges_and_generators_with_what_they_are_in_the_middle_of() {
    in_scope(|s, lent| {
        let (sender, receiver) = channel::bounded::<u32>(1);
        let mut merged = merge([receiver.recv_source().boxed(), receiver.recv_source().boxed()]);
        forget(Task::waiting(merged.next_source()));
        forget(merged);
        sender.send(1).unwrap();
        if segue::fiber::current().is_some() {
            let mut numbers = generator(|yielder| {
                // It is never continued, and so never lets go of what it borrows.
                (0..9).for_each(|n| yielder.give(n));
            });
            assert_eq!(numbers.next(), Some(0));
            forget(numbers);
        }
        let _ = sleep(Duration::from_micros(1));
        forget(s.spawn(lent.writes()));
        1
    });
}
