//! Bodies: what is captured in them takes its contexts along, and goes on anywhere.

use crate::table::{ActsAtDrop, LONG, Must::*, RIGHT, Row, act, fiber, thread};
use segue_core::{
    Attribute, CancelToken, Extent, JoinError, after, attribute, attributes, blocking, check, deadline,
    describe_panics, finally, is_cancelled, now, scope, shield, shield_for, sleep, spawn, timeout, try_scope,
    wait_future, wait_future_shielded, yield_now,
};
use segue_sched::fiber::effect::{Effect, Handler, SharedHandler, outside, perform};
use segue_sched::fiber::incremental::{Feed, push};
use segue_sched::fiber::{generator, multi, region};
use segue_sched::{Handle, move_to};
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::future::{IntoFuture, Ready, poll_fn, ready};
use std::panic::resume_unwind;
use std::sync::Once;
use std::task::Poll;
use std::time::Duration;

/// One that the row's own handler answers.
struct Inner;
impl Effect for Inner {
    type Output = u64;
}

fn acts() -> u64 {
    act();
    RIGHT
}

/// Whether the contexts that it is in by now work.
fn acts_and_waits() -> u64 {
    act();
    assert!(!is_cancelled());
    assert_eq!(sleep(Duration::from_micros(1)), Ok(()));
    assert_eq!(yield_now(), Ok(()));
    RIGHT
}

fn scope_body() -> u64 {
    scope(|s| {
        let child = s.spawn(|| 3);
        act();
        match child.join() {
            Ok(value) => assert_eq!(value, 3),
            // The scheduler that it was opened under has ended, and the scope with it.
            Err(JoinError::NeverRan(_) | JoinError::WaitCancelled(..)) => {}
            Err(JoinError::Cancelled(_) | JoinError::Panicked(_)) => panic!("it is not, and does not"),
        }
        // A fiber of another scheduler's, perhaps.
        let child = shield(|| s.spawn(|| 4).join());
        assert!(matches!(child, Ok(4) | Err(JoinError::NeverRan(_))));
        RIGHT
    })
}

fn token_run() -> u64 {
    let token = CancelToken::new();
    let inside = token.clone();
    token.run(move || {
        act();
        assert_eq!(check(), Ok(()));
        inside.cancel();
        assert!(after(LONG).wait().is_err());
        RIGHT
    })
}

fn token_shield() -> u64 {
    let token = CancelToken::new();
    let inside = token.clone();
    token.shield(move || {
        act();
        assert_eq!(check(), Ok(()));
        inside.cancel();
        assert!(after(LONG).wait().is_err());
        RIGHT
    })
}

fn deadline_body() -> u64 {
    deadline(Some(now() + LONG), || {
        act();
        // One that is made there.
        assert!(timeout(Duration::from_micros(1), || after(LONG).wait()).unwrap_err().timed_out());
        acts_and_waits()
    })
}

fn polls_twice() -> impl Future<Output = u64> {
    let mut polled = false;
    poll_fn(move |task| {
        if !std::mem::replace(&mut polled, true) {
            act();
            task.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(RIGHT)
    })
}

struct Into;
impl IntoFuture for Into {
    type Output = u64;
    type IntoFuture = Ready<u64>;

    fn into_future(self) -> Ready<u64> {
        ready(acts())
    }
}

struct Acting;
impl fmt::Debug for Acting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an error")
    }
}
impl fmt::Display for Acting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        act();
        f.write_str("an error")
    }
}
impl Error for Acting {}

#[derive(Debug)]
struct ActsAtItsEnd;
impl fmt::Display for ActsAtItsEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an error")
    }
}
impl Error for ActsAtItsEnd {}
impl Drop for ActsAtItsEnd {
    fn drop(&mut self) {
        act();
    }
}

fn dropped_handle() -> u64 {
    let handle = spawn(|| ActsAtDrop);
    while !handle.is_finished() {
        yield_now().unwrap();
    }
    drop(handle);
    RIGHT
}

fn nobody_takes_the_result() -> u64 {
    let done = std::sync::Arc::new(());
    let inside = std::sync::Arc::clone(&done);
    drop(spawn(move || (ActsAtDrop, inside)));
    while std::sync::Arc::strong_count(&done) > 1 {
        yield_now().unwrap();
    }
    RIGHT
}

fn while_panicking() -> u64 {
    struct Scoped;
    impl Drop for Scoped {
        fn drop(&mut self) {
            scope(|s| assert_eq!(s.spawn(acts).join().unwrap(), RIGHT));
        }
    }
    let unwound = std::panic::catch_unwind(|| {
        let _scoped = Scoped;
        panic!("expected");
    });
    assert!(unwound.is_err());
    RIGHT
}

