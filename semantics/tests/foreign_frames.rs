//! Effects cross foreign frames on the runtime, as in Segue's mode of the machine and unlike the
//! paper's: the frames stay on the fiber's stack, and are captured, resumed and unwound with it.

#![allow(unsafe_code)] // The C library's sort, with a comparison of ours.

use std::cell::Cell;
use std::cmp::Ordering;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use segue_fiber::effect::{Continuation, Effect, Handler, perform, try_perform};
use segue_fiber::leaked_stacks;
use semantics::foreign::through_c;

unsafe extern "C-unwind" {
    /// `qsort(3)`. glibc builds it with unwind tables, as comparisons may throw.
    fn qsort(
        base: *mut c_void,
        count: usize,
        size: usize,
        compare: unsafe extern "C-unwind" fn(*const c_void, *const c_void) -> i32,
    );
}

/// Which of the two is to come first?
struct Compare(i32, i32);

impl Effect for Compare {
    type Output = Ordering;
}

/// # Safety
///
/// Both point to an `i32`.
unsafe extern "C-unwind" fn ask(a: *const c_void, b: *const c_void) -> i32 {
    // SAFETY: by the contract.
    let (a, b) = unsafe { (*a.cast::<i32>(), *b.cast::<i32>()) };
    perform(Compare(a, b)) as i32
}

/// Sorts with the C library, in the order that a handler around this says.
fn sort(mut numbers: Vec<i32>) -> Vec<i32> {
    // SAFETY: so many numbers are there, of that size, and nobody else uses them before the sort
    // returns. The comparison answers without regard to order at worst, which leaves them in some
    // order. An unwinding through the sort leaves them as some permutation or with duplicates,
    // which are numbers still.
    unsafe { qsort(numbers.as_mut_ptr().cast(), numbers.len(), size_of::<i32>(), ask) };
    numbers
}

#[test]
fn a_comparison_that_c_calls_asks_a_handler_beyond_c() {
    let asked = Cell::new(0);
    let sorted = Handler::new()
        .on(|Compare(a, b), k| {
            asked.set(asked.get() + 1);
            k.resume(a.cmp(&b))
        })
        .handle(|| sort(vec![3, 1, 2, 9, 5]));
    assert_eq!(sorted, [1, 2, 3, 5, 9]);
    assert!(asked.get() >= 4, "{}", asked.get());
    // The same sort under another handler.
    let sorted = Handler::new().on_tail(|Compare(a, b), k| k.tail(b.cmp(&a))).handle(|| sort(vec![3, 1, 2, 9, 5]));
    assert_eq!(sorted, [9, 5, 3, 2, 1]);
    let sorted = Handler::new().answer(|Compare(a, b)| a.cmp(&b)).handle(|| sort(vec![3, 1, 2, 9, 5]));
    assert_eq!(sorted, [1, 2, 3, 5, 9]);
}

#[test]
fn two_sorts_take_turns() {
    // Each is suspended in the middle of the C library, while the other goes on.
    enum Sort {
        Asks(i32, i32, Continuation<'static, Ordering, Sort>),
        Done(Vec<i32>),
    }
    let start = |numbers: Vec<i32>| {
        Handler::stored()
            .on(|Compare(a, b), k| Sort::Asks(a, b, k))
            .value(|sorted: Vec<i32>| Sort::Done(sorted))
            .handle(move || sort(numbers))
    };
    let mut turns = 0;
    let mut sorts = [start((0..20).rev().collect()), start(vec![2, 7, 1, 8, 2, 8])];
    while sorts.iter().any(|it| matches!(it, Sort::Asks(..))) {
        sorts = sorts.map(|sort| match sort {
            Sort::Asks(a, b, k) => {
                turns += 1;
                k.resume(a.cmp(&b))
            }
            done => done,
        });
    }
    let [Sort::Done(a), Sort::Done(b)] = sorts else { unreachable!() };
    assert_eq!((a, b), ((0..20).collect(), vec![1, 2, 2, 7, 8, 8]));
    assert!(turns > 25, "{turns}");
}

#[test]
fn a_sort_that_is_given_up_is_unwound_through_c() {
    struct Counts(Rc<Cell<usize>>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let dropped = Rc::new(Cell::new(0));
    let body = || {
        let _counts = Counts(dropped.clone());
        sort(vec![3, 1, 2]).len()
    };
    let leaked = leaked_stacks();
    // Dropped.
    let n = Handler::new().on(|Compare(..), _k| 0).handle(body);
    assert_eq!((n, dropped.get()), (0, 1));
    // Discontinued, and caught outside of the sort, in the body's own handler.
    let n = Handler::new()
        .on(|Compare(..), k| k.discontinue("stop") + 1)
        .handle(|| catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|it| it.downcast::<&str>().unwrap().len()));
    assert_eq!((n, dropped.get()), (5, 2));
    // Panicked in the clause.
    let panics = || {
        Handler::new()
            .on(|Compare(..), k| -> usize {
                drop(k);
                std::panic::resume_unwind(Box::new(7))
            })
            .handle(body)
    };
    let payload = catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
    assert_eq!((payload.downcast_ref(), dropped.get()), (Some(&7), 3));
    // Not handled at all: a panic in the comparison.
    let payload =
        catch_unwind(AssertUnwindSafe(|| through_c(|| assert!(try_perform(Compare(1, 2)).is_ok())))).unwrap_err();
    assert!(payload.is::<&str>());
    assert_eq!(leaked_stacks(), leaked);
}

#[test]
fn a_call_through_c_returns_what_it_called() {
    assert_eq!(through_c(|| through_c(|| 1) + 1), 2);
}
