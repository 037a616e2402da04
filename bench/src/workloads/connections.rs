//! `connections`: libmprompt's benchmark (`test_mp_async.c`): 10,000 computations are alive, each
//! of which waits once and uses 32 KiB of stack; an operation is one computation, from its start to
//! its end. libmprompt's program runs 10,000,000 of them, a run here as many as fit a round.
//!
//! The driver goes through the 10,000 in turn: it resumes the one that has waited longest, which
//! ends, and starts another in its place, which runs until it waits. Timed: starting, suspending,
//! resuming, ending, and using the stack. Not timed: the first two times around, which map all the
//! memory and show its costs only once in 10,000,000, and the last ends.
//!
//! * *used after the wait*, as libmprompt has it: a function with 32 KiB of locals is called after
//!   the wait. A task then uses its worker's stack, of which there is one.
//! * *kept over the wait*: the same locals are alive while the computation waits, 320 MiB in all. A
//!   task has them in its future.
//!
//! Used is a byte in each of eight pages, which is written; libmprompt's program reads it. "By
//! hand" is libmprompt's loop: coroutines in a queue, and nobody else. So is "segue, effects", with
//! continuations that a handler's clause hands out. Everybody else has a main fiber or task that
//! does the same by means of a one-shot for each wait, and joins. That nearly all of them wait is
//! checked.

use super::crowd::{self, SpawnFiber, SpawnTask};
use super::policies::DEFAULT;
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload, smoke};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use segue::effect::{Continuation, Effect, Handler, perform};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the file's head.
pub const WORKLOAD: Workload = Workload {
    name: "connections",
    timed: "10,000 computations are alive, each waits once and uses 32 KiB of stack, per computation",
    variants,
};

fn variants() -> Vec<Variant> {
    let with = |name, when: When, go| {
        Variant::new(name, "computation", 1)
            .add(SEGUE, move |n| crowd::segue(&DEFAULT, 1, |start| fibers(start, when, n, segue_gate)))
            .add("segue, effects", move |n| effects(when, n))
            .add("corosensei, by hand", move |n| by_hand(when, n))
            .add("tokio", move |n| crowd::tokio(1, |start| tasks(start, when, n, tokio_gate)))
            .add("smol", move |n| crowd::smol(1, |start| tasks(start, when, n, smol_gate)))
            .add_go(&[go, &alive().to_string()])
            .absent("libmprompt", "no registry of packages has it")
            .absent("generator", "it maps a stack for each coroutine, and keeps none")
            .absent("may", "by its order a computation starts when it need not wait any more")
    };
    vec![with("used after the wait", When::After, "after"), with("kept over the wait", When::Over, "over")]
}

/// When the stack is used.
#[derive(Clone, Copy)]
enum When {
    /// After the wait.
    After,
    /// From before the wait until after it.
    Over,
}

/// How many there are at a time.
fn alive() -> usize {
    if smoke() { 500 } else { 10_000 }
}

type Locals = [MaybeUninit<u8>; 32 * 1024];
#[inline]
fn unused() -> Locals {
    [const { MaybeUninit::uninit() }; 32 * 1024]
}

/// Writes to each page.
fn touch(locals: &mut Locals) {
    for page in locals.chunks_mut(4096) {
        page[0].write(1);
    }
    black_box(locals);
}

#[inline(never)]
fn use_stack(meanwhile: impl FnOnce()) {
    let mut locals = unused();
    touch(&mut locals);
    meanwhile();
    black_box(&mut locals);
}

/// A computation whose waiting is a call.
fn computation(when: When, wait: impl FnOnce()) {
    match when {
        When::After => {
            wait();
            use_stack(|| ());
        }
        When::Over => use_stack(wait),
    }
}

/// Times as many turns around as have `n` computations. `turn` goes around once.
macro_rules! timed {
    ($n:expr, $turn:expr) => {{
        let turns = $n.div_ceil(alive() as u64);
        for _ in 0..2 {
            $turn;
        }
        let watch = Stopwatch::start();
        for _ in 0..turns {
            $turn;
        }
        watch.stop(turns * alive() as u64)
    }};
}

/// libmprompt's loop.
fn in_turn<W>(n: u64, start: impl Fn() -> W, resume: impl Fn(W)) -> Span {
    let mut waiting: VecDeque<W> = (0..alive()).map(|_| start()).collect();
    let span = timed!(n, {
        for _ in 0..alive() {
            resume(waiting.pop_front().expect("as many as are alive"));
            waiting.push_back(start());
        }
    });
    waiting.into_iter().for_each(resume);
    span
}

