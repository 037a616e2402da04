//! Scopes whose fibers may fail: the first failure cancels the rest, and none is lost.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{AtDrop, everywhere};
use segue::cancel::Failure;
use segue::channel::broadcast;
use segue::concurrent::{Incomplete, NoneOk};
use segue::sync::{ForceError, MVar};
use segue::testing::Sim;
use segue::{
    Builder, CancelToken, Cancelled, JoinError, Rejected, ScopeError, WaitError, after, is_cancelled, shield, sleep,
    timeout, try_scope,
};
use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use std::{fmt, fs, io};

fn never() -> Result<(), Cancelled> {
    after(Duration::MAX).wait()
}

fn panic_of<R>(f: impl FnOnce() -> R) -> Box<dyn Any + Send> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => panic!("it was to panic"),
        Err(payload) => payload,
    }
}

/// Unwinds without the noise of the panic hook.
fn fail<T: Send + 'static, R>(payload: T) -> R {
    resume_unwind(Box::new(payload))
}

fn reason(cancelled: &Cancelled) -> String {
    cancelled.reason().expect("a reason").to_string()
}

fn said(error: &ScopeError) -> Vec<String> {
    std::iter::once(error.first()).chain(error.later()).map(Failure::to_string).collect()
}

#[test]
fn without_a_failure_the_body_s_value_is_returned() {
    everywhere(|| {
        let value = try_scope(|s| {
            let six = s.spawn_try(|| Ok::<_, Cancelled>(6));
            Ok::<_, Cancelled>(six.join().unwrap()? * 7)
        });
        assert_eq!(value.unwrap(), 42);
    });
}

#[test]
fn the_first_error_cancels_siblings_and_body_and_is_their_reason() {
    everywhere(|| {
        let error = try_scope(|s| {
            let sibling = s.spawn(never);
            let fails = s.spawn_try(|| -> Result<(), _> { Err("out of ink") });
            let mine = never().unwrap_err();
            assert_eq!(reason(&mine), "out of ink");
            match sibling.join() {
                Ok(waited) => assert_eq!(reason(&waited.unwrap_err()), "out of ink"),
                Err(unstarted) => assert_eq!(reason(unstarted.cancelled().unwrap()), "out of ink"),
            }
            assert_eq!(reason(&fails.join().unwrap().unwrap_err()), "out of ink");
            Err::<(), _>(mine)
        });
        let error = error.unwrap_err();
        assert_eq!(said(&error), ["a fiber failed: out of ink"], "the body's is an echo");
    });
}

#[test]
fn an_error_keeps_its_type_and_its_kind() {
    everywhere(|| {
        let open = || -> io::Result<()> {
            try_scope(|s| {
                s.spawn_try(|| fs::File::open("/nowhere/at/all"));
                Ok::<_, io::Error>(())
            })?;
            Ok(())
        };
        assert_eq!(open().unwrap_err().kind(), io::ErrorKind::NotFound);
    });
}

#[test]
fn the_body_s_error_counts_as_any_other() {
    everywhere(|| {
        let saw = AtomicBool::new(false);
        let error = try_scope(|s| {
            let (started, begins) = segue::sync::promise();
            s.spawn(|| {
                started.fill(()).unwrap();
                saw.store(never().is_err(), SeqCst);
            });
            begins.wait().unwrap();
            Err::<(), _>("no paper")
        });
        assert_eq!(said(&error.unwrap_err()), ["the body failed: no paper"]);
        assert!(saw.into_inner(), "the fiber was cancelled");
    });
}

