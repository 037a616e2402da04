//! `exceptions`: something is raised some calls deep, and caught outside; an operation is one that
//! is raised and caught.
//!
//! Timed: installing what catches, the calls, raising, coming back with a number. The hook that
//! prints a message is not called by anybody. An effect whose handler drops the continuation, or
//! discontinues it, unwinds what is between, as a panic does; so does an OCaml exception not, which
//! has nothing to clean up on the way, and a `Result` returns through each call.

use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};
use segue::effect::{Effect, Handler, perform};
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "exceptions", timed: "raise some calls deep, and catch outside", variants };

struct Raise(u64);
impl Effect for Raise {
    type Output = u64;
}

fn variants() -> Vec<Variant> {
    let variant = |calls: u64| {
        Variant::new(format!("{calls} calls deep"), "exception", 1)
            .add(SEGUE, move |n| each(n, |x| dropped(calls, x)))
            .add("segue, discontinue", move |n| each(n, |x| discontinued(calls, x)))
            .add("Result", move |n| each(n, |x| returned(calls, x)))
            .add("catch_unwind", move |n| each(n, |x| caught(calls, x)))
            .add_ocaml(&[&calls.to_string()])
    };
    vec![variant(1), variant(10)]
}

fn each(n: u64, one: impl Fn(u64) -> u64) -> Span {
    let watch = Stopwatch::start();
    let mut sum = 0;
    for i in 0..n {
        sum += one(black_box(i));
    }
    let span = watch.stop(n);
    assert_eq!(sum, n * n.saturating_sub(1) / 2);
    span
}

/// Calls itself `calls` times, and then `raise`.
#[inline(never)]
fn down(calls: u64, raise: &dyn Fn() -> u64) -> u64 {
    match calls {
        0 => raise(),
        _ => black_box(down(calls - 1, raise)),
    }
}

#[inline(never)]
fn down_result(calls: u64, raise: &dyn Fn() -> Result<u64, u64>) -> Result<u64, u64> {
    match calls {
        0 => raise(),
        _ => Ok(black_box(down_result(calls - 1, raise)?)),
    }
}

fn dropped(calls: u64, x: u64) -> u64 {
    Handler::new().on(|Raise(x), _k| x).handle(|| down(calls, &|| perform(Raise(x))))
}

fn discontinued(calls: u64, x: u64) -> u64 {
    Handler::new()
        .on(|Raise(x), k| k.discontinue(x))
        .panic(|payload| *payload.downcast().expect("what was raised"))
        .handle(|| down(calls, &|| perform(Raise(x))))
}

fn returned(calls: u64, x: u64) -> u64 {
    down_result(calls, &|| black_box(Err(x))).expect_err("it is raised")
}

fn caught(calls: u64, x: u64) -> u64 {
    let caught = catch_unwind(AssertUnwindSafe(|| down(calls, &|| resume_unwind(Box::new(x)))));
    *caught.expect_err("it is raised").downcast().expect("what was raised")
}
