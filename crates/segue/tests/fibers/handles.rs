//! Fibers that are cancelled by their handles, and joins of what was cancelled.
#![cfg(feature = "sched")]

use crate::meet;

use meet::everywhere;
use segue::sync::{MVar, promise};
use segue::{Builder, CancelToken, Cancelled, JoinError, after, scope, sleep, spawn, timeout, yield_now};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

fn never() -> Result<(), Cancelled> {
    after(Duration::MAX).wait()
}

#[test]
fn a_handle_cancels_its_fiber_and_no_other() {
    everywhere(|| {
        let cell = MVar::empty();
        scope(|s| {
            let first = Builder::new().cancellable().within(s).spawn(never);
            let second = Builder::new().name("second").cancellable().within(s).spawn(|| cell.take());
            first.cancel_with("no longer wanted");
            let cancelled = first.join().unwrap().unwrap_err();
            assert_eq!(cancelled.to_string(), "cancelled: no longer wanted");
            cell.put(7).unwrap();
            assert_eq!(second.join().unwrap(), Ok(7));
        });
    });
}

#[test]
fn to_cancel_and_join_waits_for_the_cleanup_also_when_the_caller_is_cancelled() {
    everywhere(|| {
        let fiber = Builder::new().cancellable().spawn(|| {
            let cancelled = never().is_err();
            segue::shield(|| sleep(Duration::from_millis(1))).unwrap();
            cancelled
        });
        let token = CancelToken::new();
        token.cancel();
        assert!(token.run(|| fiber.cancel_and_join()).unwrap());
    });
}

#[test]
fn a_token_given_to_a_builder_cancels_all_that_it_was_given_for() {
    everywhere(|| {
        let token = CancelToken::default();
        let fibers = [(); 3].map(|()| Builder::new().token(&token).spawn(never));
        assert!(!fibers[0].token().is_cancelled());
        token.cancel();
        for fiber in fibers {
            assert!(fiber.join().unwrap().is_err());
        }
    });
}

#[test]
fn a_fiber_under_a_token_is_cancelled_with_its_scope_too() {
    everywhere(|| {
        scope(|s| {
            let fiber = Builder::new().cancellable().within(s).spawn(never);
            s.cancel();
            // It may not have started.
            assert!(fiber.join().map_or(true, |result| result.is_err()));
        });
    });
}

#[test]
fn a_scope_s_body_joins_what_it_has_cancelled_without_a_shield() {
    everywhere(|| {
        scope(|s| {
            let fibers = [(); 3].map(|()| s.spawn(|| never().is_err()));
            // All of them begin.
            (0..50).for_each(|_| yield_now().unwrap());
            let cell = MVar::empty();
            let cell = Box::leak(Box::new(cell));
            let begun = s.spawn(|| {
                cell.put(()).unwrap();
                never().is_err()
            });
            cell.take().unwrap();
            s.cancel();
            assert!(begun.join().unwrap(), "it has begun, and its result is there");
            for fiber in fibers {
                assert!(fiber.join().unwrap_or_else(|error| error.is_cancelled()));
            }
            assert!(sleep(Duration::ZERO).is_err(), "what it waits for besides is cancelled");
        });
    });
}

#[test]
fn a_join_in_a_scope_s_body_is_not_cut_short_by_who_is_around_as_the_scope_would_not_be() {
    everywhere(|| {
        let result = timeout(Duration::from_millis(1), || {
            scope(|s| {
                let fiber = s.spawn(|| never().is_err_and(|cancelled| cancelled.timed_out()));
                fiber.join()
            })
        });
        assert!(result.unwrap_or_else(|error| error.is_cancelled()));
    });
}

#[test]
fn a_join_under_a_limit_of_its_own_is_cut_short() {
    everywhere(|| {
        let cell = MVar::empty();
        scope(|s| {
            let fiber = s.spawn(|| cell.take());
            let error = timeout(Duration::from_millis(1), || fiber.join()).unwrap_err();
            assert!(error.is_cancelled());
            cell.put(()).unwrap();
        });
    });
}

#[test]
fn members_that_join_each_other_are_cancelled() {
    everywhere(|| {
        let (first, second) = (MVar::<segue::JoinHandle<()>>::empty(), MVar::empty());
        scope(|s| {
            let join_from = |from: &MVar<segue::JoinHandle<()>>| {
                // Neither ends by itself. The second to look may find the first ended.
                drop(from.take().map(segue::JoinHandle::join));
            };
            let (first, second) = (&first, &second);
            let one = s.spawn(move || join_from(first));
            let other = s.spawn(move || join_from(second));
            first.put(other).unwrap();
            second.put(one).unwrap();
            (0..50).for_each(|_| yield_now().unwrap());
            s.cancel();
        });
    });
}

#[test]
fn who_is_cancelled_joins_what_has_ended() {
    everywhere(|| {
        let fiber = spawn(|| 7);
        while !fiber.is_finished() {
            yield_now().unwrap();
        }
        let token = CancelToken::new();
        token.cancel();
        assert_eq!(token.run(|| fiber.join()).unwrap(), 7);
        let fiber = spawn(never);
        assert!(token.run(|| fiber.join()).unwrap_err().is_cancelled());
    });
}

#[test]
fn a_join_that_is_cancelled_keeps_handle_and_result() {
    let (before, meanwhile, late) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    everywhere(|| {
        for limit in 0..3 {
            // The fiber ends before the limit, at the same time, or after it.
            let fiber = spawn(|| sleep(Duration::from_millis(1)).map(|()| "a result"));
            let joined = timeout(Duration::from_millis(limit), || fiber.join());
            let seen = match &joined {
                Ok(_) => &before,
                Err(JoinError::WaitCancelled(_, handle)) if handle.is_finished() => &meanwhile,
                Err(_) => &late,
            };
            seen.fetch_add(1, SeqCst);
            // It is joined again in vain, and then under a shield.
            let again = joined.or_else(|error| timeout(Duration::ZERO, || error.into_handle().unwrap().join()));
            let again = again.or_else(|error| {
                assert!(error.cancelled().unwrap().timed_out());
                error.into_handle().unwrap().join()
            });
            assert_eq!(again.unwrap(), Ok("a result"));
        }
    });
    let [before, meanwhile, late] = [before, meanwhile, late].map(AtomicUsize::into_inner);
    println!("{before} ended before, {meanwhile} meanwhile, {late} later");
    assert!(before > 0 && late > 0);
}

#[test]
fn a_join_says_what_was_cancelled() {
    everywhere(|| {
        let token = CancelToken::new();
        token.cancel();
        let endless = Builder::new().cancellable().spawn(never);
        let Err(JoinError::WaitCancelled(_, endless)) = token.run(|| endless.join()) else { panic!("it never ends") };
        // The handle that comes back still cancels.
        assert!(endless.cancel_and_join().unwrap().is_err());
        let never_ran = scope(|s| {
            s.cancel();
            s.spawn(|| ())
        });
        assert!(matches!(never_ran.join(), Err(JoinError::NeverRan(_))));
        let waits = scope(|s| {
            let (begun, begins) = promise();
            let task = s.spawn_task(async move {
                begun.fill(()).unwrap();
                after(Duration::MAX).await
            });
            begins.wait().unwrap();
            s.cancel();
            task
        });
        assert!(matches!(waits.join(), Err(JoinError::Cancelled(_))));
        let joins = || -> std::io::Result<u32> { Ok(token.run(|| spawn(never).join())?.map_or(0, |()| 1)) };
        assert!(Cancelled::from_io(&joins().unwrap_err()).is_some());
    });
}
