//! Errors say what they know, once, and travel where errors travel.
#![cfg(feature = "sched")]

use segue::effect::{Effect, perform};
use segue::sync::MVar;
use segue::{
    CancelToken, Cancelled, Closed, JoinError, JoinHandle, after, channel, check, finally, scope, shield, spawn,
    timeout,
};
use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{catch_unwind, panic_any, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

/// An error with a source.
#[derive(Debug)]
struct Outer(io::Error);

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store is closed")
    }
}

impl Error for Outer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// What a report prints: the error, and what it comes from.
fn chain(error: &dyn Error) -> Vec<String> {
    let mut said = vec![error.to_string()];
    let mut next = error.source();
    while let Some(error) = next {
        said.push(error.to_string());
        next = error.source();
    }
    said
}

fn outer() -> Outer {
    Outer(io::Error::other("the disk is full"))
}

#[test]
fn a_join_error_is_returned_as_any_other() {
    fn is_error<E: Error + Send + Sync + 'static>() {}
    is_error::<JoinError>();
    is_error::<Cancelled>();
    let answer = || -> Result<u32, Box<dyn Error + Send + Sync>> { Ok(spawn(|| 42).join()?) };
    assert_eq!(answer().unwrap(), 42);
}

#[test]
fn of_a_join_error_the_panic_is_raised_and_the_cancellation_returned() {
    fn doubled(joined: JoinHandle<u32>) -> Result<u32, Cancelled> {
        Ok(2 * joined.join().map_err(JoinError::into_cancelled)?)
    }
    segue::run(|| {
        assert_eq!(doubled(spawn(|| 21)), Ok(42));
        let raised = catch_unwind(|| doubled(spawn(|| resume_unwind(Box::new("out of ink")))));
        assert_eq!(*raised.unwrap_err().downcast::<&str>().unwrap(), "out of ink");
        // Of the wait: the fiber goes on.
        let (gate, done) = (Arc::new(MVar::<()>::empty()), Arc::new(MVar::empty()));
        let (its, told) = (Arc::clone(&gate), Arc::clone(&done));
        let waits = spawn(move || {
            its.take().unwrap();
            told.put(7).unwrap();
            1
        });
        let token = CancelToken::new();
        token.cancel_with("no paper");
        assert_eq!(token.run(|| doubled(waits)).unwrap_err().to_string(), "cancelled: no paper");
        gate.put(()).unwrap();
        assert_eq!(done.take(), Ok(7));
        // Of the fiber, before it ran.
        let unstarted = scope(|s| {
            s.cancel_with("closed");
            let child = s.spawn(|| 1);
            shield(|| doubled(child))
        });
        assert_eq!(unstarted.unwrap_err().to_string(), "cancelled: closed");
    });
    // A task that awaits has the same error, without a handle.
    assert_eq!(
        JoinError::<()>::NeverRan(Cancelled::with_reason("late")).into_cancelled().to_string(),
        "cancelled: late"
    );
}

#[test]
fn a_reason_is_said_once_in_a_chain() {
    let token = CancelToken::new();
    token.cancel_with(outer());
    let cancelled = token.run(check).unwrap_err();
    assert_eq!(chain(&cancelled), ["cancelled: the store is closed", "the disk is full"]);
    assert!(cancelled.reason().unwrap().is::<Outer>());
    let error = JoinError::from(cancelled.clone());
    assert_eq!(chain(&error), ["the wait for the fiber was cancelled: the store is closed", "the disk is full"]);
    assert!(error.is_cancelled() && !error.is_panic());
    let error = io::Error::from(cancelled);
    assert_eq!(chain(&error), ["cancelled: the store is closed", "the disk is full"]);
    assert!(Cancelled::from_io(&error).unwrap().reason().unwrap().is::<Outer>());
}

#[test]
fn an_effect_that_nobody_handled_is_named() {
    struct NextJob;
    impl Effect for NextJob {
        type Output = ();
    }
    let error = segue::run(|| spawn(|| perform(NextJob)).join().unwrap_err());
    assert!(error.is_panic());
    let said = error.to_string();
    assert!(said.contains("NextJob") && said.contains("errors.rs:") && said.contains("no handler"), "{said}");
    let told = segue::run(|| {
        let panicked = catch_unwind(|| {
            segue::scope(|s| {
                s.spawn(|| perform(NextJob));
            });
        });
        panicked.unwrap_err().downcast_ref::<segue::effect::Unhandled>().map(|unhandled| unhandled.effect())
    });
    assert!(told.unwrap().ends_with("NextJob"), "the scope keeps the payload");
}

#[test]
fn a_panic_without_a_message_says_so_and_keeps_its_payload() {
    let error = segue::run(|| spawn(|| panic_any(7_u8)).join().unwrap_err());
    assert_eq!(error.to_string(), "the fiber panicked: (a panic without a message)");
    assert_eq!(error.into_panic().unwrap().downcast_ref(), Some(&7_u8));
}

#[test]
fn a_time_out_is_one_for_io_too() {
    let read = || -> io::Result<()> { Ok(after(Duration::MAX).wait()?) };
    let error = segue::run(move || timeout(Duration::from_millis(1), read)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(Cancelled::caused(&error) && Cancelled::from_io(&error).unwrap().timed_out());
    assert_eq!(io::Error::from(Cancelled::new()).kind(), io::ErrorKind::Other);
    assert!(Cancelled::from_io(&io::ErrorKind::TimedOut.into()).is_none(), "a socket's own is not a cancellation");
}

#[test]
fn neither_of_two_failed_cleanups_is_lost() {
    let payload = catch_unwind(|| {
        finally(|| finally(|| panic!("the body"), || panic!("the inner one")), || panic!("the outer one"));
    });
    let said = JoinError::panicked(payload.unwrap_err()).to_string();
    assert_eq!(
        said,
        "the fiber panicked: the body; and the cleanup after that panicked: the inner one; and the cleanup after that panicked: \
         the outer one"
    );
    let payload = catch_unwind(|| finally(|| panic_any(7_u8), || panic!("the cleanup"))).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&7_u8), "a payload of a type of its own stays what it is");
}

#[test]
fn a_value_that_came_back_and_an_end_are_returned_as_a_cancellation() {
    let (sender, receiver) = channel::bounded(1);
    drop(receiver);
    let send = || -> Result<(), Cancelled> { Ok(sender.send(1)?) };
    assert!(send().unwrap_err().reason().unwrap().is::<Closed>());
    let reserve = || -> Result<bool, Cancelled> { Ok(sender.try_reserve()?.is_some()) };
    assert!(reserve().unwrap_err().reason().unwrap().is::<Closed>());
    let (sender, _receiver) = channel::rendezvous();
    let send = || -> Result<(), Cancelled> { Ok(timeout(Duration::ZERO, || sender.send(1))?) };
    assert!(send().unwrap_err().timed_out());
}
