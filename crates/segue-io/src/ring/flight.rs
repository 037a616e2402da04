//! One op that the kernel has, with the place for its result.
//!
//! `Ring::fly` makes a flight in the frame of the fiber that waits; the user data of the
//! completion has the flight's address.

use segue_core::{Cancelled, Trigger, WaitsFor};
use std::cell::Cell;

/// The kinds of completions, by their user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The end of the flight at this address.
    Flight(usize),
    /// The answer to a cancel, which nobody looks at: the flight's own completion decides.
    Cancel,
    /// The reactor has something.
    Reactor,
}

/// The low bits of an address are free, and the high ones: user space has 47 bits, and on no kernel
/// more unless a program asks for it.
const KINDS: u64 = 0b111;
const ADDRESS: u64 = (1 << 48) - 1;
const CANCEL: u64 = 1;
const REACTOR: u64 = 2;

/// The user data of a cancel and of the reactor.
pub(super) const CANCELS: u64 = CANCEL;
pub(super) const REACTORS: u64 = REACTOR;

/// The kind of the completion with this user data.
pub(super) fn kind_of(user_data: u64) -> Kind {
    match user_data & KINDS {
        CANCEL => Kind::Cancel,
        REACTOR => Kind::Reactor,
        _ => Kind::Flight((user_data & ADDRESS) as usize),
    }
}

/// An op between its submission and its completion.
#[repr(align(8))]
pub(super) struct Flight {
    done: Trigger,
    pub(super) result: Cell<i32>,
    pub(super) flags: Cell<u32>,
    /// Its time was over before its completion came.
    pub(super) is_late: Cell<bool>,
}

impl Flight {
    pub(super) fn new() -> Self {
        Self { done: Trigger::new(), result: Cell::new(0), flags: Cell::new(0), is_late: Cell::new(false) }
    }

    /// The address of this flight, and a number. A later flight can have the same address, while a
    /// cancel of this one is still on its way; the number comes again only after 65,536 flights.
    pub(super) fn user_data(&self, sequence: u16) -> u64 {
        let address = std::ptr::from_ref(self).expose_provenance() as u64;
        debug_assert_eq!(address & !ADDRESS, 0, "an address with over 48 bits");
        u64::from(sequence) << 48 | address
    }

    /// The completion has come. The last touch.
    pub(super) fn complete(&self, result: i32, flags: u32) {
        self.result.set(result);
        self.flags.set(flags);
        self.done.signal(0);
    }

    /// Waits for the completion; a cancellation ends the wait, and not the flight.
    pub(super) fn wait(&self, waits_for: WaitsFor) -> Result<(), Cancelled> {
        self.done.wait_once_more(waits_for)
    }

    /// Waits for the completion, whatever happens.
    pub(super) fn wait_shielded(&self, waits_for: WaitsFor) {
        self.done.wait_shielded(waits_for);
    }
}

#[cfg(test)]
#[path = "../../tests/units/flight.rs"]
mod tests;
