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
    let runtime = Runtime::new().workers(1).name("awaits");
    let (dump, recording, here) = runtime
        .run(|| {
            let here = Location::caller().line();
            let patient = Builder::new().name("patient").cancellable().spawn(|| wait_future(pending::<()>()));
            segue::yield_now().unwrap();
            let (dump, recording) = (segue::dump(), segue::sched::recorder::snapshot());
            patient.cancel();
            assert!(patient.join().unwrap().is_err());
            (dump, recording, here)
        })
        .unwrap();
    let waits_for = named(&dump, "patient").waits_for.unwrap();
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
