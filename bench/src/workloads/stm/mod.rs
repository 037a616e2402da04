//! `stm`: transactions on memory, against other libraries of them and against one mutex around the
//! same data.
//!
//! *Read 10*: a transaction that reads ten variables; *modify two* reads and writes two, of as
//! many. *Bank*: a transfer between two of the accounts, chosen at random. *Map*: a hash table of
//! 1,000 keys, half of which are there, with a variable for each bucket; of ten operations nine
//! look up a key, and one inserts or removes one. *Queue*: a number from a producer to a consumer
//! through Haskell's `TBQueue`, two lists with room for 64 numbers. *Scan*: a transaction that
//! reads all 10,000 accounts, alone and beside transfers; *transfer*: the same from the other side.
//! *Ping-pong*: there and back, through two places for a number, each of which is waited for by
//! retry.
//!
//! The mutex is one for all the data, with one condition variable where somebody waits. Segue's
//! runs in fibers, as its transactions do; the crates and std's mutex run in threads. Two sides
//! that meet on two workers have a worker, or a thread, each, which is bound to a CPU. Awaited
//! transactions are tasks of tokio where they wait; where they need not, a thread blocks on them.
//! Of Go there is the mutex.
//!
//! Timed: the operations. All contestants draw the same numbers, and each checks its result: sums
//! that stay, also in the middle of a scan, the number of keys, and the numbers that have arrived.
//! A library whose scan does not end beside transfers within half a second is left out of these
//! rows.

mod library;
mod structures;

use super::policies::DEFAULT;
use super::{pair, segue_run};
use crate::measure::{Contestant, Place, SEGUE, Span, Stopwatch, Variant, Workload, smoke};
use library::{Async, Fast, Plain, Segue, SegueLock, StdLock};
use segue::{Builder, fiber::Spread};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use structures::{Accounts, Atomic, Locked, Map, Passage, Sharing, Steps, Transactions};

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "stm", timed: "transactions on memory, and the same under one mutex", variants };

/// What each account has at first.
const BALANCE: i64 = 1000;
const KEYS: u64 = 1000;
/// How long a scan may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// Adds everybody who runs a function that is generic over how the data are shared.
macro_rules! add_all {
    ($variant:expr, $run:ident($($argument:expr),*)) => {
        add_but_async!($variant, $run($($argument),*))
            .add_perhaps("async-stm", move |n| $run::<Transactions<Async>>($($argument,)* n))
    };
}

/// Not the one whose waits are awaited.
macro_rules! add_but_async {
    ($variant:expr, $run:ident($($argument:expr),*)) => {
        $variant
            .add_perhaps(SEGUE, move |n| $run::<Transactions<Segue>>($($argument,)* n))
            .add_perhaps("segue, one mutex", move |n| $run::<Locked<SegueLock>>($($argument,)* n))
            .add_perhaps("stm", move |n| $run::<Transactions<Plain>>($($argument,)* n))
            .add_perhaps("fast-stm", move |n| $run::<Transactions<Fast>>($($argument,)* n))
            .add_perhaps("one mutex of std", move |n| $run::<Locked<StdLock>>($($argument,)* n))
    };
}

