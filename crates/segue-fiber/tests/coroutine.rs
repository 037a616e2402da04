//! What a coroutine does, on either host: order, ends, leaks, panics, nesting.
//!
//! Run with and without `--features threads`.

// `suspend` is unsafe: every test passes the pointer of a coroutine that is running.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use segue_fiber::{Coroutine, PASSES_ON, StackArena, StackConfig, StackPool, Step, leaked_stacks, pass_on, suspend};

/// The header of these tests: the coroutine's own pointer, and a value.
#[derive(Default)]
struct Header {
    me: Cell<Option<NonNull<Header>>>,
    value: Cell<usize>,
}

impl Header {
    /// Suspends the coroutine with this header; only called inside it.
    fn pause(&self) {
        // SAFETY: set by `start` from `header_ptr`; called by what runs inside the coroutine.
        unsafe { suspend(self.me.get().unwrap()) }
    }
}

fn pool() -> StackPool {
    StackPool::new(StackArena::new(StackConfig::new()).unwrap())
}

fn start<F: FnOnce(&Header) + 'static>(pool: &mut StackPool, main: F) -> Coroutine<Header> {
    let coroutine = Coroutine::new(pool.take().unwrap(), Header::default(), main);
    coroutine.header().me.set(Some(coroutine.header_ptr()));
    coroutine
}

fn finish(pool: &mut StackPool, coroutine: Coroutine<Header>) -> usize {
    let (header, stack) = coroutine.finish();
    pool.put(stack);
    header.value.get()
}

/// Leaks are counted for the whole process: tests that leak or count take turns.
static LEAKS: Mutex<()> = Mutex::new(());

#[test]
fn resume_and_suspend_alternate_in_order() {
    let mut pool = pool();
    let log = Rc::new(RefCell::new(Vec::new()));
    let inside = log.clone();
    let mut coroutine = start(&mut pool, move |header| {
        for step in ["a", "b", "c"] {
            inside.borrow_mut().push(step);
            header.pause();
        }
        inside.borrow_mut().push("end");
    });
    assert!(log.borrow().is_empty(), "nothing runs before the first resume");
    for outside in ["1", "2", "3"] {
        assert_eq!(coroutine.resume(), Step::Suspended);
        log.borrow_mut().push(outside);
    }
    assert_eq!(coroutine.resume(), Step::Returned);
    assert_eq!(*log.borrow(), ["a", "1", "b", "2", "c", "3", "end"]);
    finish(&mut pool, coroutine);
}

#[test]
fn locals_survive_suspension_and_the_header_comes_back() {
    let mut pool = pool();
    let mut coroutine = start(&mut pool, |header| {
        let mut local = [0usize; 100];
        for round in 0..10 {
            for (index, place) in local.iter_mut().enumerate() {
                *place += index * round;
            }
            header.pause();
        }
        header.value.set(local.iter().sum());
    });
    while coroutine.resume() == Step::Suspended {}
    assert_eq!(finish(&mut pool, coroutine), 4950 * 45);
}

#[test]
fn a_hundred_thousand_coroutines_run_one_after_another() {
    let many = if cfg!(threads) { 2_000 } else { 100_000 };
    let mut pool = pool();
    let mut sum = 0;
    for number in 0..many {
        let mut coroutine = start(&mut pool, move |header| header.value.set(number));
        assert_eq!(coroutine.resume(), Step::Returned);
        sum += finish(&mut pool, coroutine);
    }
    assert_eq!(sum, many * (many - 1) / 2);
    assert!(pool.arena().outstanding() <= 8, "one stack was reused: {:?}", pool.arena());
}

#[test]
fn a_hundred_thousand_coroutines_are_suspended_at_once() {
    let many = if cfg!(threads) { 200 } else { 100_000 };
    let mut pool = StackPool::new(StackArena::new(StackConfig::new().slot_size(64 * 1024)).unwrap());
    let mut all: Vec<_> = (0..many)
        .map(|number| {
            start(&mut pool, move |header| {
                header.pause();
                header.value.set(number);
            })
        })
        .collect();
    for coroutine in &mut all {
        assert_eq!(coroutine.resume(), Step::Suspended);
    }
    let mut sum = 0;
    for mut coroutine in all.into_iter().rev() {
        assert_eq!(coroutine.resume(), Step::Returned);
        sum += finish(&mut pool, coroutine);
    }
    assert_eq!(sum, many * (many - 1) / 2);
}

