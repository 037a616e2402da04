//! [`Marks`]: two marks of a fiber in one byte of its header, and what is called for the second.
//!
//! Used by the contract, in each header; set by `drivers/unblocked.rs` and `values/carried.rs`.

use std::cell::Cell;
use std::sync::OnceLock;

/// Its calls of the C library suspend the fiber (`drivers/unblocked.rs`).
pub(crate) const UNBLOCKED: u8 = 1;

/// The fiber carries something from turn to turn (`values/carried.rs`).
pub(crate) const CARRIES: u8 = 2;

/// The marks of one fiber.
pub(crate) struct Marks(Cell<u8>);

/// Whether a fiber is about to leave its thread to others, or is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crossing {
    /// The fiber is about to be suspended.
    Leaves,
    /// The fiber goes on.
    Returns,
}

/// The code that is called for fibers that carry something: set once, by `values/carried.rs`. It
/// does not unwind.
pub(crate) static CARRIER: OnceLock<fn(Crossing)> = OnceLock::new();

impl Marks {
    /// Neither.
    pub(crate) const fn new() -> Self {
        Self(Cell::new(0))
    }

    #[inline]
    pub(crate) fn has(&self, mark: u8) -> bool {
        self.0.get() & mark != 0
    }

    /// Sets a mark or takes it back, and answers whether it was there.
    pub(crate) fn replace(&self, mark: u8, is: bool) -> bool {
        let before = self.0.get();
        self.0.set(if is { before | mark } else { before & !mark });
        before & mark != 0
    }

    /// Runs `f`, in which the fiber, the calling one, leaves its thread to others: between two
    /// calls of the carrier, if the fiber carries something.
    #[inline(always)] // So that the switch is in the caller's frame.
    pub(crate) fn apart(&self, f: impl FnOnce()) {
        let carries = self.has(CARRIES);
        if carries {
            self.cross(Crossing::Leaves);
        }
        f();
        if carries {
            self.cross(Crossing::Returns);
        }
    }

    /// Calls the carrier of the fiber, the calling one, which carries something, and does not from
    /// here to its return: so the carrier is not called inside of itself, nor for a state of a job
    /// that has the fiber's place.
    #[cold]
    #[inline(never)]
    pub(crate) fn cross(&self, crossing: Crossing) {
        self.replace(CARRIES, false);
        if let Some(carrier) = CARRIER.get() {
            carrier(crossing);
        }
        self.replace(CARRIES, crossing == Crossing::Returns);
    }
}
