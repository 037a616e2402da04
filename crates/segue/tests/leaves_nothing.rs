//! Waiting allocates nothing, and waiters that leave, however many, leave nothing behind in a
//! structure that lives on.
//!
//! Everything that is measured happens on the measuring thread, so that what others allocate
//! meanwhile does not count.
#![cfg(feature = "sched")]
#![allow(unsafe_code)] // An allocator that counts.

#[path = "common/meet.rs"]
mod meet;

use meet::poll_once;
use segue::core::{Source, with_current};
use segue::incremental::{Fed, Feed, push};
use segue::sync::{
    Barrier, Condvar, Entry, Latch, MVar, Mutex, Notify, OnceCell, RwLock, Semaphore, WaitGroup, promise,
};
use segue::testing::Sim;
use segue::{CancelToken, Waitable, after, channel, scope, timeout, yield_now};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Read;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::time::Duration;

struct Counts;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

/// Of all threads.
static ALL_LIVE: AtomicIsize = AtomicIsize::new(0);

fn note(allocations: usize, bytes: isize) {
    ALL_LIVE.fetch_add(bytes, SeqCst);
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + allocations));
    let _ = LIVE.try_with(|live| live.set(live.get() + bytes));
}

// SAFETY: passed on to the system's.
unsafe impl GlobalAlloc for Counts {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as isize);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        note(0, -(layout.size() as isize));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(1, size as isize - layout.size() as isize);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTS: Counts = Counts;

fn allocations() -> usize {
    ALLOCATIONS.get()
}

fn live() -> isize {
    LIVE.get()
}