#[test]
fn dropping_an_unstarted_one_drops_function_and_header_and_gives_the_stack_back() {
    let _turn = LEAKS.lock().unwrap_or_else(PoisonError::into_inner);
    let leaked = leaked_stacks();
    let mut pool = pool();
    for big in [false, true] {
        let (function, header) = (Rc::new(()), Rc::new(()));
        let (in_function, in_header) = (function.clone(), header.clone());
        let stack = pool.take().unwrap();
        let arena = stack.arena().clone();
        let before = arena.outstanding();
        let coroutine = if big {
            let padding = [1u64; 100];
            Coroutine::new(stack, in_header, move |_| drop((in_function, padding)))
        } else {
            Coroutine::new(stack, in_header, move |_| drop(in_function))
        };
        assert_eq!((Rc::strong_count(&function), Rc::strong_count(&header)), (2, 2));
        drop(coroutine);
        assert_eq!((Rc::strong_count(&function), Rc::strong_count(&header)), (1, 1));
        assert_eq!(arena.outstanding(), before - 1);
    }
    assert_eq!(leaked_stacks(), leaked);
}

#[test]
fn a_panic_while_an_unstarted_one_is_dropped_loses_neither_header_nor_stack() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("bomb");
        }
    }
    let mut pool = pool();
    let header = Rc::new(());
    let bomb = Bomb;
    let coroutine = Coroutine::new(pool.take().unwrap(), header.clone(), move |_| {
        let _bomb = &bomb;
    });
    let before = pool.arena().outstanding();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(coroutine))).is_err());
    assert_eq!(Rc::strong_count(&header), 1);
    assert_eq!(pool.arena().outstanding(), before - 1);
}

#[test]
fn dropping_a_suspended_one_leaks_and_counts_and_does_not_unwind() {
    struct Never;
    impl Drop for Never {
        fn drop(&mut self) {
            unreachable!("the frames of a suspended coroutine are left alone");
        }
    }
    let _turn = LEAKS.lock().unwrap_or_else(PoisonError::into_inner);
    let leaked = leaked_stacks();
    let mut pool = pool();
    let outstanding = {
        let mut coroutine = start(&mut pool, |header| {
            let _never = Never;
            header.pause();
        });
        assert_eq!(coroutine.resume(), Step::Suspended);
        pool.arena().outstanding()
    };
    assert_eq!(leaked_stacks(), leaked + 1);
    assert_eq!(pool.arena().outstanding(), outstanding, "the stack stays out of the arena");
}

#[test]
fn dropping_a_returned_one_drops_its_header_and_gives_the_stack_back() {
    let _turn = LEAKS.lock().unwrap_or_else(PoisonError::into_inner);
    let leaked = leaked_stacks();
    let mut pool = pool();
    let header = Rc::new(());
    let mut coroutine = Coroutine::new(pool.take().unwrap(), header.clone(), |_| ());
    let before = pool.arena().outstanding();
    assert_eq!(coroutine.resume(), Step::Returned);
    drop(coroutine);
    assert_eq!(Rc::strong_count(&header), 1);
    assert_eq!(pool.arena().outstanding(), before - 1);
    assert_eq!(leaked_stacks(), leaked);
}

#[test]
fn taking_the_stack_alone_drops_the_header() {
    let mut pool = pool();
    let header = Rc::new(());
    let mut coroutine = Coroutine::new(pool.take().unwrap(), header.clone(), |_| ());
    assert_eq!(coroutine.resume(), Step::Returned);
    pool.put(coroutine.into_stack());
    assert_eq!(Rc::strong_count(&header), 1);
    let unstarted = start(&mut pool, |_| ());
    assert!(catch_unwind(AssertUnwindSafe(|| unstarted.into_stack())).is_err(), "not started");
}

