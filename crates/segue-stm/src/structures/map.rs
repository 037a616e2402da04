//! A hashed map, inside of transactions.
//!
//! Used where many keys change one by one, and some together.
//!
//! # The idea
//!
//! The map is a tree over the bits of hashes, four bits a level. Each node is a variable: a *leaf*
//! of a few entries, or a *branch* of sixteen further variables. An operation reads the branches
//! above its leaf, which never change again, and reads or writes that leaf. So operations on keys
//! of different leaves never conflict, and there are as many leaves as the entries need: a leaf
//! with over [`LEAF`] entries splits into a branch, which is a write of this one variable. A
//! growing table in one array would stop all others while it grows; a tree in one variable, shared
//! between versions, would let one commit at a time through.
//!
//! A branch stays a branch, also when its leaves are empty: to merge leaves would make each removal
//! read their neighbours. A leaf of equal hashes does not split.

use crate::stop::Stop;
use crate::tx::Tx;
use crate::var::TVar;
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

/// How many entries a leaf has before it splits.
const LEAF: usize = 8;
/// The bits of a hash that a level looks at.
const BITS: u32 = 4;

enum Node<K, V> {
    /// Its entries, in no order.
    Leaf(Vec<Arc<Entry<K, V>>>),
    Branch(Box<[TVar<Node<K, V>>]>),
}

struct Entry<K, V> {
    hash: u64,
    key: K,
    value: V,
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static> Node<K, V> {
    /// A node with these entries, at the level that begins with this bit of the hashes.
    #[track_caller]
    fn of(entries: Vec<Arc<Entry<K, V>>>, bit: u32) -> Self {
        if entries.len() <= LEAF || entries.iter().all(|entry| entry.hash == entries[0].hash) {
            return Self::Leaf(entries);
        }
        let mut parts = [const { Vec::new() }; 1 << BITS];
        for entry in entries {
            parts[child(entry.hash, bit)].push(entry);
        }
        let mut children = Vec::with_capacity(parts.len());
        for part in parts {
            // Not in a closure, which would hide the caller's place.
            children.push(TVar::new(Self::of(part, bit + BITS)));
        }
        Self::Branch(children.into())
    }
}

/// The child for a hash, of a branch at the level that begins with this bit.
fn child(hash: u64, bit: u32) -> usize {
    (hash >> bit) as usize % (1 << BITS)
}

/// The leaf for a hash.
struct Leaf<'s, 't, K, V> {
    place: &'s TVar<Node<K, V>>,
    /// Where its level begins.
    bit: u32,
    entries: &'t Vec<Arc<Entry<K, V>>>,
}

impl<K, V> Leaf<'_, '_, K, V> {
    fn find<Q>(&self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.entries.iter().position(|entry| entry.key.borrow() == key)
    }
}

/// A hashed map for transactions. Those on different keys seldom conflict. This is a handle: its
/// clones are the same map.
///
/// An operation that looks at all entries reads all of them at one instant: a transaction that also
/// writes then conflicts with every writer.
///
/// # Examples
///
/// ```
/// use segue_stm::{TMap, atomically};
///
/// let ages = TMap::new();
/// atomically(|tx| ages.insert(tx, "Ann", 30).map(drop))?;
/// let (age, none) = atomically(|tx| Ok((ages.get(tx, "Ann")?.copied(), ages.get(tx, "Ben")?.copied())))?;
/// assert_eq!((age, none), (Some(30), None));
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[derive(Debug)]
pub struct TMap<K, V, S = RandomState> {
    root: TVar<Node<K, V>>,
    hasher: S,
}

impl<K: Eq + Hash + Send + Sync + 'static, V: Send + Sync + 'static> TMap<K, V> {
    /// An empty map.
    #[track_caller]
    #[must_use]
    pub fn new() -> Self {
        Self::with_hasher(RandomState::new())
    }
}

impl<K: Eq + Hash + Send + Sync + 'static, V: Send + Sync + 'static, S: BuildHasher> TMap<K, V, S> {
    /// An empty map that hashes its keys so. Keys that an adversary chooses need a hasher with a
    /// secret, as std's; a simulation that is to be replayed needs one without.
    #[track_caller]
    #[must_use]
    pub fn with_hasher(hasher: S) -> Self {
        Self { root: TVar::new(Node::Leaf(Vec::new())), hasher }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn get<'t, Q>(&self, tx: &Tx<'t>, key: &Q) -> Result<Option<&'t V>, Stop>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        let leaf = self.leaf(tx, hash)?;
        Ok(leaf.find(key).map(|at| &leaf.entries[at].value))
    }

