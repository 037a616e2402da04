//! `effect_suite`: the programs of effect-handlers-bench, the suite by which the implementations of
//! effect handlers are compared; what an operation is, each variant says.
//!
//! Timed: all of a program, as often as it takes; its tree or list is made before. Each result is
//! checked. Sizes are smaller than the suite's, since a round takes milliseconds and not seconds.
//!
//! Where the suite's clause resumes at once, as the last thing that it does, Segue's is an
//! `answer`; with `on_tail` it gets the continuation, on a stack of its own. `n_queens`,
//! `tree_explore` and `triples` resume a continuation several times: `multi` runs the body again,
//! and gives it the answers that it has had. "By hand" is the program without handlers.

use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload, smoke};
use segue::effect::{Continuation, Effect, Handler, multi, perform, perform_result};
use std::cell::Cell;
use std::convert::Infallible;
use std::hint::black_box;
use std::rc::Rc;

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "effect_suite", timed: "the eleven programs of effect-handlers-bench", variants };

fn variants() -> Vec<Variant> {
    let list: Rc<[u64]> = (0..=length()).rev().collect();
    let lists = [(); 3].map(|()| Rc::clone(&list));
    let [thrown, returned, by_hand] = lists;
    let tree = Tree::new(HEIGHT);
    let trees = [(); 3].map(|()| tree.clone());
    let [kept, generated, walked] = trees;
    let elements = (1 << HEIGHT) - 1;
    vec![
        Variant::new("countdown", "step", 1)
            .add(SEGUE, |n| repeat(n, STEPS, 0, countdown))
            .add("segue, on_tail", |n| repeat(n, STEPS, 0, countdown_tail))
            .add("by hand", |n| repeat(n, STEPS, 0, countdown_by_hand)),
        Variant::new("fibonacci_recursive", "call", 1)
            .add(SEGUE, |n| repeat(n, 2 * FIB - 1, FIB, || on_a_stack(|| fibonacci(20))))
            .add("by hand", |n| repeat(n, 2 * FIB - 1, FIB, || fibonacci(20))),
        Variant::new("product_early", "element", 1)
            .add(SEGUE, move |n| repeat(n, length(), 0, || product_as_value(&returned)))
            .add("segue, unwinding", move |n| repeat(n, length(), 0, || product_unwinding(&thrown)))
            .add("by hand", move |n| repeat(n, length(), 0, || product_by_hand(&by_hand).unwrap_or(0))),
        Variant::new("iterator", "element", 1)
            .add(SEGUE, |n| repeat(n, STEPS, sum_to(STEPS), iterate))
            .add("segue, on_tail", |n| repeat(n, STEPS, sum_to(STEPS), iterate_tail))
            .add("by hand", |n| repeat(n, STEPS, sum_to(STEPS), iterate_by_hand)),
        Variant::new("n_queens", "board", 1)
            .add(SEGUE, |n| repeat(n, 1, 4, || queens(6)))
            .add("by hand", |n| repeat(n, 1, 4, || queens_by_hand(6, &mut Vec::new()))),
        Variant::new("generator", "element", 1)
            .add(SEGUE, move |n| repeat(n, elements, generated.sum(), || generate(&generated)))
            .add("segue, a kept continuation", move |n| repeat(n, elements, kept.sum(), || generate_kept(&kept)))
            .add("by hand", move |n| repeat(n, elements, walked.sum(), || walked.sum())),
        Variant::new("tree_explore", "walk", 1)
            .add(SEGUE, |n| repeat(n, WALKS, explore_by_hand(), explore))
            .add("by hand", |n| repeat(n, WALKS, explore_by_hand(), explore_by_hand)),
        Variant::new("triples", "program", 1)
            .add(SEGUE, |n| repeat(n, 1, 779_312, || triples(10)))
            .add("by hand", |n| repeat(n, 1, 779_312, || triples_by_hand(10))),
        Variant::new("parsing_dollars", "character", 1)
            .add(SEGUE, |n| repeat(n, CHARACTERS, sum_to(LINES), parse_answered))
            .add("segue, on_tail", |n| repeat(n, CHARACTERS, sum_to(LINES), parse_resumed))
            .add("by hand", |n| repeat(n, CHARACTERS, sum_to(LINES), parse_by_hand)),
        Variant::new("resume_nontail", "perform", 1)
            .add(SEGUE, |n| repeat(n, STEPS, apply_by_hand(), apply))
            .add("by hand", |n| repeat(n, STEPS, apply_by_hand(), apply_by_hand)),
        Variant::new("handler_sieve", "number", 1)
            .add(SEGUE, |n| repeat(n, SIEVED, 76_127, sieve))
            .add("by hand", |n| repeat(n, SIEVED, 76_127, || sieve_by_hand(2, &mut Vec::new()))),
    ]
}