#[test]
fn resuming_or_finishing_at_the_wrong_time_panics_and_does_no_harm() {
    let _turn = LEAKS.lock().unwrap_or_else(PoisonError::into_inner);
    let leaked = leaked_stacks();
    let mut pool = pool();
    let mut coroutine = start(&mut pool, |header| header.value.set(7));
    assert_eq!(coroutine.resume(), Step::Returned);
    assert!(catch_unwind(AssertUnwindSafe(|| coroutine.resume())).is_err(), "returned");
    assert_eq!(finish(&mut pool, coroutine), 7);

    let unstarted = start(&mut pool, |_| ());
    assert!(catch_unwind(AssertUnwindSafe(|| unstarted.finish())).is_err(), "not started");

    let mut suspended = start(&mut pool, Header::pause);
    assert_eq!(suspended.resume(), Step::Suspended);
    assert!(catch_unwind(AssertUnwindSafe(|| suspended.finish())).is_err(), "suspended");
    assert_eq!(leaked_stacks(), leaked + 1);
}

/// Safe code cannot try this. What does so with `from_header` is caught where that costs nothing.
#[test]
#[cfg(any(debug_assertions, threads))]
fn a_second_handle_that_resumes_a_running_coroutine_is_caught() {
    let mut pool = pool();
    let mut coroutine = start(&mut pool, |header| {
        // SAFETY: breaks the promise of only one handle, to see that it is noticed before anything
        // happens.
        let mut me = std::mem::ManuallyDrop::new(unsafe { Coroutine::<Header>::from_header(header.me.get().unwrap()) });
        let refused = catch_unwind(AssertUnwindSafe(|| me.resume())).is_err();
        header.value.set(usize::from(refused));
    });
    assert_eq!(coroutine.resume(), Step::Returned);
    assert_eq!(finish(&mut pool, coroutine), 1);
}

#[test]
fn panics_are_caught_inside_and_do_not_disturb_others() {
    let mut pool = pool();
    let mut calm = start(&mut pool, |header| {
        header.pause();
        header.value.set(1);
    });
    assert_eq!(calm.resume(), Step::Suspended);
    let mut wild = start(&mut pool, |header| {
        for _ in 0..10 {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                header.pause();
                panic!("inside");
            }));
            header.value.set(header.value.get() + usize::from(caught.is_err()));
        }
    });
    while wild.resume() == Step::Suspended {
        assert!(!std::thread::panicking());
    }
    assert_eq!(calm.resume(), Step::Returned);
    assert_eq!((finish(&mut pool, wild), finish(&mut pool, calm)), (10, 1));
}

#[test]
fn functions_and_headers_of_any_size_and_alignment_work() {
    #[repr(align(64))]
    struct Aligned([u8; 64]);

    fn sized<const N: usize>(pool: &mut StackPool) {
        let captured = [N as u8; N];
        let mut coroutine = Coroutine::new(pool.take().unwrap(), [1u8; 333], move |header: &[u8; 333]| {
            assert!(captured.iter().chain([&(N as u8)]).all(|&byte| byte == N as u8));
            assert!(header.iter().all(|&byte| byte == 1));
        });
        assert_eq!(coroutine.resume(), Step::Returned);
        pool.put(coroutine.finish().1);
    }

    let mut pool = pool();
    sized::<0>(&mut pool);
    sized::<8>(&mut pool);
    sized::<255>(&mut pool);
    sized::<257>(&mut pool);
    sized::<5000>(&mut pool);
    // More than a slot has room for.
    sized::<300_000>(&mut pool);

    let captured = Aligned([9; 64]);
    let mut coroutine = Coroutine::new(pool.take().unwrap(), Aligned([5; 64]), move |header: &Aligned| {
        let captured = captured;
        assert_eq!((&raw const captured).addr() % 64, 0);
        assert_eq!(std::ptr::from_ref(header).addr() % 64, 0);
        assert_eq!((captured.0[63], header.0[63]), (9, 5));
    });
    assert_eq!(coroutine.resume(), Step::Returned);
    drop(coroutine);
}

