//! Accounts, a map, a place for a value and a bounded queue: each of transactional variables, and
//! under one mutex. Used by `mod.rs`.

use super::library::{Async, Lock, Stm};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// How many values a queue has room for.
const ROOM: usize = 64;

/// What a contestant shares its data by.
pub trait Sharing {
    /// Whether a wait suspends a fiber; else it blocks a thread.
    const IN_FIBERS: bool;
    type Accounts: Accounts;
    type Map: Map;
    type Place: Passage;
    type Queue: Passage;
}

/// Balances, with a sum that stays.
pub trait Accounts: Send + Sync + 'static {
    /// Each has this balance.
    fn new(count: usize, balance: i64) -> Self;
    fn transfer(&self, from: usize, to: usize);
    fn sum(&self) -> i64;
}

/// Numbers by their keys.
pub trait Map: Send + Sync + 'static {
    fn new(keys: u64) -> Self;
    fn get(&self, key: u64) -> Option<u64>;
    /// Whether the key is new.
    fn insert(&self, key: u64, value: u64) -> bool;
    /// Whether the key was there.
    fn remove(&self, key: u64) -> bool;
    fn len(&self) -> usize;
}

/// Numbers on their way from one side to another.
pub trait Passage: Send + Sync + 'static {
    fn new() -> Self;
    fn put(&self, value: u64);
    fn take(&self) -> u64;
}

/// By transactions.
pub struct Transactions<S>(S);

impl<S: Stm> Sharing for Transactions<S> {
    const IN_FIBERS: bool = S::IN_FIBERS;
    type Accounts = Vec<Var<S, i64>>;
    type Map = Buckets<S>;
    type Place = Atomic<S, Place<S>>;
    type Queue = Atomic<S, Queue<S>>;
}

/// A variable.
pub struct Var<S: Stm, T: super::library::Value>(S::Var<T>);

impl<S: Stm> Accounts for Vec<Var<S, i64>> {
    fn new(count: usize, balance: i64) -> Self {
        (0..count).map(|_| Var(S::var(balance))).collect()
    }

    #[inline]
    fn transfer(&self, from: usize, to: usize) {
        let (from, to) = (&self[from].0, &self[to].0);
        S::atomically(|tx| {
            let balance = S::look(tx, from, |balance| *balance)?;
            S::write(tx, from, balance - 1)?;
            let balance = S::look(tx, to, |balance| *balance)?;
            S::write(tx, to, balance + 1)
        });
    }

    #[inline]
    fn sum(&self) -> i64 {
        S::atomically(|tx| {
            let mut sum = 0;
            for account in self {
                sum += S::look(tx, &account.0, |balance| *balance)?;
            }
            Ok(sum)
        })
    }
}

type Bucket = Arc<[(u64, u64)]>;

/// A hash table, with four keys in a bucket on average, if all are there.
pub struct Buckets<S: Stm>(Vec<S::Var<Bucket>>);

impl<S: Stm> Buckets<S> {
    fn of(&self, key: u64) -> &S::Var<Bucket> {
        &self.0[key as usize % self.0.len()]
    }

    /// Puts all entries of the bucket but this key's, and perhaps a new one, in its place.
    fn replace(&self, key: u64, value: Option<u64>) -> bool {
        let bucket = self.of(key);
        S::atomically(|tx| {
            let (was_there, entries) = S::look(tx, bucket, |before| {
                let others = before.iter().copied().filter(|entry| entry.0 != key);
                let entries: Bucket = others.chain(value.map(|value| (key, value))).collect();
                (entry(before, key).is_some(), entries)
            })?;
            S::write(tx, bucket, entries)?;
            Ok(was_there)
        })
    }
}

fn entry(entries: &[(u64, u64)], key: u64) -> Option<u64> {
    entries.iter().find(|entry| entry.0 == key).map(|entry| entry.1)
}

impl<S: Stm> Map for Buckets<S> {
    fn new(keys: u64) -> Self {
        Self((0..keys.div_ceil(4)).map(|_| S::var(Bucket::from([]))).collect())
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        S::atomically(|tx| S::look(tx, self.of(key), |entries| entry(entries, key)))
    }

    fn insert(&self, key: u64, value: u64) -> bool {
        !self.replace(key, Some(value))
    }

    fn remove(&self, key: u64) -> bool {
        self.replace(key, None)
    }

    fn len(&self) -> usize {
        S::atomically(|tx| self.0.iter().try_fold(0, |sum, bucket| Ok(sum + S::look(tx, bucket, |b| b.len())?)))
    }
}