fn variants() -> Vec<Variant> {
    let many = if smoke() { 100 } else { 10_000 };
    let count = many.to_string();
    let two = |name: &str, op| Variant::new(name, op, 2);
    let banks = |accounts: usize| {
        let (of, count) = (format!("bank of {accounts}"), accounts.to_string());
        let one = Variant::new(format!("{of}, one worker"), "transfer", 1);
        let both = two(&format!("{of}, two workers"), "transfer").against_first();
        [(one, 1), (both, 2)].map(|(variant, workers)| {
            add_all!(variant, bank(workers, accounts)).add_others(&["bank", &workers.to_string(), &count])
        })
    };
    let maps = [
        (Variant::new("map, one worker", "operation", 1), 1),
        (two("map, two workers", "operation").against_first(), 2),
    ]
    .map(|(variant, workers)| add_all!(variant, map(workers)).add_others(&["map", &workers.to_string()]));
    let mut all = vec![
        add_all!(Variant::new("read 10", "transaction", 1), read(10)).add_others(&["read", "10"]),
        add_all!(Variant::new("modify two", "transaction", 1), bank(1, 2)).add_others(&["bank", "1", "2"]),
    ];
    all.extend(banks(10).into_iter().chain(banks(many)).chain(maps));
    all.extend([
        add_but_async!(Variant::new("queue, one worker", "number", 1), queue(1))
            .add("async-stm", |n| pair::tokio(1, queue_async(n)))
            .add_others(&["queue", "1"]),
        add_but_async!(two("queue, two workers", "number"), queue(2))
            .add("async-stm", |n| pair::tokio_apart(queue_async(n)))
            .add_others(&["queue", "2"]),
        add_all!(two("scan, alone", "scan of 10,000"), scan(many, false)).add_others(&["scan", "alone", &count]),
        add_all!(two("scan, beside transfers", "scan of 10,000").against_first(), scan(many, true))
            .add_others(&["scan", "beside", &count]),
        add_all!(two("transfer, alone", "transfer"), transfer(many, false)).add_others(&["transfer", "alone", &count]),
        add_all!(two("transfer, beside scans", "transfer").against_first(), transfer(many, true))
            .add_others(&["transfer", "beside", &count]),
        add_but_async!(Variant::new("ping-pong, one worker", "round trip", 1), ping(1))
            .add("async-stm", |n| pair::tokio(1, ping_async(n)))
            .add_others(&["ping", "1"]),
        add_but_async!(two("ping-pong, two workers", "round trip"), ping(2))
            .add("async-stm", |n| pair::tokio_apart(ping_async(n)))
            .add_others(&["ping", "2"]),
    ]);
    all
}

impl Variant {
    /// Adds a contestant that may find that it can't do the work.
    fn add_perhaps(mut self, who: &'static str, run: impl FnMut(u64) -> Result<Span, String> + 'static) -> Self {
        self.contestants.push(Contestant { who, place: Place::Here(Box::new(run)) });
        self
    }

    /// Adds the programs in other languages.
    fn add_others(self, arguments: &[&str]) -> Self {
        self.add_go(arguments).add_ghc(arguments)
    }
}

/// The numbers that all contestants draw.
struct Random(u64);

impl Random {
    #[inline]
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Calls `body` on each worker with its number, and tells the time of that.
fn on_workers<S: Sharing>(workers: u64, n: u64, body: impl Fn(u64, u64) + Sync) -> Span {
    let (body, each) = (&body, n.div_ceil(workers));
    if S::IN_FIBERS {
        segue_run(workers as usize, || {
            let watch = Stopwatch::start();
            segue::scope(|scope| {
                for worker in 0..workers {
                    // A fiber stays in the place of its start, and one worker would start both.
                    let spread = Builder::new().attribute(Spread).within(scope);
                    drop(spread.spawn(move || body(worker, each)));
                }
            });
            watch.stop(workers * each)
        })
    } else {
        let watch = Stopwatch::start();
        thread::scope(|threads| {
            for worker in 1..workers {
                threads.spawn(move || body(worker, each));
            }
            body(0, each);
        });
        watch.stop(workers * each)
    }
}

fn on_two<S, A, B>(sides: (A, B)) -> Span
where
    S: Sharing,
    A: FnOnce() -> Span + Send + 'static,
    B: FnOnce() + Send + 'static,
{
    if S::IN_FIBERS { pair::segue_apart(sides) } else { pair::threads(sides) }
}

/// Both sides on one worker; threads are bound to one CPU.
fn together<S, A, B>((first, second): (A, B)) -> Span
where
    S: Sharing,
    A: FnOnce() -> Span + Send + 'static,
    B: FnOnce() + Send + 'static,
{
    if S::IN_FIBERS {
        return pair::segue(&DEFAULT, 1, (first, second));
    }
    thread::scope(|threads| {
        let first = threads.spawn(|| {
            pair::bind_to_cpu(0);
            first()
        });
        threads.spawn(|| {
            pair::bind_to_cpu(0);
            second();
        });
        first.join().expect("no panic")
    })
}

fn read<S: Sharing>(count: usize, n: u64) -> Result<Span, String> {
    let accounts = S::Accounts::new(count, BALANCE);
    Ok(on_workers::<S>(1, n, |_, n| {
        for _ in 0..n {
            assert_eq!(black_box(&accounts).sum(), BALANCE * count as i64);
        }
    }))
}

/// Transfers between two accounts that are drawn; or, of two, from either to the other.
struct Transfers {
    random: Random,
    accounts: u64,
}

impl Transfers {
    fn new(seed: u64, accounts: usize) -> Self {
        Self { random: Random(seed), accounts: accounts as u64 }
    }

