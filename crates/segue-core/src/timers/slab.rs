//! The entries of timers, 32 bytes each, in one block of memory, and the keys that name them.
//!
//! Used by `wheel.rs`, with lists that go through them.
//!
//! # The idea
//!
//! An entry is named by its index and a *generation*, which moves on at the end of the entry: so a
//! key of an entry that has come up names nothing, also when another entry has that place by then.
//! A place without further generations is not given out again: 32 bytes for four thousand million
//! timers. The memory stays at its high-water mark, for the next ones; places are given out again
//! last in, first out, so that few timers touch few lines.
//!
//! The purpose of an entry is a pointer and a number: a waiter is its trigger and the arm, enough
//! for the common case. An object that expires is kept alive by its count; a lazy timer, a call and
//! a look have a box, which is made as rarely as their entries are.
#![allow(unsafe_code)] // What an entry is for is kept as a pointer.

use crate::contract::trigger::{MAX_ARM, Trigger};
use crate::timers::Movable;
use crate::timers::expiry::Expiring;
use crate::timers::late::Look;
use std::ptr::NonNull;
use std::sync::Weak;

/// The action at the due time.
pub(crate) enum Entry {
    /// A waiter.
    Wait { trigger: NonNull<Trigger>, arm: usize },
    /// An object that expires.
    Expiry(Expiring),
    /// The rare kinds.
    Rare(Box<Rare>),
}

/// The kinds with a box, so that the other entries stay small.
pub(crate) enum Rare {
    /// A timer with a limit that may have been moved.
    Lazy(Lazy),
    /// A call.
    Call(Box<dyn FnOnce() + Send>),
    /// Timers that another thread is to look at.
    Look(Weak<dyn Look>),
}

/// The timer of this number.
pub(crate) struct Lazy {
    pub(crate) owner: Weak<dyn Movable>,
    pub(crate) number: usize,
}

impl From<Lazy> for Entry {
    fn from(lazy: Lazy) -> Self {
        Self::Rare(Box::new(Rare::Lazy(lazy)))
    }
}

/// The name of an entry, also of one that has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// Of an entry that was not made, since its time never comes.
    pub(super) const NEVER: Self = Self { index: NONE, generation: 0 };
}

/// No index.
pub(super) const NONE: u32 = u32::MAX;

/// An entry, or a place for one.
pub(super) struct Place {
    pub(super) deadline: u64,
    what: *const (),
    /// The neighbours in a list, which `wheel.rs` writes; `after` leads from one free place to the
    /// next.
    pub(super) before: u32,
    pub(super) after: u32,
    /// One of the kinds below, with the arm above.
    kind: u32,
    generation: u32,
}

const _: () = assert!(size_of::<Place>() == 32);

const WAIT: u32 = 0;
const EXPIRY: u32 = 1;
const RARE: u32 = 2;
const FREE: u32 = 3;
const KINDS: u32 = 2;

const _: () = assert!(MAX_ARM <= (u32::MAX >> KINDS) as usize);

impl Entry {
    fn pack(self) -> (*const (), u32) {
        match self {
            Self::Wait { trigger, arm } => {
                debug_assert!(arm <= MAX_ARM);
                (trigger.as_ptr().cast_const().cast(), (arm as u32) << KINDS | WAIT)
            }
            Self::Expiry(expiring) => (expiring.into_raw().as_ptr().cast_const().cast(), EXPIRY),
            Self::Rare(rare) => (Box::into_raw(rare).cast_const().cast(), RARE),
        }
    }

    /// # Safety
    /// These came from `pack`, and are used once.
    unsafe fn unpack(what: *const (), kind: u32) -> Self {
        match kind & ((1 << KINDS) - 1) {
            WAIT => {
                // SAFETY: the address came from a pointer that was not null.
                let trigger = unsafe { NonNull::new_unchecked(what.cast_mut().cast()) };
                Self::Wait { trigger, arm: (kind >> KINDS) as usize }
            }
            EXPIRY => {
                // SAFETY: it came from `into_raw`, of a pointer that was not null, and is used
                // once.
                Self::Expiry(unsafe { Expiring::from_raw(NonNull::new_unchecked(what.cast_mut().cast())) })
            }
            // SAFETY: the pointer came from `Box::into_raw`.
            RARE => Self::Rare(unsafe { Box::from_raw(what.cast_mut().cast()) }),
            _ => unreachable!("a free place has no entry"),
        }
    }
}

/// All entries of some timers.
pub(super) struct Slab {
    places: Vec<Place>,
    /// The first free place.
    free: u32,
    len: usize,
}

impl Slab {
    pub(super) const fn new() -> Self {
        Self { places: Vec::new(), free: NONE, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Makes an entry, which is in no list yet. Answers its index.
    #[inline]
    pub(super) fn insert(&mut self, deadline: u64, entry: Entry) -> u32 {
        let (what, kind) = entry.pack();
        self.len += 1;
        let index = self.free;
        if let Some(place) = self.places.get_mut(index as usize) {
            self.free = place.after;
            (place.deadline, place.what, place.kind) = (deadline, what, kind);
            return index;
        }
        self.grow(Place { deadline, what, before: NONE, after: NONE, kind, generation: 0 })
    }

    #[cold]
    fn grow(&mut self, place: Place) -> u32 {
        // Half of the numbers are slots for the code that links entries.
        let index = u32::try_from(self.places.len()).ok().filter(|&index| index < 1 << 31);
        self.places.push(place);
        index.expect("two thousand million timers are more than the memory holds")
    }

    /// Gives up an entry, which is in no list any more.
    #[inline]
    pub(super) fn remove(&mut self, index: u32) -> Entry {
        let free = self.free;
        let place = &mut self[index];
        let (what, kind) = (place.what, std::mem::replace(&mut place.kind, FREE));
        if place.generation < u32::MAX {
            place.generation += 1;
            place.after = free;
            self.free = index;
        }
        self.len -= 1;
        // SAFETY: they were kept by `insert`, and the place is free from now on; a free one panics.
        unsafe { Entry::unpack(what, kind) }
    }

    pub(super) fn key(&self, index: u32) -> Key {
        Key { index, generation: self[index].generation }
    }

    /// The entry that a key names, if still there.
    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<u32> {
        let place = self.places.get(key.index as usize)?;
        (place.generation == key.generation && place.kind != FREE).then_some(key.index)
    }
}

impl std::ops::Index<u32> for Slab {
    type Output = Place;

    #[inline]
    fn index(&self, index: u32) -> &Place {
        &self.places[index as usize]
    }
}

impl std::ops::IndexMut<u32> for Slab {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Place {
        &mut self.places[index as usize]
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        for place in &self.places {
            if place.kind != FREE {
                // SAFETY: they were kept by `insert`, and nobody uses the slab after this.
                drop(unsafe { Entry::unpack(place.what, place.kind) });
            }
        }
    }
}