#[test]
fn all_failures_are_kept_in_their_order_and_echoes_are_not() {
    everywhere(|| {
        let error = try_scope(|s| {
            let (go, goes) = segue::sync::promise();
            let (began, begins) = segue::sync::promise();
            let second = Builder::new().name("second").within(s).spawn_try(move || {
                began.fill(()).unwrap();
                shield(|| goes.wait().map(drop)).unwrap();
                Err::<(), _>("the second")
            });
            // Echoes, by all kinds of errors that only say so.
            s.spawn_try(never);
            s.spawn_try(|| never().map_err(io::Error::from));
            s.spawn_try(|| MVar::<u32>::empty().take());
            s.spawn_try(|| never().map_err(WaitError::from));
            s.spawn_try(|| try_scope(|_| never()).map_err(|error| Box::new(error) as Box<dyn Error + Send + Sync>));
            s.spawn_try(|| never().map_err(Wrapped));
            begins.wait().unwrap();
            let first = s.spawn_try(|| Err::<(), _>("the first"));
            assert_eq!(reason(&first.join().unwrap().unwrap_err()), "the first");
            go.fill(()).unwrap();
            assert_eq!(reason(&second.join().unwrap().unwrap_err()), "the second");
            // What only looks like one counts.
            Err::<(), _>("cancelled: the first")
        });
        let error = error.unwrap_err();
        let expected =
            ["a fiber failed: the first", "fiber `second` failed: the second", "the body failed: cancelled: the first"];
        if segue::fiber::current().is_some() {
            assert_eq!(said(&error), expected);
            assert_eq!(error.later()[0].fiber(), Some("second"));
        }
        assert_eq!(error.later().len(), 2);
        assert!(error.to_string().starts_with("a fiber failed: the first; then "), "{error}");
    });
}

/// An error of a library, of which the cancellation is the source.
#[derive(Debug)]
struct Wrapped(Cancelled);

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request was not sent")
    }
}

impl Error for Wrapped {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// An error that has the reason in its message already.
#[derive(Debug)]
struct Delegates(Cancelled);

impl fmt::Display for Delegates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not printed: {}", self.0)
    }
}