/// How many steps a loop has.
const STEPS: u64 = 1000;

/// How long the list is, before its zero.
fn length() -> u64 {
    if smoke() { 100 } else { 1000 }
}

/// The twentieth number, which takes twice as many calls, less one.
const FIB: u64 = 10_946;

/// How high the tree of the generator is.
const HEIGHT: u64 = 10;

fn sum_to(n: u64) -> u64 {
    n * (n + 1) / 2
}

/// Runs a program of so many operations until there are `n`.
fn repeat(n: u64, ops: u64, expected: u64, mut program: impl FnMut() -> u64) -> Span {
    let times = n.div_ceil(ops);
    let watch = Stopwatch::start();
    for _ in 0..times {
        assert_eq!(program(), expected);
    }
    watch.stop(times * ops)
}

// Countdown: a state, read and written by effects.

struct Get;
impl Effect for Get {
    type Output = u64;
}

struct Set(u64);
impl Effect for Set {
    type Output = ();
}

fn count_down() -> u64 {
    loop {
        match perform(Get) {
            0 => return 0,
            left => perform(Set(left - 1)),
        }
    }
}

fn countdown() -> u64 {
    Handler::with_state(black_box(STEPS))
        .answer_with(|left: &mut u64, Get| *left)
        .answer_with(|left: &mut u64, Set(now)| *left = now)
        .handle(count_down)
}

fn countdown_tail() -> u64 {
    Handler::with_state(black_box(STEPS))
        .on_tail(|Get, mut k: Continuation<'_, _, u64, u64>| {
            let left = *k.state();
            k.tail(left)
        })
        .on_tail(|Set(now), mut k: Continuation<'_, _, u64, u64>| {
            *k.state() = now;
            k.tail(())
        })
        .handle(count_down)
}

fn countdown_by_hand() -> u64 {
    let left = Cell::new(STEPS);
    let left = black_box(&left);
    while left.get() != 0 {
        left.set(left.get() - 1);
    }
    left.get()
}

// Fibonacci: calls alone, on a stack that could be captured.

fn on_a_stack(f: impl FnOnce() -> u64) -> u64 {
    Handler::new().on(|Get, k| k.resume(0)).handle(f)
}

fn fibonacci(n: u64) -> u64 {
    match black_box(n) {
        0 | 1 => 1,
        n => fibonacci(n - 1) + fibonacci(n - 2),
    }
}

// Product: a recursion is given up from far inside.

struct Done;
impl Effect for Done {
    type Output = u64;
}

fn product_unwinding(list: &[u64]) -> u64 {
    fn product(list: &[u64]) -> u64 {
        match list {
            [] => 1,
            [0, ..] => perform(Done),
            [first, rest @ ..] => black_box(*first).wrapping_mul(product(rest)),
        }
    }
    Handler::new().on(|Done, _| 0).handle(|| product(list))
}

fn product_as_value(list: &[u64]) -> u64 {
    fn product(list: &[u64]) -> Option<u64> {
        match list {
            [] => Some(1),
            [0, ..] => perform_result(Done).ok(),
            [first, rest @ ..] => Some(black_box(*first).wrapping_mul(product(rest)?)),
        }
    }
    Handler::new().on(|Done, _| 0).value(|it: Option<u64>| it.unwrap_or(1)).handle(|| product(list))
}

fn product_by_hand(list: &[u64]) -> Option<u64> {
    match list {
        [] => Some(1),
        [0, ..] => None,
        [first, rest @ ..] => Some(black_box(*first).wrapping_mul(product_by_hand(rest)?)),
    }
}

// Iterator: numbers are emitted, and added up outside.

struct Emit(u64);
impl Effect for Emit {
    type Output = ();
}

fn emit_all() {
    (1..=STEPS).for_each(|i| perform(Emit(i)));
}

fn iterate() -> u64 {
    Handler::with_state(0).answer_with(|sum: &mut u64, Emit(i)| *sum += i).value_with(|sum, ()| sum).handle(emit_all)
}

fn iterate_tail() -> u64 {
    Handler::with_state(0)
        .on_tail(|Emit(i), mut k: Continuation<'_, (), u64, u64>| {
            *k.state() += i;
            k.tail(())
        })
        .value_with(|sum, ()| sum)
        .handle(emit_all)
}

fn iterate_by_hand() -> u64 {
    let mut sum = 0;
    let emit: &mut dyn FnMut(u64) = &mut |i| sum += i;
    let emit = black_box(emit);
    (1..=STEPS).for_each(emit);
    sum
}

// N queens: the body picks, and is run again for each other pick.

struct Pick(u64);
impl Effect for Pick {
    type Output = u64;
}

