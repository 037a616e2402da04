//! Attributes: who inherits what, who may change it when, how many there can be, and that they go
//! with whatever carried them.
#![cfg(not(miri))]
#![allow(unsafe_code)] // An allocator that counts.

use crate::common::{Meet, everywhere, on_real_schedulers, pool, scaled};
use segue_core::{Attribute, Attributes, Builder, attribute, attributes, scope, spawn, yield_now};
use segue_sched::{Goes, Policy, Sim, Task, Why, join};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, PoisonError, RwLock};
use std::thread;

struct Counts;

static LIVE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: passed on to the system's.
unsafe impl GlobalAlloc for Counts {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as isize, SeqCst);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as isize, SeqCst);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTS: Counts = Counts;

/// Held for reading by tests that run, and for writing by the one that counts bytes, which has to
/// be alone.
static ALONE: RwLock<()> = RwLock::new(());

fn among_others() -> impl Drop {
    ALONE.read().unwrap_or_else(PoisonError::into_inner)
}

/// A kind of attribute for each number.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Kind<const N: usize>(u64);

impl<const N: usize> Attribute for Kind<N> {
    fn to_bits(self) -> u64 {
        self.0
    }

    fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// One that children do not get.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Own(u64);

impl Attribute for Own {
    const INHERITED: bool = false;

    fn to_bits(self) -> u64 {
        self.0
    }

    fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

#[test]
fn a_child_gets_a_copy_and_changes_of_either_do_not_reach_the_other() {
    let _test = among_others();
    everywhere(|| {
        assert_eq!(attribute::<Kind<0>>(), None);
        let parent = Builder::new().attribute(Kind::<0>(1)).spawn(|| {
            let meet = Arc::new(Meet::new());
            let waits = Arc::clone(&meet);
            let child = spawn(move || {
                let before = attribute::<Kind<0>>();
                waits.wait().unwrap();
                let after = attribute::<Kind<0>>();
                attributes().unwrap().set(Kind::<0>(3));
                (before, after, attribute::<Kind<0>>())
            });
            attributes().unwrap().set(Kind::<0>(2));
            meet.put(());
            let of_child = child.join().unwrap();
            assert_eq!(of_child, (Some(Kind(1)), Some(Kind(1)), Some(Kind(3))));
            attribute::<Kind<0>>()
        });
        assert_eq!(parent.join().unwrap(), Some(Kind(2)));
        assert_eq!(attribute::<Kind<0>>(), None);
    });
}

#[test]
fn what_is_not_inherited_stays_with_its_fiber() {
    let _test = among_others();
    everywhere(|| {
        let both = || (attribute::<Own>(), attribute::<Kind<0>>());
        let fiber = Builder::new()
            .attribute(Own(1))
            .attribute(Kind::<0>(2))
            .spawn(move || (both(), spawn(both).join().unwrap()));
        assert_eq!(fiber.join().unwrap(), ((Some(Own(1)), Some(Kind(2))), (None, Some(Kind(2)))));
    });
}

#[test]
fn a_handle_changes_what_a_fiber_carries_while_it_lives_from_any_thread() {
    let _test = among_others();
    on_real_schedulers(|| {
        let handle = Attributes::new().with(Kind::<0>(0));
        let fiber = Builder::new().attributes(handle.clone()).spawn(|| {
            // Of another thread's making.
            while attribute() != Some(Kind::<0>(7)) {
                yield_now().unwrap();
            }
            attributes().unwrap().set(Kind::<1>(8));
        });
        thread::scope(|threads| drop(threads.spawn(|| handle.set(Kind::<0>(7)))));
        fiber.join().unwrap();
        assert_eq!(handle.get(), Some(Kind::<1>(8)), "it is the same record");
    });
}

#[test]
fn a_policy_sees_the_change_when_the_fiber_becomes_ready_the_next_time() {
    let _test = among_others();
    type Log = Arc<Mutex<Vec<(Why, Option<Kind<0>>)>>>;
    struct Notes(Vec<Task>, Log);
    impl Policy for Notes {
        fn push(&mut self, task: Task, why: Why) -> Goes {
            self.1.lock().unwrap().push((why, task.attribute()));
            self.0.push(task);
            Goes::Here
        }

        fn pop(&mut self) -> Option<Task> {
            self.0.pop()
        }
    }
    let notes = Arc::new(Mutex::new(Vec::new()));
    let make = || Notes(Vec::new(), Arc::clone(&notes));
    let run = segue_sched::Runtime::new().workers(1).run_with(make, || {
        let fiber = Builder::new().attribute(Kind::<0>(1)).spawn(|| {
            yield_now().unwrap();
            attributes().unwrap().set(Kind::<0>(2));
            yield_now().unwrap();
        });
        fiber.join().unwrap();
    });
    run.unwrap();
    let seen: Vec<_> = notes.lock().unwrap().iter().copied().filter(|(_, kind)| kind.is_some()).collect();
    assert_eq!(seen, [(Why::Spawned, Some(Kind(1))), (Why::Yielded, Some(Kind(1))), (Why::Yielded, Some(Kind(2)))]);
}

#[test]
fn there_is_room_for_any_number_of_kinds() {
    let _test = among_others();
    macro_rules! kinds { ($f:ident: $($n:literal)*) => { $($f::<$n>();)* } }
    fn set<const N: usize>() {
        assert_eq!(attribute::<Kind<N>>(), None);
        attributes().unwrap().set(Kind::<N>(N as u64));
    }
    fn check<const N: usize>() {
        assert_eq!(attribute(), Some(Kind::<N>(N as u64)));
    }
    everywhere(|| {
        let fiber = spawn(|| {
            attributes().unwrap().set(Own(1));
            kinds!(set: 0 1 2 3 4 5 6 7 8 9 10 11 12);
            kinds!(check: 0 1 2 3 4 5 6 7 8 9 10 11 12);
            let child = spawn(|| {
                kinds!(check: 0 1 2 3 4 5 6 7 8 9 10 11 12);
                attribute::<Own>()
            });
            assert_eq!(child.join().unwrap(), None);
        });
        fiber.join().unwrap();
    });
}

#[test]
fn threads_that_add_the_same_kinds_at_once_make_one_entry_of_each() {
    let _test = among_others();
    const THREADS: usize = 4;
    fn add<const N: usize>(handle: &Attributes, thread: usize) {
        handle.set(Kind::<N>(thread as u64));
        let found = handle.get::<Kind<N>>().expect("it was set");
        assert!(found.0 < THREADS as u64);
    }
    for _ in 0..scaled(500, 50) {
        let (handle, start) = (Attributes::new(), Barrier::new(THREADS));
        thread::scope(|threads| {
            for thread in 0..THREADS {
                let (handle, start) = (&handle, &start);
                threads.spawn(move || {
                    start.wait();
                    // In different orders, over more than one record.
                    let mut add: [fn(&Attributes, usize); 6] =
                        [add::<0>, add::<1>, add::<2>, add::<3>, add::<4>, add::<5>];
                    add.rotate_left(thread);
                    add.iter().for_each(|add| add(handle, thread));
                });
            }
        });
        // A second entry of a kind would hide behind the first, and a change would not be seen by
        // who has found the other.
        handle.set(Kind::<5>(99));
        assert_eq!(handle.get(), Some(Kind::<5>(99)));
    }
}

#[test]
fn children_of_forks_and_calls_to_pools_carry_the_callers() {
    let _test = among_others();
    on_real_schedulers(|| {
        let other = pool(1);
        let fiber = Builder::new().attribute(Kind::<0>(5)).spawn(move || {
            let (a, b) = join(
                || {
                    // While this waits, the other half has to run as a fiber of its own.
                    (0..3).for_each(|_| yield_now().unwrap());
                    attribute::<Kind<0>>()
                },
                attribute::<Kind<0>>,
            );
            assert_eq!((a, b), (Some(Kind(5)), Some(Kind(5))));
            assert_eq!(other.run(attribute::<Kind<0>>).unwrap(), Some(Kind(5)));
            scope(|s| assert_eq!(s.spawn(attribute::<Kind<0>>).join().unwrap(), Some(Kind(5))));
        });
        fiber.join().unwrap();
    });
}

#[test]
fn attributes_go_with_what_carried_them() {
    /// Drops every other closure.
    #[derive(Default)]
    struct Sheds(Vec<Task>, usize);
    impl Policy for Sheds {
        fn push(&mut self, task: Task, _why: Why) -> Goes {
            self.1 += 1;
            match task {
                Task::Fresh(_) if self.1.is_multiple_of(2) => {}
                task => self.0.push(task),
            }
            Goes::Here
        }

        fn pop(&mut self) -> Option<Task> {
            self.0.pop()
        }
    }
    let _alone = ALONE.write().unwrap_or_else(PoisonError::into_inner);
    let round = || {
        let body = || {
            for n in 0..50 {
                let many = Builder::new().attribute(Kind::<0>(n)).attribute(Kind::<1>(n)).attribute(Own(n));
                let fiber = many.attribute(Kind::<2>(n)).attribute(Kind::<3>(n)).spawn(move || {
                    drop(spawn(attribute::<Kind<3>>));
                    join(|| yield_now().unwrap(), attribute::<Kind<0>>).1
                });
                let _ = fiber.join();
            }
        };
        Sim::new(1).run(body).unwrap();
        segue_sched::Runtime::new().workers(1).run_with(Sheds::default, body).unwrap();
        // Builders and handles that came to nothing.
        drop(Builder::new().attribute(Kind::<0>(1)));
    };
    // The first times fill what is kept for good.
    (0..3).for_each(|_| round());
    let before = LIVE.load(SeqCst);
    (0..5).for_each(|_| round());
    let left = LIVE.load(SeqCst) - before;
    assert!(left < 2_000, "{left} bytes are left, of five times a hundred fibers with five attributes");
}
