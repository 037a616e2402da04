//! The choice between two sources, which is a source again.
//!
//! Used through [`Waitable::or`](crate::Waitable::or) and by waits with a deadline. It is a choice
//! of a pair, and yields which of the two it was; `any_of.rs` has the algorithm.
#![allow(unsafe_code)] // `Source` is an unsafe trait.

use crate::contract::trigger::Trigger;
use crate::primitives::waits_for::WaitsFor;
use crate::wait::any_of::{AnyOf, Slots};
use crate::wait::arms::OneOf;
use crate::wait::holders::steps_of_the_same_slot;
use crate::wait::retreat::Retreat;
use crate::wait::source::Source;

/// One of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<L, R> {
    /// Of the left source.
    Left(L),
    /// Of the right source.
    Right(R),
}

impl<L, R> From<OneOf<L, R>> for Either<L, R> {
    #[inline]
    fn from(one: OneOf<L, R>) -> Self {
        match one {
            OneOf::A(left) => Self::Left(left),
            OneOf::B(right) => Self::Right(right),
        }
    }
}

/// The source that is ready when one of two is. If both are, it is drawn which one's value is
/// taken, each with the same chance; of a chain of up to eight each arm has the same.
///
/// # Examples
///
/// ```
/// use segue_core::{Either, WaitQueue, WaitsFor, Waitable};
///
/// let queue: WaitQueue<u32, u32> = WaitQueue::new(0);
/// let at_least = |least| {
///     Waitable::new(queue.source(WaitsFor::new("a number"), move |n| *n >= least, |n| *n))
/// };
/// assert_eq!(at_least(1).or(at_least(0)).wait(), Ok(Either::Right(0)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Or<L, R>(AnyOf<(L, R)>);

impl<L: Source, R: Source> Or<L, R> {
    /// The choice between two.
    ///
    /// # Panics
    /// If it would have more arms than [a trigger can tell apart](crate::MAX_ARM). A choice with a
    /// [`guard`](crate::guard) panics at the beginning of a wait with so many.
    #[inline]
    pub fn new(left: L, right: R) -> Self {
        Self::drawn_or(left, right, false)
    }

    /// The choice between two, of which the left one is taken if both are ready.
    ///
    /// # Panics
    /// As [`new`](Or::new).
    #[inline]
    pub fn biased(left: L, right: R) -> Self {
        Self::drawn_or(left, right, true)
    }

    /// Reports name what the left one waits for.
    #[inline]
    fn drawn_or(left: L, right: R, biased: bool) -> Self {
        let waits_for = left.waits_for();
        Self(AnyOf::new((left, right), biased, waits_for))
    }
}

// SAFETY: every step is that of the choice of the pair.
unsafe impl<L: Source, R: Source> Source for Or<L, R> {
    type Output = Either<L::Output, R::Output>;
    type Slot = Slots<(L::Slot, R::Slot)>;

    steps_of_the_same_slot!(self => self.0, Either::from);
}