/// One test at a time: they count.
fn alone() -> impl Sized {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// In all; a debug build takes its time.
const WAITERS: usize = if cfg!(debug_assertions) { 50_000 } else { 1_000_000 };

/// What is done with each structure in turn: it is given sources that are not ready, and never will
/// be.
trait Visit {
    fn visit<S: Source>(&mut self, name: &str, make: impl Fn() -> Waitable<S> + Sync)
    where
        S::Output: Send;
}

fn every_structure(visit: &mut impl Visit) {
    let mutex = Mutex::new(0);
    let guard = mutex.try_lock().unwrap();
    visit.visit("Mutex", || mutex.lock_source());
    drop(guard);
    let place = MVar::empty();
    visit.visit("MVar, take", || place.take_source());
    visit.visit("MVar, borrow", || place.borrow_source());
    place.try_put(0).unwrap();
    visit.visit("MVar, put", || place.put_source(1));
    assert_eq!((place.try_take(), place.try_take()), (Some(0), None));
    let semaphore = Semaphore::new(1);
    visit.visit("Semaphore", || semaphore.acquire_many_source(2));
    assert!(semaphore.try_acquire().is_some());
    let lock = RwLock::new(0);
    let writer = lock.try_write().unwrap();
    visit.visit("RwLock, read", || lock.read_source());
    visit.visit("RwLock, write", || lock.write_source());
    drop(writer);
    let reader = lock.try_read().unwrap();
    visit.visit("RwLock, write against a reader", || lock.write_source());
    assert!(lock.try_read().is_some());
    drop(reader);
    let (resolver, promised) = promise::<u8>();
    visit.visit("Promise", || promised.wait_source());
    resolver.fill(1).unwrap();
    assert_eq!(promised.try_get(), Some(Ok(&1)));
    let notify = Notify::new();
    visit.visit("Notify", || notify.wait_source());
    notify.notify_one();
    assert!(notify.try_wait());
    let latch = Latch::new(1);
    visit.visit("Latch", || latch.wait_source());
    latch.count_down(1);
    let group = WaitGroup::new();
    group.add(1);
    visit.visit("WaitGroup", || group.wait_source());
    group.done();
    let cell = OnceCell::<u8>::new();
    visit.visit("OnceCell, wait", || cell.wait_source());
    let Some(Entry::Empty(initializer)) = cell.try_entry() else { unreachable!("it is empty") };
    visit.visit("OnceCell, entry", || cell.entry_source());
    visit.visit("OnceCell, set", || cell.set_source(1));
    initializer.fill(2);
    let barrier = Barrier::new(2);
    visit.visit("Barrier", || barrier.wait_source());
    let (condition, mutex) = (Condvar::new(), Mutex::new(0));
    visit.visit("Condvar", || condition.wait_source(mutex.try_lock().unwrap()).map(drop));
    assert!(mutex.try_lock().is_some());
    let (sender, receiver) = channel::bounded(1);
    visit.visit("Receiver", || receiver.recv_source());
    visit.visit("Sender, closed", || sender.closed_source());
    sender.try_send(0).unwrap();
    visit.visit("Sender", || sender.send_source(1));
    visit.visit("Sender, reserve", || sender.reserve_source());
    // One source lasts, and many values come and go beside it.
    let lasting = sender.closed_source();
    let mut lasts = pin!(lasting.into_future());
    assert!(lasts.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    visit.visit("a choice of channels", || sender.send_source(1).or(sender.closed_source()));
    assert_eq!((receiver.try_recv(), receiver.len()), (Ok(0), 0));
    let (sender, receiver) = channel::rendezvous();
    visit.visit("Sender, rendezvous", || sender.send_source(1));
    assert!(receiver.try_recv().is_err());
    let never = MVar::<u8>::empty();
    visit.visit("a choice", || place.take_source().or(semaphore.acquire_many_source(2)).or(never.take_source()));
    visit.visit("a point in time", || after(Duration::from_secs(3600)));
    visit.visit("a choice with a point in time", || place.take_source().or(after(Duration::from_secs(3600))));
}

/// Allocations, and bytes that stay.
fn cost_of_dropped_tasks<S: Source>(make: impl Fn() -> Waitable<S>) -> (usize, isize) {
    let mut task = Context::from_waker(Waker::noop());
    let mut once = || assert!(pin!(make().into_future()).poll(&mut task).is_pending());
    (0..100).for_each(|_| once());
    let before = (allocations(), live());
    (0..WAITERS).for_each(|_| once());
    (allocations() - before.0, live() - before.1)
}

#[test]
fn a_waiter_that_leaves_something_is_found_out() {
    let _alone = alone();
    let place = MVar::<u8>::empty();
    let leaks = || {
        std::mem::forget(Box::new(0_u64));
        place.take_source()
    };
    assert_eq!(cost_of_dropped_tasks(leaks), (WAITERS, 8 * WAITERS as isize));
    let allocates = || {
        drop(Box::new(0_u64));
        place.take_source()
    };
    assert_eq!(cost_of_dropped_tasks(allocates), (WAITERS, 0));
}

#[test]
fn a_million_dropped_tasks_allocate_nothing_and_leave_nothing() {
    let _alone = alone();
    struct Drops;
    impl Visit for Drops {
        fn visit<S: Source>(&mut self, name: &str, make: impl Fn() -> Waitable<S> + Sync) {
            assert_eq!(cost_of_dropped_tasks(make), (0, 0), "{name}");
        }
    }
    every_structure(&mut Drops);
}

/// Of machines that are dropped at each stage: not fed, done, and in the middle, with a body that
/// returns the error of its read, or reads on.
#[test]
fn a_million_machines_leave_no_stack_and_no_byte() {
    let _alone = alone();
    let once = |number: usize| {
        let mut machine = push(move |input: &mut Feed| {
            let mut kept = vec![0; 100];
            let mut read = input.read(&mut kept);
            for _ in 0..if number % 4 == 3 { usize::MAX } else { 0 } {
                read = input.read(&mut kept);
            }
            (kept, read.is_ok())
        });
        match number % 4 {
            0 => {}
            1 => assert!(matches!(machine.feed(b"some"), Fed::Done { value: (_, true), .. })),
            _ => assert!(matches!(machine.feed(b""), Fed::NeedMore)),
        }
    };
    // The thread's pool of stacks comes to its size.
    (0..1000).for_each(once);
    let (before, stacks) = (live(), segue::sched::fiber::leaked_stacks());
    (0..WAITERS).for_each(once);
    assert_eq!((live() - before, segue::sched::fiber::leaked_stacks()), (0, stacks));
}

#[test]
fn thousands_of_tasks_that_wait_at_once_and_are_dropped_in_any_order_leave_nothing() {
    let _alone = alone();
    struct DropsMany;
    impl Visit for DropsMany {
        fn visit<S: Source>(&mut self, name: &str, make: impl Fn() -> Waitable<S> + Sync) {
            if name == "Barrier" || name == "Condvar" {
                return; // Two meet at this barrier, and the mutex of the condition is one.
            }
            let many = || {
                let mut tasks: Vec<_> = (0..2000).map(|_| meet::task(make())).collect();
                assert!(tasks.iter_mut().all(|task| poll_once(task).is_none()), "{name}");
                for n in 0..500 {
                    drop(tasks.swap_remove(n * 7 % tasks.len()));
                }
                while let Some(last) = tasks.pop() {
                    drop(last);
                }
            };
            let more = || {
                let before = live();
                many();
                live() - before
            };
            // A clock grows where it was not used before, and gets there as time passes.
            let rounds = [(); 10].map(|()| more());
            assert!(rounds.contains(&0), "{name}: {rounds:?}");
        }
    }
    every_structure(&mut DropsMany);
}

/// Whatever comes and goes, the memory of a clock stays what it was when most of it was used.
#[test]
fn ten_million_withdrawn_timers_take_no_more_memory() {
    let _alone = alone();
    let rounds = WAITERS / 100;
    Sim::new(1)
        .run(|| {
            let begin = segue::core::now();
            let waiting = |n: usize| {
                let after = Duration::from_nanos(1 + (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 36));
                let mut task = meet::task(segue::core::at(begin.checked_add(after)));
                // Now and then it has to let others run first.
                assert!(poll_once(&mut task).is_none() && poll_once(&mut task).is_none());
                task
            };
            // A thousand at a time.
            let mut all: Vec<_> = (0..1000).map(waiting).collect();
            // Their neighbours change, so that the memory is used in ever new ways.
            let mut round = |round: usize| {
                for n in 0..1000 {
                    let new = waiting(round * 1000 + n);
                    all[(round * 7919 + n * 31) % 1000] = new;
                    if n % 100 == 0 {
                        // So that the wheels are there which lead to the first one.
                        let next = with_current(|fiber| fiber.scheduler().timers().until_next());
                        assert!(next.is_some());
                    }
                }
            };
            (0..100).for_each(&mut round);
            let before = live();
            (100..100 + rounds).for_each(&mut round);
            let more = live() - before;
            assert!(more < 10_000, "{more} bytes for {} timers", rounds * 1000);
        })
        .unwrap();
}

/// A burst of so many numbers, and what may be left of its memory.
const BURST: usize = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
const LITTLE: isize = 40_000;

/// The memory of two bursts, as they ebb.
fn ebbs(name: &str, send: impl Fn(usize), mut receive: impl FnMut() -> usize) {
    let before = live();
    for burst in 1..=2 {
        (0..BURST).for_each(&send);
        assert!(live() - before + LITTLE >= (BURST * 8) as isize, "{name}: the values are there");
        for number in 0..BURST {
            assert_eq!(receive(), number, "{name}");
            if number == BURST / 10 * 9 {
                let (more, left) = (live() - before, (BURST / 10 * 8) as isize);
                assert!(more < left + LITTLE, "{name}, burst {burst}: {more} bytes for a tenth of it");
            }
        }
        let more = live() - before;
        assert!(more < LITTLE, "{name}, burst {burst}: {more} bytes");
    }
}

#[test]
fn a_channel_gives_back_what_a_burst_has_taken_as_it_ebbs() {
    let _alone = alone();
    for (name, (sender, receiver)) in [
        ("unbounded", channel::unbounded()),
        ("bounded", channel::bounded(BURST)),
        ("large", channel::bounded(1 << 30)),
    ] {
        ebbs(name, |n| sender.try_send(n).unwrap(), || receiver.try_recv().unwrap());
        // As a receiver that puts back what it has taken.
        let mut exclusive = receiver.into_exclusive().unwrap();
        ebbs(name, |n| sender.try_send(n).unwrap(), || exclusive.recv().unwrap());
        (0..BURST).for_each(|n| sender.try_send(n).unwrap());
        assert_eq!(exclusive.try_recv(), Ok(0));
        let receiver = exclusive.into_shared();
        assert!(receiver.try_iter().eq(1..BURST), "{name}");
        ebbs(name, |n| sender.try_send(n).unwrap(), || receiver.recv().unwrap());
    }
}

/// A policy by whose name a failure is found, and how a worker gets it.
type Runs = (&'static str, fn(&(dyn Fn() + Sync)));

#[test]
fn a_worker_gives_back_what_a_burst_of_fibers_has_taken() {
    let _alone = alone();
    use segue::sched::{ByPriority, Fair, Fifo, Hierarchical, Lifo, Runtime, Stealing};
    const FIBERS: usize = 30_000;
    fn one() -> Runtime {
        Runtime::new().workers(1)
    }
    let policies: [Runs; 6] = [
        ("stealing", |f| one().run_with(Stealing::default, f).unwrap()),
        ("fifo", |f| one().run_with(Fifo::default, f).unwrap()),
        ("lifo", |f| one().run_with(Lifo::default, f).unwrap()),
        ("priority", |f| one().run_with(ByPriority::default, f).unwrap()),
        ("fair", |f| one().run_with(Fair::new, f).unwrap()),
        ("hierarchical", |f| one().run_with(|| Hierarchical::new().child(1, Fifo::default()), f).unwrap()),
    ];
    for (name, run) in policies {
        run(&|| {
            let burst = |fibers: usize| {
                scope(|s| (0..fibers).for_each(|_| _ = s.spawn(|| yield_now().unwrap())));
                // Nothing is ready, and the worker looks for something.
                segue::sleep(Duration::from_millis(1)).unwrap();
            };
            // So many of what fibers are made of a thread keeps for the next ones.
            burst(2000);
            let before = live();
            for _ in 0..2 {
                burst(FIBERS);
                let more = live() - before;
                // The arena has the numbers of the stacks that there were.
                assert!(more < LITTLE + 4 * 2 * FIBERS as isize, "{name}: {more} bytes");
            }
        });
    }
}

/// Waits in batches of fibers that are cancelled together.
struct CancelsFibers;

impl Visit for CancelsFibers {
    fn visit<S: Source>(&mut self, name: &str, make: impl Fn() -> Waitable<S> + Sync)
    where
        S::Output: Send,
    {
        let most = match name {
            "Barrier" | "Condvar" => 1,
            _ => 100,
        };
        let cancelled = AtomicUsize::new(0);
        let batch = || {
            scope(|s| {
                for _ in 0..most {
                    s.spawn(|| {
                        assert!(make().wait().is_err(), "{name}");
                        cancelled.fetch_add(1, SeqCst);
                    });
                }
                // Most of them wait by now, the others are cancelled before that.
                for _ in 0..most {
                    yield_now().unwrap();
                }
                s.cancel();
            });
            // And by time.
            assert!(timeout(Duration::from_micros(1), || make().wait()).is_err());
        };
        (0..10).for_each(|_| batch());
        let before = live();
        (0..WAITERS / 2500).for_each(|_| batch());
        // A worker may have kept some more memory for the next fibers by now; less than a byte for
        // each of two thousand waiters.
        let more = live() - before;
        assert!(more < 1000, "{name}: {more} bytes");
        assert!(cancelled.into_inner() > 0);
    }
}

#[test]
fn fibers_that_are_cancelled_in_batches_leave_nothing() {
    let _alone = alone();
    segue::sched::Runtime::new().workers(1).run(|| every_structure(&mut CancelsFibers)).unwrap();
    Sim::new(1).run(|| every_structure(&mut CancelsFibers)).unwrap();
}

#[test]
fn threads_that_are_cancelled_leave_nothing() {
    let _alone = alone();
    struct CancelsThreads;
    impl Visit for CancelsThreads {
        fn visit<S: Source>(&mut self, name: &str, make: impl Fn() -> Waitable<S> + Sync) {
            let batch = |count: usize| {
                let (tokens, next) = std::sync::mpsc::channel::<CancelToken>();
                std::thread::scope(|t| {
                    t.spawn(|| {
                        for _ in 0..count {
                            let token = CancelToken::new();
                            tokens.send(token.clone()).unwrap();
                            assert!(token.run(|| make().wait()).is_err(), "{name}");
                        }
                        drop(tokens);
                    });
                    t.spawn(|| next.into_iter().for_each(|token| token.cancel()));
                });
            };
            batch(10);
            let before = ALL_LIVE.load(SeqCst);
            batch(1000);
            // The harness may allocate meanwhile, but a thousand waiters that left a node each
            // would leave more.
            let more = ALL_LIVE.load(SeqCst) - before;
            assert!(more < 8192, "{name}: {more} bytes");
        }
    }
    every_structure(&mut CancelsThreads);
}

#[test]
fn ten_thousand_scopes_with_daemons_hooks_failures_and_budgets_leave_nothing() {
    let _alone = alone();
    let scopes = |count: usize| {
        for _ in 0..count {
            let failed = segue::try_scope(|s| {
                s.on_exit(Duration::from_secs(60), || segue::yield_now().unwrap());
                drop(s.spawn_daemon(|| after(Duration::MAX).wait()));
                s.cancel_soft(Duration::from_secs(60));
                s.spawn_try(|| Err::<(), _>("out of ink"));
                after(Duration::MAX).wait()
            });
            assert_eq!(failed.unwrap_err().later().len(), 0);
        }
    };
    let measure = || {
        scopes(100);
        let before = live();
        scopes(10_000);
        let more = live() - before;
        assert!(more < 5_000, "{more} bytes");
    };
    segue::sched::Runtime::new().workers(1).run(measure).unwrap();
    Sim::new(1).run(measure).unwrap();
}

/// What a process has of threads, of mappings (those of stacks among them) and of descriptors.
#[cfg(target_os = "linux")]
fn resources() -> [usize; 3] {
    let entries = |of: &str| std::fs::read_dir(of).unwrap().count();
    let mappings = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    [entries("/proc/self/task"), mappings, entries("/proc/self/fd")]
}

#[cfg(target_os = "linux")]
#[test]
fn ten_thousand_runs_leave_no_fiber_stack_thread_or_descriptor() {
    let _alone = alone();
    let ended: &'static AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
    let fibers = || {
        let (resolver, promised) = promise::<u8>();
        resolver.on_close(move || _ = ended.fetch_add(1, SeqCst));
        scope(|s| {
            drop(s.spawn(|| promised.take()));
            drop(segue::Builder::new().after(Duration::ZERO).within(s).spawn(|| ended.fetch_add(1, SeqCst)));
            yield_now().unwrap();
            s.cancel();
        });
        // The run takes these along, suspended or not begun.
        drop(segue::spawn(move || drop((after(Duration::MAX).wait(), ended.fetch_add(1, SeqCst)))));
        drop(segue::Builder::new().after(Duration::MAX).spawn(|| unreachable!("it is never over")));
    };
    let runs = |count: usize| {
        for n in 0..count {
            match n % 3 {
                0 => segue::sched::Runtime::new().workers(1).run(fibers).unwrap(),
                1 => segue::sched::Runtime::new().workers(2).run(fibers).unwrap(),
                _ => Sim::new(n as u64).run(fibers).unwrap(),
            }
        }
    };
    runs(300);
    let (before, bytes) = (resources(), ALL_LIVE.load(SeqCst));
    runs(10_000);
    let (after, more) = (resources(), ALL_LIVE.load(SeqCst) - bytes);
    // The allocator's own mappings, and the threads of other tests, come and go.
    assert!(after.iter().zip(before).all(|(after, before)| *after <= before + 50), "{before:?}, then {after:?}");
    // Not one entry for each, in the list of stacks that signal handlers read, for instance.
    assert!(more < 10_000 * 8, "{more} bytes");
    assert!(ended.load(SeqCst) >= 10_300, "they were there");
}

/// Two fibers on one worker that make each other wait: of 1000 rounds of theirs, nobody allocates,
/// the scheduler included.
fn wait_for_each_other(name: &str, first: impl Fn(usize), second: impl Fn(usize) + Sync) {
    const WARM: usize = 100;
    let done = AtomicBool::new(false);
    scope(|s| {
        s.spawn(|| {
            (0..WARM + 1100).for_each(&second);
            assert!(done.load(SeqCst), "{name}: the other one was to end first");
        });
        (0..WARM).for_each(&first);
        let before = (allocations(), live());
        (WARM..WARM + 1000).for_each(&first);
        assert_eq!((allocations(), live()), before, "{name}");
        done.store(true, SeqCst);
        (WARM + 1000..WARM + 1100).for_each(&first);
    });
}

const ROUNDS: usize = 1200;

#[test]
fn waiting_in_a_fiber_allocates_nothing() {
    let _alone = alone();
    segue::sched::Runtime::new().workers(1).run(each_waits_in_turn).unwrap();
}

fn each_waits_in_turn() {
    let each_in_turn = |name, enter: &(dyn Fn() + Sync)| wait_for_each_other(name, |_| enter(), |_| enter());
    let mutex = Mutex::new(0);
    each_in_turn("Mutex", &|| {
        let mut count = mutex.lock().unwrap();
        yield_now().unwrap();
        *count += 1;
    });
    assert_eq!(mutex.into_inner(), 2 * ROUNDS);
    let place = MVar::new(0);
    each_in_turn("MVar, borrow", &|| {
        let mut count = place.borrow().unwrap();
        yield_now().unwrap();
        *count += 1;
    });
    assert_eq!(place.into_inner(), Some(2 * ROUNDS));
    let semaphore = Semaphore::new(1);
    each_in_turn("Semaphore", &|| {
        let _permit = semaphore.acquire().unwrap();
        yield_now().unwrap();
    });
    let lock = RwLock::new(0);
    each_in_turn("RwLock, write", &|| {
        let mut count = lock.write().unwrap();
        yield_now().unwrap();
        *count += 1;
    });
    let write = |_| {
        *lock.write().unwrap() += 1;
        yield_now().unwrap();
    };
    wait_for_each_other("RwLock", write, |_| {
        let _read = lock.read().unwrap();
        yield_now().unwrap();
    });
    assert_eq!(lock.into_inner(), 3 * ROUNDS);
    let barrier = Barrier::new(2);
    each_in_turn("Barrier", &|| assert!(barrier.wait().is_ok()));
    let place = MVar::empty();
    wait_for_each_other("MVar", |n| place.put(n).unwrap(), |n| assert_eq!(place.take(), Ok(n)));
    for capacity in [0, 1] {
        let (sender, receiver) = channel::bounded(capacity);
        wait_for_each_other("a channel", |n| sender.send(n).unwrap(), |n| assert_eq!(receiver.recv(), Ok(n)));
        wait_for_each_other(
            "a channel, the other way",
            |n| assert_eq!(receiver.recv(), Ok(n)),
            |n| sender.send(n).unwrap(),
        );
    }
    wait_for_each_other("MVar, the other way", |n| assert_eq!(place.take(), Ok(n)), |n| place.put(n).unwrap());
    let never = MVar::<u8>::empty();
    let hour = Duration::from_secs(3600);
    wait_for_each_other(
        "a choice",
        |_| assert!(place.take_source().or(never.take_source()).or(after(hour)).wait().is_ok()),
        |n| place.put(n).unwrap(),
    );
    each_waits_for_the_other();
    let slept = AtomicUsize::new(0);
    let sleep = |_| {
        segue::sleep(Duration::from_nanos(100)).unwrap();
        slept.fetch_add(1, SeqCst);
    };
    wait_for_each_other("sleep", sleep, |n| {
        while slept.load(SeqCst) <= n {
            yield_now().unwrap();
        }
    });
}

/// Where one waits and the other never does: that one lets the first go ahead.
fn each_waits_for_the_other() {
    fn told(name: &str, wait: impl Fn(usize), tell: impl Fn(usize) + Sync) {
        wait_for_each_other(name, wait, |n| {
            yield_now().unwrap();
            tell(n);
        });
    }
    let (notify, answer) = (Notify::new(), Notify::new());
    let ask = |_| {
        notify.notify_one();
        answer.wait().unwrap();
    };
    wait_for_each_other("Notify", ask, |_| {
        notify.wait().unwrap();
        answer.notify_one();
    });
    let (resolvers, promises): (Vec<_>, Vec<_>) = (0..ROUNDS).map(|_| promise()).unzip();
    let resolvers: Vec<_> = resolvers.into_iter().map(|resolver| std::sync::Mutex::new(Some(resolver))).collect();
    let fill = |n: usize| resolvers[n].lock().unwrap().take().expect("once").fill(n).unwrap();
    told("Promise", |n| assert_eq!(promises[n].wait(), Ok(&n)), fill);
    let latches: Vec<_> = (0..ROUNDS).map(|_| Latch::new(1)).collect();
    told("Latch", |n| latches[n].wait().unwrap(), |n| latches[n].count_down(1));
    let groups: Vec<_> = (0..ROUNDS).map(|_| WaitGroup::new()).collect();
    groups.iter().for_each(|group| group.add(1));
    told("WaitGroup", |n| groups[n].wait().unwrap(), |n| groups[n].done());
    let cells: Vec<_> = (0..ROUNDS).map(|_| OnceCell::new()).collect();
    told("OnceCell", |n| assert!(cells[n].wait().is_ok_and(|value| *value == n)), |n| cells[n].set(n).unwrap());
    let (condition, turns) = (Condvar::new(), Mutex::new(0));
    let each = |parity: usize| {
        let mut turn = condition.wait_while(turns.lock().unwrap(), |turn| *turn % 2 != parity).unwrap();
        *turn += 1;
        condition.notify_one();
    };
    wait_for_each_other("Condvar", |_| each(0), |_| each(1));
}

#[test]
fn a_task_that_waits_and_is_served_allocates_nothing() {
    let _alone = alone();
    fn served<S: Source>(name: &str, make: impl Fn() -> Waitable<S>, serve: impl Fn()) {
        let mut task = Context::from_waker(Waker::noop());
        let mut once = || {
            let mut waits = pin!(make().into_future());
            assert!(waits.as_mut().poll(&mut task).is_pending(), "{name}");
            serve();
            assert!(waits.poll(&mut task).is_ready(), "{name}");
        };
        once();
        let before = (allocations(), live());
        (0..1000).for_each(|_| once());
        assert_eq!((allocations(), live()), before, "{name}");
    }
    let (semaphore, notify, place, full) = (Semaphore::new(0), Notify::new(), MVar::empty(), MVar::new(0));
    served(
        "Semaphore",
        || semaphore.acquire_source().map(|permit| permit.unwrap().forget()),
        || semaphore.add_permits(1),
    );
    served("Notify, one", || notify.wait_source(), || notify.notify_one());
    served("Notify, all", || notify.wait_source(), || notify.notify_all());
    served("MVar, take", || place.take_source(), || place.try_put(1).unwrap());
    served("MVar, put", || full.put_source(1), || assert!(full.try_take().is_some()));
    let (sender, receiver) = channel::bounded(1);
    served("Receiver", || receiver.recv_source(), || sender.try_send(1).unwrap());
    sender.try_send(1).unwrap();
    served("Sender", || sender.send_source(1), || assert!(receiver.try_recv().is_ok()));
    served("a choice", || place.take_source().or(notify.wait_source()), || notify.notify_one());
    let (mutex, lock) = (Mutex::new(()), RwLock::new(()));
    let held = Cell::new(mutex.try_lock());
    served("Mutex", || mutex.lock_source().map(|guard| held.set(Some(guard))), || drop(held.take()));
    let held = Cell::new(lock.try_write());
    served("RwLock", || lock.write_source().map(|guard| held.set(Some(guard))), || drop(held.take()));
}