impl Error for Delegates {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

#[test]
fn an_error_of_any_type_that_consists_of_the_cancellation_is_an_echo() {
    type Boxed = Box<dyn Error + Send + Sync>;
    let kinds: [fn(Cancelled) -> Boxed; 13] = [
        |cancelled| cancelled.into(),
        |cancelled| io::Error::from(cancelled).into(),
        |cancelled| WaitError::from(cancelled).into(),
        |cancelled| Rejected { value: 1, error: cancelled }.into(),
        |cancelled| Rejected { value: "lent", error: WaitError::from(cancelled) }.into(),
        |cancelled| JoinError::<()>::NeverRan(cancelled).into(),
        |cancelled| JoinError::WaitCancelled(cancelled, vec![1]).into(),
        |cancelled| broadcast::RecvError::Cancelled(cancelled).into(),
        |cancelled| ForceError::<&str>::Cancelled(cancelled).into(),
        |cancelled| Incomplete { results: vec![Some(1), None], error: cancelled }.into(),
        |cancelled| NoneOk::<&str> { errors: Vec::new(), cancelled: Some(cancelled) }.into(),
        |cancelled| Wrapped(cancelled).into(),
        |cancelled| Delegates(cancelled).into(),
    ];
    everywhere(|| {
        for kind in kinds {
            let error = try_scope(|s| -> Result<(), Boxed> {
                let cancelled = s.fail_with("out of ink");
                Err(kind(cancelled))
            });
            assert_eq!(said(&error.unwrap_err()), ["a part failed: out of ink"]);
            // Of another scope's cancellation it is not.
            let error = try_scope(|s| -> Result<(), Boxed> {
                s.fail_with("out of ink");
                Err(kind(Cancelled::with_reason("no paper")))
            });
            assert_eq!(error.unwrap_err().later().len(), 1, "{}", kind(Cancelled::with_reason("no paper")));
        }
    });
    // What reports follow says nothing twice.
    for kind in kinds {
        let error = kind(Cancelled::with_reason(Wrapped(Cancelled::with_reason("no paper"))));
        let (mut tells, mut next) = (0, Some(&*error as &dyn Error));
        while let Some(error) = next {
            tells += usize::from(error.to_string().contains("was not sent"));
            next = error.source();
        }
        let wraps = error.is::<Wrapped>();
        assert_eq!(tells, if wraps { 2 } else { 1 }, "{error}");
    }
    // A failure with more to say is one.
    let later = |error: Boxed| {
        let error = try_scope(|s| -> Result<(), Boxed> {
            s.fail_with("out of ink");
            Err(error)
        });
        error.unwrap_err().later().len()
    };
    assert_eq!(later(JoinError::<()>::panicked(Box::new("no")).into()), 1);
    assert_eq!(later(NoneOk { errors: vec![(0, "no")], cancelled: None }.into()), 1);
}

#[test]
fn a_sibling_that_the_failure_has_kept_from_running_is_no_failure_of_the_body() {
    everywhere(|| {
        for round in 0..100 {
            let error = try_scope(|s| {
                let numbers = ["1", "two", "3"].map(|word| s.spawn_try(|| word.parse::<u32>()));
                let mut sum = 0;
                for number in numbers {
                    sum += number.join()??;
                }
                Ok::<_, Box<dyn Error + Send + Sync>>(sum)
            });
            assert_eq!(said(&error.unwrap_err()), ["a fiber failed: invalid digit found in string"], "round {round}");
        }
    });
}

#[test]
fn an_echo_that_is_handed_on_by_a_join_is_still_one() {
    everywhere(|| {
        let error = try_scope(|s| {
            let (began, begins) = segue::sync::promise();
            let waits = s.spawn_try(|| {
                began.fill(()).unwrap();
                never().map_err(io::Error::from)
            });
            begins.wait().unwrap();
            s.spawn_try(|| Err::<(), _>("out of ink"));
            let cancelled = waits.join().unwrap().unwrap_err();
            assert_eq!(reason(&cancelled), "out of ink");
            Err::<(), _>(cancelled)
        });
        assert_eq!(said(&error.unwrap_err()), ["a fiber failed: out of ink"]);
        // Of a scope further in, too; and where the scope is cancelled for no reason.
        let ended = try_scope(|s| {
            let waits = s.spawn_try(|| try_scope(|_| never()));
            s.cancel();
            let Ok(waited) = waits.join() else { return Ok(()) };
            assert!(waited.as_ref().unwrap_err().reason().is_none());
            waited
        });
        assert!(ended.map_or_else(|error| said(&error)[0].ends_with("failed: cancelled"), |()| true));
    });
}

#[test]
fn a_later_failure_that_a_join_hands_on_is_said_once() {
    // What a part of a scope hands on, and the error of that scope.
    let fails_inside = || {
        let mut two = None;
        let inner = try_scope(|s| {
            two = Some(s.fail_with("two"));
            Ok::<_, Cancelled>(())
        });
        (two.unwrap(), inner.unwrap_err())
    };
    everywhere(|| {
        // By the body, and by a fiber, which may wrap it.
        let error = try_scope(|s| {
            s.fail_with("one");
            let two = s.fail_with("two");
            s.fail_with(Wrapped(two.clone()));
            s.fail_with(s.fail_with("three"));
            Err::<(), _>(two)
        });
        assert_eq!(said(&error.unwrap_err()), ["one", "two", "three"].map(|said| format!("a part failed: {said}")));
        // Out of a scope further in, whose failures become this one's.
        let error = try_scope(|s| {
            s.fail_with("one");
            let (two, inner) = fails_inside();
            s.fail_with(inner);
            Err::<(), _>(two)
        });
        assert_eq!(said(&error.unwrap_err()), ["one", "two"].map(|said| format!("a part failed: {said}")));
        // If those are swallowed, it is news.
        let error = try_scope(|s| {
            s.fail_with("one");
            let (two, inner) = fails_inside();
            drop(inner);
            Err::<(), _>(two)
        });
        assert_eq!(said(&error.unwrap_err()), ["a part failed: one", "the body failed: cancelled: two"]);
    });
}

#[test]
fn a_time_limit_of_a_fiber_s_own_is_a_failure() {
    everywhere(|| {
        let error = try_scope(|s| {
            s.spawn_try(|| timeout(Duration::from_millis(1), never));
            never()
        });
        let error = error.unwrap_err();
        assert!(error.timed_out(), "{error}");
        assert_eq!(said(&error), ["a fiber failed: cancelled: the time allowed is over"]);
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::TimedOut);
    });
}

#[test]
fn who_cancels_a_scope_of_its_own_has_its_value_and_who_is_cancelled_does_not() {
    everywhere(|| {
        let winner = try_scope(|s| {
            s.spawn_try(never);
            s.spawn_try(never);
            s.cancel_with("there is a winner");
            Ok::<_, Cancelled>("winner")
        });
        assert_eq!(winner.unwrap(), "winner");

        let token = CancelToken::new();
        let value = token.run(|| {
            try_scope(|s| {
                let fiber = s.spawn_try(never);
                token.cancel_with("enough");
                drop(fiber.join());
                let incomplete = ["the fiber's part is missing"];
                Ok::<_, Cancelled>(incomplete)
            })
        });
        // A fiber that never started has returned no error.
        if let Err(error) = value {
            assert_eq!(said(&error), ["a fiber failed: cancelled: enough"]);
        }
        assert!(!is_cancelled());
    });
}