#[test]
fn a_coroutine_resumes_another_to_any_depth() {
    fn nest(pool: &Rc<RefCell<StackPool>>, depth: usize, log: &Rc<RefCell<Vec<usize>>>) {
        if depth == 0 {
            return;
        }
        let (inner_pool, inner_log) = (pool.clone(), log.clone());
        let mut inner = start(&mut pool.borrow_mut(), move |header| {
            inner_log.borrow_mut().push(depth);
            header.pause();
            nest(&inner_pool, depth - 1, &inner_log);
            inner_log.borrow_mut().push(depth);
        });
        assert_eq!(inner.resume(), Step::Suspended);
        assert_eq!(inner.resume(), Step::Returned);
        finish(&mut pool.borrow_mut(), inner);
    }
    let pool = Rc::new(RefCell::new(pool()));
    let log = Rc::default();
    nest(&pool, 50, &log);
    let expected: Vec<usize> = (1..=50).rev().chain(1..=50).collect();
    assert_eq!(*log.borrow(), expected);
}

#[test]
fn an_outer_coroutine_is_suspended_from_an_inner_ones_stack() {
    let mut pool = pool();
    let inner_stack = pool.take().unwrap();
    let log = Rc::new(RefCell::new(Vec::new()));
    let inside = log.clone();
    let mut outer = start(&mut pool, move |header| {
        let outer = header.me.get().unwrap();
        let inner_log = inside.clone();
        let mut inner = Coroutine::new(inner_stack, Header::default(), move |_| {
            inner_log.borrow_mut().push("inner");
            // SAFETY: the outer coroutine resumed this one and is running.
            unsafe { suspend(outer) };
            inner_log.borrow_mut().push("inner again");
            // SAFETY: as above.
            unsafe { suspend(outer) };
        });
        assert_eq!(inner.resume(), Step::Returned, "the captured coroutine goes on to its end");
        inside.borrow_mut().push("outer");
    });
    assert_eq!(outer.resume(), Step::Suspended);
    log.borrow_mut().push("between");
    // Resumed from somewhere else: from inside a third coroutine.
    let outer = Rc::new(RefCell::new(outer));
    let passed = outer.clone();
    let mut third = start(&mut pool, move |_| {
        assert_eq!(passed.borrow_mut().resume(), Step::Suspended);
    });
    assert_eq!(third.resume(), Step::Returned);
    finish(&mut pool, third);
    log.borrow_mut().push("back");
    assert_eq!(outer.borrow_mut().resume(), Step::Returned);
    assert_eq!(*log.borrow(), ["inner", "between", "inner again", "back", "outer"]);
    let outer = Rc::into_inner(outer).unwrap().into_inner();
    finish(&mut pool, outer);
}

/// The frame of this and that of the next are what the test below looks for.
#[cfg(not(any(threads, windows)))]
#[inline(never)]
fn captures_a_backtrace() -> String {
    std::hint::black_box(std::backtrace::Backtrace::force_capture()).to_string()
}

#[cfg(not(any(threads, windows)))]
#[inline(never)]
fn resumes_for_a_backtrace(coroutine: &mut Coroutine<Header>) -> Step {
    std::hint::black_box(std::hint::black_box(coroutine).resume())
}

#[test]
#[cfg(not(any(threads, windows)))] // There a stack's calls end with the stack.
fn a_backtrace_inside_goes_on_at_whoever_resumed() {
    let mut pool = pool();
    let text = Rc::new(RefCell::new(Vec::new()));
    let inside = text.clone();
    let mut coroutine = start(&mut pool, move |header| {
        for _ in 0..2 {
            inside.borrow_mut().push(captures_a_backtrace());
            header.pause();
        }
    });
    assert_eq!(resumes_for_a_backtrace(&mut coroutine), Step::Suspended);
    // From another coroutine, so that the link has changed.
    let (mut third, coroutine) = {
        let coroutine = Rc::new(RefCell::new(coroutine));
        let passed = coroutine.clone();
        (start(&mut pool, move |_| assert_eq!(passed.borrow_mut().resume(), Step::Suspended)), coroutine)
    };
    assert_eq!(resumes_for_a_backtrace(&mut third), Step::Returned);
    assert_eq!(coroutine.borrow_mut().resume(), Step::Returned);
    for (index, text) in text.borrow().iter().enumerate() {
        let inside = text.find("captures_a_backtrace").expect(text);
        let resumer = text.find("resumes_for_a_backtrace").expect(text);
        let thread = text.find("clone3").or(text.find("thread_start")).or(text.find("test::run_test")).expect(text);
        assert!(inside < resumer && resumer < thread, "{index}: {text}");
    }
}

