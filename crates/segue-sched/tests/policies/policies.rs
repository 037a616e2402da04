//! Policies of users: a plain one works; one that panics, loses a fiber or gives out another
//! worker's ends the process with a message; none reaches undefined behaviour. What is to end the
//! process runs in one of its own.
#![cfg(not(miri))]

use crate::common::{Meet, in_child, scaled};
use segue_core::{CancelToken, scope, shield, spawn, yield_now};
use segue_sched::{Fifo, Goes, Policy, Runtime, Seat, Task, Why, join};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
#[cfg(not(feature = "threads"))]
use {segue_sched::Started, std::cell::RefCell};

/// Last in, first out.
#[derive(Default)]
struct Lifo(Vec<Task>);

impl Policy for Lifo {
    fn push(&mut self, task: Task, _why: Why) -> Goes {
        self.0.push(task);
        Goes::Here
    }

    fn pop(&mut self) -> Option<Task> {
        self.0.pop()
    }
}

/// What yielded comes last, and new closures are offered to all.
#[derive(Default)]
struct TwoLevels {
    first: VecDeque<Task>,
    last: VecDeque<Task>,
}

impl Policy for TwoLevels {
    fn push(&mut self, task: Task, why: Why) -> Goes {
        match (task, why) {
            (Task::Fresh(job), _) => return Goes::Anywhere(job),
            (task, Why::Yielded) => self.last.push_back(task),
            (task, _) => self.first.push_back(task),
        }
        Goes::Here
    }

    fn pop(&mut self) -> Option<Task> {
        self.first.pop_front().or_else(|| self.last.pop_front())
    }
}

#[test]
fn a_policy_in_ten_lines_is_a_scheduler() {
    fn fib(n: u32) -> u32 {
        if n < 2 {
            return n;
        }
        let (a, b) = join(|| fib(n - 1), || spawn(move || fib(n - 2)).join().unwrap());
        a + b
    }
    let body = || {
        let meet = Meet::new();
        scope(|s| {
            let waiters: Vec<_> = (0..10).map(|_| s.spawn(|| meet.wait().unwrap())).collect();
            for _ in 0..scaled(50, 5) {
                yield_now().unwrap();
            }
            drop(s.spawn(|| meet.put(1)));
            assert_eq!(waiters.into_iter().map(|waiter| waiter.join().unwrap()).sum::<i32>(), 10);
        });
        assert_eq!(fib(10), 55);
    };
    for workers in [1, 2] {
        Runtime::new().workers(workers).run_with(Lifo::default, body).unwrap();
        Runtime::new().workers(workers).run_with(TwoLevels::default, body).unwrap();
        Runtime::new().workers(workers).pool_with(Lifo::default).unwrap().run(body).unwrap();
        Runtime::new().workers(workers).pool_with(TwoLevels::default).unwrap().run(body).unwrap();
    }
}

/// Stores what it is given, and panics when a fiber has yielded.
#[derive(Default)]
struct StoresThenPanics(Fifo);

impl Policy for StoresThenPanics {
    fn push(&mut self, task: Task, why: Why) -> Goes {
        let _ = self.0.push(task, why);
        assert!(why != Why::Yielded, "planted: the policy panics");
        Goes::Here
    }

    fn pop(&mut self) -> Option<Task> {
        self.0.pop()
    }
}