/// Steps of a transaction.
pub trait Steps<S: Stm>: Send + Sync + 'static {
    fn new() -> Self;
    fn put(&self, tx: &S::Tx<'_>, value: u64) -> Result<(), S::Stop>;
    fn take(&self, tx: &S::Tx<'_>) -> Result<u64, S::Stop>;
}

/// A transaction for each step.
pub struct Atomic<S, P>(P, std::marker::PhantomData<S>);

impl<S: Stm, P: Steps<S>> Passage for Atomic<S, P> {
    fn new() -> Self {
        Self(P::new(), std::marker::PhantomData)
    }

    #[inline]
    fn put(&self, value: u64) {
        S::atomically(|tx| self.0.put(tx, value));
    }

    #[inline]
    fn take(&self) -> u64 {
        S::atomically(|tx| self.0.take(tx))
    }
}

/// The same, awaited.
impl<P: Steps<Async>> Atomic<Async, P> {
    pub async fn put_async(&self, value: u64) {
        async_stm::atomically(|| self.0.put(&(), value)).await;
    }

    pub async fn take_async(&self) -> u64 {
        async_stm::atomically(|| self.0.take(&())).await
    }
}

/// Room for one value.
pub struct Place<S: Stm>(S::Var<Option<u64>>);

impl<S: Stm> Steps<S> for Place<S> {
    fn new() -> Self {
        Self(S::var(None))
    }

    fn put(&self, tx: &S::Tx<'_>, value: u64) -> Result<(), S::Stop> {
        match S::look(tx, &self.0, |before| *before)? {
            None => S::write(tx, &self.0, Some(value)),
            Some(_) => S::retry(tx),
        }
    }

    fn take(&self, tx: &S::Tx<'_>) -> Result<u64, S::Stop> {
        match S::look(tx, &self.0, |value| *value)? {
            Some(value) => S::write(tx, &self.0, None).map(|()| value),
            None => S::retry(tx),
        }
    }
}

type List = Option<Arc<Node>>;

pub struct Node(u64, List);

/// A list without its first node.
fn rest(list: &List) -> Option<(u64, List)> {
    list.as_ref().map(|node| (node.0, node.1.clone()))
}

/// Haskell's `TBQueue`: two lists, and the room that each side knows of.
pub struct Queue<S: Stm> {
    front: S::Var<List>,
    back: S::Var<List>,
    taken: S::Var<usize>,
    room: S::Var<usize>,
}

impl<S: Stm> Steps<S> for Queue<S> {
    fn new() -> Self {
        Self { front: S::var(None), back: S::var(None), taken: S::var(0), room: S::var(ROOM) }
    }

    fn put(&self, tx: &S::Tx<'_>, value: u64) -> Result<(), S::Stop> {
        let mut room = S::look(tx, &self.room, |room| *room)?;
        if room == 0 {
            room = S::look(tx, &self.taken, |taken| *taken)?;
            if room == 0 {
                return S::retry(tx);
            }
            S::write(tx, &self.taken, 0)?;
        }
        S::write(tx, &self.room, room - 1)?;
        let back = S::look(tx, &self.back, List::clone)?;
        S::write(tx, &self.back, Some(Arc::new(Node(value, back))))
    }

    fn take(&self, tx: &S::Tx<'_>) -> Result<u64, S::Stop> {
        let taken = S::look(tx, &self.taken, |taken| *taken)?;
        S::write(tx, &self.taken, taken + 1)?;
        if let Some((value, front)) = S::look(tx, &self.front, rest)? {
            S::write(tx, &self.front, front)?;
            return Ok(value);
        }
        let mut back = S::look(tx, &self.back, List::clone)?;
        S::write(tx, &self.back, None)?;
        let mut front = None;
        while let Some((value, before)) = rest(&back) {
            if before.is_none() {
                S::write(tx, &self.front, front)?;
                return Ok(value);
            }
            front = Some(Arc::new(Node(value, front)));
            back = before;
        }
        S::retry(tx)
    }
}

/// By one mutex.
pub struct Locked<L>(L);

impl<L: Lock> Sharing for Locked<L> {
    const IN_FIBERS: bool = L::IN_FIBERS;
    type Accounts = Under<L, Vec<i64>>;
    type Map = Under<L, HashMap<u64, u64>>;
    type Place = Under<L, Option<u64>>;
    type Queue = Under<L, VecDeque<u64>>;
}

/// Data under a mutex.
pub struct Under<L: Lock, T: Send + 'static>(L::Of<T>);

impl<L: Lock> Accounts for Under<L, Vec<i64>> {
    fn new(count: usize, balance: i64) -> Self {
        Self(L::new(vec![balance; count]))
    }

    #[inline]
    fn transfer(&self, from: usize, to: usize) {
        L::with(&self.0, |balances| {
            balances[from] -= 1;
            balances[to] += 1;
        });
    }

    #[inline]
    fn sum(&self) -> i64 {
        L::with(&self.0, |balances| balances.iter().sum())
    }
}

impl<L: Lock> Map for Under<L, HashMap<u64, u64>> {
    fn new(_: u64) -> Self {
        Self(L::new(HashMap::new()))
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        L::with(&self.0, |map| map.get(&key).copied())
    }

    fn insert(&self, key: u64, value: u64) -> bool {
        L::with(&self.0, |map| map.insert(key, value).is_none())
    }

    fn remove(&self, key: u64) -> bool {
        L::with(&self.0, |map| map.remove(&key).is_some())
    }

    fn len(&self) -> usize {
        L::with(&self.0, |map| map.len())
    }
}

impl<L: Lock> Passage for Under<L, Option<u64>> {
    fn new() -> Self {
        Self(L::new(None))
    }

    fn put(&self, value: u64) {
        L::change(&self.0, |place| place.is_none().then(|| *place = Some(value)));
    }

    fn take(&self) -> u64 {
        L::change(&self.0, Option::take)
    }
}

impl<L: Lock> Passage for Under<L, VecDeque<u64>> {
    fn new() -> Self {
        Self(L::new(VecDeque::with_capacity(ROOM)))
    }

    fn put(&self, value: u64) {
        L::change(&self.0, |queue| (queue.len() < ROOM).then(|| queue.push_back(value)));
    }

    fn take(&self) -> u64 {
        L::change(&self.0, VecDeque::pop_front)
    }
}
