//! The wait for a future on plain threads, and its wakers: in every order of clone, wake and drop,
//! on either side. Small enough for Miri.

use segue_core::{CancelToken, wait_future, wait_future_shielded};
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

const ROUNDS: usize = if cfg!(miri) { 20 } else { 2000 };

/// Leaves `clones` wakers at each poll, until it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Gate {
    fn open(&self) -> Vec<Waker> {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        std::mem::take(&mut state.1)
    }

    /// Waits until somebody has polled.
    fn polled(&self) {
        while self.0.lock().unwrap().1.is_empty() {
            thread::yield_now();
        }
    }
}

impl Future for Gate {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let wakers = [cx.waker().clone(), cx.waker().clone(), cx.waker().clone()];
        let mut state = self.0.lock().unwrap();
        if state.0 {
            return Poll::Ready(());
        }
        state.1.extend(wakers);
        Poll::Pending
    }
}

#[test]
fn wakers_used_up_before_during_and_after_the_end() {
    for round in 0..ROUNDS {
        let gate = Gate::default();
        let waiter = thread::spawn({
            let gate = gate.clone();
            move || {
                // Some rounds reuse the bell of an earlier wait.
                if round % 2 == 0 {
                    wait_future(async {}).unwrap();
                }
                wait_future(gate).unwrap();
            }
        });
        gate.polled();
        let mut wakers = gate.open();
        match round % 4 {
            0 => wakers.drain(..).for_each(Waker::wake),
            1 => {
                let kept = wakers.clone();
                wakers.pop().unwrap().wake();
                drop(wakers);
                waiter.join().unwrap();
                kept.into_iter().for_each(Waker::wake);
                continue;
            }
            2 => {
                wakers.iter().for_each(Waker::wake_by_ref);
                waiter.join().unwrap();
                // The last ones end on different threads at once.
                thread::scope(|s| {
                    for waker in wakers {
                        s.spawn(move || drop(waker.clone()));
                    }
                });
                continue;
            }
            _ => wakers.swap_remove(0).wake(),
        }
        waiter.join().unwrap();
    }
}

#[test]
fn the_owner_drops_what_others_have_cloned() {
    for _ in 0..ROUNDS {
        let gate = Gate::default();
        let back = Arc::new(Mutex::new(Vec::new()));
        thread::scope(|s| {
            s.spawn(|| {
                wait_future(gate.clone()).unwrap();
                // The bell was abandoned to these; and another wait has another bell meanwhile.
                let mine = std::mem::take(&mut *back.lock().unwrap());
                wait_future(async { drop(mine) }).unwrap();
            });
            gate.polled();
            let wakers = gate.open();
            back.lock().unwrap().extend(wakers.iter().cloned());
            wakers.into_iter().for_each(Waker::wake);
        });
    }
}

#[test]
fn a_wake_in_the_poll_and_one_between_poll_and_sleep() {
    for _ in 0..ROUNDS {
        let polls = AtomicUsize::new(0);
        thread::scope(|s| {
            let future = poll_fn(|cx| {
                match polls.fetch_add(1, SeqCst) {
                    0 => cx.waker().wake_by_ref(),
                    1 => {
                        let waker = cx.waker().clone();
                        s.spawn(move || waker.wake());
                    }
                    _ => return Poll::Ready(()),
                }
                Poll::Pending
            });
            wait_future(future).unwrap();
        });
        assert_eq!(polls.into_inner(), 3);
    }
}

#[test]
fn cancel_against_wake() {
    let (mut woken, mut cancelled) = (0, 0);
    for round in 0..ROUNDS {
        let (gate, token) = (Gate::default(), CancelToken::new());
        let waiter = thread::spawn({
            let (gate, token) = (gate.clone(), token.clone());
            move || token.run(|| wait_future(gate))
        });
        gate.polled();
        let canceller = thread::spawn(move || token.cancel());
        if round % 2 == 0 {
            thread::yield_now();
        }
        gate.open().into_iter().for_each(Waker::wake);
        canceller.join().unwrap();
        match waiter.join().unwrap() {
            Ok(()) => woken += 1,
            Err(_) => cancelled += 1,
        }
    }
    assert!(cfg!(miri) || (woken > 0 && cancelled > 0), "{woken} woken, {cancelled} cancelled");
}

#[test]
fn a_shielded_wait_is_not_cancelled() {
    let token = CancelToken::new();
    let gate = Gate::default();
    let waiter = thread::spawn({
        let (gate, token) = (gate.clone(), token.clone());
        move || {
            token.run(|| {
                wait_future_shielded(gate);
                wait_future(pending::<()>()).is_err()
            })
        }
    });
    gate.polled();
    token.cancel();
    gate.open().into_iter().for_each(Waker::wake);
    assert!(waiter.join().unwrap());
}