#[test]
fn a_swallowed_error_is_none() {
    everywhere(|| {
        let value = try_scope(|s| {
            s.spawn_try(|| {
                let lost: Result<(), &str> = Err("swallowed");
                Ok::<_, Cancelled>(lost.is_err())
            });
            Ok::<_, Cancelled>(1)
        });
        assert_eq!(value.unwrap(), 1);
    });
}

#[test]
fn a_task_a_daemon_and_a_hook_can_fail_the_scope() {
    everywhere(|| {
        let error = try_scope(|s| {
            s.on_exit(Duration::MAX, || drop(s.fail_with("the hook")));
            let task = s.spawn_task(async { s.fail_with("the task") });
            assert_eq!(reason(&task.join().unwrap()), "the task");
            let daemon = s.spawn_daemon(|| s.fail_with("the daemon"));
            drop(daemon.join());
            Ok::<_, Cancelled>(())
        });
        let error = error.unwrap_err();
        let said = said(&error);
        assert!(said[0].ends_with("the task") && said.last().unwrap().ends_with("the hook"), "{said:?}");
    });
}

#[test]
fn a_panic_that_comes_first_is_raised_and_one_that_comes_later_is_returned() {
    everywhere(|| {
        let payload = panic_of(|| {
            try_scope(|s| {
                drop(s.spawn(|| -> () { fail(7_u8) }));
                drop(never());
                Err::<(), _>("the answer to it")
            })
        });
        assert_eq!(payload.downcast_ref(), Some(&7_u8), "a payload without a text stays what it is");

        let payload = panic_of(|| {
            try_scope(|s| {
                drop(s.spawn(|| -> () { fail("first") }));
                drop(never());
                Err::<(), _>("later")
            })
        });
        let text = payload.downcast::<String>().unwrap();
        assert_eq!(*text, "first; then the body failed: later");

        let error = try_scope(|s| -> Result<(), &str> {
            let first = s.spawn_try(|| Err::<(), _>("first"));
            drop(first.join());
            fail(8_u8)
        });
        let error = error.unwrap_err();
        assert_eq!(error.first().to_string(), "a fiber failed: first");
        let later = error.into_failures().nth(1).unwrap();
        assert!(later.panic().is_some());
        assert_eq!(later.into_panic().unwrap().downcast_ref(), Some(&8_u8));
    });
}

/// An error whose code panics: that which says it, or that which says where it comes from.
#[derive(Debug)]
struct Rude {
    says: bool,
}

impl fmt::Display for Rude {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.says { f.write_str("rude") } else { fail("the `Display` of an error") }
    }
}

impl Error for Rude {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        fail("the `source` of an error")
    }
}

/// A payload whose description panics.
struct Unspeakable;

#[test]
fn an_error_whose_code_panics_costs_no_failure() {
    const UNSAID: &str = "(an error whose `Display` panicked)";
    segue::core::describe_panics(|payload| payload.is::<Unspeakable>().then(|| fail("the description of a panic")));
    everywhere(|| {
        // Later than a panic, which the scope raises with a text that says all.
        let payload = panic_of(|| {
            try_scope(|s| -> Result<(), Rude> {
                drop(s.spawn(|| -> () { fail("the first") }));
                drop(never());
                s.fail_with(Rude { says: false });
                s.on_exit(Duration::MAX, || fail(Unspeakable));
                Err(Rude { says: true })
            })
        });
        let text = payload.downcast::<String>().unwrap();
        let later = format!("a part failed: {UNSAID}; then the body failed: rude; then a hook panicked:");
        assert_eq!(*text, format!("the first; then {later} (a panic whose description panicked)"));

        // First, and where a fiber hands on what a scope further in has failed with.
        let error = try_scope(|s| {
            let inner = || {
                try_scope(|s| {
                    s.fail_with(Rude { says: true });
                    s.fail_with(Rude { says: false });
                    Err::<(), _>("the third")
                })
            };
            s.spawn_try(inner).join().map(drop)
        });
        let error = error.unwrap_err();
        assert!(error.first().error().unwrap().is::<Rude>());
        let expected = ["a part failed: rude", &format!("a part failed: {UNSAID}"), "the body failed: the third"];
        assert_eq!(said(&error), expected);
    });
}

