//! `switch`: a coroutine that is resumed and suspends again, over and over; an operation is one
//! resume and one suspend.
//!
//! Timed: one word in, one word out, and both stack switches. Not timed: making the coroutine and
//! its stack. Corosensei is also the lower bound: whoever switches stacks in the same manner cannot
//! do less.

use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};
use corosensei::{Coroutine, CoroutineResult};
use generator::Gn;

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "switch", timed: "a coroutine suspends and is resumed, one word each way", variants };

fn variants() -> Vec<Variant> {
    vec![
        Variant::new("suspend + resume", "round trip", 1)
            .add(SEGUE, segue)
            .add("corosensei", corosensei)
            .add("generator", generator)
            .add_go(&[]),
    ]
}

/// The coroutine of `segue-fiber`; the word lies in its header.
fn segue(n: u64) -> Span {
    use segue_fiber::{Coroutine, StackArena, StackConfig, StackPool, Step, suspend};
    use std::cell::Cell;
    use std::ptr::NonNull;

    struct Header {
        me: Cell<Option<NonNull<Header>>>,
        word: Cell<u64>,
    }
    let arena = StackArena::new(StackConfig::new()).expect("address space for a stack");
    let stack = StackPool::new(arena).take().expect("a stack");
    let header = Header { me: Cell::new(None), word: Cell::new(0) };
    let mut coroutine = Coroutine::new(stack, header, |header: &Header| {
        let me = header.me.get().expect("set before the first resume");
        while header.word.get() != 0 {
            // SAFETY: the pointer is to the header of this coroutine, which is the running one.
            #[allow(unsafe_code, reason = "the switch itself is unsafe; schedulers hide it")]
            unsafe {
                suspend(me);
            }
        }
    });
    coroutine.header().me.set(Some(coroutine.header_ptr()));
    let watch = Stopwatch::start();
    let mut sum = 0;
    for i in 1..=n {
        coroutine.header().word.set(i);
        // SAFETY: no handler is in place.
        #[allow(unsafe_code, reason = "as schedulers resume")]
        let step = unsafe { coroutine.resume_outside() };
        assert_eq!(step, Step::Suspended);
        sum += coroutine.header().word.get();
    }
    let span = watch.stop(n);
    assert_eq!(sum, n * (n + 1) / 2);
    coroutine.header().word.set(0);
    assert_eq!(coroutine.resume(), Step::Returned);
    drop(coroutine.finish());
    span
}

fn corosensei(n: u64) -> Span {
    let mut coroutine = Coroutine::<u64, u64, u64>::new(|yielder, mut word| {
        while word != 0 {
            word = yielder.suspend(word);
        }
        word
    });
    let watch = Stopwatch::start();
    let mut sum = 0;
    for i in 1..=n {
        match coroutine.resume(i) {
            CoroutineResult::Yield(word) => sum += word,
            CoroutineResult::Return(_) => unreachable!("only zero ends it"),
        }
    }
    let span = watch.stop(n);
    assert_eq!(sum, n * (n + 1) / 2);
    coroutine.resume(0);
    span
}

/// The crate beneath may.
fn generator(n: u64) -> Span {
    let mut coroutine = Gn::<u64>::new_scoped(|mut scope| {
        let mut word = 0;
        while let Some(next) = scope.yield_(word) {
            word = next;
            if word == 0 {
                break;
            }
        }
        0
    });
    coroutine.raw_send(None);
    let watch = Stopwatch::start();
    let mut sum = 0;
    for i in 1..=n {
        sum += coroutine.send(i);
    }
    let span = watch.stop(n);
    assert_eq!(sum, n * (n + 1) / 2);
    coroutine.send(0);
    span
}
