//! The lists that can be chosen among, and the output of a choice among a tuple.
//!
//! Used by `any_of.rs`, which takes each step of the protocol for the arms that it concerns; here
//! is how it reaches the arm with an index.
#![allow(unsafe_code)] // `Source` is an unsafe trait.

use crate::contract::trigger::Trigger;
use crate::wait::parts::Parts;
use crate::wait::retreat::Retreat;
use crate::wait::source::Source;
use std::array;
use std::convert::Infallible;

/// One of up to twelve values: the output of a choice among a [tuple](crate::any_of) of sources,
/// named by the place of its arm. The types that are not given are those of no arm.
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

/// Sources that can be chosen among by [`any_of`](crate::any_of): a tuple of up to twelve, an
/// array, a `Vec`.
///
/// # Safety
/// Each step is that of the arm with this index, with its own slot, and of nothing else. Nobody
/// outside of this crate has to implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be chosen among",
    label = "not a tuple of up to twelve sources, an array or a `Vec` of sources",
    note = "an operation `x` waits at once and yields its result; to choose it write `x_source`: `recv_source()` \
            instead of `recv()`, `lock_source()` instead of `lock()`"
)]
pub unsafe trait Arms {
    /// The output of the choice.
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

    /// [`Source::attempt`] of the arms, from the first to the last, until one yields.
    fn attempt_in_order(&mut self) -> Option<Self::Output>;

    /// Calls `each` with [`Source::parts`] of the arms, one after the other.
    fn each_parts(&self, each: impl FnMut(Parts));

    /// [`Source::parts`] of this arm.
    fn parts_of(&self, index: usize) -> Parts;

    /// [`Source::part_count`] of this arm.
    fn part_count_of(&self, index: usize) -> usize;

    /// [`Source::attempt_part`] of this arm.
    fn attempt_part_at(&mut self, index: usize, part: usize) -> Option<Self::Output>;

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
/// list as among the slots, and with the maker of an output of the arm's.
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

        #[inline]
        fn parts_of(&$self, index: usize) -> Parts {
            steps!(index: $($index => $self $($place)+.parts();)+)
        }

        #[inline]
        fn part_count_of(&$self, index: usize) -> usize {
            steps!(index: $($index => $self $($place)+.part_count();)+)
        }

        fn attempt_part_at(&mut $self, index: usize, part: usize) -> Option<Self::Output> {
            steps!(index: $($index => $self $($place)+.attempt_part(part).map($name);)+)
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

            // A loop over the indices would jump for each idle arm, to a place that the processor
            // has to foresee.
            #[inline]
            fn attempt_in_order(&mut self) -> Option<Self::Output> {
                $(if let Some(output) = self.$index.attempt() {
                    return Some(OneOf::$type(output));
                })+
                None
            }

            #[inline]
            fn each_parts(&self, mut each: impl FnMut(Parts)) {
                $(each(self.$index.parts());)+
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

    #[inline]
    fn attempt_in_order(&mut self) -> Option<Self::Output> {
        self.iter_mut().enumerate().find_map(|(index, source)| Some((index, source.attempt()?)))
    }

    #[inline]
    fn each_parts(&self, each: impl FnMut(Parts)) {
        self.iter().map(S::parts).for_each(each);
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

    #[inline]
    fn attempt_in_order(&mut self) -> Option<Self::Output> {
        self.iter_mut().enumerate().find_map(|(index, source)| Some((index, source.attempt()?)))
    }

    #[inline]
    fn each_parts(&self, each: impl FnMut(Parts)) {
        self.iter().map(S::parts).for_each(each);
    }

    steps!(self slots: index => [[index]] |output| (index, output););
}