#[test]
fn a_pointer_to_the_header_stands_for_the_coroutine() {
    assert_eq!(size_of::<Coroutine<Header>>(), size_of::<usize>());
    let mut pool = pool();
    let pointer = start(&mut pool, |header| {
        header.pause();
        header.value.set(3);
    })
    .into_header();
    // SAFETY: from `into_header`, turned into a handle once.
    let mut coroutine = unsafe { Coroutine::from_header(pointer) };
    assert_eq!(coroutine.header_ptr(), pointer);
    assert_eq!(coroutine.resume(), Step::Suspended);
    coroutine.set_label(5, Some("any"));
    assert_eq!(coroutine.resume(), Step::Returned);
    assert_eq!(finish(&mut pool, coroutine), 3);
}

/// Three coroutines pass their turn on in a row; the last one suspends itself. Later it passes its
/// turn on to the first, which ends.
#[test]
fn coroutines_pass_on_and_any_of_them_comes_back() {
    if !PASSES_ON {
        return;
    }
    let mut pool = pool();
    let log = Rc::new(RefCell::new(Vec::new()));
    let others: Rc<RefCell<Vec<NonNull<Header>>>> = Rc::default();
    let mut coroutines: Vec<_> = (0..3)
        .map(|n| {
            let (log, others) = (log.clone(), others.clone());
            start(&mut pool, move |header| {
                log.borrow_mut().push(format!("{n} begins"));
                let me = header.me.get().unwrap();
                if n < 2 {
                    let next = others.borrow()[n + 1];
                    // SAFETY: the next one was not started yet; the loop below expects any.
                    unsafe { pass_on(me, next).make() };
                } else {
                    header.pause();
                    let first = others.borrow()[0];
                    // SAFETY: the first one rests since it has passed its turn on.
                    unsafe { pass_on(me, first).make() };
                }
                log.borrow_mut().push(format!("{n} ends"));
                header.value.set(n + 1);
            })
        })
        .collect();
    others.borrow_mut().extend(coroutines.iter().map(Coroutine::header_ptr));

    // All three begin, and the last one comes back; of what was resumed this says that it waits.
    assert_eq!(coroutines[0].resume(), Step::Suspended);
    assert_eq!(*log.borrow(), ["0 begins", "1 begins", "2 begins"]);
    assert!(coroutines.iter().all(|coroutine| !coroutine.has_returned()));
    if cfg!(not(threads)) {
        assert!(coroutines.iter().all(|coroutine| coroutine.backtrace().stacks().len() == 1));
    }
    // The last one passes its turn on to the first, which ends.
    assert_eq!(coroutines[2].resume(), Step::Suspended);
    assert_eq!(log.borrow().last().unwrap(), "0 ends");
    let returned: Vec<_> = coroutines.iter().map(Coroutine::has_returned).collect();
    assert_eq!(returned, [true, false, false]);
    assert_eq!(coroutines[2].resume(), Step::Returned);
    assert_eq!(coroutines[1].resume(), Step::Returned);
    let values: Vec<_> = coroutines.into_iter().map(|coroutine| finish(&mut pool, coroutine)).collect();
    assert_eq!(values, [1, 2, 3]);
    assert_eq!(log.borrow()[3..], ["0 ends", "2 ends", "1 ends"]);
}

#[test]
fn nobody_passes_on_to_one_that_has_returned() {
    if !PASSES_ON {
        return;
    }
    let mut pool = pool();
    let mut ended = start(&mut pool, |_| ());
    assert_eq!(ended.resume(), Step::Returned);
    let to = ended.header_ptr();
    let mut other = start(&mut pool, move |header| {
        let me = header.me.get().unwrap();
        // SAFETY: it refuses.
        let refused = catch_unwind(AssertUnwindSafe(|| unsafe { pass_on(me, to).make() }));
        header.value.set(usize::from(refused.is_err()));
    });
    assert_eq!(other.resume(), Step::Returned);
    assert_eq!(finish(&mut pool, other), 1);
    assert_eq!(finish(&mut pool, ended), 0);
}
