//! Attempts to reach undefined behaviour or a hang through safe code alone: parks, pools, families,
//! drops, stacks. Each runs in a process of its own and says how that must end: passing, or aborted
//! with a message that names the mistake.
#![cfg(not(miri))]

use crate::common::{Meet, in_child, pool};
use segue_core::scheduling::{Park, Unpark, WaitPark};
use segue_core::{scope, yield_now};
use segue_sched::{Runtime, StackConfig, join};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

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
        let pool = Runtime::new().workers(1).park(park).pool().unwrap();
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
fn a_park_that_panics_in_the_making_ends_the_run_and_does_not_hang() {
    let end = in_child("a_park_that_panics_in_the_making_ends_the_run_and_does_not_hang", || {
        let caller = std::thread::current().id();
        let park = move || {
            assert!(std::thread::current().id() != caller, "planted: no park");
            Ok(WaitPark::new())
        };
        let run = std::panic::catch_unwind(|| Runtime::new().workers(2).park(park).run(|| ()));
        assert!(run.is_err());
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
            let run = Runtime::new().workers(1).park(|| Ok(Closed(WaitPark::new()))).run(|| meet.wait());
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
                assert_eq!(Runtime::new().workers(1).run(|| 42).unwrap(), 42);
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
fn stealing_with_too_few_stacks_for_both_workers_does_not_end_the_process() {
    let end = in_child("stealing_with_too_few_stacks_for_both_workers_does_not_end_the_process", || {
        // The first worker's pool takes all eight slots in one chunk; the second has none and no
        // fiber that could end.
        let stacks = StackConfig::new().max_slots(8);
        let done = AtomicUsize::new(0);
        Runtime::new()
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
        let run = Runtime::new().workers(1).stacks(StackConfig::new().max_slots(1)).run(|| {
            // `a` suspends, so `b` is offered; there is no second stack for it.
            join(|| segue_core::sleep(Duration::from_millis(1)).is_ok(), || 2)
        });
        assert_eq!(run.unwrap(), (true, 2));
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
            Runtime::new().workers(1).run(|| drop(mine)).unwrap();
        });
        drop(pool);
        let _ = fiber.join();
    });
    end.assert_passed();
}

/// Calls `f` while memory that was given up just before, of frames and on the heap, is full of a
/// pattern; answers whether the pattern is still there.
#[inline(never)]
fn over_what_was_given_up(f: impl FnOnce()) -> bool {
    const WORD: u64 = 0x5A5A_5A5A;
    let mut frame = std::hint::black_box([WORD; 4096]);
    let heap: Vec<Box<[u64]>> = (4..64).flat_map(|words| (0..64).map(move |_| vec![WORD; words].into())).collect();
    f();
    std::hint::black_box(&mut frame).iter().chain(heap.iter().flatten()).all(|word| *word == WORD)
}

#[test]
fn what_a_scope_s_fiber_detaches_belongs_to_no_run_that_has_ended() {
    let end = in_child("what_a_scope_s_fiber_detaches_belongs_to_no_run_that_has_ended", || {
        for how in ["on", "move_to", "pool_on"] {
            let (far, begun, gate, ended) = (pool(1), Meet::new(), Meet::new(), Meet::new());
            let child = || {
                begun.put(());
                gate.wait().unwrap();
                // Dropped at once if it belongs to what has ended.
                let detached = segue_core::spawn(|| (0..100).all(|_| yield_now().is_ok()));
                let ran = detached.join();
                ended.put(ran.is_ok_and(|ran| ran));
            };
            let mut ran = false;
            let intact = std::thread::scope(|threads| {
                scope(|s| {
                    let run = || Runtime::new().workers(1);
                    match how {
                        "on" => run().run(|| drop(segue_core::Builder::new().within(s).on(&far).spawn(child))).unwrap(),
                        "move_to" => {
                            let there = || drop(s.spawn(child));
                            run().run(|| segue_sched::move_to(&far.handle(), there)).unwrap().unwrap();
                        }
                        _ => {
                            let start = |worker: segue_sched::WorkerThread| {
                                threads.spawn(|| worker.run());
                                Ok(())
                            };
                            run().pool_on(start).unwrap().run(|| drop(s.spawn(child))).unwrap();
                        }
                    }
                    begun.wait().unwrap();
                    over_what_was_given_up(|| {
                        gate.put(());
                        ran = ended.wait().unwrap();
                    })
                })
            });
            assert!(intact, "memory was written to that a family had given up: {how}");
            assert_eq!(ran, how != "pool_on");
        }
    });
    end.assert_passed();
}
