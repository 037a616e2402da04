//! Spans stay with their fiber: a subscriber that is strict about the order in which each thread
//! enters and exits finds no fault while a thousand fibers interleave.
//!
//! The process has one subscriber, so all cases share it.

use segue::sync::{MVar, Semaphore};
use segue_core::{Builder, Cancelled, scope, sleep, spawn, spawn_task, wait_future, yield_now};
use segue_sched::Runtime;
use segue_trace::Spans;
use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, Once};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Instrument, Metadata, Span, Subscriber, info_span};
use tracing_core::span::Current;

thread_local! {
    static STACK: RefCell<Vec<Id>> = const { RefCell::new(Vec::new()) };
}

static FAULTS: AtomicUsize = AtomicUsize::new(0);
static ENTERS: AtomicUsize = AtomicUsize::new(0);
static EXITS: AtomicUsize = AtomicUsize::new(0);
static LAST: AtomicU64 = AtomicU64::new(0);

/// Of each span: by how many it was entered, less those that have exited.
static BALANCE: Mutex<Option<HashMap<u64, i64>>> = Mutex::new(None);

fn balance(id: &Id, by: i64) {
    *BALANCE.lock().unwrap().get_or_insert_default().entry(id.into_u64()).or_default() += by;
}

/// What is entered last is exited first, on each thread.
struct Strict;

impl Subscriber for Strict {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(LAST.fetch_add(1, SeqCst) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, id: &Id) {
        ENTERS.fetch_add(1, SeqCst);
        balance(id, 1);
        STACK.with_borrow_mut(|stack| stack.push(id.clone()));
    }

    fn exit(&self, id: &Id) {
        EXITS.fetch_add(1, SeqCst);
        balance(id, -1);
        if STACK.with_borrow_mut(Vec::pop).as_ref() != Some(id) {
            FAULTS.fetch_add(1, SeqCst);
        }
    }

    fn current_span(&self) -> Current {
        STACK.with_borrow(|stack| match stack.last() {
            // The metadata are those of any span.
            Some(id) => Current::new(id.clone(), info_span!("any").metadata().expect("enabled")),
            None => Current::none(),
        })
    }
}

/// Held by the case that runs.
static ONE: Mutex<()> = Mutex::new(());

fn depth() -> usize {
    STACK.with_borrow(Vec::len)
}

fn top() -> Option<Id> {
    STACK.with_borrow(|stack| stack.last().cloned())
}

/// Runs `f` under the subscriber, and looks whether all is balanced after that.
fn strictly(workers: usize, f: impl FnOnce() + Send) {
    static SET: Once = Once::new();
    SET.call_once(|| tracing::subscriber::set_global_default(Spans::new(Strict)).unwrap());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    Runtime::new().workers(workers).run(f).unwrap();
    assert_eq!(FAULTS.load(SeqCst), 0);
    assert_eq!(ENTERS.load(SeqCst), EXITS.load(SeqCst));
    let balance = BALANCE.lock().unwrap();
    assert!(balance.iter().flatten().all(|(_, left)| *left == 0), "{balance:?}");
    assert_eq!(depth(), 0);
}

/// Waits in each of several ways, and finds its own span each time.
fn wander(number: usize, cell: &MVar<usize>, permits: &Semaphore) -> Result<(), Cancelled> {
    let outer = info_span!("outer").entered();
    for round in 0..4 {
        let inner = info_span!("inner").entered();
        assert_eq!((top(), depth()), (inner.id(), 2));
        match (number + round) % 4 {
            0 => yield_now()?,
            1 => drop(permits.acquire()?),
            2 => {
                let taken = cell.take()?;
                yield_now()?;
                assert_eq!((top(), depth()), (inner.id(), 2));
                assert!(cell.put(taken).is_ok());
            }
            _ => wait_future(async {
                // A task that was woken elsewhere.
                spawn_task(async {}).join().unwrap();
            })?,
        }
        assert_eq!((top(), depth()), (inner.id(), 2));
        drop(inner);
        assert_eq!((top(), depth()), (outer.id(), 1));
    }
    Ok(())
}

#[test]
fn a_thousand_fibers_that_interleave_find_their_own_spans() {
    for workers in [1, 2] {
        strictly(workers, || {
            let (cell, permits) = (MVar::new(0), Semaphore::new(3));
            scope(|s| {
                for number in 0..1000 {
                    let (cell, permits) = (&cell, &permits);
                    s.spawn(move || wander(number, cell, permits).unwrap());
                }
            });
        });
    }
    // The wrapper has done something: each fiber was suspended in spans.
    assert!(ENTERS.load(SeqCst) > 2 * 1000 * 5 + 1000);
}