/// A value, or an error that only says that it was cancelled, of which the drop panics.
#[derive(Debug)]
struct Sour(&'static str, Option<Cancelled>);

impl Drop for Sour {
    fn drop(&mut self) {
        fail::<_, ()>(self.0);
    }
}

impl fmt::Display for Sour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sour")
    }
}

impl Error for Sour {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.1.as_ref().map(|cancelled| cancelled as _)
    }
}

/// What comes last.
fn last(text: &str) -> &str {
    text.rsplit("; then ").next().unwrap()
}

/// Errors whose sources never end.
#[derive(Debug)]
enum Endless {
    Itself,
    Other(&'static Endless),
    Anew,
}

impl fmt::Display for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("endless")
    }
}

impl Error for Endless {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Itself => Some(&Self::Itself),
            Self::Other(other) => Some(other),
            Self::Anew => Some(Box::leak(Box::new(Self::Anew))),
        }
    }
}

#[test]
fn an_error_without_an_end_of_sources_is_a_failure_like_others() {
    static RING: Endless = Endless::Other(&Endless::Other(&RING));
    let made: [fn() -> Endless; 3] = [|| Endless::Itself, || Endless::Other(&RING), || Endless::Anew];
    for make in made {
        let error = try_scope(|s| {
            // Cancelled: so the error may be an echo.
            s.fail_with("out of ink");
            Err::<(), _>(make())
        });
        assert_eq!(said(&error.unwrap_err()), ["a part failed: out of ink", "the body failed: endless"]);
        let error = try_scope(|_| Err::<(), _>(make())).unwrap_err();
        assert!(!error.timed_out());
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::Other);
    }
}

#[test]
fn the_panic_of_dropping_the_body_s_value_is_a_later_failure() {
    const LAST: &str = "the drop of the body's value panicked: value";
    everywhere(|| {
        let error = try_scope(|s| {
            s.fail_with("one");
            Ok::<_, Cancelled>(Sour("value", None))
        });
        let error = error.map(std::mem::forget).unwrap_err();
        assert_eq!(said(&error).len(), 2);
        assert_eq!((last(&error.to_string()), error.later()[0].panic().is_some()), (LAST, true));

        let cancelled = CancelToken::new();
        let error = cancelled.run(|| {
            try_scope(|s| {
                cancelled.cancel();
                s.fail_with(never().unwrap_err());
                Ok::<_, Cancelled>(Sour("value", None))
            })
        });
        assert_eq!(last(&error.map(std::mem::forget).unwrap_err().to_string()), LAST);

        let body = || {
            never().unwrap_err();
            Sour("value", None)
        };
        let plain = panic_of(|| {
            segue::scope(|s| {
                drop(s.spawn(|| -> () { fail("one") }));
                body()
            })
        });
        let fallible = panic_of(|| {
            try_scope(|s| {
                drop(s.spawn(|| -> () { fail("one") }));
                Ok::<_, Cancelled>(body())
            })
        });
        for payload in [plain, fallible] {
            let text = payload.downcast::<String>().unwrap();
            assert!(text.starts_with("one; then "), "{text}");
            assert_eq!(last(&text), LAST);
        }
    });
}

#[test]
fn the_panic_of_dropping_an_error_that_is_not_returned_is_a_later_failure() {
    const LAST: &str = "the drop of an error panicked: error";
    everywhere(|| {
        for echoes in [1, 2] {
            let error = try_scope(|s| {
                let cancelled = s.fail_with("one");
                (0..echoes).for_each(|_| drop(s.fail_with(Sour("error", Some(cancelled.clone())))));
                Err::<(), _>(cancelled)
            });
            let error = error.unwrap_err();
            assert_eq!(said(&error).len(), 1 + echoes, "{error}");
            assert_eq!(last(&error.to_string()), LAST);
        }
        let payload = panic_of(|| {
            try_scope(|s| -> Result<(), Sour> {
                drop(s.spawn(|| -> () { fail("one") }));
                never().unwrap_err();
                Err(Sour("error", None))
            })
        });
        let text = payload.downcast::<String>().unwrap();
        assert!(text.starts_with("one; then the body"), "{text}");
        assert_eq!(last(&text), LAST);
    });
}

