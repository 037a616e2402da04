//! Dumps where a fiber is at an edge: it awaits foreign code, or its job is over before it is.

use crate::{dump_until, find, named};
use segue::sched::{FiberState, Runtime};
use segue::sync::{Promise, promise};
use segue::{Builder, wait_future};
use std::future::{IntoFuture, pending};
use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// The record of the wait is in the frame of the waiter: of a release build, or under Miri, this
/// shows whether that frame is there still.
#[test]
fn a_fiber_that_awaits_a_future_is_listed_and_recorded_with_its_line() {
    let _alone = crate::alone();
    let runtime = Runtime::new().workers(1).name("awaits");
    let (dump, recording, here) = runtime
        .run(|| {
            let here = Location::caller().line();
            let patient = Builder::new().name("awaits a future").cancellable().spawn(|| wait_future(pending::<()>()));
            segue::yield_now().unwrap();
            let (dump, recording) = (segue::dump(), segue::sched::recorder::snapshot());
            patient.cancel();
            assert!(patient.join().unwrap().is_err());
            (dump, recording, here)
        })
        .unwrap();
    let waits_for = named(&dump, "awaits a future").waits_for.unwrap();
    assert_eq!((waits_for.what, waits_for.at.line()), ("a future", here + 1));
    let said = format!("waits for a future at {}", waits_for.at);
    assert!(recording.to_string().contains(&said), "{recording}");
}

/// The waker of a foreign joiner, which waits itself: on the fiber that has just ended its job.
struct Waits(Promise<()>);

impl Wake for Waits {
    fn wake(self: Arc<Self>) {
        let _ = self.0.wait();
    }
}

#[test]
fn the_job_of_a_fiber_is_in_no_dump_when_its_joiner_may_free_that() {
    let _alone = crate::alone();
    let pool = Runtime::new().workers(1).name("ends").pool().unwrap();
    let (begin, begun) = promise::<()>();
    let (end, ended) = promise::<()>();
    let handle = Builder::new().name("ends").on(&pool).spawn(move || begun.wait().map(drop));
    let found = dump_until(|dump| find(dump, "ends").filter(|it| it.state == FiberState::Waiting).cloned());
    assert!(found.spawned_at.is_some() && found.scope.is_some());
    let waker = Waker::from(Arc::new(Waits(ended)));
    {
        let mut joined = pin!(handle.into_future());
        assert!(joined.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let _ = begin.fill(());
        let waits_again = |fiber: &&segue::sched::FiberDump| {
            fiber.waits_for.is_some_and(|it| it.at.line() != found.waits_for.unwrap().at.line())
        };
        let found = dump_until(|dump| find(dump, "ends").filter(waits_again).cloned());
        assert_eq!((found.spawned_at, found.scope), (None, None));
        // The end of the future frees the job.
        assert!(matches!(joined.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(_)));
    }
    let dump = segue::dump();
    assert_eq!((named(&dump, "ends").spawned_at, named(&dump, "ends").scope), (None, None));
    let _ = end.fill(());
    dump_until(|dump| find(dump, "ends").is_none().then_some(()));
}

/// A process that was forked from one with schedulers, and begins one of its own.
#[cfg(all(unix, not(miri)))]
#[test]
#[allow(unsafe_code)] // `fork`.
fn the_child_of_a_fork_has_its_own_schedulers_in_its_dump() {
    use std::process::Command;
    // A process of its own, as in `places.rs`.
    if std::env::var_os("SEGUE_TEST_FORKS").is_none() {
        let name = "edges::the_child_of_a_fork_has_its_own_schedulers_in_its_dump";
        let mut command = Command::new(std::env::current_exe().unwrap());
        let status = command.args(["--exact", name, "--nocapture"]).env("SEGUE_TEST_FORKS", "1").status();
        assert!(status.unwrap().success());
        return;
    }
    unsafe extern "C" {
        fn fork() -> i32;
        fn _exit(status: i32) -> !;
        fn alarm(seconds: u32) -> u32;
        fn waitpid(child: i32, status: *mut i32, options: i32) -> i32;
    }
    let pool = Runtime::new().workers(2).pool().unwrap();
    assert_eq!(pool.spawn(|| 1).join().unwrap(), 1);
    // SAFETY: the child runs a scheduler of its own, and ends, by an alarm if it waits for ever.
    let status = unsafe {
        let child = fork();
        if child == 0 {
            alarm(30);
            let dump = Runtime::new().workers(1).name("child").run(|| {
                let sleeper =
                    Builder::new().name("sleeper").cancellable().spawn(|| segue::sleep(std::time::Duration::MAX));
                segue::yield_now().unwrap();
                let dump = segue::dump();
                sleeper.cancel();
                dump
            });
            let dump = dump.unwrap();
            let names: Vec<_> = dump.schedulers.iter().map(|it| &*it.name).collect();
            _exit(if names == ["child"] && find(&dump, "sleeper").is_some() && dump.note.is_none() { 7 } else { 8 });
        }
        let mut status = 0;
        assert_eq!(waitpid(child, &mut status, 0), child);
        status
    };
    assert_eq!(status, 7 << 8, "{status:#x}");
    assert_eq!(segue::dump().schedulers.len(), 1);
}

/// Names its owner, as without the switch.
#[test]
fn a_source_that_can_be_switched_off_says_its_owner() {
    let _alone = crate::alone();
    use segue::sync::Mutex;
    let run = segue::sched::Sim::new(1).run(|| {
        let mutex = Mutex::new(0);
        segue::scope(|s| {
            let guard = mutex.lock().unwrap();
            Builder::new().name("waits by an option").within(s).spawn(|| {
                let source = Some(mutex.lock_source());
                segue::core::Waitable::new(source).wait().map(drop)
            });
            segue::sched::settle().unwrap();
            let dump = segue::dump();
            assert!(named(&dump, "waits by an option").owner.is_some(), "{dump}");
            drop(guard);
        });
    });
    assert_eq!(run, Ok(()));
}
