//! `handler_overhead`: recursive functions with a handler around each call that is not in tail
//! position, none of which performs anything; an operation is one such call.
//!
//! Timed: the calls, with all that is computed between them. Each function also runs without
//! handlers: the column `against` is the slow-down, of which the paper gives 13.8 on average. `on`
//! is a handler that could keep the continuation, whose body runs on a stack of its own; `answer`
//! one that always resumes at once, whose body runs in place.

use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};
use segue::effect::{Effect, Handler};
use std::cell::Cell;
use std::hint::black_box;

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "handler_overhead", timed: "a handler around each call, nothing is performed", variants };

type F = fn() -> u64;

fn variants() -> Vec<Variant> {
    // Plain, with either handler, counted; and what each of them yields.
    let functions: [(&str, F, F, F, F, u64); 5] = [
        ("ack", || ack::<Plain>(3, 4), || ack::<On>(3, 4), || ack::<Answer>(3, 4), || ack::<Counted>(3, 4), 125),
        ("fib", || fib::<Plain>(20), || fib::<On>(20), || fib::<Answer>(20), || fib::<Counted>(20), 10946),
        (
            "motzkin",
            || motzkin::<Plain>(10),
            || motzkin::<On>(10),
            || motzkin::<Answer>(10),
            || motzkin::<Counted>(10),
            2188,
        ),
        (
            "sudan",
            || sudan::<Plain>(2, 2, 2),
            || sudan::<On>(2, 2, 2),
            || sudan::<Answer>(2, 2, 2),
            || sudan::<Counted>(2, 2, 2),
            15_569_256_417,
        ),
        (
            "tak",
            || tak::<Plain>(18, 12, 6),
            || tak::<On>(18, 12, 6),
            || tak::<Answer>(18, 12, 6),
            || tak::<Counted>(18, 12, 6),
            7,
        ),
    ];
    let variants = functions.into_iter().flat_map(|(name, plain, on, answer, counted, result)| {
        let calls = count(counted);
        let repeat = move |f: fn() -> u64| move |n| repeat(f, result, calls, n);
        let ocaml = |how: &str| [name.to_owned(), how.to_owned(), calls.to_string()];
        let variant = |how, f| {
            let args = ocaml(how);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            Variant::new(format!("{name}, {how}"), "call", 1).add(SEGUE, repeat(f)).add_ocaml(&args)
        };
        [
            variant("plain", plain),
            variant("on", on).against_first(),
            Variant::new(format!("{name}, answer"), "call", 1).add(SEGUE, repeat(answer)).against_first(),
        ]
    });
    variants.collect()
}

fn repeat(f: fn() -> u64, result: u64, calls: u64, n: u64) -> Span {
    let times = n.div_ceil(calls);
    let watch = Stopwatch::start();
    for _ in 0..times {
        assert_eq!(black_box(f)(), result);
    }
    watch.stop(times * calls)
}

struct Never;
impl Effect for Never {
    type Output = ();
}

/// What is around a call that is not in tail position.
trait Around {
    fn call(body: impl FnOnce() -> u64) -> u64;
}

struct Plain;
impl Around for Plain {
    #[inline(always)]
    fn call(body: impl FnOnce() -> u64) -> u64 {
        body()
    }
}

struct On;
impl Around for On {
    #[inline]
    fn call(body: impl FnOnce() -> u64) -> u64 {
        Handler::new().on(|Never, k| k.resume(())).handle(body)
    }
}

struct Answer;
impl Around for Answer {
    #[inline]
    fn call(body: impl FnOnce() -> u64) -> u64 {
        Handler::new().answer(|Never| ()).handle(body)
    }
}

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

struct Counted;
impl Around for Counted {
    fn call(body: impl FnOnce() -> u64) -> u64 {
        CALLS.set(CALLS.get() + 1);
        body()
    }
}

/// How many calls there are something around.
fn count(counted: fn() -> u64) -> u64 {
    CALLS.set(0);
    counted();
    CALLS.get()
}

#[inline(never)]
fn ack<A: Around>(m: u64, n: u64) -> u64 {
    match (m, n) {
        (0, _) => n + 1,
        (_, 0) => ack::<A>(m - 1, 1),
        _ => ack::<A>(m - 1, A::call(|| ack::<A>(m, n - 1))),
    }
}

#[inline(never)]
fn fib<A: Around>(n: u64) -> u64 {
    if n < 2 { 1 } else { A::call(|| fib::<A>(n - 1)) + A::call(|| fib::<A>(n - 2)) }
}

#[inline(never)]
fn motzkin<A: Around>(n: u64) -> u64 {
    if n < 2 {
        return 1;
    }
    let split = |i| A::call(|| motzkin::<A>(i)) * A::call(|| motzkin::<A>(n - 2 - i));
    A::call(|| motzkin::<A>(n - 1)) + (0..n - 1).map(split).sum::<u64>()
}

#[inline(never)]
fn sudan<A: Around>(n: u64, x: u64, y: u64) -> u64 {
    match (n, y) {
        (0, _) => x + y,
        (_, 0) => x,
        _ => {
            let inner = A::call(|| sudan::<A>(n, x, y - 1));
            sudan::<A>(n - 1, inner, inner + y)
        }
    }
}

#[inline(never)]
fn tak<A: Around>(x: i64, y: i64, z: i64) -> u64 {
    if x <= y {
        return z as u64;
    }
    let a = A::call(|| tak::<A>(x - 1, y, z));
    let b = A::call(|| tak::<A>(y - 1, z, x));
    let c = A::call(|| tak::<A>(z - 1, x, y));
    tak::<A>(a as i64, b as i64, c as i64)
}
