//! The turn: sixteen conflicts, and then others give way.
use crate::common::{Wakes, alone};
use segue_core::{WaitQueue, WaitsFor};
use segue_stm::{Stop, TVar, Tx, atomically, transaction};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};

/// How many attempts fail before the turn.
const LOST: usize = 16;

/// A transaction that adds one, and that others disturb until its turn. Then it calls `in_turn`.
struct Loser {
    var: TVar<usize>,
    attempts: AtomicUsize,
}

impl Loser {
    fn new() -> Self {
        Self { var: TVar::new(0), attempts: AtomicUsize::new(0) }
    }

    fn body(&self, tx: &Tx<'_>, in_turn: impl FnOnce()) -> Result<(), Stop> {
        let seen = *tx.read(&self.var)?;
        if self.attempts.fetch_add(1, SeqCst) < LOST {
            std::thread::scope(|s| _ = s.spawn(|| self.var.set(seen + 1).unwrap()));
        } else {
            in_turn();
        }
        tx.write(&self.var, seen + 1)
    }

    /// Runs until it is in turn, and then until `goes` has something.
    fn run(&self, begun: &mpsc::Sender<()>, goes: &mpsc::Receiver<()>) {
        let goes = Mutex::new(goes);
        atomically(|tx| {
            self.body(tx, || {
                begun.send(()).unwrap();
                goes.lock().unwrap().recv().unwrap();
            })
        })
        .unwrap();
        assert_eq!(self.attempts.load(SeqCst), LOST + 1);
    }
}

#[test]
fn the_seventeenth_attempt_is_in_turn_and_bystanders_wait_for_its_end() {
    let _alone = alone();
    let (loser, other) = (Loser::new(), TVar::new(0));
    let (begun, begins) = mpsc::channel();
    let (go, goes) = mpsc::channel();
    std::thread::scope(|s| {
        let holder = s.spawn(|| {
            let goes = goes;
            loser.run(&begun, &goes);
        });
        begins.recv().unwrap();
        // Held: it waits, and does not spin.
        let (wakes, attempts) = (Arc::new(Wakes::default()), AtomicUsize::new(0));
        let (waker, wakes) = (Waker::from(wakes.clone()), wakes);
        let mut task = Context::from_waker(&waker);
        let writes = transaction(|tx| {
            attempts.fetch_add(1, SeqCst);
            tx.modify(&loser.var, |n| n + 100)
        });
        let mut writes = pin!(writes.into_future());
        assert_eq!(writes.as_mut().poll(&mut task), Poll::Pending);
        assert_eq!((attempts.load(SeqCst), wakes.0.load(SeqCst)), (1, 0));
        // Others read what is held, and write what is not.
        assert_eq!(atomically(|tx| tx.read(&loser.var).copied()), Ok(LOST));
        atomically(|tx| tx.write(&other, *tx.read(&loser.var)?)).unwrap();
        go.send(()).unwrap();
        holder.join().unwrap();
        assert_eq!(wakes.0.load(SeqCst), 1);
        assert_eq!(writes.as_mut().poll(&mut task), Poll::Ready(()));
        assert_eq!(attempts.load(SeqCst), 2);
    });
    assert_eq!(loser.var.get(), LOST + 1 + 100);
}

/// A task that waits for the turn is told, and nobody polls it. A bystander that has met the holder
/// before looks for the end only then: nothing is held any more, and nobody has the turn.
#[test]
fn nobody_waits_for_a_task_that_was_told_of_the_turn_and_is_not_polled() {
    let _alone = alone();
    let (loser, second) = (Loser::new(), Loser::new());
    let (begun, begins) = mpsc::channel();
    let (go, goes) = mpsc::channel();
    let mut task = Context::from_waker(Waker::noop());
    std::thread::scope(|s| {
        let holder = s.spawn(|| {
            let goes = goes;
            loser.run(&begun, &goes);
        });
        begins.recv().unwrap();
        let mut asks = Box::pin(transaction(|tx| second.body(tx, || ())).into_future());
        assert_eq!(asks.as_mut().poll(&mut task), Poll::Pending);
        assert_eq!(second.attempts.load(SeqCst), LOST);
        // The second arm is looked at after the transaction, and before both register.
        let holder = Mutex::new(Some(holder));
        let queue: WaitQueue<()> = WaitQueue::new(());
        let never = queue.source(
            WaitsFor::new("nothing"),
            |()| {
                if let Some(holder) = holder.lock().unwrap().take() {
                    go.send(()).unwrap();
                    holder.join().unwrap();
                }
                false
            },
            |()| (),
        );
        let writes = transaction(|tx| tx.modify(&loser.var, |n| n + 100));
        let mut either = pin!(writes.or_else(segue_core::Waitable::new(never)).into_future());
        assert!(either.as_mut().poll(&mut task).is_ready());
        // And the turn is free, also for others.
        drop(asks);
        let third = Loser::new();
        atomically(|tx| third.body(tx, || ())).unwrap();
    });
    assert_eq!(loser.var.get(), LOST + 1 + 100);
}

#[test]
fn a_panic_or_a_retry_in_turn_ends_the_turn() {
    let _alone = alone();
    for panics in [true, false] {
        let loser = Loser::new();
        let mut source = transaction(|tx| {
            let is_in_turn = Cell::new(false);
            loser.body(tx, || {
                assert!(!panics, "planted");
                is_in_turn.set(true);
            })?;
            tx.check(!is_in_turn.get())
        });
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            pin!(source.by_ref().into_future()).as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
        }));
        assert_eq!(outcome.is_err(), panics);
        // The source is still there, and the turn is free.
        let other = Loser::new();
        atomically(|tx| other.body(tx, || ())).unwrap();
        assert_eq!((loser.var.get(), other.var.get()), (LOST, LOST + 1));
        drop(source);
    }
}

/// Each has sixteen conflicts. Some leave the line, one of them after it was told, and all that
/// stay have their turn.
#[test]
fn all_that_wait_for_the_turn_have_it_or_leave() {
    let _alone = alone();
    let first = Loser::new();
    let (begun, begins) = mpsc::channel();
    let (go, goes) = mpsc::channel();
    let mut task = Context::from_waker(Waker::noop());
    std::thread::scope(|s| {
        let holder = s.spawn(|| {
            let goes = goes;
            first.run(&begun, &goes);
        });
        begins.recv().unwrap();
        let losers: Vec<_> = (0..6).map(|_| Loser::new()).collect();
        let asks = |loser| transaction(move |tx| Loser::body(loser, tx, || ())).into_future();
        let mut line: Vec<_> = losers.iter().map(|loser| Box::pin(asks(loser))).collect();
        line.iter_mut().for_each(|asks| assert_eq!(asks.as_mut().poll(&mut task), Poll::Pending));
        // One leaves before it is told.
        drop(line.remove(1));
        go.send(()).unwrap();
        holder.join().unwrap();
        drop(line.remove(0));
        for asks in &mut line {
            assert_eq!(asks.as_mut().poll(&mut task), Poll::Ready(()));
        }
        assert_eq!(losers.iter().map(|loser| loser.attempts.load(SeqCst)).sum::<usize>(), 6 * LOST + 4);
    });
}