    /// Whether there is a value for a key.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn contains_key<Q>(&self, tx: &Tx<'_>, key: &Q) -> Result<bool, Stop>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        Ok(self.get(tx, key)?.is_some())
    }

    /// Enters a value for a key. The value before, if there was one, is the result.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn insert<'t>(&self, tx: &Tx<'t>, key: K, value: V) -> Result<Option<&'t V>, Stop> {
        let hash = self.hasher.hash_one(&key);
        let leaf = self.leaf(tx, hash)?;
        let found = leaf.find(&key);
        let mut entries = leaf.entries.clone();
        let entry = Arc::new(Entry { hash, key, value });
        match found {
            Some(at) => entries[at] = entry,
            None => entries.push(entry),
        }
        tx.write(leaf.place, Node::of(entries, leaf.bit))?;
        Ok(found.map(|at| &leaf.entries[at].value))
    }

    /// Takes a key out. Its value, if there was one, is the result.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    #[track_caller]
    pub fn remove<'t, Q>(&self, tx: &Tx<'t>, key: &Q) -> Result<Option<&'t V>, Stop>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let leaf = self.leaf(tx, self.hasher.hash_one(key))?;
        let Some(at) = leaf.find(key) else { return Ok(None) };
        let mut entries = leaf.entries.clone();
        entries.swap_remove(at);
        tx.write(leaf.place, Node::Leaf(entries))?;
        Ok(Some(&leaf.entries[at].value))
    }

    /// All entries, in no order.
    ///
    /// # Errors
    /// [`Stop`], to be passed on, after a conflict.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_stm::{TMap, atomically};
    ///
    /// let stock = TMap::new();
    /// let total = atomically(|tx| {
    ///     stock.insert(tx, "nuts", 3)?;
    ///     stock.insert(tx, "bolts", 4)?;
    ///     Ok(stock.entries(tx)?.into_iter().map(|(_name, count)| count).sum::<u32>())
    /// });
    /// assert_eq!(total, Ok(7));
    /// ```
    #[track_caller]
    pub fn entries<'t>(&self, tx: &Tx<'t>) -> Result<Vec<(&'t K, &'t V)>, Stop> {
        let mut all = Vec::new();
        let mut nodes = vec![tx.read(&self.root)?];
        while let Some(node) = nodes.pop() {
            match node {
                Node::Leaf(entries) => all.extend(entries.iter().map(|entry| (&entry.key, &entry.value))),
                Node::Branch(children) => {
                    for child in children {
                        nodes.push(tx.read(child)?);
                    }
                }
            }
        }
        Ok(all)
    }

    /// The leaf for a hash.
    #[track_caller]
    fn leaf<'s, 't: 's>(&'s self, tx: &Tx<'t>, hash: u64) -> Result<Leaf<'s, 't, K, V>, Stop> {
        let (mut place, mut bit) = (&self.root, 0);
        loop {
            match tx.read(place)? {
                Node::Leaf(entries) => return Ok(Leaf { place, bit, entries }),
                Node::Branch(children) => place = &children[child(hash, bit)],
            }
            bit += BITS;
        }
    }
}

impl<K, V, S> Default for TMap<K, V, S>
where
    K: Eq + Hash + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Default,
{
    #[track_caller]
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

/// One more handle of the same map.
impl<K, V, S: Clone> Clone for TMap<K, V, S> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone(), hasher: self.hasher.clone() }
    }
}
