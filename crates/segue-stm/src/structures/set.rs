//! A hashed set, inside of transactions.
//!
//! Used where many keys come and go one by one, and some together.

use crate::stop::Stop;
use crate::structures::map::TMap;
use crate::tx::Tx;
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};

/// A hashed set for transactions. Those on different keys seldom conflict. This is a handle: its
/// clones are the same set. The set is a [`TMap`] without values.
///
/// # Examples
///
/// ```
/// use segue_stm::{TSet, atomically};
///
/// let (here, there) = (TSet::new(), TSet::new());
/// atomically(|tx| here.insert(tx, 7))?;
/// let moved = atomically(|tx| Ok(here.remove(tx, &7)? && there.insert(tx, 7)?))?;
/// assert!(moved);
/// assert_eq!(atomically(|tx| Ok((here.contains(tx, &7)?, there.contains(tx, &7)?))), Ok((false, true)));
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[derive(Debug)]
pub struct TSet<K, S = RandomState>(TMap<K, (), S>);

impl<K: Eq + Hash + Send + Sync + 'static> TSet<K> {
    /// An empty set.
    #[track_caller]
    #[must_use]
    pub fn new() -> Self {
        Self(TMap::new())
    }
}

impl<K: Eq + Hash + Send + Sync + 'static, S: BuildHasher> TSet<K, S> {
    /// An empty set that hashes its keys so: see [`TMap::with_hasher`].
    #[track_caller]
    #[must_use]
    pub fn with_hasher(hasher: S) -> Self {
        Self(TMap::with_hasher(hasher))
    }

    /// Whether a key is in.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn contains<Q>(&self, tx: &Tx<'_>, key: &Q) -> Result<bool, Stop>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.0.contains_key(tx, key)
    }

    /// Puts a key in. Answers whether the key is new.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn insert(&self, tx: &Tx<'_>, key: K) -> Result<bool, Stop> {
        if self.contains(tx, &key)? {
            return Ok(false);
        }
        Ok(self.0.insert(tx, key, ())?.is_none())
    }

    /// Takes a key out. Answers whether the key was in.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn remove<Q>(&self, tx: &Tx<'_>, key: &Q) -> Result<bool, Stop>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        Ok(self.0.remove(tx, key)?.is_some())
    }

    /// All keys, in no order.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn keys<'t>(&self, tx: &Tx<'t>) -> Result<Vec<&'t K>, Stop> {
        Ok(self.0.entries(tx)?.into_iter().map(|(key, ())| key).collect())
    }
}

impl<K: Eq + Hash + Send + Sync + 'static, S: BuildHasher + Default> Default for TSet<K, S> {
    #[track_caller]
    fn default() -> Self {
        Self(TMap::default())
    }
}

/// One more handle of the same set.
impl<K, S: Clone> Clone for TSet<K, S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
