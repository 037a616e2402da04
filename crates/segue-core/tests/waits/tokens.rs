//! Cancellation from the side: tokens with reasons, deadlines, and cleanup that may wait.
#![cfg(not(loom))]

use crate::common;
use crate::mailbox;

use common::{Host, Jobs};
use mailbox::Mailbox;
use segue_core::{
    CancelToken, Cancelled, TimedOut, check, deadline, finally, is_cancelled, now, scope, shield, sleep, timeout,
};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug, PartialEq)]
struct NoLongerWanted(u32);

impl fmt::Display for NoLongerWanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no longer wanted, by {}", self.0)
    }
}

impl std::error::Error for NoLongerWanted {}

fn reason(cancelled: Cancelled) -> u32 {
    cancelled.reason().expect("it has a reason").downcast_ref::<NoLongerWanted>().expect("it is that one").0
}

#[test]
fn a_token_cancels_what_runs_under_it_with_its_reason() {
    let (token, mailbox) = (CancelToken::new(), Mailbox::<()>::new());
    let host = Host::new(Jobs::Keep);
    thread::scope(|t| {
        let waiter = t.spawn(|| {
            host.run(0, |_| {
                let cancelled = token.run(|| {
                    assert!(!is_cancelled());
                    let cancelled = mailbox.receive().unwrap_err();
                    assert_eq!(reason(mailbox.receive().unwrap_err()), 7, "it is sticky");
                    assert!(shield(check).is_ok());
                    cancelled
                });
                (reason(cancelled), check().is_ok())
            })
        });
        host.until_suspended(1);
        token.cancel_with(NoLongerWanted(7));
        token.cancel_with(NoLongerWanted(8));
        assert_eq!(waiter.join().unwrap(), (7, true), "the first reason counts; outside nothing is cancelled");
    });
    assert_eq!(reason(token.run(check).unwrap_err()), 7, "and later comers are born cancelled");
    assert!(!mailbox.has_waiters());
}

#[test]
fn a_token_reaches_scopes_inside_and_the_surroundings_reach_through_it() {
    let (inner, outer) = (CancelToken::new(), CancelToken::new());
    outer.run(|| {
        inner.run(|| {
            scope(|s| {
                inner.cancel_with(NoLongerWanted(1));
                assert_eq!(reason(check().unwrap_err()), 1);
                assert!(s.token().is_cancelled());
            });
        });
        assert!(check().is_ok());
        CancelToken::new().run(|| {
            outer.cancel_with(NoLongerWanted(2));
            assert_eq!(reason(check().unwrap_err()), 2);
        });
    });
    assert!(check().is_ok());
}

#[test]
fn one_token_cancels_many_and_forgets_those_that_have_ended() {
    let token = CancelToken::new();
    for _ in 0..1_000 {
        token.run(|| ());
    }
    let mailbox = Mailbox::<()>::new();
    let host = Host::new(Jobs::Keep);
    thread::scope(|t| {
        let waiters = [0, 1, 2].map(|id| {
            let (host, token, mailbox) = (&host, &token, &mailbox);
            t.spawn(move || host.run(id, |_| token.run(|| mailbox.receive().is_err())))
        });
        host.until_suspended(3);
        token.clone().cancel();
        assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
    });
}

#[test]
fn a_deadline_cancels_when_it_has_come_and_not_before() {
    let host = Host::new(Jobs::Keep);
    let mailbox = Mailbox::<()>::new();
    thread::scope(|t| {
        let waiter = t.spawn(|| {
            host.run(0, |_| {
                let cancelled = timeout(SECOND, || {
                    // The outer one is sooner.
                    timeout(2 * SECOND, || mailbox.receive()).unwrap_err()
                });
                assert!(check().is_ok(), "it is over with the block");
                (cancelled.timed_out(), cancelled.reason().unwrap().is::<TimedOut>())
            })
        });
        host.until_suspended(1);
        host.timers().advance(SECOND - Duration::from_nanos(1));
        assert_eq!(host.timers().fire(), 0);
        host.timers().advance(Duration::from_nanos(1));
        assert_eq!(host.timers().fire(), 1);
        assert_eq!(waiter.join().unwrap(), (true, true));
    });
    assert!(host.timers().is_empty(), "the one that was not needed has been taken out");
}