fn is_safe(queen: u64, column: usize, placed: &[u64]) -> bool {
    placed.iter().enumerate().all(|(at, other)| queen != *other && queen.abs_diff(*other) != (column - at) as u64)
}

fn queens(size: u64) -> u64 {
    let place = move || {
        let mut placed = Vec::new();
        for column in 0..size as usize {
            let queen = perform(Pick(size));
            if !is_safe(queen, column, &placed) {
                return 0;
            }
            placed.push(queen);
        }
        1
    };
    multi::handle(place, |count: u64| count, |Pick(size), k| (0..size).map(|queen| k.resume(queen)).sum())
}

fn queens_by_hand(size: u64, placed: &mut Vec<u64>) -> u64 {
    if placed.len() as u64 == size {
        return 1;
    }
    let mut count = 0;
    for queen in 0..size {
        if is_safe(queen, placed.len(), placed) {
            placed.push(queen);
            count += queens_by_hand(size, placed);
            placed.pop();
        }
    }
    count
}

// Generator: the elements of a tree, one at a time.

/// A complete tree, of one node for each level.
#[derive(Clone)]
struct Tree(Option<Rc<Node>>);

struct Node {
    below: Tree,
    value: u64,
}

impl Tree {
    fn new(height: u64) -> Self {
        Self((height > 0).then(|| Rc::new(Node { below: Self::new(height - 1), value: height })))
    }

    fn each(&self, f: &mut impl FnMut(u64)) {
        if let Some(node) = &self.0 {
            node.below.each(f);
            f(node.value);
            node.below.each(f);
        }
    }

    fn sum(&self) -> u64 {
        let mut sum = 0;
        self.each(&mut |value| sum += black_box(value));
        sum
    }
}

fn generate(tree: &Tree) -> u64 {
    let tree = tree.clone();
    segue::effect::generator(move |y| tree.each(&mut |value| y.give(value))).sum()
}

/// What a step of the kept continuation comes to.
enum Step {
    Element(u64, Continuation<'static, (), Step>),
    End,
}

fn generate_kept(tree: &Tree) -> u64 {
    let tree = tree.clone();
    let mut step = Handler::stored()
        .on(|Emit(value), k| Step::Element(value, k))
        .value(|()| Step::End)
        .handle(move || tree.each(&mut |value| perform(Emit(value))));
    let mut sum = 0;
    while let Step::Element(value, k) = step {
        sum += value;
        step = k.resume(());
    }
    sum
}

// Tree explore: all paths of a tree, with a state that no path puts back.

/// Left or right, at a node with this value.
struct Choose(u64);
impl Effect for Choose {
    type Output = bool;
}

/// How many walks a program has.
const WALKS: u64 = 10;

/// How high its tree is. Both sides of a node are the same one.
const EXPLORED: u64 = 6;

fn operator(x: u64, y: u64) -> u64 {
    (x as i64 - 503 * y as i64 + 37).unsigned_abs() % 1009
}

/// A body that is run again would change the state again. So the clause does, each time that it
/// resumes.
fn explore() -> u64 {
    let state = Cell::new(0);
    let descend = |value| state.set(operator(state.get(), value));
    for _ in 0..WALKS {
        let best = multi::handle(
            || (1..=EXPLORED).rev().filter(|value| black_box(perform(Choose(*value))) || black_box(true)).collect(),
            |path: Vec<u64>| path.iter().rfold(state.get(), |result, value| operator(*value, result)),
            |Choose(value), k| {
                descend(value);
                let left = k.resume(true);
                descend(value);
                left.max(k.resume(false))
            },
        );
        state.set(best);
    }
    state.get()
}

fn explore_by_hand() -> u64 {
    fn walk(height: u64, state: &mut u64, path: &mut Vec<u64>) -> u64 {
        if height == 0 {
            return path.iter().rfold(*state, |result, value| operator(*value, result));
        }
        let mut best = 0;
        for _ in 0..2 {
            *state = operator(*state, height);
            path.push(height);
            best = best.max(walk(height - 1, state, path));
            path.pop();
        }
        best
    }
    (0..WALKS).fold(0, |mut state, _| walk(EXPLORED, &mut state, &mut Vec::new()))
}

// Triples: three falling numbers with a sum, found by flipping coins.

struct Flip;
impl Effect for Flip {
    type Output = bool;
}

fn hash(a: u64, b: u64, c: u64) -> u64 {
    (53 * a + 2809 * b + 148_877 * c) % 1_000_000_007
}

fn triples(n: u64) -> u64 {
    let choice = |most: u64| (1..=most).rev().find(|_| perform(Flip));
    let triple = || {
        let a = choice(n)?;
        let b = choice(a - 1)?;
        let c = choice(b - 1)?;
        (a + b + c == n).then(|| hash(a, b, c))
    };
    multi::handle(
        triple,
        |found: Option<u64>| found.unwrap_or(0),
        |Flip, k| (k.resume(true) + k.resume(false)) % 1_000_000_007,
    )
}

fn triples_by_hand(n: u64) -> u64 {
    let mut sum = 0;
    for a in 1..=n {
        for b in 1..a {
            for c in 1..b {
                if black_box(a + b + c) == n {
                    sum = (sum + hash(a, b, c)) % 1_000_000_007;
                }
            }
        }
    }
    sum
}

// Parsing dollars: three effects, of which one gives up.

struct Read;
impl Effect for Read {
    type Output = u8;
}

struct Stop;
impl Effect for Stop {
    type Output = Infallible;
}

/// How many lines are read, each with a dollar more than the one before.
const LINES: u64 = 44;

/// The lines, their dollars, and what follows.
const CHARACTERS: u64 = LINES + 1 + LINES * (LINES + 1) / 2 + 1;

fn stop() -> ! {
    match perform(Stop) {}
}

fn parse() {
    let mut dollars = 0;
    loop {
        match perform(Read) {
            b'$' => dollars += 1,
            b'\n' => {
                perform(Emit(dollars));
                dollars = 0;
            }
            _ => stop(),
        }
    }
}

/// The line, and the dollars that are left in it.
type Position = (u64, u64);

/// The next character, if the file is not at its end.
fn next_character((line, left): &mut Position) -> Option<u8> {
    if *line > LINES {
        return None;
    }
    if *left > 0 {
        *left -= 1;
        return Some(b'$');
    }
    *line += 1;
    *left = *line;
    Some(b'\n')
}

fn sum_up(action: impl FnOnce()) -> u64 {
    Handler::with_state(0).answer_with(|sum: &mut u64, Emit(i)| *sum += i).value_with(|sum, ()| sum).handle(action)
}

fn catch_stop(action: impl FnOnce()) {
    Handler::new().on(|Stop, _| ()).handle(action);
}

fn parse_answered() -> u64 {
    let feed = || {
        Handler::with_state((0, 0))
            .answer_with(|at: &mut Position, Read| next_character(at).unwrap_or_else(|| stop()))
            .value_with(|_, ()| ())
            .handle(parse)
    };
    sum_up(|| catch_stop(feed))
}

fn parse_resumed() -> u64 {
    let feed = || {
        Handler::with_state((0, 0))
            .on_tail(|Read, mut k: Continuation<'_, u8, (), Position>| {
                let next = next_character(k.state());
                k.tail(next.unwrap_or_else(|| stop()))
            })
            .handle(parse)
    };
    sum_up(|| catch_stop(feed))
}