/// Its fibers ask the handler around it, wherever it goes on.
fn scope_that_inherits() -> u64 {
    scope(|s| {
        let child = s.spawn(|| perform(Inner));
        act();
        match child.join() {
            Ok(value) => value,
            Err(JoinError::Panicked(_)) => 0,
            Err(_) => RIGHT,
        }
    })
}

/// An attribute that acts when it becomes a word, or is made of one.
#[derive(Clone, Copy)]
struct Word<const BECOMES: bool>;

impl<const BECOMES: bool> Attribute for Word<BECOMES> {
    fn to_bits(self) -> u64 {
        if BECOMES { acts() } else { RIGHT }
    }

    fn from_bits(bits: u64) -> Self {
        if !BECOMES {
            act();
        }
        assert_eq!(bits, RIGHT);
        Self
    }
}

fn carries<const BECOMES: bool>() -> u64 {
    let look = || attribute::<Word<BECOMES>>().map_or(0, |_| RIGHT);
    let attributes = attributes().expect("a fiber has some");
    attributes.set(Word::<BECOMES>);
    assert!(attributes.get::<Word<BECOMES>>().is_some());
    look().max(RIGHT)
}

/// A payload that a function of somebody's knows.
struct Known;

fn described() -> u64 {
    fn describe(payload: &(dyn Any + Send)) -> Option<String> {
        payload.downcast_ref::<Known>().map(|_| {
            act();
            "known".to_owned()
        })
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| describe_panics(describe));
    let error = spawn(|| resume_unwind(Box::new(Known))).join().unwrap_err();
    assert_eq!(error.to_string(), "the fiber panicked: known");
    RIGHT
}

