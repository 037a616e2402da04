//! The choice among several sources: one flat source, of a tuple, an array or a list that is made
//! at run time.
//!
//! Used by [`any_of`], by `select!` of the crate `segue`, and by [`Or`](crate::Or), the choice
//! between two.
//!
//! Every step goes over the arms in a loop (`arms.rs` has the lists), so a choice of a thousand
//! nests no calls. Arms are numbered in their order; an arm that is a choice itself has as many
//! numbers as arms. `source.rs` has the protocol, which this file follows for any number. An arm
//! that is not chosen was registered at most, so it has no effect: the choice is among events, and
//! not functions that have begun to run.
//!
//! **Order**: a look goes through the arms in an order that is drawn, each order with the same
//! chance: so of those that are ready each has the same chance, wherever the others stand. (From a
//! start that is drawn, once around, an arm behind ten idle ones would have their chances, too.)
//! The order is drawn as far as the look gets, and only among the arms that may be ready: most idle
//! ones say so without a lock ([`Parts`]), so a look passes them by. Where there are [many
//! arms](Parts::MOST), to ask all of them is most of the work; so a look begins with a *guess*, an
//! arm that is drawn among all, idle or not. A guess that hits is one of those that are ready, each
//! with the same chance; after one that fails nothing is known of the others, so the draw among
//! those is as fair. Arms of a choice that is an arm itself are drawn among the others, if they are
//! [few](Parts::MOST): so `a.or(b).or(c)` is fair to all three. A choice of more counts as one arm,
//! and draws among its own: the parts of a source are the bits of a byte. A *biased* choice goes
//! through its arms from the first to the last, and counts as one.
//!
//! **Slots** are made once a look was in vain, so a choice that finds something ready has made
//! none.
//!
//! **The race to fear**: while a later arm is being registered, somebody takes the trigger through
//! an earlier one, and the later one turns out to be ready as well. Then the retreat finds the
//! trigger taken, and the earlier one is chosen: the value of the later one was only seen.
//!
//! And: a notifier tells an arm to attempt again, and before that attempt another one becomes
//! ready. If the waiter began anew, with that one, the notification would be lost, perhaps the only
//! one for all waiters of the first. So an arm that was told attempts at once. If that is in vain,
//! another waiter has taken the value meanwhile, and the notification has done its work.
#![allow(unsafe_code)] // Slots are registered by address.

use crate::contract::trigger::{MAX_ARM, Trigger};
use crate::primitives::waits_for::WaitsFor;
use crate::wait::arms::Arms;
use crate::wait::draw::{Series, draw};
use crate::wait::parts::{Parts, Row};
use crate::wait::retreat::Retreat;
use crate::wait::source::{Source, Waitable};

/// Whichever of these sources is ready first: a tuple of up to twelve of any types, an array or a
/// `Vec` of one type.
///
/// The choice yields the output with its origin: of a tuple as a variant of
/// [`OneOf`](crate::OneOf), of an array or a `Vec` with the index. If several are ready one of them
/// yields, at random, each with the same chance; [`any_of_biased`] takes the first of them. A
/// choice without arms is never ready.
///
/// An arm that is a choice itself counts as each of its arms; or as one for more than 8 arms, for a
/// biased choice, or for one made by a [`guard`](crate::guard).
///
/// The arms that are not chosen have no effect. Their values go with them, unless they are lent
/// ([`by_ref`](Waitable::by_ref)). An `Option` of a source is an arm that can be absent.
///
/// Each wait registers all arms, and withdraws them. In a loop over receivers of one's own a
/// [`merge`](crate::merge()) registers only the arm that has yielded. A wait of n arms takes a
/// multiple of n steps, with two exceptions, which take a multiple of n²: an arm becomes ready just
/// while the others are registered, and these are at n different structures (16,000 arms: a
/// second); or n arms that send and n that receive meet at one and the same channel.
///
/// # Cancellation
/// *Loses its place in the queue*, of every arm; nothing was handed over.
///
/// # Panics
/// If the sources have more arms than [a trigger can tell apart](crate::MAX_ARM). A choice with a
/// [`guard`](crate::guard) panics at the beginning of a wait with so many.
///
/// # Examples
///
/// ```
/// use segue_core::{OneOf, after, any_of, spawn};
/// use std::time::Duration;
///
/// let never = after(Duration::MAX);
/// match any_of((never, spawn(|| 7).join_source(), after(Duration::MAX))).wait()? {
///     OneOf::B(joined) => assert_eq!(joined.unwrap(), 7),
///     _ => unreachable!(),
/// }
///
/// let fibers: Vec<_> = (0..100).map(|n| spawn(move || n * n).join_source()).collect();
/// let (index, joined) = any_of(fibers).wait()?;
/// assert_eq!(joined.unwrap(), index * index);
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[inline]
#[track_caller]
pub fn any_of<L: Arms>(list: L) -> Waitable<AnyOf<L>> {
    Waitable::new(AnyOf::new(list, false, WaitsFor::new("one of several")))
}