fn parse_by_hand() -> u64 {
    let (mut sum, mut dollars, mut at) = (0, 0, (0, 0));
    while let Some(next) = next_character(black_box(&mut at)) {
        match next {
            b'$' => dollars += 1,
            _ => sum += std::mem::take(&mut dollars),
        }
    }
    sum
}

// Resume nontail: each clause goes on when all behind it is done.

struct Apply(u64);
impl Effect for Apply {
    type Output = ();
}

fn apply() -> u64 {
    Handler::new().on(|Apply(x), k| operator(x, k.resume(()))).handle(|| {
        (1..=STEPS).rev().for_each(|x| perform(Apply(x)));
        black_box(0)
    })
}

fn apply_by_hand() -> u64 {
    fn apply(x: u64) -> u64 {
        if x == 0 { black_box(0) } else { operator(x, apply(x - 1)) }
    }
    apply(black_box(STEPS))
}

// Handler sieve: each prime that is found has a handler that knows its multiples.

struct IsPrime(u64);
impl Effect for IsPrime {
    type Output = bool;
}

/// The numbers from 2 to below 1,000.
const SIEVED: u64 = 998;

fn sieve() -> u64 {
    fn primes(i: u64, sum: u64) -> u64 {
        if i == SIEVED + 2 {
            sum
        } else if perform(IsPrime(i)) {
            Handler::new()
                .answer(|IsPrime(e)| !e.is_multiple_of(i) && perform(IsPrime(e)))
                .handle(|| primes(i + 1, sum + i))
        } else {
            primes(i + 1, sum)
        }
    }
    Handler::new().answer(|IsPrime(_)| true).handle(|| primes(2, 0))
}

fn sieve_by_hand(i: u64, found: &mut Vec<u64>) -> u64 {
    if i == SIEVED + 2 {
        return found.iter().sum();
    }
    // The newest prime is asked first, as there.
    if found.iter().rev().all(|prime| !i.is_multiple_of(*black_box(prime))) {
        found.push(i);
    }
    sieve_by_hand(i + 1, found)
}