#[test]
fn zero_past_and_endless_limits() {
    assert!(timeout(Duration::ZERO, check).unwrap_err().timed_out());
    assert!(deadline(Some(now()), check).unwrap_err().timed_out());
    assert!(timeout(Duration::MAX, check).is_ok());
    assert_eq!(timeout(Duration::ZERO, || 42), 42, "what is returned is not lost");
    assert!(timeout(Duration::from_millis(1), || sleep(Duration::MAX)).unwrap_err().timed_out());
}

#[test]
fn a_computation_that_never_waits_is_told_when_it_asks() {
    let host = Host::new(Jobs::Keep);
    let told = host.run(0, |_| {
        timeout(SECOND, || {
            assert!(check().is_ok() && !is_cancelled());
            // Nobody fires the timers: the fiber keeps its worker from it.
            host.timers().advance(SECOND);
            scope(|_| CancelToken::new().run(check)).unwrap_err().timed_out()
                && is_cancelled()
                && Mailbox::<()>::new().receive().unwrap_err().timed_out()
        })
    });
    assert!(told && host.timers().is_empty());
    let mut looks = 0_u64;
    let ended = timeout(Duration::from_millis(1), || {
        loop {
            looks += 1;
            check()?;
        }
        #[allow(unreachable_code)] // For its type.
        Ok::<(), Cancelled>(())
    });
    assert!(ended.unwrap_err().timed_out() && looks > 0);
}

#[test]
fn a_million_deadlines_that_never_come_leave_nothing() {
    let host = Host::new(Jobs::Keep);
    host.run(0, |_| {
        for _ in 0..if cfg!(miri) { 50 } else { 1_000_000 } {
            timeout(SECOND, || ());
        }
    });
    assert!(host.timers().is_empty());
}

#[test]
fn cleanup_may_wait_whichever_way_the_body_ends() {
    let token = CancelToken::new();
    let mut cleaned = 0;
    token.run(|| {
        token.cancel();
        let outcome = finally(check, || {
            check().expect("it is shielded");
            cleaned += 1;
        });
        assert!(outcome.is_err());
    });
    let host = Host::new(Jobs::Keep);
    let mailbox = Mailbox::new();
    thread::scope(|t| {
        let panics = t.spawn(|| {
            host.run(0, |_| {
                let body = || panic!("in the body");
                let cleanup = || cleaned += mailbox.receive().expect("it waits, though the body panicked");
                catch_unwind(AssertUnwindSafe(|| finally(body, cleanup))).unwrap_err().downcast_ref::<&str>().copied()
            })
        });
        host.until_suspended(1);
        mailbox.send(1);
        assert_eq!(panics.join().unwrap(), Some("in the body"));
    });
    assert_eq!(cleaned, 2);
    let both = catch_unwind(|| finally(|| panic!("in the body"), || panic!("in the cleanup")));
    let said = "in the body; and the cleanup after that panicked: in the cleanup";
    assert_eq!(both.unwrap_err().downcast_ref::<String>().unwrap(), said);
    assert!(catch_unwind(|| finally(|| (), || panic!("in the cleanup"))).is_err());
}

#[test]
fn a_fiber_of_a_scope_that_panics_tells_the_others_why() {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let started = Mailbox::new();
        scope(|s| {
            let other = s.spawn(|| {
                started.send(());
                Mailbox::<()>::new().receive().unwrap_err().to_string()
            });
            s.spawn(|| {
                started.receive().unwrap();
                panic!("the disk is full")
            });
            let told = shield(|| other.join().unwrap());
            assert_eq!(told, "cancelled: a fiber of the scope panicked: the disk is full");
        });
    }));
    assert_eq!(outcome.unwrap_err().downcast_ref::<&str>(), Some(&"the disk is full"));
}

#[test]
fn errors_say_why_also_through_io() {
    let token = CancelToken::new();
    token.cancel_with("the server is stopping");
    let cancelled = token.run(check).unwrap_err();
    assert_eq!(cancelled.to_string(), "cancelled: the server is stopping");
    assert!(std::error::Error::source(&cancelled).is_none(), "it would be said twice");
    let error = std::io::Error::from(cancelled);
    assert!(Cancelled::caused(&error));
    assert_eq!(error.to_string(), "cancelled: the server is stopping");
}
