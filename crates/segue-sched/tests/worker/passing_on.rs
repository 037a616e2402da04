//! Fibers that pass their turns on to each other: what the worker's loop does besides is done all
//! the same, and a policy sees the turns that it would see of the loop.

use crate::common::{in_child, scaled};
use segue_core::{blocking, in_fiber, scope, sleep, spawn, yield_now};
use segue_sched::{Fifo, Goes, Policy, Polled, Runtime, Started, Stealing, Task, Why};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

fn on_one_worker(body: impl Fn() + Send + Sync) {
    Runtime::new().workers(1).run(&body).unwrap();
    Runtime::new().workers(1).run_with(Fifo::default, &body).unwrap();
}

/// First in, first out; notes what it gives out, and that it does so in no fiber.
struct Noting {
    tasks: Fifo,
    given: Arc<Mutex<Vec<String>>>,
}

impl Policy for Noting {
    fn push(&mut self, task: Task, why: Why) -> Goes {
        self.tasks.push(task, why)
    }

    fn pop(&mut self) -> Option<Task> {
        assert!(!in_fiber(), "the policy is asked on behalf of no fiber");
        let task = self.tasks.pop();
        if let Some(task) = &task {
            self.given.lock().unwrap().push(match task {
                Task::Fresh(_) => "new".to_owned(),
                Task::Started(started) => started.fiber().name().unwrap_or("main").to_owned(),
            });
        }
        task
    }

    fn upcoming(&self, turns: usize) -> Option<&Started> {
        assert!(!in_fiber(), "the policy is asked on behalf of no fiber");
        self.tasks.upcoming(turns)
    }
}

#[test]
fn a_policy_gives_out_each_turn_once_and_in_its_order() {
    let given = Arc::<Mutex<Vec<_>>>::default();
    let ran = Arc::<Mutex<Vec<_>>>::default();
    let policy = || Noting { tasks: Fifo::default(), given: Arc::clone(&given) };
    let main = || {
        scope(|s| {
            for name in ["a", "b", "c"] {
                let ran = &ran;
                let body = move || {
                    for _ in 0..3 {
                        ran.lock().unwrap().push(name);
                        yield_now().unwrap();
                    }
                    if name == "b" {
                        // It comes to the policy behind fibers that are to run before it, and so is
                        // given out to one of these.
                        spawn(|| ()).join().unwrap();
                        ran.lock().unwrap().push("joined");
                    }
                };
                drop(segue_core::Builder::new().name(name).within(s).spawn(body));
            }
        });
    };
    Runtime::new().workers(1).run_with(policy, main).unwrap();
    assert_eq!(*ran.lock().unwrap(), ["a", "b", "c", "a", "b", "c", "a", "b", "c", "joined"]);
    let turns = ["new", "new", "new", "a", "b", "c", "a", "b", "c", "a", "b", "c", "new", "b", "main"];
    assert_eq!(*given.lock().unwrap(), turns);
}

#[test]
fn timers_mail_and_closures_come_while_fibers_pass_on() {
    on_one_worker(|| {
        let [slept, woken, arrived] = [(); 3].map(|()| AtomicBool::new(false));
        let (slept, woken, arrived) = (&slept, &woken, &arrived);
        let handle = segue_sched::Handle::current().unwrap();
        scope(|s| {
            // These two have something ready all the time: each other.
            for _ in 0..2 {
                s.spawn(|| {
                    while ![slept, woken, arrived].iter().all(|it_did| it_did.load(SeqCst)) {
                        yield_now().unwrap();
                    }
                });
            }
            s.spawn(|| {
                sleep(Duration::from_millis(1)).unwrap();
                slept.store(true, SeqCst);
            });
            s.spawn(|| {
                // Another thread wakes this fiber.
                let from_outside = blocking(move || thread::spawn(move || handle.spawn(|| 7)).join().unwrap()).unwrap();
                woken.store(true, SeqCst);
                assert_eq!(from_outside.join().unwrap(), 7);
                arrived.store(true, SeqCst);
            });
        });
    });
}

#[test]
fn fibers_end_and_panic_after_they_were_handed_the_turn() {
    on_one_worker(|| {
        let fibers = scaled(200, 20);
        let handles: Vec<_> = (0..fibers)
            .map(|n| {
                spawn(move || {
                    for _ in 0..n % 7 {
                        yield_now().unwrap();
                    }
                    assert!(n % 5 != 0, "planted");
                    n
                })
            })
            .collect();
        for (n, handle) in handles.into_iter().enumerate() {
            assert_eq!(handle.join().ok(), (n % 5 != 0).then_some(n));
        }
    });
}

#[test]
fn timers_fire_while_the_only_ready_fiber_is_its_own_successor() {
    on_one_worker(|| {
        let sleeper = spawn(|| sleep(Duration::from_millis(1)).unwrap());
        let mut turns = 0;
        while !sleeper.is_finished() {
            yield_now().unwrap();
            turns += 1;
        }
        sleeper.join().unwrap();
        assert!(turns > 1);
    });
}

