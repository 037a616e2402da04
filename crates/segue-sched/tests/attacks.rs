//! Attempts to reach undefined behaviour or a hang through safe code alone. Each runs in a process of its own and says how that must
//! end: passing, or aborted with a message that names the mistake.
#![cfg(not(miri))]

mod common;

use common::{Meet, in_child, pool};
use segue_core::{Job, Park, Unpark, WaitPark, scope, spawn, yield_now};
use segue_sched::{Builder, Fifo, Policy, StackConfig, Task, Why, join};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
#[cfg(not(feature = "threads"))]
use {segue_sched::Started, std::cell::RefCell};

/// Stores what it is given, and panics when a fiber has yielded.
#[derive(Default)]
struct StoresThenPanics(Fifo);

impl Policy for StoresThenPanics {
    fn push(&mut self, task: Task, why: Why) -> Option<Job> {
        self.0.push(task, why);
        assert!(why != Why::Yielded, "planted: the policy panics");
        None
    }

    fn pop(&mut self) -> Option<Task> {
        self.0.pop()
    }
}

#[test]
fn a_policy_that_panics_while_a_fiber_yields_ends_the_process() {
    let end = in_child("a_policy_that_panics_while_a_fiber_yields_ends_the_process", || {
        // If the panic reached the fiber it would end with its stack still in the policy: freed, and run again.
        let _ = Builder::new().workers(1).run_with(StoresThenPanics::default, || {
            let fiber = spawn(|| yield_now().unwrap());
            assert!(fiber.join().is_err());
        });
    });
    end.assert_aborted("planted: the policy panics");
    assert!(!end.stderr.contains("resumed that has returned"), "a stack was used after its end: {end:#?}");
}

/// Drops what was resumed.
#[derive(Default)]
struct DropsResumed(Fifo);

impl Policy for DropsResumed {
    fn push(&mut self, task: Task, why: Why) -> Option<Job> {
        if why != Why::Resumed { self.0.push(task, why) } else { None }
    }

    fn pop(&mut self) -> Option<Task> {
        self.0.pop()
    }
}

#[test]
fn a_policy_that_drops_a_resumed_fiber_ends_the_process() {
    let end = in_child("a_policy_that_drops_a_resumed_fiber_ends_the_process", || {
        let _ = Builder::new().workers(1).run_with(DropsResumed::default, || {
            let meet = Meet::new();
            scope(|s| {
                let waiter = s.spawn(|| meet.wait());
                yield_now().unwrap();
                meet.put(1);
                drop(waiter);
            });
        });
    });
    end.assert_aborted("a policy dropped fiber");
}

/// Drops what yielded.
#[derive(Default)]
struct DropsYielded(Fifo);

impl Policy for DropsYielded {
    fn push(&mut self, task: Task, why: Why) -> Option<Job> {
        if why != Why::Yielded { self.0.push(task, why) } else { None }
    }

    fn pop(&mut self) -> Option<Task> {
        self.0.pop()
    }
}

#[test]
fn a_policy_that_drops_a_yielded_fiber_ends_the_process() {
    let end = in_child("a_policy_that_drops_a_yielded_fiber_ends_the_process", || {
        let _ = Builder::new().workers(1).run_with(DropsYielded::default, || {
            let _ = spawn(|| yield_now()).join();
        });
    });
    end.assert_aborted("a policy dropped fiber");
}

#[test]
fn a_policy_that_panics_in_the_loop_ends_the_process() {
    let end = in_child("a_policy_that_panics_in_the_loop_ends_the_process", || {
        #[derive(Default)]
        struct PanicsInPop(Vec<Task>);
        impl Policy for PanicsInPop {
            fn push(&mut self, task: Task, _why: Why) -> Option<Job> {
                self.0.push(task);
                None
            }

            fn pop(&mut self) -> Option<Task> {
                panic!("planted: pop panics")
            }
        }
        let _ = Builder::new().workers(1).run_with(PanicsInPop::default, yield_now);
    });
    end.assert_aborted("planted: pop panics");
}

#[cfg(not(feature = "threads"))]
thread_local! {
    static STASH: RefCell<Vec<Started>> = const { RefCell::new(Vec::new()) };
}

/// Puts resumed fibers where any policy of the thread finds them.
#[cfg(not(feature = "threads"))]
#[derive(Default)]
struct Stashes(Fifo);

#[cfg(not(feature = "threads"))]
impl Policy for Stashes {
    fn push(&mut self, task: Task, why: Why) -> Option<Job> {
        match task {
            Task::Started(started) if why == Why::Resumed => STASH.with_borrow_mut(|stash| stash.push(started)),
            task => return self.0.push(task, why),
        }
        None
    }

    fn pop(&mut self) -> Option<Task> {
        self.0.pop()
    }
}