/// As [`any_of`], but of those that are ready the first one is taken: an arm that is always ready
/// starves those behind.
///
/// # Cancellation
/// As for [`any_of`].
///
/// # Panics
/// As [`any_of`].
///
/// # Examples
///
/// ```
/// use segue_core::{after, any_of_biased};
/// use std::time::Duration;
///
/// let all_ready = [after(Duration::ZERO), after(Duration::ZERO)];
/// assert_eq!(any_of_biased(all_ready).wait(), Ok((0, ())));
/// ```
#[inline]
#[track_caller]
pub fn any_of_biased<L: Arms>(list: L) -> Waitable<AnyOf<L>> {
    Waitable::new(AnyOf::new(list, true, WaitsFor::new("the first of several")))
}

/// The numbers of all parts of a row.
const ALL: [u8; Row::MOST] = {
    let mut all = [0; Row::MOST];
    let mut part = 0;
    while part < Row::MOST {
        all[part] = part as u8;
        part += 1;
    }
    all
};

/// The source that is ready when one of a list of sources is. Made by [`any_of`].
#[derive(Clone, Copy, Debug)]
pub struct AnyOf<L> {
    list: L,
    biased: bool,
    waits_for: WaitsFor,
}

/// The slots of all arms, once they are prepared.
#[derive(Debug)]
pub struct Slots<T>(Option<T>);

impl<T> Default for Slots<T> {
    #[inline]
    fn default() -> Self {
        Self(None)
    }
}

impl<L: Arms> AnyOf<L> {
    #[inline]
    pub(super) fn new(list: L, biased: bool, waits_for: WaitsFor) -> Self {
        let this = Self { list, biased, waits_for };
        this.count_arms();
        this
    }

    /// Looks that they are not too many, before one is registered, and not where somebody claims
    /// the trigger through such an arm.
    #[inline]
    fn count_arms(&self) -> usize {
        let arms = (0..self.list.count()).map(|index| self.list.arms_of(index)).sum();
        assert!(arms <= MAX_ARM, "a choice has at most {MAX_ARM} arms");
        arms
    }

    #[inline]
    fn row(&self) -> Row {
        let mut row = Row::new();
        self.list.each_parts(|parts| row.push(parts));
        row
    }

    /// The number of all parts.
    #[inline]
    fn count_parts(&self) -> usize {
        (0..self.list.count()).map(|index| self.list.part_count_of(index)).sum()
    }

    /// The index of the arm that has this part of all, and the part's number there.
    #[inline]
    fn part_at(&self, mut part: usize) -> (usize, usize) {
        for index in 0..self.list.count() {
            let parts = self.list.part_count_of(index);
            if part < parts {
                return (index, part);
            }
            part -= parts;
        }
        unreachable!("a part has a number below the count");
    }