#[test]
fn a_policy_that_panics_while_a_fiber_yields_ends_the_process() {
    let end = in_child("a_policy_that_panics_while_a_fiber_yields_ends_the_process", || {
        // If the panic reached the fiber it would end with its stack still in the policy: freed,
        // and run again.
        let _ = Runtime::new().workers(1).run_with(StoresThenPanics::default, || {
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
    fn push(&mut self, task: Task, why: Why) -> Goes {
        if why != Why::Resumed { self.0.push(task, why) } else { Goes::Here }
    }

    fn pop(&mut self) -> Option<Task> {
        self.0.pop()
    }
}

#[test]
fn a_policy_that_drops_a_resumed_fiber_ends_the_process() {
    let end = in_child("a_policy_that_drops_a_resumed_fiber_ends_the_process", || {
        let _ = Runtime::new().workers(1).run_with(DropsResumed::default, || {
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
    fn push(&mut self, task: Task, why: Why) -> Goes {
        if why != Why::Yielded { self.0.push(task, why) } else { Goes::Here }
    }

    fn pop(&mut self) -> Option<Task> {
        self.0.pop()
    }
}

#[test]
fn a_policy_that_drops_a_yielded_fiber_ends_the_process() {
    let end = in_child("a_policy_that_drops_a_yielded_fiber_ends_the_process", || {
        let _ = Runtime::new().workers(1).run_with(DropsYielded::default, || {
            let _ = spawn(yield_now).join();
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
            fn push(&mut self, task: Task, _why: Why) -> Goes {
                self.0.push(task);
                Goes::Here
            }

            fn pop(&mut self) -> Option<Task> {
                panic!("planted: pop panics")
            }
        }
        let _ = Runtime::new().workers(1).run_with(PanicsInPop::default, yield_now);
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
    fn push(&mut self, task: Task, why: Why) -> Goes {
        match task {
            Task::Started(started) if why == Why::Resumed => STASH.with_borrow_mut(|stash| stash.push(started)),
            task => return self.0.push(task, why),
        }
        Goes::Here
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
    fn push(&mut self, task: Task, why: Why) -> Goes {
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
        let _ = Runtime::new().workers(1).run_with(Stashes::default, || {
            let meet = Meet::new();
            scope(|s| {
                let waiter = s.spawn(|| meet.wait());
                yield_now().unwrap();
                meet.put(7);
                // The waiter, a fiber of the outer worker, is ready; the inner worker's policy
                // gives it out.
                let inner = Runtime::new().workers(1).run_with(TakesStashed::default, yield_now);
                inner.unwrap().unwrap();
                drop(waiter);
            });
        });
    });
    end.assert_aborted("another worker");
}

#[test]
fn a_policy_that_cannot_be_made_ends_the_run_and_does_not_hang() {
    let end = in_child("a_policy_that_cannot_be_made_ends_the_run_and_does_not_hang", || {
        let caller = std::thread::current().id();
        let policy = move || {
            assert!(std::thread::current().id() != caller, "planted: no policy");
            Fifo::default()
        };
        let run = std::panic::catch_unwind(|| Runtime::new().workers(2).run_with(policy, || ()));
        assert!(run.is_err());
    });
    assert!(end.status.is_some(), "hung: {end:#?}");
}

#[test]
fn a_pool_whose_policy_cannot_be_made_is_an_error_and_does_not_hang() {
    let end = in_child("a_pool_whose_policy_cannot_be_made_is_an_error_and_does_not_hang", || {
        let policy = || -> Fifo { panic!("planted: no policy") };
        if let Ok(Ok(pool)) = std::panic::catch_unwind(|| Runtime::new().workers(1).pool_with(policy)) {
            let _ = pool.run(|| ());
        }
    });
    assert!(end.status.is_some(), "hung: {end:#?}");
}

#[test]
fn a_pool_whose_policy_panics_when_it_is_seated_is_an_error_and_does_not_hang() {
    let end = in_child("a_pool_whose_policy_panics_when_it_is_seated_is_an_error_and_does_not_hang", || {
        struct Unseated;
        impl Policy for Unseated {
            fn seated(&mut self, _seat: Seat) {
                panic!("planted: not seated");
            }

            fn push(&mut self, _task: Task, _why: Why) -> Goes {
                unreachable!("it has no seat")
            }

            fn pop(&mut self) -> Option<Task> {
                None
            }
        }
        assert!(Runtime::new().workers(1).pool_with(|| Unseated).map(|pool| pool.run(|| ())).is_err());
    });
    end.assert_passed();
}

#[test]
fn a_policy_that_runs_a_closure_itself_breaks_nothing() {
    let end = in_child("a_policy_that_runs_a_closure_itself_breaks_nothing", || {
        #[derive(Default)]
        struct RunsItself(VecDeque<Task>);
        impl Policy for RunsItself {
            fn push(&mut self, task: Task, _why: Why) -> Goes {
                match task {
                    Task::Fresh(job) => job.run(),
                    started => self.0.push_back(started),
                }
                Goes::Here
            }

            fn pop(&mut self) -> Option<Task> {
                self.0.pop_front()
            }
        }
        let sum = Runtime::new().workers(1).run_with(RunsItself::default, || {
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
            fn push(&mut self, task: Task, _why: Why) -> Goes {
                self.0.push_back(task);
                Goes::Here
            }

            fn pop(&mut self) -> Option<Task> {
                match self.0.pop_front() {
                    Some(Task::Fresh(job)) => {
                        self.1 += 1;
                        if self.1.is_multiple_of(2) { Some(Task::Fresh(job)) } else { self.pop() }
                    }
                    other => other,
                }
            }
        }
        let ran = Runtime::new().workers(1).run_with(Sheds::default, || {
            let fibers: Vec<_> = (0..100).map(|n| spawn(move || n)).collect();
            fibers.into_iter().filter_map(|fiber| fiber.join().ok()).count()
        });
        assert_eq!(ran.unwrap(), 50);
    });
    end.assert_passed();
}

#[test]
fn a_policy_whose_closures_cancel_when_they_are_dropped_is_called_under_no_lock() {
    let end = in_child("a_policy_whose_closures_cancel_when_they_are_dropped_is_called_under_no_lock", || {
        /// Keeps closures, and drops them when a fiber was resumed.
        #[derive(Default)]
        struct Sheds(VecDeque<Task>, Vec<Task>);
        impl Policy for Sheds {
            fn push(&mut self, task: Task, why: Why) -> Goes {
                match task {
                    Task::Fresh(_) if KEEPS.load(SeqCst) => self.1.push(task),
                    task => self.0.push_back(task),
                }
                if why == Why::Resumed {
                    self.1.clear();
                }
                Goes::Here
            }

            fn pop(&mut self) -> Option<Task> {
                self.0.pop_front()
            }
        }
        struct Cancels(CancelToken);
        impl Drop for Cancels {
            fn drop(&mut self) {
                self.0.cancel();
            }
        }
        static KEEPS: AtomicBool = AtomicBool::new(false);
        let run = Runtime::new().workers(1).run_with(Sheds::default, || {
            scope(|s| {
                let waits = s.spawn(|| Meet::<()>::new().wait());
                yield_now().unwrap();
                KEEPS.store(true, SeqCst);
                let cancels = Cancels(s.token());
                let dropped = s.spawn(move || drop(cancels));
                s.cancel();
                shield(|| (waits.join().unwrap().is_err(), dropped.join().is_err()))
            })
        });
        assert_eq!(run.unwrap(), (true, true));
    });
    end.assert_passed();
}

#[test]
fn a_policy_that_yields_the_fiber_its_worker_runs_in_mixes_no_notes() {
    /// Gives up the turn of the outer fiber whenever it is asked for the next task.
    #[derive(Default)]
    struct YieldsOutside(Fifo);
    impl Policy for YieldsOutside {
        fn push(&mut self, task: Task, why: Why) -> Goes {
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
        let run = Runtime::new().workers(1).run(|| {
            scope(|s| {
                let outer: Vec<_> = (0..3).map(|_| s.spawn(|| fib(8))).collect();
                let inner = Runtime::new().workers(1).run_with(YieldsOutside::default, || {
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