#[test]
fn without_the_wrapper_fibers_leave_their_spans_to_others() {
    strictly(1, || ());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let ten = || {
        scope(|s| {
            for number in 0..10 {
                s.spawn(move || {
                    let _span = info_span!("left behind").entered();
                    (0..number).for_each(|_| yield_now().unwrap());
                });
            }
        });
    };
    // The fibers run on this thread, whose subscriber is the bare one.
    tracing::subscriber::with_default(Strict, || Runtime::new().workers(1).run(ten).unwrap());
    let faults = FAULTS.swap(0, SeqCst);
    STACK.with_borrow_mut(Vec::clear);
    assert!(faults > 0, "the subscriber is not strict");
}

#[test]
fn tasks_that_interleave_find_their_own_spans_also_where_a_poll_waits() {
    strictly(2, || {
        scope(|s| {
            for _ in 0..200 {
                let span = info_span!("task");
                let id = span.id();
                let body = async move {
                    for _ in 0..3 {
                        assert_eq!((top(), depth()), (id.clone(), 1));
                        // The fiber of this poll waits, inside of the span.
                        sleep(Duration::ZERO).unwrap();
                        yield_now().unwrap();
                        assert_eq!((top(), depth()), (id.clone(), 1));
                        spawn_task(async {}).await.unwrap();
                    }
                };
                s.spawn_task(body.instrument(span));
            }
        });
    });
}

/// Pending once, and woken at once.
struct Twice(bool);

impl Future for Twice {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[test]
fn fibers_that_a_foreign_executor_polls_in_turns_find_their_own_spans() {
    strictly(1, || {
        let on_a_thread = || {
            let fiber = || {
                Box::pin(segue_sched::hosted(|| {
                    let span = info_span!("hosted").entered();
                    for _ in 0..5 {
                        wait_future(Twice(false)).unwrap();
                        assert_eq!((top(), depth()), (span.id(), 1));
                        yield_now().unwrap();
                        assert_eq!((top(), depth()), (span.id(), 1));
                    }
                }))
            };
            let mut fibers = [Some(fiber()), Some(fiber()), Some(fiber())];
            let mut context = Context::from_waker(Waker::noop());
            while fibers.iter().any(Option::is_some) {
                for slot in &mut fibers {
                    if slot.as_mut().is_some_and(|fiber| fiber.as_mut().poll(&mut context).is_ready()) {
                        *slot = None;
                    }
                    assert_eq!(depth(), 0);
                }
            }
        };
        std::thread::spawn(on_a_thread).join().unwrap();
    });
}

#[test]
fn spans_that_end_out_of_order_or_by_a_panic_or_a_cancellation_are_exited_once() {
    strictly(1, || {
        let panics = spawn(|| {
            let _span = info_span!("panics").entered();
            yield_now().unwrap();
            std::panic::resume_unwind(Box::new("expected"));
        });
        assert!(panics.join().is_err());
        let never = MVar::<()>::empty();
        scope(|s| {
            let waits = Builder::new().cancellable().within(s).spawn(|| {
                let span = info_span!("waits").entered();
                assert!(never.take().is_err());
                assert_eq!(top(), span.id());
            });
            yield_now().unwrap();
            assert_eq!(depth(), 0);
            waits.cancel();
            waits.join().unwrap();
        });
        // A guard that is forgotten: the fiber's end exits the span.
        spawn(|| {
            std::mem::forget(info_span!("forgotten").entered());
            yield_now().unwrap();
            assert_eq!(depth(), 1);
        })
        .join()
        .unwrap();
        assert_eq!(depth(), 0);
    });
}

#[test]
fn a_fiber_in_no_span_and_a_thread_enter_nothing_again() {
    strictly(1, || {
        let before = ENTERS.load(SeqCst);
        scope(|s| {
            for _ in 0..10 {
                s.spawn(|| (0..10).for_each(|_| yield_now().unwrap()));
            }
        });
        assert_eq!(ENTERS.load(SeqCst), before);
        // A fiber that has left its span carries nothing any more.
        spawn(|| {
            info_span!("left").in_scope(|| ());
            let before = ENTERS.load(SeqCst);
            yield_now().unwrap();
            assert_eq!(ENTERS.load(SeqCst), before);
        })
        .join()
        .unwrap();
        let on_a_thread = || {
            let span = info_span!("thread").entered();
            let before = ENTERS.load(SeqCst);
            spawn(|| ()).join().unwrap();
            assert_eq!((ENTERS.load(SeqCst), top()), (before, span.id()));
        };
        std::thread::spawn(on_a_thread).join().unwrap();
        assert_eq!(Span::current().id(), None);
    });
}