/// Runs what others have stashed.
#[cfg(not(feature = "threads"))]
#[derive(Default)]
struct TakesStashed(Fifo);

#[cfg(not(feature = "threads"))]
impl Policy for TakesStashed {
    fn push(&mut self, task: Task, why: Why) -> Option<Job> {
        self.0.push(task, why)
    }

    fn pop(&mut self) -> Option<Task> {
        STASH.with_borrow_mut(Vec::pop).map(Task::Started).or_else(|| self.0.pop())
    }
}

#[test]
#[cfg(not(feature = "threads"))] // There a thread-local is a fiber's own, and cannot pass one on.
fn a_fiber_of_another_worker_on_the_same_thread_is_refused() {
    let end = in_child("a_fiber_of_another_worker_on_the_same_thread_is_refused", || {
        let _ = Builder::new().workers(1).run_with(Stashes::default, || {
            let meet = Meet::new();
            scope(|s| {
                let waiter = s.spawn(|| meet.wait());
                yield_now().unwrap();
                meet.put(7);
                // The waiter, a fiber of the outer worker, is ready; the inner worker's policy gives it out.
                let inner = Builder::new().workers(1).run_with(TakesStashed::default, || yield_now());
                inner.unwrap().unwrap();
                drop(waiter);
            });
        });
    });
    end.assert_aborted("another worker");
}

#[test]
fn a_pool_whose_last_owner_is_one_of_its_fibers_frees_nothing_in_use() {
    let end = in_child("a_pool_whose_last_owner_is_one_of_its_fibers_frees_nothing_in_use", || {
        let (send, receive) = std::sync::mpsc::channel();
        let pool = Arc::new(pool(1));
        let (mine, meet) = (Arc::clone(&pool), Arc::new(Meet::new()));
        let gate = Arc::clone(&meet);
        // A sibling that is still there when the pool's family would be freed.
        drop(pool.spawn(move || {
            let _ = gate.wait();
            for _ in 0..1000 {
                let _ = yield_now();
            }
            send.send(()).unwrap();
        }));
        let last = pool.spawn(move || {
            while Arc::strong_count(&mine) > 1 {
                let _ = yield_now();
            }
            drop(mine);
        });
        drop(pool);
        let _ = last.join();
        // Memory of the family's size, written over.
        let litter: Vec<Box<[u64; 16]>> = (0..10_000).map(|_| Box::new([u64::MAX; 16])).collect();
        meet.put(());
        let _ = receive.recv_timeout(Duration::from_secs(5));
        drop(litter);
    });
    end.assert_passed();
    assert!(!end.stderr.contains("wait for itself"), "the last owner may be anybody: {end:#?}");
}

/// A park whose unparker panics once it is told to.
struct Touchy(WaitPark, Arc<AtomicBool>);

struct TouchyUnpark(Arc<dyn Unpark>, Arc<AtomicBool>);

impl Unpark for TouchyUnpark {
    fn unpark(&self) {
        self.0.unpark();
        assert!(!self.1.load(SeqCst), "planted: the unparker panics");
    }
}

impl Park for Touchy {
    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::new(TouchyUnpark(self.0.unparker(), Arc::clone(&self.1)))
    }

    fn park(&mut self, timeout: Option<Duration>) {
        self.0.park(timeout);
    }
}

#[test]
fn an_unparker_that_panics_does_not_unwind_through_frames_that_are_queued() {
    let end = in_child("an_unparker_that_panics_does_not_unwind_through_frames_that_are_queued", || {
        let armed = Arc::new(AtomicBool::new(false));
        let park = {
            let armed = Arc::clone(&armed);
            move || Ok(Touchy(WaitPark::new(), Arc::clone(&armed)))
        };
        let pool = Builder::new().workers(1).park(park).pool().unwrap();
        armed.store(true, SeqCst);
        let ran = AtomicUsize::new(0);
        for _ in 0..1000 {
            // `call` puts a job that lies in its frame on a shelf, and then wakes a worker.
            let call = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let data = [0xA5A5_A5A5_u32; 64];
                pool.call(|| {
                    assert!(
                        std::hint::black_box(&data).iter().all(|word| *word == 0xA5A5_A5A5),
                        "a frame that is gone"
                    );
                    ran.fetch_add(1, SeqCst)
                })
            }));
            assert!(call.is_ok(), "the call unwound while its frame was queued");
        }
    });
    end.assert_aborted("planted: the unparker panics");
    assert!(!end.stderr.contains("the call unwound"), "the frame of a queued job is gone: {end:#?}");
}

