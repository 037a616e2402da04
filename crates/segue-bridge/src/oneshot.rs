//! A result on its way from a closure that runs elsewhere to the future that waits for it.
//!
//! Used by `direct` and by the bridge to rayon.
//!
//! A mutex with the result, or the waker of whoever waits for it. Foreign code (cloning, calling and dropping wakers, dropping results) runs outside of it.

use segue_core::{Cancelled, JoinError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

enum State<T> {
    Running(Option<Waker>),
    Ended(Result<T, JoinError>),
    /// The result was taken, or nobody wants it.
    Over,
}

type Shared<T> = Arc<Mutex<State<T>>>;

fn lock<T>(shared: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    // Nothing panics under it.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The side of the closure. Dropping it tells the other side that the closure never ran.
pub(crate) struct Sender<T>(Shared<T>);

/// The side that waits.
pub(crate) struct Receiver<T>(Shared<T>);

pub(crate) fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Mutex::new(State::Running(None)));
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl<T> Sender<T> {
    /// Runs `f`, whose panic is an error of the result.
    pub(crate) fn run(self, f: impl FnOnce() -> T) {
        self.send(catch_unwind(AssertUnwindSafe(f)).map_err(JoinError::Panicked));
    }

    fn send(&self, result: Result<T, JoinError>) {
        let mut state = lock(&self.0);
        match std::mem::replace(&mut *state, State::Over) {
            State::Running(waker) => {
                *state = State::Ended(result);
                drop(state);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            other => {
                *state = other;
                drop(state);
                drop(result);
            }
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.send(Err(JoinError::Cancelled(Cancelled::new())));
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = task.waker().clone();
        let mut state = lock(&self.0);
        match std::mem::replace(&mut *state, State::Over) {
            State::Running(before) => {
                *state = State::Running(Some(waker));
                drop(state);
                drop(before);
                Poll::Pending
            }
            State::Ended(result) => Poll::Ready(result),
            State::Over => panic!("a future was polled after it had yielded its value"),
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.0);
        let rest = std::mem::replace(&mut *state, State::Over);
        drop(state);
        drop(rest);
    }
}