#[test]
fn workers_inside_of_fibers_that_pass_on_keep_to_themselves() {
    on_one_worker(|| {
        let outside = AtomicUsize::new(0);
        scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    for _ in 0..scaled(50, 5) {
                        outside.fetch_add(1, SeqCst);
                        yield_now().unwrap();
                    }
                });
            }
            let inner = s.spawn(|| {
                let run = Runtime::new().workers(1).run_with(Fifo::default, || {
                    scope(|s| {
                        let turns: Vec<_> = (0..2)
                            .map(|_| {
                                s.spawn(|| {
                                    (0..scaled(2000, 50)).for_each(|_| yield_now().unwrap());
                                    sleep(Duration::from_millis(1)).unwrap();
                                })
                            })
                            .collect();
                        turns.into_iter().for_each(|turn| turn.join().unwrap());
                    });
                    9
                });
                run.unwrap()
            });
            assert_eq!(inner.join().unwrap(), 9);
        });
        assert_eq!(outside.load(SeqCst), 2 * scaled(50, 5));
    });
}

#[test]
fn a_poll_of_a_driven_scheduler_ends_though_fibers_pass_on_for_ever() {
    let over = Rc::new(RefCell::new(false));
    let mut fibers = Runtime::new().driven(|| ()).unwrap();
    let turns = Arc::new(AtomicUsize::new(0));
    let mut handles = Vec::new();
    for _ in 0..2 {
        let (over, turns) = (Rc::clone(&over), Arc::clone(&turns));
        let body = move || {
            while !*over.borrow() {
                turns.fetch_add(1, SeqCst);
                yield_now().unwrap();
            }
        };
        handles.push(fibers.start(body).unwrap());
    }
    for _ in 0..10 {
        let before = turns.load(SeqCst);
        assert_eq!(fibers.poll(), Polled::Again);
        let made = turns.load(SeqCst) - before;
        assert!((1..=2 * 512).contains(&made), "{made} turns in a poll");
    }
    *over.borrow_mut() = true;
    while fibers.poll() == Polled::Again {}
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}

#[test]
fn a_policy_that_panics_while_a_fiber_passes_on_ends_the_process() {
    /// Gives out so many, and panics.
    struct Limited(Stealing, usize);
    impl Policy for Limited {
        fn push(&mut self, task: Task, why: Why) -> Goes {
            self.0.push(task, why)
        }

        fn pop(&mut self) -> Option<Task> {
            self.1 = self.1.checked_sub(1).expect("planted: the policy has given out enough");
            self.0.pop()
        }
    }
    let end = in_child("a_policy_that_panics_while_a_fiber_passes_on_ends_the_process", || {
        let _ = Runtime::new().workers(1).run_with(
            || Limited(Stealing::default(), 20),
            || {
                let fibers = [(); 2].map(|()| spawn(|| (0..100).for_each(|_| yield_now().unwrap())));
                fibers.into_iter().for_each(|fiber| assert!(fiber.join().is_err()));
            },
        );
    });
    end.assert_aborted("planted: the policy has given out enough");
}

/// First in, first out; when a fiber yields, it gives the oldest closure away. So one is given out
/// to the fiber, and waits for the loop, when another lies on the shelf.
#[derive(Default)]
struct GivesAway(VecDeque<Task>);

impl Policy for GivesAway {
    fn push(&mut self, task: Task, why: Why) -> Goes {
        self.0.push_back(task);
        if why == Why::Yielded
            && let Some(at) = self.0.iter().position(|task| matches!(task, Task::Fresh(_)))
            && let Some(Task::Fresh(job)) = self.0.remove(at)
        {
            return Goes::Anywhere(job);
        }
        Goes::Here
    }

    fn pop(&mut self) -> Option<Task> {
        self.0.pop_front()
    }
}

#[test]
fn a_closure_that_is_given_out_while_another_waits_is_not_lost() {
    let main = || {
        for _ in 0..scaled(50, 5) {
            let handles: Vec<_> = (0..20).map(|_| spawn(|| yield_now().unwrap())).collect();
            yield_now().unwrap();
            handles.into_iter().for_each(|handle| handle.join().unwrap());
        }
    };
    Runtime::new().workers(1).run_with(GivesAway::default, main).unwrap();
    Runtime::new().workers(2).run_with(GivesAway::default, main).unwrap();
}

#[test]
fn closures_wait_for_the_loop_while_a_driven_scheduler_starts_others() {
    let mut fibers = Runtime::new().driven(|| ()).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let main = fibers.spawn({
        let over = Arc::clone(&over);
        move || {
            let mut all = Vec::new();
            while !over.load(SeqCst) {
                all.extend([(); 2].map(|()| spawn(|| ())));
                yield_now().unwrap();
            }
            all.into_iter().for_each(|handle| handle.join().unwrap());
        }
    });
    for _ in 0..scaled(1000, 20) {
        assert_eq!(fibers.poll(), Polled::Again);
        drop(fibers.start(|| yield_now().unwrap()).unwrap());
    }
    over.store(true, SeqCst);
    while fibers.poll() == Polled::Again {}
    main.join().unwrap();
}
