//! The choice among several sources: one flat source, of a tuple, an array or a list that is made
//! at run time.
//!
//! Used by [`any_of`], by `select!` of the crate `segue`, and by [`Or`](crate::Or), the choice
//! between two.
//!
//! Every step goes over the arms in a loop, so a choice of a thousand nests no calls. Arms are
//! numbered in their order; one that is a choice itself has as many numbers as it has arms.
//! `source.rs` has the protocol, which this file follows for any number. An arm that is not chosen
//! was registered at most, so it has no effect: what is chosen among are events, and not functions
//! that have begun to run.
//!
//! **Order**: a look begins with an arm that is drawn, each with the same chance, and goes around
//! once: so none starves, also where another one is always ready. A *biased* choice begins with the
//! first.
//!
//! **Slots** are made once a look was in vain, so a choice that finds something ready has made
//! none.
//!
//! **The race to fear**: while a later arm is being registered, somebody takes the trigger through
//! an earlier one, and the later one turns out to be ready as well. Then the retreat finds the
//! trigger taken, and the earlier one it is: the value of the later one was only seen.
//!
//! And: a notifier tells an arm to attempt again, and before it does, another one becomes ready. If
//! the waiter began anew, with that one, the notification would be lost, and it may have been the
//! only one for all waiters of the first. So an arm that was told attempts at once. If that is in
//! vain, another waiter has taken it meanwhile, and the notification has done its work.
#![allow(unsafe_code)] // Slots are registered by address.

use crate::contract::current::with_running;
use crate::contract::fiber::WaitsFor;
use crate::contract::trigger::{MAX_ARM, Retreat, Trigger};
use crate::primitives::atomic::local;
use crate::wait::source::{Source, Waitable};
use std::array;
use std::cell::Cell;
use std::convert::Infallible;

local!(static DRAWS: Cell<u32> = Cell::new(0));

/// A number below `bound`, of the running fiber's series or else of the thread's. The multiplier is
/// that of PCG.
#[inline]
fn draw(bound: usize) -> usize {
    let next = |series: &Cell<u32>| {
        series.set(series.get().wrapping_mul(747_796_405).wrapping_add(2_891_336_453));
        ((u64::from(series.get()) * bound as u64) >> 32) as usize
    };
    with_running(|fiber| match fiber {
        Some(fiber) => next(fiber.draws()),
        None => DRAWS.with(next),
    })
}

/// Whichever of these sources is ready first: a tuple of up to twelve of any types, an array or a
/// `Vec` of one type.
///
/// It yields the output with its origin: of a tuple as a variant of [`OneOf`], of an array or a
/// `Vec` with the index. If several are ready, it begins with one that is drawn, so that none
/// starves; [`any_of_biased`] begins with the first. A choice without arms is never ready.
///
/// The arms that are not chosen have no effect. What they were made of goes with them, unless they
/// are lent ([`by_ref`](Waitable::by_ref)). An `Option` of a source is an arm that can be absent.
///
/// # Cancellation
/// *Loses its place in the queue*, of every arm; nothing was handed to it.
///
/// # Panics
/// If the sources have more arms than [a trigger can tell apart](crate::MAX_ARM).
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
/// starves those behind it.
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

/// One of up to twelve values: what a choice among a [tuple](any_of) of sources has yielded, named
/// by the place of its arm. The types that are not given are those of no arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Twelve times the same.
pub enum OneOf<
    A,
    B = Infallible,
    C = Infallible,
    D = Infallible,
    E = Infallible,
    F = Infallible,
    G = Infallible,
    H = Infallible,
    I = Infallible,
    J = Infallible,
    K = Infallible,
    L = Infallible,
> {
    A(A),
    B(B),
    C(C),
    D(D),
    E(E),
    F(F),
    G(G),
    H(H),
    I(I),
    J(J),
    K(K),
    L(L),
}

/// Sources that can be chosen among by [`any_of`]: a tuple of up to twelve, an array, a `Vec`.
///
/// # Safety
/// Each step is that of the arm with this index, with its own slot, and of nothing else. Nobody
/// outside of this crate has to implement it.
pub unsafe trait Arms {
    /// What the choice yields.
    type Output;

    /// The slots of all arms.
    type Slots;

    /// How many there are. The same at every call.
    fn count(&self) -> usize;

    /// Slots that are not registered.
    fn slots(&self) -> Self::Slots;

    /// [`Source::arms`] of this arm.
    fn arms_of(&self, index: usize) -> usize;

    /// [`Source::address`] of this arm.
    fn address_of(&self, index: usize, least: usize) -> Option<usize>;

    /// [`Source::attempt`] of this arm.
    fn attempt_at(&mut self, index: usize) -> Option<Self::Output>;

    /// [`Source::prepare`] of this arm.
    ///
    /// # Safety
    /// As there.
    unsafe fn prepare_at(&mut self, index: usize, slots: &mut Self::Slots);

    /// [`Source::register`] of this arm, or [`Source::register_at`] an address.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    unsafe fn register_at(
        &mut self,
        index: usize,
        address: Option<usize>,
        slots: &mut Self::Slots,
        trigger: &Trigger,
        arm: usize,
    ) -> Result<(), Retreat>;

    /// [`Source::withdraw`] of this arm.
    ///
    /// # Safety
    /// As there.
    unsafe fn withdraw_at(&mut self, index: usize, slots: &mut Self::Slots);

    /// [`Source::commit`] of this arm.
    ///
    /// # Safety
    /// As there.
    unsafe fn commit_at(&mut self, index: usize, slots: &mut Self::Slots, arm: usize) -> Option<Self::Output>;

    /// [`Source::give_back`] of this arm.
    ///
    /// # Safety
    /// As there.
    unsafe fn give_back_at(&mut self, index: usize, slots: &mut Self::Slots, arm: usize);
}

