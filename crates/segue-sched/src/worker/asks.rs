//! A dump asks one worker for its fibers: by the mark, by a signal, or on the worker's own thread.
//!
//! Used by dumps; `seat.rs` has the protocol.
#![allow(unsafe_code)] // The worker is reached by its address, on its own thread.

use crate::worker::group::Group;
use crate::worker::residents;
use crate::worker::seat::{Answer, Seat};
use crate::worker::snapshot::Snapshot;
use segue_fiber::Unanswered;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

/// Asks worker `index` for fibers, as many as there is room for.
pub(crate) fn ask(group: &Group, index: usize, mut snapshot: Box<Snapshot>) -> Answer {
    let remote = group.remote(index);
    let seat = &remote.seat;
    if !seat.is_inhabited() {
        return Answer::Gone;
    }
    let watched = seat.watched.get();
    let is_here = residents::lives_here(seat.resident.load(Relaxed));
    let rests = remote.beat.turn().is_none();
    if !is_here && (!rests || watched.is_none()) {
        if rests {
            // Nobody else can read the fibers of a worker that sleeps.
            group.wake(index);
        }
        let has_come;
        (snapshot, has_come) = seat.ask(snapshot);
        if has_come {
            return Answer::Came(snapshot);
        }
    }
    match watched {
        Some(watched) => match seat.interrupt(watched, snapshot) {
            Answer::Silent(Unanswered::TimedOut) if is_here => here(seat),
            answer => answer,
        },
        None if is_here => here(seat),
        None => Answer::Silent(Unanswered::TimedOut),
    }
}

/// The caller's own worker, on a system without such signals: all but the running fiber.
fn here(seat: &Seat) -> Answer {
    // SAFETY: the worker lives on this thread, which does something else than to end it.
    let Some(residence) = (unsafe { seat.resident.load(Relaxed).as_ref() }) else { return Answer::Gone };
    let mut snapshot = Snapshot::new(false);
    let running = segue_core::scheduling::current();
    snapshot.take(residence, |fiber| Some(ptr::eq(&raw const fiber.header().fiber, running)));
    Answer::Came(snapshot)
}