pub static ROWS: &[Row] = &[
    fiber("the body of a scope", Captured, scope_body),
    thread("the body of a scope, on a thread", Captured, scope_body),
    fiber("the body of a scope that is shielded", Captured, || shield(scope_body)),
    fiber("a fiber of a scope", Apart, || scope(|s| s.spawn(acts).join().unwrap())),
    thread("a fiber of a scope, on a thread", Apart, || scope(|s| s.spawn(acts).join().unwrap())),
    fiber("a fiber of a scope that is run in place, in a panic", Apart, while_panicking),
    fiber("spawn", Apart, || spawn(acts).join().unwrap()),
    thread("spawn, on a thread", Apart, || spawn(acts).join().unwrap()),
    fiber("a closure after a delay", Apart, || {
        segue_core::Builder::new().after(Duration::from_micros(1)).spawn(acts).join().unwrap()
    }),
    thread("a closure after a delay, on a thread", Apart, || {
        segue_core::Builder::new().after(Duration::from_micros(1)).spawn(acts).join().unwrap()
    }),
    fiber("spawn_task: a poll", Apart, || segue_core::spawn_task(polls_twice()).join().unwrap()),
    thread("spawn_task: a poll, on a thread", Apart, || segue_core::spawn_task(polls_twice()).join().unwrap()),
    fiber("timeout", Captured, || timeout(LONG, acts_and_waits)),
    thread("timeout, on a thread", Captured, || timeout(LONG, acts_and_waits)),
    fiber("deadline", Captured, deadline_body),
    thread("deadline, on a thread", Captured, deadline_body),
    fiber("shield", Captured, || shield(acts_and_waits)),
    fiber("shield_for", Captured, || shield_for(LONG, acts_and_waits)),
    fiber("a hook of a scope", Captured, || {
        scope(|s| s.on_exit(LONG, || assert_eq!(acts_and_waits(), RIGHT)));
        RIGHT
    }),
    fiber("a daemon of a scope", Apart, || scope(|s| s.spawn_daemon(acts).join().unwrap())),
    fiber("a local fiber of a scope", Apart, || scope(|s| s.spawn_local(acts).join().unwrap())),
    thread("a local fiber of a scope, on a thread: in place", Apart, || scope(|s| s.spawn_local(acts).join().unwrap())),
    fiber("the body of a scope that may fail", Captured, || {
        try_scope(|s| {
            s.spawn_try(|| Ok::<_, std::fmt::Error>(()));
            Ok::<_, std::fmt::Error>(acts())
        })
        .unwrap()
    }),
    fiber("CancelToken::run", Captured, token_run),
    thread("CancelToken::run, on a thread", Captured, token_run),
    fiber("CancelToken::shield", Captured, token_shield),
    thread("CancelToken::shield, on a thread", Captured, token_shield),
    fiber("Extent::run", Captured, || {
        let extent = Extent::new();
        extent.run(|| {
            act();
            assert!(extent.is_around());
            RIGHT
        })
    }),
    fiber("finally: the body", Captured, || finally(acts_and_waits, || sleep(Duration::from_micros(1)).unwrap())),
    fiber("finally: the cleanup", Captured, || finally(|| RIGHT, || assert_eq!(acts_and_waits(), RIGHT))),
    fiber("all kinds of contexts in each other", Captured, || {
        timeout(LONG, || scope(|_| shield(|| CancelToken::new().run(|| timeout(LONG, || scope(|_| acts_and_waits()))))))
    }),
    fiber("wait_future: a poll", Captured, || wait_future(polls_twice()).unwrap()),
    thread("wait_future: a poll, on a thread", Captured, || wait_future(polls_twice()).unwrap()),
    fiber("wait_future: into_future", Captured, || wait_future(Into).unwrap()),
    fiber("wait_future: the drop of the future", Captured, || {
        let acting = ActsAtDrop;
        wait_future(async move {
            let _acting = &acting;
            RIGHT
        })
        .unwrap()
    }),
    fiber("wait_future_shielded: a poll", Captured, || wait_future_shielded(polls_twice())),
    fiber("the drop of a handle with its result", Captured, dropped_handle),
    thread("the drop of a handle with its result, on a thread", Captured, dropped_handle),
    fiber("the drop of a result that nobody takes", Apart, nobody_takes_the_result),
    fiber("blocking", Apart, || blocking(acts).unwrap()),
    thread("blocking, on a thread: in place", Captured, || blocking(acts).unwrap()),
    fiber("move_to, to where the caller is", Captured, || move_to(&Handle::current().unwrap(), acts).unwrap()),
    fiber("the drop of a token with its reason", Captured, || {
        let token = CancelToken::new();
        token.cancel_with(ActsAtItsEnd);
        drop(token);
        RIGHT
    }),
    fiber("the drop of a reason that came second", Captured, || {
        let token = CancelToken::new();
        token.cancel();
        token.cancel_with(ActsAtItsEnd);
        assert!(token.is_cancelled());
        RIGHT
    }),
    fiber("the Display of a reason", Captured, || {
        let token = CancelToken::new();
        token.cancel_with(Acting);
        assert_eq!(token.run(check).unwrap_err().to_string(), "cancelled: an error");
        RIGHT
    }),
    fiber("Attribute::to_bits", Captured, carries::<true>),
    fiber("Attribute::from_bits", Captured, carries::<false>),
    fiber("describe_panics", Captured, described),
    fiber("Waitable::map: the closure of an attempt", Captured, || {
        after(Duration::ZERO).map(|()| acts()).attempt().unwrap()
    }),
    fiber("a clause that wants the continuation", Captured, || {
        Handler::new().on(|_: Inner, k| k.resume(acts())).handle(|| perform(Inner))
    }),
    fiber("a clause that answers", Captured, || {
        Handler::new().answer(|_: Inner| acts()).handle(|| timeout(LONG, || perform(Inner)))
    }),
    fiber("a clause of a shared handler", Captured, || {
        SharedHandler::new().answer(|_: Inner| acts()).handle(|| timeout(LONG, || perform(Inner)))
    }),
    fiber("a clause of a shared handler, asked in a fiber of a scope", Apart, || {
        SharedHandler::new().answer(|_: Inner| acts()).handle(|| scope(|s| s.spawn(|| perform(Inner)).join().unwrap()))
    }),
    fiber("the body of a scope inside of a shared handler", Captured, || {
        SharedHandler::new().answer(|_: Inner| RIGHT).handle(scope_that_inherits)
    }),
    fiber("a clause with the handler's state", Captured, || {
        Handler::with_state(RIGHT).answer_with(|state: &mut u64, _: Inner| acts().min(*state)).handle(|| perform(Inner))
    }),
    fiber("a handler's case for the value", Captured, || {
        Handler::new().answer(|_: Inner| 1).value(|()| acts()).handle(|| ())
    }),
    fiber("a handler's case for panics", Captured, || {
        let case = |_| acts();
        Handler::new().answer(|_: Inner| 1).panic(case).handle(|| panic!("expected"))
    }),
    fiber("the body of a handler further in", Captured, || {
        Handler::new()
            .on(|_: Inner, k| k.resume(RIGHT))
            .handle(|| timeout(LONG, || acts_and_waits().min(perform(Inner))))
    }),
    fiber("multi: the body", Captured, || {
        multi::handle(acts, |value| value, |_: Inner, k: &multi::Resumption<'_, u64, u64>| k.resume(1))
    }),
    fiber("the body of a generator further in", Captured, || {
        let mut elements = generator(|y| timeout(LONG, || y.give(acts_and_waits())));
        timeout(LONG, || elements.next().unwrap())
    }),
    fiber("region", Captured, || region(|_| acts())),
    fiber("the body of a machine", Captured, || push(|_: &mut Feed| acts()).finish()),
    fiber("Region::generator", Captured, || region(|r| r.generator(|y| y.give(acts())).next().unwrap())),
    fiber("outside", Apart, || outside(acts)),
];
