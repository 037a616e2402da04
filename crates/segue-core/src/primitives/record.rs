//! Words by the type that they are kept for: a list that grows and that any thread reads and
//! changes.
//!
//! Used by headers, which carry one, and by the attributes of fibers, which give its words their
//! types.
//!
//! # States of an entry
//!
//! ```text
//!   free --set, by one thread: writes the word, then the key--> used      (for ever)
//!   used --set: writes the word
//! ```
//!
//! A record is one entry and a link to the record of the others, which is made when there is need.
//! A key never changes, so a reader needs no lock: the reader sees either no key, or a key and the
//! word that was written before that key (the key's release, the reader's acquire). The order of
//! words among each other says nothing: a reader of two words may see one change and not the other.

use std::any::TypeId;
use std::iter;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// At most one word for each type.
#[derive(Default)]
pub(crate) struct Record {
    key: OnceLock<Key>,
    bits: AtomicU64,
    more: OnceLock<Arc<Record>>,
}

/// The type that a word is kept for.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub(crate) kind: TypeId,
    /// Whether a [copy](Record::copy) has the word, too.
    pub(crate) inherited: bool,
}

impl Record {
    /// The word that is kept for this type.
    pub(crate) fn get(&self, kind: TypeId) -> Option<u64> {
        self.entries().find(|(key, _)| key.kind == kind).map(|(_, bits)| bits)
    }

    /// Keys and words. A record without a key has no further records.
    #[inline]
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Key, u64)> {
        iter::successors(Some(self), |record| record.more.get().map(|more| &**more))
            .map_while(|record| Some((*record.key.get()?, record.bits.load(Ordering::Relaxed))))
    }

    /// Adds a word, or changes the word of this key.
    pub(crate) fn put(&self, key: Key, bits: u64) {
        let write = || self.bits.store(bits, Ordering::Relaxed);
        let mut is_new = false;
        let taken = self.key.get_or_init(|| {
            write();
            is_new = true;
            key
        });
        if taken.kind != key.kind {
            self.more.get_or_init(Arc::default).put(key, bits);
        } else if !is_new {
            write();
        }
    }

    /// A record of its own with the same words, of those keys that are inherited.
    #[cold]
    pub(crate) fn copy(&self) -> Arc<Self> {
        let copy = Self::default();
        self.entries().filter(|(key, _)| key.inherited).for_each(|(key, bits)| copy.put(key, bits));
        Arc::new(copy)
    }
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.entries().map(|(_, bits)| bits)).finish()
    }
}