#[test]
fn a_policy_that_cannot_be_made_ends_the_run_and_does_not_hang() {
    let end = in_child("a_policy_that_cannot_be_made_ends_the_run_and_does_not_hang", || {
        let caller = std::thread::current().id();
        let policy = move || {
            assert!(std::thread::current().id() != caller, "planted: no policy");
            Fifo::default()
        };
        let run = std::panic::catch_unwind(|| Builder::new().workers(2).run_with(policy, || ()));
        assert!(run.is_err());
    });
    assert!(end.status.is_some(), "hung: {end:#?}");
}

#[test]
fn a_park_that_panics_in_the_making_ends_the_run_and_does_not_hang() {
    let end = in_child("a_park_that_panics_in_the_making_ends_the_run_and_does_not_hang", || {
        let caller = std::thread::current().id();
        let park = move || {
            assert!(std::thread::current().id() != caller, "planted: no park");
            Ok(WaitPark::new())
        };
        let run = std::panic::catch_unwind(|| Builder::new().workers(2).park(park).run(|| ()));
        assert!(run.is_err());
    });
    assert!(end.status.is_some(), "hung: {end:#?}");
}

#[test]
fn a_pool_whose_policy_cannot_be_made_is_an_error_and_does_not_hang() {
    let end = in_child("a_pool_whose_policy_cannot_be_made_is_an_error_and_does_not_hang", || {
        let policy = || -> Fifo { panic!("planted: no policy") };
        if let Ok(Ok(pool)) = std::panic::catch_unwind(|| Builder::new().workers(1).pool_with(policy)) {
            let _ = pool.run(|| ());
        }
    });
    assert!(end.status.is_some(), "hung: {end:#?}");
}

#[test]
fn a_park_that_says_it_is_closed_is_not_a_bug_of_the_worker() {
    struct Closed(WaitPark);
    impl Park for Closed {
        fn unparker(&self) -> Arc<dyn Unpark> {
            self.0.unparker()
        }

        fn park(&mut self, timeout: Option<Duration>) {
            self.0.park(timeout);
        }

        fn is_closed(&self) -> bool {
            true
        }
    }
    let end = in_child("a_park_that_says_it_is_closed_is_not_a_bug_of_the_worker", || {
        let meet = Meet::new();
        std::thread::scope(|threads| {
            threads.spawn(|| meet.put(2));
            let run = Builder::new().workers(1).park(|| Ok(Closed(WaitPark::new()))).run(|| meet.wait());
            assert_eq!(run.unwrap(), Ok(2));
        });
    });
    end.assert_passed();
}

#[test]
fn a_run_in_a_drop_while_the_thread_panics_does_not_end_the_process() {
    let end = in_child("a_run_in_a_drop_while_the_thread_panics_does_not_end_the_process", || {
        struct RunsInDrop;
        impl Drop for RunsInDrop {
            fn drop(&mut self) {
                assert_eq!(Builder::new().workers(1).run(|| 42).unwrap(), 42);
            }
        }
        let caught = std::panic::catch_unwind(|| {
            let _runs = RunsInDrop;
            panic!("planted");
        });
        assert!(caught.is_err());
    });
    end.assert_passed();
}

#[test]
fn a_policy_that_runs_a_closure_itself_breaks_nothing() {
    let end = in_child("a_policy_that_runs_a_closure_itself_breaks_nothing", || {
        #[derive(Default)]
        struct RunsItself(VecDeque<Task>);
        impl Policy for RunsItself {
            fn push(&mut self, task: Task, _why: Why) -> Option<Job> {
                match task {
                    Task::Fresh(job) => job.run(),
                    started => self.0.push_back(started),
                }
                None
            }

            fn pop(&mut self) -> Option<Task> {
                self.0.pop_front()
            }
        }
        let sum = Builder::new().workers(1).run_with(RunsItself::default, || {
            let fibers: Vec<_> = (0..100).map(|n| spawn(move || n)).collect();
            yield_now().unwrap();
            fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<i32>()
        });
        assert_eq!(sum.unwrap(), 4950);
    });
    end.assert_passed();
}

#[test]
fn a_policy_that_drops_closures_tells_those_who_wait() {
    let end = in_child("a_policy_that_drops_closures_tells_those_who_wait", || {
        #[derive(Default)]
        struct Sheds(VecDeque<Task>, usize);
        impl Policy for Sheds {
            fn push(&mut self, task: Task, _why: Why) -> Option<Job> {
                self.0.push_back(task);
                None
            }

            fn pop(&mut self) -> Option<Task> {
                match self.0.pop_front() {
                    Some(Task::Fresh(job)) => {
                        self.1 += 1;
                        if self.1 % 2 == 0 { Some(Task::Fresh(job)) } else { self.pop() }
                    }
                    other => other,
                }
            }
        }
        let ran = Builder::new().workers(1).run_with(Sheds::default, || {
            let fibers: Vec<_> = (0..100).map(|n| spawn(move || n)).collect();
            fibers.into_iter().filter_map(|fiber| fiber.join().ok()).count()
        });
        assert_eq!(ran.unwrap(), 50);
    });
    end.assert_passed();
}