/// The clause hands the continuation out.
fn effects(when: When, n: u64) -> Span {
    struct Arrives;
    impl Effect for Arrives {
        type Output = ();
    }
    enum Step {
        Waits(Continuation<'static, (), Step>),
        Ended,
    }
    let start = || {
        let handler = Handler::stored().on(|Arrives, k| Step::Waits(k)).value(|()| Step::Ended);
        handler.handle(move || computation(when, || perform(Arrives)))
    };
    let resume = |step| {
        let Step::Waits(k) = step else { panic!("it did not wait") };
        assert!(matches!(k.resume(()), Step::Ended), "it waits once");
    };
    in_turn(n, start, resume)
}

/// Stacks are kept for the next ones.
fn by_hand(when: When, n: u64) -> Span {
    let stacks: RefCell<Vec<DefaultStack>> = RefCell::default();
    let start = || {
        let stack = stacks.borrow_mut().pop().unwrap_or_default();
        let mut coroutine = Coroutine::<(), (), ()>::with_stack(stack, move |yielder, ()| {
            computation(when, || yielder.suspend(()));
        });
        assert!(matches!(coroutine.resume(()), CoroutineResult::Yield(())), "it waits");
        coroutine
    };
    let resume = |mut coroutine: Coroutine<(), (), ()>| {
        assert!(matches!(coroutine.resume(()), CoroutineResult::Return(())), "it waits once");
        stacks.borrow_mut().push(coroutine.into_stack());
    };
    in_turn(n, start, resume)
}

/// How many have been started, and how many have come to their wait. There is one worker, so
/// counting needs no locked instructions.
#[derive(Default)]
struct Count {
    started: u64,
    arrived: Arc<AtomicU64>,
}

impl Count {
    /// Whoever is resumed has waited, but for the few that wait for their first turn.
    fn check(&self) {
        let fresh = self.started - self.arrived.load(Relaxed);
        assert!(fresh <= alive() as u64 / 10, "{fresh} were not started and do not wait");
    }
}

fn arrive(arrived: &AtomicU64) {
    arrived.store(arrived.load(Relaxed) + 1, Relaxed);
}

/// The main fiber does what the loop does. A gate is what opens it, and what waits at it.
fn fibers<S, O, W>(start: S, when: When, n: u64, gate: fn() -> (O, W)) -> Span
where
    S: SpawnFiber,
    O: FnOnce(),
    W: FnOnce() + Send + 'static,
{
    let mut count = Count::default();
    let mut spawn = || {
        let ((open, wait), arrived) = (gate(), count.arrived.clone());
        count.started += 1;
        let wait = move || {
            arrive(&arrived);
            wait();
        };
        (open, start.spawn(move || computation(when, wait)))
    };
    let mut waiting: VecDeque<_> = (0..alive()).map(|_| spawn()).collect();
    let span = timed!(n, {
        for _ in 0..alive() {
            let (open, end) = waiting.pop_front().expect("as many as are alive");
            open();
            S::join(end);
            waiting.push_back(spawn());
        }
    });
    count.check();
    for (open, end) in waiting {
        open();
        S::join(end);
    }
    span
}

/// The same with tasks.
async fn tasks<S, O, W>(start: S, when: When, n: u64, gate: fn() -> (O, W)) -> Span
where
    S: SpawnTask,
    O: FnOnce(),
    W: Future<Output = ()> + Send + 'static,
{
    let mut count = Count::default();
    let mut spawn = || {
        let ((open, wait), arrived) = (gate(), count.arrived.clone());
        count.started += 1;
        let end = match when {
            When::After => start.spawn(async move {
                arrive(&arrived);
                wait.await;
                use_stack(|| ());
            }),
            When::Over => start.spawn(async move {
                let mut locals = unused();
                touch(&mut locals);
                arrive(&arrived);
                wait.await;
                black_box(&mut locals);
            }),
        };
        (open, end)
    };
    let mut waiting: VecDeque<_> = (0..alive()).map(|_| spawn()).collect();
    let span = timed!(n, {
        for _ in 0..alive() {
            let (open, end) = waiting.pop_front().expect("as many as are alive");
            open();
            S::join(end).await;
            waiting.push_back(spawn());
        }
    });
    count.check();
    for (open, end) in waiting {
        open();
        S::join(end).await;
    }
    span
}

fn segue_gate() -> (impl FnOnce() + Send, impl FnOnce() + Send + 'static) {
    let (open, wait) = segue::sync::promise();
    (move || open.fill(()).expect("it waits"), move || wait.take().expect("nobody cancels"))
}

fn tokio_gate() -> (impl FnOnce() + Send, impl Future<Output = ()> + Send + 'static) {
    let (open, wait) = tokio::sync::oneshot::channel();
    (move || open.send(()).expect("it waits"), async { wait.await.expect("it is opened") })
}

fn smol_gate() -> (impl FnOnce() + Send, impl Future<Output = ()> + Send + 'static) {
    let (open, wait) = oneshot::channel();
    (move || open.send(()).expect("it waits"), async { wait.await.expect("it is opened") })
}
