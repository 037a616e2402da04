//! The turn-taking between a coroutine's thread and its resumer.
//!
//! Used by the threaded coroutine alone. Of the threads that share a baton exactly one runs:
//! everybody else waits here, so that what one did happens before what the next does (the mutex
//! orders it).

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    New,
    Running,
    Suspended,
    Returned,
}

pub(super) struct Baton {
    state: Mutex<State>,
    changed: Condvar,
}

impl Baton {
    pub fn new() -> Self {
        Self { state: Mutex::new(State::New), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn state(&self) -> State {
        *self.lock()
    }

    /// Changes the state and wakes the side that waits for it.
    pub fn set(&self, state: State) {
        *self.lock() = state;
        self.changed.notify_all();
    }

    /// Waits as long as the coroutine runs, and says what it became.
    pub fn wait_while_running(&self) -> State {
        *self.changed.wait_while(self.lock(), |state| *state == State::Running).unwrap_or_else(PoisonError::into_inner)
    }

    /// Suspends, and waits until resumed.
    pub fn suspend(&self) {
        let mut state = self.lock();
        *state = State::Suspended;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| *state != State::Running));
    }
}
