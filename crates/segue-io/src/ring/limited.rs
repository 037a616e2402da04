//! The flight that has the time limit of a socket's direction.
//!
//! A part of `Socket`, one for each direction; set by `Ring::carry_out`, asked when a limit is
//! over.
//!
//! # The idea
//!
//! A direction has one lazy timer, for one wait at a time. If that wait is a flight, its end is not
//! to wake the fiber, which could only ask for a cancel and wait again: who fires the timer asks
//! for the cancel. So the flight leaves its address here while it has the limit.
//!
//! The timers are those of the flight's worker, and it is that worker's thread that fires them, the
//! one thread that may touch the ring. **The race to fear**: another thread comes here, with a
//! limit of before that has just come up among its own timers. It must not touch what it finds. So
//! the word that it reads first names the ring, and it goes on only if that is its own.
//!
//! | `ring` | meaning | goes on from here |
//! | --- | --- | --- |
//! | 0 | no flight has the limit | a flight that has got the limit: its ring's address |
//! | an address | the flight is in the air | its end: 0, before it gives the limit back |
//!
//! Who reads the address of its own ring has written it itself: no other flight can have had the
//! limit since, or this one would have written 0 first. So the rest is its own thread's, too, and
//! needs no ordering; nor does a stranger, who reads nothing else.
#![allow(unsafe_code)] // The flight lies in its fiber's frame.

use super::flight::Flight;
use super::flying::Ring;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Limited {
    ring: AtomicUsize,
    flight: AtomicPtr<Flight>,
    user_data: AtomicU64,
}

/// The flight is in the air until this is dropped.
pub(super) struct InTheAir<'a>(&'a Limited);

impl Limited {
    /// The flight has got the limit.
    pub(super) fn begin(&self, ring: &Ring, flight: &Flight, user_data: u64) -> InTheAir<'_> {
        self.flight.store(ptr::from_ref(flight).cast_mut(), Ordering::Relaxed);
        self.user_data.store(user_data, Ordering::Relaxed);
        self.ring.store(ptr::from_ref(ring).addr(), Ordering::Relaxed);
        InTheAir(self)
    }

    /// A limit of this direction is over.
    pub(crate) fn expire(&self, here: impl FnOnce() -> Option<std::rc::Rc<Ring>>) {
        let of = self.ring.load(Ordering::Relaxed);
        if of == 0 {
            return;
        }
        if let Some(ring) = here().filter(|ring| ptr::from_ref(&**ring).addr() == of) {
            let (flight, user_data) = (self.flight.load(Ordering::Relaxed), self.user_data.load(Ordering::Relaxed));
            // SAFETY: this thread has written the address, for a flight in a frame of its own that
            // has not ended: its end takes the ring's address away first.
            unsafe { &*flight }.be_late();
            ring.cancel(user_data);
        }
    }
}

impl Drop for InTheAir<'_> {
    fn drop(&mut self) {
        self.0.ring.store(0, Ordering::Relaxed);
    }
}