    #[inline]
    fn next(&mut self, accounts: &impl Accounts) {
        let from = self.random.below(self.accounts);
        let to = (from + 1 + self.random.below(self.accounts - 1)) % self.accounts;
        accounts.transfer(from as usize, to as usize);
    }
}

fn bank<S: Sharing>(workers: u64, count: usize, n: u64) -> Result<Span, String> {
    let accounts = S::Accounts::new(count, BALANCE);
    let span = on_workers::<S>(workers, n, |worker, n| {
        let mut transfers = Transfers::new(worker, count);
        for _ in 0..n {
            transfers.next(&accounts);
        }
    });
    check_sum(&accounts, count);
    Ok(span)
}

fn check_sum(accounts: &impl Accounts, count: usize) {
    assert_eq!(accounts.sum(), BALANCE * count as i64);
}

fn map<S: Sharing>(workers: u64, n: u64) -> Result<Span, String> {
    let (map, inside) = (S::Map::new(KEYS), AtomicU64::new(KEYS.div_ceil(2)));
    for key in (0..KEYS).step_by(2) {
        assert!(map.insert(key, key));
    }
    let span = on_workers::<S>(workers, n, |worker, n| {
        let (mut random, mut inserted, mut removed) = (Random(worker), 0, 0);
        for _ in 0..n {
            let key = random.below(KEYS);
            match random.below(20) {
                0 => inserted += u64::from(map.insert(key, key)),
                1 => removed += u64::from(map.remove(key)),
                _ => assert!(map.get(key).is_none_or(|value| value == key)),
            }
        }
        inside.fetch_add(inserted, Relaxed);
        inside.fetch_sub(removed, Relaxed);
    });
    assert_eq!(map.len() as u64, inside.into_inner());
    Ok(span)
}

/// The accounts of a scan and of the transfers beside that.
struct Scanned<A> {
    accounts: A,
    count: usize,
    scans: AtomicU64,
    is_over: AtomicBool,
    is_starved: AtomicBool,
}

impl<A: Accounts> Scanned<A> {
    fn new(count: usize) -> Arc<Self> {
        let accounts = A::new(count, BALANCE);
        let (is_over, is_starved) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { accounts, count, scans: AtomicU64::new(0), is_over, is_starved })
    }

    fn scan(&self) {
        check_sum(&self.accounts, self.count);
        self.scans.fetch_add(1, Relaxed);
    }

    fn ended(&self, span: Span) -> Result<Span, String> {
        check_sum(&self.accounts, self.count);
        if self.is_starved.load(Relaxed) { Err("a scan does not end beside transfers".to_owned()) } else { Ok(span) }
    }
}

/// Scans, and transfers beside them if there are to be.
fn scan<S: Sharing>(count: usize, beside: bool, n: u64) -> Result<Span, String> {
    let shared = Scanned::<S::Accounts>::new(count);
    let (first, second) = (shared.clone(), shared.clone());
    let scans = move || {
        let watch = Stopwatch::start();
        for _ in 0..n {
            first.scan();
        }
        let span = watch.stop(n);
        first.is_over.store(true, Relaxed);
        span
    };
    let writes = move || {
        let mut transfers = Transfers::new(1, count);
        let (mut seen, mut since) = (0, Instant::now());
        while beside && !second.is_over.load(Relaxed) && !second.is_starved.load(Relaxed) {
            (0..100).for_each(|_| transfers.next(&second.accounts));
            let scans = second.scans.load(Relaxed);
            if scans != seen {
                (seen, since) = (scans, Instant::now());
            } else if since.elapsed() > PATIENCE {
                second.is_starved.store(true, Relaxed);
            }
        }
    };
    shared.ended(on_two::<S, _, _>((scans, writes)))
}