/// The steps of [`Arms`], for each pattern that an index matches with the place of its arm, in the
/// list as among the slots, and with what makes an output of the arm's.
macro_rules! steps {
    ($self:ident $slots:ident: $($index:pat => [$($place:tt)+] $name:expr;)+) => {
        #[inline]
        fn arms_of(&$self, index: usize) -> usize {
            steps!(index: $($index => $self $($place)+.arms();)+)
        }

        #[inline]
        fn address_of(&$self, index: usize, least: usize) -> Option<usize> {
            steps!(index: $($index => $self $($place)+.address(least);)+)
        }

        #[inline]
        fn attempt_at(&mut $self, index: usize) -> Option<Self::Output> {
            steps!(index: $($index => $self $($place)+.attempt().map($name);)+)
        }

        unsafe fn prepare_at(&mut $self, index: usize, $slots: &mut Self::Slots) {
            // SAFETY: as the caller promises.
            steps!(index: $($index => unsafe { $self $($place)+.prepare(&mut $slots $($place)+) };)+);
        }

        #[inline]
        unsafe fn register_at(
            &mut $self,
            index: usize,
            address: Option<usize>,
            $slots: &mut Self::Slots,
            trigger: &Trigger,
            arm: usize,
        ) -> Result<(), Retreat> {
            // SAFETY: as the caller promises.
            steps!(index: $($index => unsafe {
                let (source, slot) = (&mut $self $($place)+, &mut $slots $($place)+);
                match address {
                    None => source.register(slot, trigger, arm),
                    Some(address) => source.register_at(address, slot, trigger, arm),
                }
            };)+)
        }

        #[inline]
        unsafe fn withdraw_at(&mut $self, index: usize, $slots: &mut Self::Slots) {
            // SAFETY: as the caller promises.
            steps!(index: $($index => unsafe { $self $($place)+.withdraw(&mut $slots $($place)+) };)+);
        }

        #[inline]
        unsafe fn commit_at(&mut $self, index: usize, $slots: &mut Self::Slots, arm: usize) -> Option<Self::Output> {
            // SAFETY: as the caller promises.
            let output = steps!(index: $($index => unsafe {
                $self $($place)+.commit(&mut $slots $($place)+, arm).map($name)
            };)+);
            output
        }

        unsafe fn give_back_at(&mut $self, index: usize, $slots: &mut Self::Slots, arm: usize) {
            // SAFETY: as the caller promises.
            steps!(index: $($index => unsafe { $self $($place)+.give_back(&mut $slots $($place)+, arm) };)+);
        }
    };
    ($of:ident: $($index:pat => $step:expr;)+) => {
        match $of {
            $($index => $step,)+
            _ => unreachable!("an arm has an index below the count"),
        }
    };
}

macro_rules! tuples {
    ($($count:literal: $($type:ident $index:tt)+;)+) => {$(
        // SAFETY: each step is that of the field with this index.
        unsafe impl<$($type: Source),+> Arms for ($($type,)+) {
            type Output = OneOf<$($type::Output),+>;
            type Slots = ($($type::Slot,)+);

            #[inline]
            fn count(&self) -> usize {
                $count
            }

            #[inline]
            fn slots(&self) -> Self::Slots {
                ($($type::Slot::default(),)+)
            }

            steps!(self slots: $($index => [.$index] OneOf::$type;)+);
        }
    )+};
}

tuples! {
    1: A 0;
    2: A 0 B 1;
    3: A 0 B 1 C 2;
    4: A 0 B 1 C 2 D 3;
    5: A 0 B 1 C 2 D 3 E 4;
    6: A 0 B 1 C 2 D 3 E 4 F 5;
    7: A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    8: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
    9: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8;
    10: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9;
    11: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10;
    12: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11;
}

#[allow(unreachable_patterns)] // One pattern stands for all indices.
// SAFETY: each step is that of the element with this index.
unsafe impl<S: Source, const N: usize> Arms for [S; N] {
    type Output = (usize, S::Output);
    type Slots = [S::Slot; N];

    #[inline]
    fn count(&self) -> usize {
        N
    }

    fn slots(&self) -> Self::Slots {
        array::from_fn(|_| S::Slot::default())
    }

    steps!(self slots: index => [[index]] |output| (index, output););
}

#[allow(unreachable_patterns)] // One pattern stands for all indices.
// SAFETY: each step is that of the element with this index.
unsafe impl<S: Source> Arms for Vec<S> {
    type Output = (usize, S::Output);
    type Slots = Box<[S::Slot]>;

    #[inline]
    fn count(&self) -> usize {
        self.len()
    }

    fn slots(&self) -> Self::Slots {
        self.iter().map(|_| S::Slot::default()).collect()
    }

    steps!(self slots: index => [[index]] |output| (index, output););
}

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
        // Here, and not where somebody claims the trigger through such an arm.
        this.count_arms();
        this
    }

    #[inline]
    fn count_arms(&self) -> usize {
        let arms = (0..self.list.count()).map(|index| self.list.arms_of(index)).sum();
        assert!(arms <= MAX_ARM, "a choice has at most {MAX_ARM} arms");
        arms
    }

    /// The sources, with what they have kept.
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

// SAFETY: each arm keeps the contract for its slot, and every step is passed on to the one or those
// that it concerns. That withdrawing has no effect on what is not registered, or not any more, is a
// part of their contract.
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
        let count = self.list.count();
        let start = if self.biased || count < 2 { 0 } else { self.place_of(draw(self.count_arms())).0 };
        (start..count).chain(0..start).find_map(|index| self.list.attempt_at(index))
    }

    unsafe fn prepare(&mut self, slot: &mut Self::Slot) {
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
