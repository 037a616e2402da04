//! The object of a wait: its kind, the line that waits, its address, and the word of its owner.
//!
//! Written by each wait that has to suspend, into the frame of that wait; read by reports and
//! dumps.
//!
//! # The writers and readers
//!
//! | record | written | read |
//! | --- | --- | --- |
//! | [`WaitsOn`], in the waiter's frame | by the waiter, where it is about to suspend; a fast way writes nothing | by the waiter's own thread between turns, or in a signal handler of that thread |
//! | [`Owner`], in a lock or a cell | by the side that has just locked, one relaxed store; by a slow unlock | by dumps of a fiber that waits for the lock, and so keeps the lock in place |
//!
//! **An owner is a hint.** The word names the fiber that locked. A guard may be sent to another
//! fiber, or forgotten; the fiber may have ended: then its number belongs to nobody, as numbers of
//! fibers never come again. An unlock that nobody waits for leaves the word as it was. So the word
//! means something only as long as somebody waits in the queue: the waiter has seen the lock taken,
//! the unlock that ends that takes the slow way, and this one clears the word if it still names the
//! unlocker's.
//!
//! # Orderings
//!
//! None: all stores and loads are relaxed. A dump decides nothing by one look (`segue-sched`,
//! `dump/deadlocks.rs`).
#![allow(unsafe_code)] // The address of an owner's word is followed.

use std::fmt::{self, Display, Formatter};
use std::panic::Location;
use std::ptr;
#[cfg(debug_assertions)]
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The object of a fiber's wait, as reports say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitsFor {
    /// The kind of thing: "a promise".
    pub what: &'static str,
    /// Where the wait was called.
    pub at: &'static Location<'static>,
}

impl WaitsFor {
    /// A wait for `what`, called from here; in a `#[track_caller]` operation, from its call.
    #[track_caller]
    #[must_use]
    #[inline]
    pub fn new(what: &'static str) -> Self {
        Self { what, at: Location::caller() }
    }
}

impl Display for WaitsFor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.what, self.at)
    }
}

/// The kind of thing for which an idle worker waits: the thread of one that sleeps is no waiter.
pub(crate) const WORK: &str = "work";

/// The thing itself, by its address: null if that is not known, or if one of several is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object(*const ());

/// In the address of an [`Owner`].
const OWNED: usize = 1;

impl Object {
    /// Not known.
    pub const NONE: Self = Self(ptr::null());

    /// The thing at this place.
    #[inline]
    pub fn at<T: ?Sized>(place: &T) -> Self {
        Self(ptr::from_ref(place).cast())
    }

    /// The thing at this address, which is only compared.
    #[inline]
    pub fn at_address<T>(address: *const T) -> Self {
        Self(address.cast())
    }

    /// A thing with an owner, at the place of the owner's word.
    #[inline]
    pub fn owned(owner: &Owner) -> Self {
        Self(ptr::from_ref(owner).cast::<()>().map_addr(|address| address | OWNED))
    }

    /// The address, if one is known.
    #[must_use]
    pub fn address(self) -> Option<usize> {
        Some(self.0.addr() & !OWNED).filter(|address| *address != 0)
    }

    /// The number of the owner, if the thing has one, and where that one has locked, as far as that
    /// is known.
    ///
    /// # Safety
    /// The thing is in place: somebody waits for that, and can't go on meanwhile.
    #[must_use]
    pub unsafe fn owner(self) -> Option<(u64, Option<&'static Location<'static>>)> {
        if self.0.addr() & OWNED == 0 {
            return None;
        }
        let owner = self.0.map_addr(|address| address & !OWNED).cast::<Owner>();
        // SAFETY: the address is that of a word, by `owned`, which is in place by the contract.
        Some(unsafe { &*owner }.get())
    }
}

/// The words of a suspended fiber about its wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitsOn {
    /// The kind of thing, and the line.
    pub waits_for: WaitsFor,
    /// The thing.
    pub object: Object,
}

impl From<WaitsFor> for WaitsOn {
    #[inline]
    fn from(waits_for: WaitsFor) -> Self {
        Self { waits_for, object: Object::NONE }
    }
}

/// The word in a lock that says which fiber has locked: a [number](crate::Fiber::number), or zero.
#[derive(Debug)]
#[repr(align(8))]
pub struct Owner {
    number: AtomicU64,
    #[cfg(debug_assertions)]
    at: AtomicPtr<Location<'static>>,
}

const _: () = assert!(align_of::<Owner>() > OWNED);

impl Owner {
    /// In place of a number: handed to a waiter that has not run since.
    pub const HANDED: u64 = u64::MAX;

    /// Nobody.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            number: AtomicU64::new(0),
            #[cfg(debug_assertions)]
            at: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Notes an owner.
    #[inline]
    pub(crate) fn set(&self, number: u64) {
        self.number.store(number, Relaxed);
    }

    /// Notes where the lock was taken, in a debug build.
    #[inline]
    #[track_caller]
    pub(crate) fn set_place(&self) {
        #[cfg(debug_assertions)]
        self.at.store(ptr::from_ref(Location::caller()).cast_mut(), Relaxed);
    }

    /// The number that was noted last.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    /// Notes that a waiter was given the lock, and has not run yet.
    #[cold]
    pub fn hand_over(&self) {
        self.set(Self::HANDED);
    }

    /// Notes that the lock is free, if `owner` is still noted. For an unlock with waiters.
    #[cold]
    pub fn clear(&self, owner: u64) {
        let _ = self.number.compare_exchange(owner, 0, Relaxed, Relaxed);
    }

    fn get(&self) -> (u64, Option<&'static Location<'static>>) {
        #[cfg(debug_assertions)]
        // SAFETY: null, or one that `set_place` has stored.
        let at = unsafe { self.at.load(Relaxed).cast_const().as_ref() };
        #[cfg(not(debug_assertions))]
        let at = None;
        (self.number(), at)
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}
