//! How a dump asks a worker for a [`Snapshot`] of its fibers.
//!
//! Used by dumps (`asks.rs`), and by the worker loop, which answers between two turns.
//!
//! # The idea
//!
//! Nobody but a worker's own thread may read the worker's fibers. A worker that is in a turn is
//! asked by a mark, which the worker sees when it looks around. A worker that does not come in time
//! is in a long turn; one that rests, in its park or in no turn for another reason, would have to
//! be woken. Both are *interrupted*: a signal handler of that thread takes the snapshot
//! ([`Watched::visit`]). So nobody is woken, and a turn goes on after microseconds.
//!
//! # States of a seat
//!
//! ```text
//!   QUIET --ask: the dump, with the room--> ASKED --answer: the worker--> ANSWERED --the dump--> QUIET
//!                                             \--the dump, when the time is over--> QUIET
//! ```
//!
//! All changes are made under the seat's lock, which the worker takes if the mark says ASKED, and
//! nobody holds for longer than the snapshot takes. The handler takes no lock, and reads `resident`
//! on the worker's own thread, which alone writes that: so the worker is in place during the
//! handler.
//!
//! **The race to fear**: the worker ends, and the handler reads freed memory. The worker clears
//! `resident` before, on the thread on which the handler would run.
#![allow(unsafe_code)] // The worker is reached by its address, in a signal handler.

use crate::worker::snapshot::{Residence, Snapshot};
use segue_fiber::{Backtrace, Coroutine, Interrupted, Unanswered, Watched};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The time in which a worker in a turn may come to its loop.
const PATIENCE: Duration = Duration::from_millis(10);

/// The time in which a thread may answer a signal.
const ANSWER: Duration = Duration::from_secs(1);

/// The side of a worker that dumps see.
pub(crate) struct Seat {
    is_asked: AtomicBool,
    room: Mutex<Option<Box<Snapshot>>>,
    answered: Condvar,
    pub(crate) watched: OnceLock<Watched>,
    /// The worker, while it lives on its thread. Written by that thread alone.
    pub(crate) resident: AtomicPtr<Residence>,
}

/// The answer of a worker.
pub(crate) enum Answer {
    /// Between two turns.
    Came(Box<Snapshot>),
    /// Where its thread was interrupted.
    Interrupted(Box<Snapshot>, Backtrace),
    /// Its thread does not answer.
    Silent(Unanswered),
    /// There is no such worker, not yet or any more.
    Gone,
}

impl Seat {
    pub(crate) fn new() -> Self {
        Self {
            is_asked: AtomicBool::new(false),
            room: Mutex::new(None),
            answered: Condvar::new(),
            watched: OnceLock::new(),
            resident: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The worker lives on the calling thread from now on; null: not any more.
    ///
    /// # Safety
    /// The worker stays in place until this is called again.
    pub(crate) unsafe fn reside(&self, worker: *const Residence) {
        // Without that the thread answers between its turns alone.
        if !worker.is_null()
            && self.watched.get().is_none()
            && let Ok(watched) = Watched::register()
        {
            let _ = self.watched.set(watched);
        }
        self.resident.store(worker.cast_mut(), Relaxed);
    }

    /// The worker is between two turns: answers, if it was asked.
    #[inline]
    pub(crate) fn answer(&self, residence: &Residence) {
        if self.is_asked.load(Relaxed) {
            self.answer_now(residence);
        }
    }

    #[cold]
    fn answer_now(&self, residence: &Residence) {
        let mut room = self.lock();
        if self.is_asked.swap(false, Relaxed)
            && let Some(snapshot) = room.as_mut()
        {
            snapshot.take(residence, |_| Some(false));
            drop(room);
            self.answered.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<Snapshot>>> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks by the mark. Gives the room back, and whether the worker has come.
    pub(crate) fn ask(&self, snapshot: Box<Snapshot>) -> (Box<Snapshot>, bool) {
        let mut room = self.lock();
        *room = Some(snapshot);
        self.is_asked.store(true, Relaxed);
        let waited = self.answered.wait_timeout_while(room, PATIENCE, |_| self.is_asked.load(Relaxed));
        let (mut room, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let has_come = !self.is_asked.swap(false, Relaxed);
        (room.take().expect("nobody else takes the room"), has_come)
    }

    /// Has the thread interrupted.
    pub(crate) fn interrupt(self: &Arc<Self>, watched: &Watched, snapshot: Box<Snapshot>) -> Answer {
        /// # Safety
        /// As for the second argument of [`Watched::visit`].
        unsafe fn visit((seat, snapshot): &mut (Arc<Seat>, Box<Snapshot>), thread: &Interrupted<'_>) {
            // SAFETY: null, or a worker that lives on this thread, which is here.
            if let Some(residence) = unsafe { seat.resident.load(Relaxed).as_ref() } {
                snapshot.take(residence, |fiber: &Coroutine<_>| thread.runs_in(fiber));
            }
        }
        let before = snapshot.position();
        // SAFETY: the visit copies words into room that is there, of a worker that this thread
        // alone changes, as `snapshot.rs` says.
        let (state, trace) = unsafe { watched.visit(ANSWER, Box::new((Arc::clone(self), snapshot)), visit) };
        match (state, trace) {
            (Some(state), Ok(_)) if state.1.position() == before && !self.is_inhabited() => Answer::Gone,
            (Some(state), Ok(trace)) => Answer::Interrupted(state.1, trace),
            (_, Err(Unanswered::Ended)) => Answer::Gone,
            (_, Err(why)) => Answer::Silent(why),
            (None, Ok(_)) => Answer::Silent(Unanswered::TimedOut),
        }
    }

    pub(crate) fn is_inhabited(&self) -> bool {
        !self.resident.load(Relaxed).is_null()
    }
}