/// Transfers, and scans beside them if there are to be.
fn transfer<S: Sharing>(count: usize, beside: bool, n: u64) -> Result<Span, String> {
    let shared = Scanned::<S::Accounts>::new(count);
    let (first, second) = (shared.clone(), shared.clone());
    let writes = move || {
        let mut transfers = Transfers::new(1, count);
        let watch = Stopwatch::start();
        for _ in 0..n {
            transfers.next(&first.accounts);
        }
        let span = watch.stop(n);
        first.is_over.store(true, Relaxed);
        span
    };
    let scans = move || {
        while beside && !second.is_over.load(Relaxed) {
            second.scan();
        }
    };
    shared.ended(on_two::<S, _, _>((writes, scans)))
}

fn sum_below(n: u64) -> u64 {
    n * n.saturating_sub(1) / 2
}

/// The first number only shows that both sides have started.
fn queue<S: Sharing>(workers: u64, n: u64) -> Result<Span, String> {
    let queue = Arc::new(S::Queue::new());
    let producers = queue.clone();
    let consume = move || {
        queue.take();
        let mut sum = 0;
        let watch = Stopwatch::start();
        for _ in 0..n {
            sum += queue.take();
        }
        let span = watch.stop(n);
        assert_eq!(sum, sum_below(n));
        span
    };
    let produce = move || {
        producers.put(0);
        (0..n).for_each(|number| producers.put(number));
    };
    let sides = (consume, produce);
    Ok(if workers == 1 { together::<S, _, _>(sides) } else { on_two::<S, _, _>(sides) })
}

fn ping<S: Sharing>(workers: u64, n: u64) -> Result<Span, String> {
    let places = Arc::new([S::Place::new(), S::Place::new()]);
    let others = places.clone();
    let asks = move || {
        let [there, back] = &*places;
        let mut sum = 0;
        let watch = Stopwatch::start();
        for number in 0..n {
            there.put(number);
            sum += back.take();
        }
        let span = watch.stop(n);
        assert_eq!(sum, sum_below(n) + n);
        span
    };
    let answers = move || {
        let [there, back] = &*others;
        (0..n).for_each(|_| back.put(there.take() + 1));
    };
    let sides = (asks, answers);
    Ok(if workers == 1 { together::<S, _, _>(sides) } else { on_two::<S, _, _>(sides) })
}

type Awaited<P> = Arc<Atomic<Async, P>>;

fn passage<P: Steps<Async>>() -> Awaited<P> {
    Arc::new(Passage::new())
}

fn queue_async(n: u64) -> (impl Future<Output = Span> + Send + 'static, impl Future<Output = ()> + Send + 'static) {
    let queue = passage::<structures::Queue<Async>>();
    let producers = queue.clone();
    let consume = async move {
        queue.take_async().await;
        let mut sum = 0;
        let watch = Stopwatch::start();
        for _ in 0..n {
            sum += queue.take_async().await;
        }
        let span = watch.stop(n);
        assert_eq!(sum, sum_below(n));
        span
    };
    let produce = async move {
        producers.put_async(0).await;
        for number in 0..n {
            producers.put_async(number).await;
        }
    };
    (consume, produce)
}

fn ping_async(n: u64) -> (impl Future<Output = Span> + Send + 'static, impl Future<Output = ()> + Send + 'static) {
    let [there, back] = [(); 2].map(|()| passage::<structures::Place<Async>>());
    let (asked, answer) = (there.clone(), back.clone());
    let asks = async move {
        let mut sum = 0;
        let watch = Stopwatch::start();
        for number in 0..n {
            there.put_async(number).await;
            sum += back.take_async().await;
        }
        let span = watch.stop(n);
        assert_eq!(sum, sum_below(n) + n);
        span
    };
    let answers = async move {
        for _ in 0..n {
            answer.put_async(asked.take_async().await + 1).await;
        }
    };
    (asks, answers)
}
