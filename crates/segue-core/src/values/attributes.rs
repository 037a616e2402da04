//! Attributes: small values that a policy defines and fibers carry, such as a priority.
//!
//! Defined by policies, set by applications; read by policies each time that a fiber becomes ready.
//!
//! # The idea
//!
//! A fiber without attributes carries a null pointer, and so do its children: a program without
//! attributes pays nothing for them. The first attribute makes a record, which stays the fiber's
//! own; a child gets a copy of its parent's record at its spawn. A handle of the record reads and
//! changes that at any time, from any thread, so a supervisor that started a fiber with attributes
//! of its making can change them later. The spawner and the fiber share the record as
//! `primitives/record.rs` says.

use crate::contract::current::with_running;
use crate::contract::fiber::Fiber;
use crate::contract::job::{Given, Job};
use crate::primitives::record::{Key, Record};
use std::any::TypeId;
use std::panic::Location;
use std::sync::Arc;

/// A kind of value that fibers carry and policies read. Such a value fits into a word, so that
/// reads and changes are possible at any time from anywhere.
///
/// # Examples
///
/// ```
/// use segue_core::{Attribute, Attributes};
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// struct Rank(u32);
///
/// impl Attribute for Rank {
///     fn to_bits(self) -> u64 {
///         self.0.into()
///     }
///
///     fn from_bits(bits: u64) -> Self {
///         Self(bits as u32)
///     }
/// }
///
/// let attributes = Attributes::new().with(Rank(3));
/// assert_eq!(attributes.get(), Some(Rank(3)));
/// ```
pub trait Attribute: Copy + 'static {
    /// Whether children get a copy. One that names this fiber and no other is not inherited.
    const INHERITED: bool = true;

    /// The value as a word.
    fn to_bits(self) -> u64;

    /// The value of a word that [`to_bits`](Attribute::to_bits) has made.
    fn from_bits(bits: u64) -> Self;
}

/// Marks a fiber with a long life beside many of its kind, as the fiber of a connection: a
/// scheduler that can place fibers starts this one on the worker with the fewest fibers, at once,
/// rather than on the one that happens to be free. Children are placed as usual.
///
/// `segue-sched`'s `Stealing`, the default policy, honours this attribute.
///
/// # Examples
///
/// ```
/// use segue_core::{Builder, Spread};
///
/// let connection = Builder::new().attribute(Spread).spawn(|| "served");
/// assert_eq!(connection.join().unwrap(), "served");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread;

impl Attribute for Spread {
    const INHERITED: bool = false;

    fn to_bits(self) -> u64 {
        0
    }

    fn from_bits(_: u64) -> Self {
        Self
    }
}

/// The attributes of a fiber, at most one value of each type. A handle: its clones are the same
/// attributes.
///
/// # Examples
///
/// The spawner keeps a handle, and changes the fiber's attributes during its life:
///
/// ```
/// use segue_core::{Attribute, Attributes, Builder, attribute};
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// struct Urgent(bool);
///
/// impl Attribute for Urgent {
///     fn to_bits(self) -> u64 {
///         self.0.into()
///     }
///
///     fn from_bits(bits: u64) -> Self {
///         Self(bits != 0)
///     }
/// }
///
/// let attributes = Attributes::new().with(Urgent(false));
/// attributes.set(Urgent(true));
/// assert_eq!(attributes.get(), Some(Urgent(true)));
/// // A plain thread carries none.
/// assert_eq!(attribute::<Urgent>(), None);
/// ```
#[derive(Clone, Default)]
pub struct Attributes(pub(crate) Arc<Record>);

impl Attributes {
    /// No attributes yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// These, with `value`.
    #[must_use]
    pub fn with<A: Attribute>(self, value: A) -> Self {
        self.set(value);
        self
    }

    /// The value of this type, if there is one.
    #[must_use]
    pub fn get<A: Attribute>(&self) -> Option<A> {
        value(&self.0)
    }

    /// Adds or changes a value. For a fiber that is ready the value counts from its next time of
    /// becoming ready.
    pub fn set<A: Attribute>(&self, value: A) {
        self.0.put(Key { kind: TypeId::of::<A>(), inherited: A::INHERITED }, value.to_bits());
    }
}

impl std::fmt::Debug for Attributes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The attributes of the calling fiber; `None` on a plain thread. Children that the fiber spawns
/// later get a copy.
#[must_use]
pub fn attributes() -> Option<Attributes> {
    with_running(|fiber| Some(Attributes(Arc::clone(fiber?.attributes.get_or_init(Arc::default)))))
}

/// The value of this type that the calling fiber carries.
#[must_use]
pub fn attribute<A: Attribute>() -> Option<A> {
    with_running(|fiber| fiber?.attribute())
}

impl Fiber {
    /// The value of this type that the fiber carries. For policies, and for the fiber itself.
    #[inline]
    #[must_use]
    pub fn attribute<A: Attribute>(&self) -> Option<A> {
        value(self.attributes.get()?)
    }
}

impl Job {
    /// The value of this type that the job's fiber will carry. For policies.
    #[inline]
    #[must_use]
    pub fn attribute<A: Attribute>(&self) -> Option<A> {
        value(self.given().attributes.as_ref()?)
    }
}

impl Given {
    /// The same wishes, of the caller's line.
    #[inline]
    #[track_caller]
    pub(crate) fn called_here(self) -> Self {
        Self { at: Some(Location::caller()), ..self }
    }

    /// No wishes; the caller's line.
    #[inline]
    #[track_caller]
    pub(crate) fn here() -> Self {
        Self { at: Some(Location::caller()), ..Self::default() }
    }

    /// These, with a copy of the caller's attributes if there are none.
    #[inline]
    pub(crate) fn or_inherited(self) -> Self {
        Self {
            attributes: self.attributes.or_else(|| with_running(|fiber| Some(fiber?.attributes.get()?.copy()))),
            ..self
        }
    }
}

#[inline(never)] // Most callers find that there is no record.
fn value<A: Attribute>(record: &Record) -> Option<A> {
    record.get(TypeId::of::<A>()).map(A::from_bits)
}
