//! Attributes: small values that a policy defines and fibers carry, such as a priority.
//!
//! Defined by policies, set by applications; read by policies each time that a fiber becomes ready.
//!
//! # The idea
//!
//! A fiber without attributes carries a null pointer, and so do its children: a program without
//! attributes pays nothing for them. The first attribute makes a record, which stays the fiber's
//! own; a child gets a copy of its parent's record when it is spawned. A handle of the record reads
//! and changes it at any time, from any thread, so a supervisor that started a fiber with
//! attributes of its making can change them later.
//!
//! # States of an entry
//!
//! ```text
//!   free --set, by one thread: writes the value, then the key--> used      (for ever)
//!   used --set: writes the value
//! ```
//!
//! A record is one entry and a link to the record of the others, which is made when there is need.
//! A key never changes, so a reader needs no lock: it sees either no key, or a key and the value
//! that was written before it (the key's release, the reader's acquire). Values are single words,
//! and their order among each other says nothing: a policy that reads two attributes may see one
//! change and not the other.

use crate::contract::current::with_running;
use std::any::TypeId;
use std::iter;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A kind of value that fibers carry and policies read. It fits into a word, so that it can be read
/// and changed at any time from anywhere.
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
    /// Whether children get a copy of it. One that names this fiber and no other is not inherited.
    const INHERITED: bool = true;

    /// The value as a word.
    fn to_bits(self) -> u64;

    /// The value of a word that [`to_bits`](Attribute::to_bits) has made.
    fn from_bits(bits: u64) -> Self;
}

/// Says of a fiber that it will live for long beside many of its kind, as the fiber of a connection
/// does: a scheduler that can place it starts it on the worker with the fewest fibers, at once,
/// rather than on the one that happens to be free. Children are placed as usual.
///
/// `segue-sched`'s `Stealing`, the default policy, honours it.
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

/// What a fiber carries, at most one value of each type. A handle: its clones are the same
/// attributes.
///
/// # Examples
///
/// The spawner keeps a handle, and changes what the fiber carries while that lives:
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
pub struct Attributes(Arc<Record>);

#[derive(Default)]
struct Record {
    key: OnceLock<Key>,
    bits: AtomicU64,
    more: OnceLock<Attributes>,
}

/// A kind of attribute.
#[derive(Clone, Copy)]
struct Key {
    kind: TypeId,
    inherited: bool,
}

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
    #[inline(never)] // Who asks, mostly finds that there is no record.
    pub fn get<A: Attribute>(&self) -> Option<A> {
        self.entries().find(|(key, _)| key.kind == TypeId::of::<A>()).map(|(_, bits)| A::from_bits(bits))
    }

    /// Adds a value, or changes it. For a fiber that is ready it counts from the next time that it
    /// becomes so.
    pub fn set<A: Attribute>(&self, value: A) {
        self.put(Key { kind: TypeId::of::<A>(), inherited: A::INHERITED }, value.to_bits());
    }

    /// Kinds and values. A record without a key has no further ones.
    #[inline]
    fn entries(&self) -> impl Iterator<Item = (Key, u64)> {
        iter::successors(Some(self), |record| record.0.more.get())
            .map_while(|Self(record)| Some((*record.key.get()?, record.bits.load(Ordering::Relaxed))))
    }

    fn put(&self, key: Key, bits: u64) {
        let write = || self.0.bits.store(bits, Ordering::Relaxed);
        let mut is_new = false;
        let taken = self.0.key.get_or_init(|| {
            write();
            is_new = true;
            key
        });
        if taken.kind != key.kind {
            self.0.more.get_or_init(Self::new).put(key, bits);
        } else if !is_new {
            write();
        }
    }

    /// Attributes of their own with the same values, of those kinds that are inherited: what a
    /// child gets.
    #[cold]
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        self.entries().filter(|(key, _)| key.inherited).for_each(|(key, bits)| copy.put(key, bits));
        copy
    }
}

impl std::fmt::Debug for Attributes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.entries().map(|(_, bits)| bits)).finish()
    }
}

/// What the calling fiber carries; `None` on a plain thread. Children that it spawns later get a
/// copy.
#[must_use]
pub fn attributes() -> Option<Attributes> {
    with_running(|fiber| Some(fiber?.attributes().get_or_init(Attributes::new).clone()))
}

/// The value of this type that the calling fiber carries.
#[must_use]
pub fn attribute<A: Attribute>() -> Option<A> {
    with_running(|fiber| fiber?.attribute())
}

/// What a child of the caller starts with.
#[inline]
pub(crate) fn inherited() -> Option<Attributes> {
    with_running(|fiber| fiber?.attributes().get().map(Attributes::copy))
}
