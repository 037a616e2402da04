//! Programs that others know, on all kinds of callers.
use segue_stm::{TVar, Tx, atomically, transaction};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

/// Wakes a thread.
struct Unparks(std::thread::Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    let waker = Waker::from(Arc::new(Unparks(std::thread::current())));
    loop {
        match task.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// A caller: a way to run a body, as a call, an awaited task, or an arm of a choice.
type Caller = fn(&dyn for<'t> Fn(&Tx<'t>) -> Result<(), segue_stm::Stop>);

const CALLERS: [Caller; 4] = [
    |body| atomically(|tx| body(tx)).unwrap(),
    |body| block_on(transaction(|tx| body(tx)).into_future()),
    |body| _ = transaction(|tx| body(tx)).or(segue_core::after(std::time::Duration::MAX)).wait().unwrap(),
    // A fiber of a scheduler of its own.
    |body| segue::run(|| atomically(|tx| body(tx)).unwrap()),
];

/// A thread, and two callers of any two kinds, hand a number around.
#[test]
fn all_kinds_of_callers_wait_for_each_other() {
    for one in CALLERS {
        for other in CALLERS {
            let [ping, pong, back] = [(); 3].map(|()| TVar::new(0));
            let plays = |caller: Caller, mine: &TVar<u32>, yours: &TVar<u32>| {
                for round in 1..=20 {
                    caller(&|tx| {
                        tx.check(*tx.read(mine)? == round)?;
                        tx.write(yours, round)
                    });
                }
            };
            std::thread::scope(|s| {
                s.spawn(|| plays(one, &ping, &pong));
                s.spawn(|| plays(other, &pong, &back));
                for round in 1..=20 {
                    ping.set(round).unwrap();
                    atomically(|tx| tx.check(*tx.read(&back)? == round)).unwrap();
                }
            });
        }
    }
}

fn dine(meals: usize) -> usize {
    let forks: Vec<_> = (0..5).map(|_| TVar::new(true)).collect();
    let eaten = AtomicUsize::new(0);
    segue::scope(|s| {
        for seat in 0..5 {
            let (left, right, eaten) = (&forks[seat], &forks[(seat + 1) % 5], &eaten);
            s.spawn(move || {
                for _ in 0..meals {
                    atomically(|tx| {
                        tx.check(*tx.read(left)? && *tx.read(right)?)?;
                        tx.write(left, false)?;
                        tx.write(right, false)
                    })
                    .unwrap();
                    eaten.fetch_add(1, SeqCst);
                    segue::yield_now().unwrap();
                    atomically(|tx| {
                        assert!(!*tx.read(left)? && !*tx.read(right)?);
                        tx.write(left, true)?;
                        tx.write(right, true)
                    })
                    .unwrap();
                }
            });
        }
    });
    eaten.load(SeqCst)
}

#[test]
fn philosophers_dine() {
    segue::sched::Explore::random(200).check(|| assert_eq!(dine(3), 15));
    assert_eq!(dine(200), 1_000, "on plain threads");
    assert_eq!(segue::run(|| dine(200)), 1_000);
}

type Link = TVar<Option<Node>>;

#[derive(Clone)]
struct Node {
    key: u32,
    next: Link,
    _alive: Alive,
}

/// Counts the nodes, with their clones.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, SeqCst);
        Self(count.clone())
    }
}

impl Clone for Alive {
    fn clone(&self) -> Self {
        Self::new(&self.0)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// A sorted list, in which nodes come and go while others walk; in the end no node is left.
#[test]
fn a_list_keeps_its_order_and_frees_its_nodes() {
    fn find<'t>(tx: &Tx<'t>, list: &Link, key: u32) -> Result<(Link, Option<&'t Node>), segue_stm::Stop> {
        let mut link = list.clone();
        loop {
            match tx.read(&link)?.as_ref() {
                Some(node) if node.key < key => link = node.next.clone(),
                found => return Ok((link, found)),
            }
        }
    }
    let alive = Arc::new(AtomicUsize::new(0));
    let list: Link = TVar::new(None);
    let toggles = |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..2_000 {
            let key = random.u32(..32);
            atomically(|tx| {
                let (link, found) = find(tx, &list, key)?;
                let next = match found {
                    Some(node) if node.key == key => tx.read(&node.next)?.clone(),
                    other => Some(Node { key, next: TVar::new(other.cloned()), _alive: Alive::new(&alive) }),
                };
                tx.write(&link, next)
            })
            .unwrap();
        }
    };
    let (stop, walks) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(SeqCst) {
                atomically(|tx| {
                    let (mut link, mut last) = (list.clone(), None);
                    while let Some(node) = tx.read(&link)? {
                        assert!(last < Some(node.key), "out of order");
                        (link, last) = (node.next.clone(), Some(node.key));
                    }
                    Ok(())
                })
                .unwrap();
                walks.fetch_add(1, SeqCst);
            }
        });
        let threads = [1, 2].map(|seed| s.spawn(move || toggles(seed)));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        while walks.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        stop.store(true, SeqCst);
    });
    drop(list);
    // Others of this program may still keep what they could see.
    while alive.load(SeqCst) != 0 {
        std::thread::yield_now();
    }
}

/// It reads in the past, and does not begin again; with a write at its end it gets its turn.
#[test]
fn a_transaction_over_very_many_variables_ends_beside_committers() {
    let vars: Vec<_> = (0..100_000).map(|_| TVar::new(1_i64)).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        for seed in 0..2 {
            let (vars, stop) = (&vars, &stop);
            s.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                while !stop.load(SeqCst) {
                    let (from, to) = (random.usize(..vars.len()), random.usize(..vars.len()));
                    atomically(|tx| {
                        tx.modify(&vars[from], |n| n - 1)?;
                        tx.modify(&vars[to], |n| n + 1)
                    })
                    .unwrap();
                }
            });
        }
        let attempts = AtomicUsize::new(0);
        let sum = |tx: &Tx<'_>| {
            attempts.fetch_add(1, SeqCst);
            vars.iter().try_fold(0, |sum, var| Ok(sum + tx.read(var)?))
        };
        assert_eq!(atomically(sum), Ok(100_000));
        assert_eq!(attempts.swap(0, SeqCst), 1, "a reader begins once");
        atomically(|tx| tx.write(&vars[0], *tx.read(&vars[0])? + 100_000 - sum(tx)?)).unwrap();
        assert!(attempts.load(SeqCst) <= 18, "sixteen conflicts, one of them in the past, and the turn");
        stop.store(true, SeqCst);
    });
    assert_eq!(vars.iter().map(TVar::get).sum::<i64>(), 100_000);
}