#[test]
fn a_thousand_fibers_that_fail_at_once_are_all_in_the_error() {
    let error = segue::run(|| {
        let (gate, began) = (segue::sync::Latch::new(1), AtomicUsize::new(0));
        try_scope(|s| {
            let (gate, began) = (&gate, &began);
            for number in 0..1_000 {
                s.spawn_try(move || {
                    began.fetch_add(1, SeqCst);
                    shield(|| gate.wait()).unwrap();
                    Err::<(), _>(format!("number {number}"))
                });
            }
            while began.load(SeqCst) < 1_000 {
                sleep(Duration::from_millis(1))?;
            }
            gate.count_down(1);
            Ok::<_, Cancelled>(())
        })
    });
    let error = error.unwrap_err();
    assert_eq!(error.later().len(), 999);
    let first = error.first().error().unwrap().to_string();
    assert!(first.starts_with("number "), "{first}");
}

#[test]
fn a_thousand_nested_scopes_pass_a_failure_outwards() {
    fn nest(depth: usize) -> Result<(), ScopeError> {
        try_scope(|s| {
            if depth == 0 {
                return Err("the innermost".into());
            }
            let inner = Builder::new().stack_size(1 << 16).within(s).spawn_try(move || nest(depth - 1));
            inner.join().map(drop).map_err(Box::<dyn Error + Send + Sync>::from)
        })
    }
    let depth = if cfg!(miri) { 10 } else { 1_000 };
    let error = Sim::new(1).run(|| nest(depth).unwrap_err().to_string()).unwrap();
    assert_eq!(error, "the body failed: the innermost", "it is said once");
}

#[test]
fn a_scope_in_a_fiber_of_another_scheduler_fails_as_one() {
    let pool = segue::runtime().workers(1).name("other").pool().unwrap();
    everywhere(|| {
        let error = pool.call(|| {
            try_scope(|s| {
                s.spawn_try(never);
                s.spawn_try(|| segue::runtime().workers(1).run(|| try_scope(|_| Err::<(), _>("inside"))).unwrap());
                never()
            })
        });
        let error = error.unwrap_err();
        assert_eq!(said(&error), ["the body failed: inside"]);
    });
}

#[test]
fn a_spawn_in_a_drop_during_a_panic_belongs_to_the_scope() {
    everywhere(|| {
        let ran = AtomicUsize::new(0);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            try_scope(|s| -> Result<(), Cancelled> {
                let _late = AtDrop(|| {
                    let late = s.spawn_try(|| {
                        ran.fetch_add(1, SeqCst);
                        Err::<(), _>("in the drop")
                    });
                    drop(late);
                });
                fail("the body")
            })
        }));
        let text = match ended {
            Ok(ended) => ended.unwrap_err().to_string(),
            Err(payload) => payload.downcast_ref().map_or_else(|| "the body".to_owned(), String::clone),
        };
        assert!(text.contains("the body"), "{text}");
        // On a plain thread it may have been cancelled before it started.
        if segue::fiber::current().is_some() {
            assert_eq!(ran.into_inner(), 1, "a fiber that panics runs it in place");
            assert!(text.contains("in the drop"), "{text}");
        }
    });
}

#[test]
fn an_io_error_of_a_scope_that_was_only_cancelled_is_a_cancellation() {
    let token = CancelToken::new();
    token.cancel_with("no longer wanted");
    let cancelled = token.run(|| try_scope(|_| segue::sleep(Duration::MAX))).unwrap_err();
    let cancelled = std::io::Error::from(cancelled);
    let reason = Cancelled::from_io(&cancelled).and_then(Cancelled::reason).map(ToString::to_string);
    assert_eq!(reason.as_deref(), Some("no longer wanted"));
    let late = segue::timeout(Duration::from_millis(1), || try_scope(|_| segue::sleep(Duration::MAX)));
    let late = std::io::Error::from(late.unwrap_err());
    assert!(late.kind() == std::io::ErrorKind::TimedOut && Cancelled::from_io(&late).is_some_and(Cancelled::timed_out));

    let of_the_socket = try_scope(|_| Err::<(), _>(std::io::Error::from(std::io::ErrorKind::TimedOut)));
    let of_the_socket = std::io::Error::from(of_the_socket.unwrap_err());
    assert!(of_the_socket.kind() == std::io::ErrorKind::TimedOut && !Cancelled::caused(&of_the_socket));
}