    /// Looks at one of many parts, which is drawn among all; then at the others that may be ready.
    #[inline]
    fn attempt_among(&mut self, count: usize) -> Option<L::Output> {
        let guess = draw(count);
        let (index, part) = self.part_at(guess);
        let output = self.list.attempt_part_at(index, part);
        if output.is_some() {
            return output;
        }
        let mut row = self.row();
        if row.count > Row::MOST {
            return self.attempt_many((index, part));
        }
        row.ready &= !1_u64.wrapping_shl(guess as u32);
        self.attempt_drawn(row)
    }

    /// Looks at those of two arms that may be ready.
    #[inline]
    fn attempt_two(&mut self, ready: u64) -> Option<L::Output> {
        if ready == 0 {
            return None;
        }
        let both = ready == 0b11;
        let first = if both { draw(2) } else { ready as usize >> 1 };
        let output = self.list.attempt_at(first);
        if output.is_some() || !both { output } else { self.list.attempt_at(1 - first) }
    }

    /// Looks at the parts that may be ready, one after the other, in an order that is drawn step by
    /// step.
    #[inline]
    fn attempt_drawn(&mut self, row: Row) -> Option<L::Output> {
        let mut ready = row.ready;
        if ready & ready.wrapping_sub(1) == 0 {
            return if ready == 0 { None } else { self.attempt_bit(row, ready.trailing_zeros() as usize) };
        }
        let mut places = ALL;
        let mut count = ready.trailing_ones() as usize;
        ready &= ready.wrapping_add(1);
        // Those behind the first one that is idle.
        while ready != 0 {
            places[count] = ready.trailing_zeros() as u8;
            count += 1;
            ready &= ready - 1;
        }
        // Fisher and Yates's permutation, as far as the look gets.
        let mut series = Series::new();
        for last in (0..count).rev() {
            places.swap(series.below(last + 1), last);
            let output = self.attempt_bit(row, places[last].into());
            if output.is_some() {
                return output;
            }
        }
        None
    }

    #[inline]
    fn attempt_bit(&mut self, row: Row, part: usize) -> Option<L::Output> {
        if row.count == self.list.count() {
            return self.list.attempt_at(part);
        }
        let (index, part) = row.place_of(part);
        self.list.attempt_part_at(index, part)
    }

    /// The same for any number of parts, but for the one that was tried.
    #[cold]
    #[inline(never)]
    fn attempt_many(&mut self, tried: (usize, usize)) -> Option<L::Output> {
        let mut places = Vec::new();
        for index in 0..self.list.count() {
            let parts = self.list.parts_of(index);
            let ready = (0..parts.count()).filter(|part| parts.may_be_ready(*part)).map(|part| (index, part));
            places.extend(ready.filter(|place| *place != tried));
        }
        let mut series = Series::new();
        while !places.is_empty() {
            let (index, part) = places.swap_remove(series.below(places.len()));
            let output = self.list.attempt_part_at(index, part);
            if output.is_some() {
                return output;
            }
        }
        None
    }

    /// The sources, with their values.
    pub fn into_list(self) -> L {
        self.list
    }

    /// The index of the source that has this arm, and the arm's number there.
    #[inline]
    fn place_of(&self, mut arm: usize) -> (usize, usize) {
        for index in 0..self.list.count() {
            let arms = self.list.arms_of(index);
            if arm < arms {
                return (index, arm);
            }
            arm -= arms;
        }
        unreachable!("the trigger was taken through an arm that was registered");
    }

    /// # Safety
    /// As for [`Source::register`]; with an address, as for [`Source::register_at`].
    #[inline]
    unsafe fn register_all(
        &mut self,
        address: Option<usize>,
        slots: &mut Slots<L::Slots>,
        trigger: &Trigger,
        mut arm: usize,
    ) -> Result<(), Retreat> {
        let slots = slots.0.as_mut().expect("the slots are prepared");
        for index in 0..self.list.count() {
            // SAFETY: as the caller promises.
            unsafe { self.list.register_at(index, address, slots, trigger, arm)? };
            arm += self.list.arms_of(index);
        }
        Ok(())
    }
}

