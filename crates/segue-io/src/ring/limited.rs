//! The flight that has the time limit of a socket's direction.
//!
//! A part of `Socket`, one for each direction; set by `Ring::fly`, asked when a limit is over.
//!
//! # The idea
//!
//! A direction has one lazy timer, for one wait at a time. If that wait is a flight, its end is not
//! to wake the fiber, which could only ask for a cancel and wait again: the thread that fires the
//! timer asks for the cancel. So the flight leaves its address here while the flight has the limit.
//!
//! The timers are those of the flight's worker, and that worker's thread fires them, the one thread
//! that may touch the ring. **The race to fear**: another thread comes here, with a limit of before
//! that has just come up among its own timers. This thread must not touch the flight. So the word
//! that a thread reads first names the [`Owner`], and the thread goes on only if that is its own.
//!
//! | `owner` | meaning | goes on from here |
//! | --- | --- | --- |
//! | 0 | no flight has the limit | a flight that has got the limit: the address of its ring's owner |
//! | an address | the flight is in the air | its end: 0, before it gives the limit back |
//!
//! A thread that reads the address of its own owner has written this address itself: no other
//! flight can have had the limit since, or this one would have written 0 first. So the rest is its
//! own thread's, too, and needs no ordering; nor does a stranger, which reads nothing else.
#![allow(unsafe_code)] // The flight lies in its fiber's frame.

use super::flight::Flight;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// The name of a ring: an address. The type is neither `Send` nor `Sync`; so a reference to an
/// owner is on the thread of its ring.
#[derive(Default)]
pub(super) struct Owner {
    _place: u8,
    not_send: PhantomData<*const ()>,
}

impl Owner {
    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Limited {
    owner: AtomicUsize,
    flight: AtomicPtr<Flight>,
    user_data: AtomicU64,
}

impl Limited {
    /// The flight has the limit, if there is one, while `wait` runs.
    #[inline(always)] // The wait is to have no frames of this.
    pub(super) fn during<T>(
        limited: Option<&Self>,
        owner: &Owner,
        flight: &Flight,
        user_data: u64,
        wait: impl FnOnce() -> T,
    ) -> T {
        struct InTheAir<'a>(Option<&'a Limited>);
        impl Drop for InTheAir<'_> {
            fn drop(&mut self) {
                if let Some(limited) = self.0 {
                    limited.owner.store(0, Ordering::Relaxed);
                }
            }
        }
        if let Some(limited) = limited {
            limited.flight.store(ptr::from_ref(flight).cast_mut(), Ordering::Relaxed);
            limited.user_data.store(user_data, Ordering::Relaxed);
            limited.owner.store(owner.address(), Ordering::Relaxed);
        }
        let _in_the_air = InTheAir(limited);
        wait()
    }

    /// Whether a flight of any ring has the limit.
    pub(super) fn is_taken(&self) -> bool {
        self.owner.load(Ordering::Relaxed) != 0
    }

    /// A limit of this direction is over: the flight that has it is late, if it is one of this
    /// owner's. Answers with the number that a cancel of the flight goes by.
    pub(super) fn expire(&self, owner: &Owner) -> Option<u64> {
        if self.owner.load(Ordering::Relaxed) != owner.address() {
            return None;
        }
        let (flight, user_data) = (self.flight.load(Ordering::Relaxed), self.user_data.load(Ordering::Relaxed));
        // SAFETY: this is the owner's thread, which has written the owner's address for a flight of
        // its own. `during` borrows the flight and the owner, and has not returned, since it takes
        // the address away first. A fiber that never runs again keeps its frame for good.
        unsafe { &*flight }.is_late.set(true);
        Some(user_data)
    }
}