#[test]
fn stealing_with_too_few_stacks_for_both_workers_does_not_end_the_process() {
    let end = in_child("stealing_with_too_few_stacks_for_both_workers_does_not_end_the_process", || {
        // The first worker's pool takes all eight slots in one chunk; the second has none and no fiber that could end.
        let stacks = StackConfig::new().max_slots(8);
        let done = AtomicUsize::new(0);
        Builder::new()
            .workers(2)
            .stacks(stacks)
            .run(|| {
                scope(|s| {
                    for _ in 0..200 {
                        drop(s.spawn(|| {
                            for _ in 0..20_000 {
                                std::hint::spin_loop();
                            }
                            done.fetch_add(1, SeqCst)
                        }));
                    }
                });
            })
            .unwrap();
        assert_eq!(done.load(SeqCst), 200);
    });
    end.assert_passed();
}

#[test]
fn a_child_of_a_join_that_found_no_stack_is_run_by_its_parent() {
    let end = in_child("a_child_of_a_join_that_found_no_stack_is_run_by_its_parent", || {
        let run = Builder::new().workers(1).stacks(StackConfig::new().max_slots(1)).run(|| {
            // `a` suspends, so `b` is offered; there is no second stack for it.
            join(|| segue_core::sleep(Duration::from_millis(1)).is_ok(), || 2)
        });
        assert_eq!(run.unwrap(), (true, 2));
    });
    end.assert_passed();
}

#[test]
fn a_family_that_is_dropped_leaves_the_tree() {
    let end = in_child("a_family_that_is_dropped_leaves_the_tree", || {
        // `Family::of_caller` is safe, and hangs a raw pointer into the scope's context.
        for _ in 0..100 {
            scope(|s| {
                drop(segue_core::Family::of_caller());
                let litter: Vec<Box<[u64; 12]>> = (0..100).map(|_| Box::new([u64::MAX; 12])).collect();
                s.cancel();
                drop(litter);
            });
        }
    });
    end.assert_passed();
}

#[test]
fn a_family_that_leaves_its_scope_does_not_reach_for_it() {
    let end = in_child("a_family_that_leaves_its_scope_does_not_reach_for_it", || {
        for _ in 0..100 {
            // It hangs in the scope's context, which ends first.
            let family = scope(|_| segue_core::Family::of_caller());
            let litter: Vec<Box<[u64; 12]>> = (0..100).map(|_| Box::new([u64::MAX; 12])).collect();
            drop(family);
            drop(litter);
        }
    });
    end.assert_passed();
}

#[test]
fn a_policy_that_yields_the_fiber_its_worker_runs_in_mixes_no_notes() {
    /// Gives up the turn of the outer fiber whenever it is asked for the next task.
    #[derive(Default)]
    struct YieldsOutside(Fifo);
    impl Policy for YieldsOutside {
        fn push(&mut self, task: Task, why: Why) -> Option<Job> {
            self.0.push(task, why)
        }

        fn pop(&mut self) -> Option<Task> {
            let _ = yield_now();
            self.0.pop()
        }
    }
    fn fib(n: u32) -> u32 {
        if n < 2 {
            let _ = yield_now();
            return n;
        }
        let (a, b) = join(|| fib(n - 1), || fib(n - 2));
        a + b
    }
    let end = in_child("a_policy_that_yields_the_fiber_its_worker_runs_in_mixes_no_notes", || {
        let run = Builder::new().workers(1).run(|| {
            scope(|s| {
                let outer: Vec<_> = (0..3).map(|_| s.spawn(|| fib(8))).collect();
                let inner = Builder::new().workers(1).run_with(YieldsOutside::default, || {
                    scope(|s| {
                        let fibers: Vec<_> = (0..3).map(|_| s.spawn(|| fib(8))).collect();
                        fibers.into_iter().for_each(|fiber| assert_eq!(fiber.join().unwrap(), 21));
                    });
                });
                inner.unwrap();
                outer.into_iter().for_each(|fiber| assert_eq!(fiber.join().unwrap(), 21));
            });
        });
        run.unwrap();
    });
    end.assert_passed();
}

#[test]
fn a_pool_dropped_in_a_run_inside_of_its_own_fiber_does_not_wait_for_itself() {
    let end = in_child("a_pool_dropped_in_a_run_inside_of_its_own_fiber_does_not_wait_for_itself", || {
        let pool = Arc::new(pool(1));
        let mine = Arc::clone(&pool);
        let fiber = pool.spawn(move || {
            while Arc::strong_count(&mine) > 1 {
                let _ = yield_now();
            }
            Builder::new().workers(1).run(|| drop(mine)).unwrap();
        });
        drop(pool);
        let _ = fiber.join();
    });
    end.assert_passed();
}