// SAFETY: each arm keeps the contract for its slot, and every step is passed on to the arm or arms
// in question. Their contract includes that a withdrawal of a slot that is not registered, or not
// any more, has no effect.
unsafe impl<L: Arms> Source for AnyOf<L> {
    type Output = L::Output;
    type Slot = Slots<L::Slots>;

    fn waits_for(&self) -> WaitsFor {
        self.waits_for
    }

    fn arms(&self) -> usize {
        self.count_arms()
    }

    fn address(&self, least: usize) -> Option<usize> {
        (0..self.list.count()).filter_map(|index| self.list.address_of(index, least)).min()
    }

    #[inline]
    fn attempt(&mut self) -> Option<Self::Output> {
        if self.biased {
            return self.list.attempt_in_order();
        }
        let count = self.count_parts();
        if count > Parts::MOST {
            self.attempt_among(count)
        } else if count == 2 && self.list.count() == 2 {
            self.attempt_two(self.row().ready)
        } else {
            self.attempt_drawn(self.row())
        }
    }

    #[inline]
    fn parts(&self) -> Parts {
        let row = self.row();
        if self.biased { row.as_one_part() } else { row.as_parts() }
    }

    #[inline]
    fn part_count(&self) -> usize {
        match self.count_parts() {
            // Of one that has no arms there is one part, too.
            count @ 1..=Parts::MOST if !self.biased => count,
            _ => 1,
        }
    }

    #[inline]
    fn attempt_part(&mut self, part: usize) -> Option<Self::Output> {
        // The list comes first: the parts of a long one are not counted again and again.
        if self.biased || self.list.count() > Parts::MOST || self.count_parts() > Parts::MOST {
            return self.attempt();
        }
        let (index, part) = self.part_at(part);
        self.list.attempt_part_at(index, part)
    }

    unsafe fn prepare(&mut self, slot: &mut Self::Slot) {
        self.count_arms();
        let slots = slot.0.insert(self.list.slots());
        for index in 0..self.list.count() {
            // SAFETY: as the caller promises.
            unsafe { self.list.prepare_at(index, slots) };
        }
    }

    #[inline]
    unsafe fn register(&mut self, slot: &mut Self::Slot, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        // SAFETY: as the caller promises.
        unsafe { self.register_all(None, slot, trigger, arm) }
    }

    unsafe fn register_at(
        &mut self,
        address: usize,
        slot: &mut Self::Slot,
        trigger: &Trigger,
        arm: usize,
    ) -> Result<(), Retreat> {
        // SAFETY: as the caller promises.
        unsafe { self.register_all(Some(address), slot, trigger, arm) }
    }

    unsafe fn withdraw(&mut self, slot: &mut Self::Slot) {
        let Some(slots) = &mut slot.0 else { return };
        for index in 0..self.list.count() {
            // SAFETY: as the caller promises.
            unsafe { self.list.withdraw_at(index, slots) };
        }
    }

    #[inline]
    unsafe fn commit(&mut self, slot: &mut Self::Slot, arm: usize) -> Option<Self::Output> {
        let slots = slot.0.as_mut()?;
        let (taken, arm) = self.place_of(arm);
        for index in (0..self.list.count()).filter(|index| *index != taken) {
            // SAFETY: as the caller promises: another one was taken, so this one was not.
            unsafe { self.list.withdraw_at(index, slots) };
        }
        // SAFETY: as the caller promises.
        unsafe { self.list.commit_at(taken, slots, arm) }.or_else(|| self.list.attempt_at(taken))
    }

    unsafe fn give_back(&mut self, slot: &mut Self::Slot, arm: usize) {
        let Some(slots) = &mut slot.0 else { return };
        let (taken, arm) = self.place_of(arm);
        for index in (0..self.list.count()).filter(|index| *index != taken) {
            // SAFETY: as in `commit`.
            unsafe { self.list.withdraw_at(index, slots) };
        }
        // SAFETY: as the caller promises.
        unsafe { self.list.give_back_at(taken, slots, arm) };
    }
}
