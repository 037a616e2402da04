//! State as an effect: the same program under a handler that keeps a value, under one that keeps
//! all of its history, and under one that lets nothing be written.

use segue::effect::{Continuation, Effect, Handler, perform};

/// What is the value?
struct Get;
impl Effect for Get {
    type Output = u64;
}

/// From now on it is this one.
struct Put(u64);
impl Effect for Put {
    type Output = ();
}

/// One step of the Collatz sequence, as long as there is one. Says how many there were.
fn collatz() -> u32 {
    let mut steps = 0;
    loop {
        match perform(Get) {
            1 => return steps,
            even if even % 2 == 0 => perform(Put(even / 2)),
            odd => perform(Put(3 * odd + 1)),
        }
        steps += 1;
    }
}

/// The handler owns the state, and its clauses share it. Clauses that only answer are calls: there
/// is no stack and no switch.
fn with_value(start: u64) -> (u64, u32) {
    Handler::with_state(start)
        .answer_with(|state: &mut u64, Get| *state)
        .answer_with(|state: &mut u64, Put(value)| *state = value)
        .value_with(|state, steps: u32| (state, steps))
        .handle(collatz)
}

/// The state is a list of all values. The program can't tell.
fn with_history(start: u64) -> Vec<u64> {
    Handler::with_state(vec![start])
        .answer_with(|values: &mut Vec<u64>, Get| values[values.len() - 1])
        .answer_with(|values: &mut Vec<u64>, Put(value)| values.push(value))
        .value_with(|values, _steps: u32| values)
        .handle(collatz)
}

/// A clause that gets the continuation may stop the program: here as soon as a value is too large.
/// While the computation is suspended the state is the continuation's.
fn with_limit(start: u64, limit: u64) -> Option<u32> {
    Handler::with_state(start)
        .answer_with(|state: &mut u64, Get| *state)
        .on_tail(|Put(value), mut k: Continuation<'_, (), Option<u32>, u64>| {
            if value > limit {
                return segue::effect::Next::done(None);
            }
            *k.state() = value;
            k.tail(())
        })
        .value(Some)
        .handle(collatz)
}

fn main() {
    assert_eq!(with_value(6), (1, 8));
    assert_eq!(with_history(6), [6, 3, 10, 5, 16, 8, 4, 2, 1]);
    assert_eq!(with_limit(6, 16), Some(8));
    assert_eq!(with_limit(6, 15), None);

    // Handlers nest, and the innermost one counts: here the inner program has a state of its own.
    let (outer, (inner, steps)) = Handler::with_state(100)
        .answer_with(|state: &mut u64, Get| *state)
        .value_with(|state, inside: (u64, u32)| (state, inside))
        .handle(|| with_value(perform(Get)));
    assert_eq!((outer, inner, steps), (100, 1, 25));
    println!("from 6: {:?}; from 100: {steps} steps", with_history(6));
}
