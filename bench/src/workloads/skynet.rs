//! `skynet`: a tree of six levels, each node with ten children, adds up the numbers of its million
//! leaves; an operation is one leaf.
//!
//! * *fork-join*: a node forks its children, half by half.
//! * *tasks*: a node spawns each child, and joins them all.
//!
//! Timed: the tree. Not timed: starting the pool. (Alexander Temerev's "skynet" benchmark, with
//! messages in place of results.)

use super::crowd::{self, SpawnFiber, SpawnTask};
use super::policies::{self, Policy};
use crate::measure::{Span, Stopwatch, Variant, Workload, smoke};
use std::num::NonZero;
use std::pin::Pin;

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "skynet", timed: "a tree with a million leaves, forked or spawned, per leaf", variants };

fn leaves() -> u64 {
    if smoke() { 1_000 } else { 1_000_000 }
}

fn sum() -> u64 {
    leaves() * (leaves() - 1) / 2
}

fn variants() -> Vec<Variant> {
    let forked = |name, workers| {
        policies::add_all(Variant::new(name, "leaf", workers), move |policy, n| segue(policy, workers, n))
            .add("chili", move |n| chili(workers, n))
            .add("rayon", move |n| rayon(workers, n))
    };
    let spawned = |name, workers| {
        policies::add_all(Variant::new(name, "leaf", workers), move |policy, n| {
            policy.run(workers, || often(n, || fibers_of(0, leaves())))
        })
        .add("smol", move |n| crowd::smol(workers, |start| tasks(start, n)))
        .add("tokio", move |n| crowd::tokio(workers, |start| tasks(start, n)))
    };
    vec![
        forked("fork-join, one worker", 1),
        forked("fork-join, two workers", 2),
        spawned("tasks, one worker", 1),
        spawned("tasks, two workers", 2),
    ]
}

/// Runs about `n` leaves.
fn often(n: u64, tree: impl Fn() -> u64) -> Span {
    let times = (n / leaves()).max(1);
    let watch = Stopwatch::start();
    for _ in 0..times {
        assert_eq!(tree(), sum());
    }
    watch.stop(times * leaves())
}

/// Adds up the children from `from` to `to` of a node whose leaves begin with `first`, each of
/// which has so many.
fn children(join: &(impl Join + ?Sized), first: u64, each: u64, from: u64, to: u64) -> u64 {
    if to - from == 1 {
        return node(join, first + from * each, each);
    }
    let middle = from.midpoint(to);
    let (a, b) = join.join(|j| children(j, first, each, from, middle), |j| children(j, first, each, middle, to));
    a + b
}

fn node(join: &(impl Join + ?Sized), first: u64, leaves: u64) -> u64 {
    if leaves == 1 { first } else { children(join, first, leaves / 10, 0, 10) }
}

/// How halves are forked.
trait Join: Sync {
    fn join(&self, a: impl FnOnce(&Self) -> u64 + Send, b: impl FnOnce(&Self) -> u64 + Send) -> (u64, u64);
}

struct Segue;

impl Join for Segue {
    #[inline]
    fn join(&self, a: impl FnOnce(&Self) -> u64 + Send, b: impl FnOnce(&Self) -> u64 + Send) -> (u64, u64) {
        segue::join(|| a(self), || b(self))
    }
}

struct Rayon;

impl Join for Rayon {
    #[inline]
    fn join(&self, a: impl FnOnce(&Self) -> u64 + Send, b: impl FnOnce(&Self) -> u64 + Send) -> (u64, u64) {
        rayon::join(|| a(self), || b(self))
    }
}

/// The calling thread is the first worker.
fn segue(policy: &Policy, workers: usize, n: u64) -> Span {
    policy.run(workers, || often(n, || node(&Segue, 0, leaves())))
}

/// From inside of the pool.
fn rayon(workers: usize, n: u64) -> Span {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().expect("rayon starts");
    pool.install(|| often(n, || node(&Rayon, 0, leaves())))
}

/// The calling thread is the first worker. Its scope goes down with the calls.
fn chili(workers: usize, n: u64) -> Span {
    fn children(scope: &mut chili::Scope<'_>, first: u64, each: u64, from: u64, to: u64) -> u64 {
        if to - from == 1 {
            return node(scope, first + from * each, each);
        }
        let middle = from.midpoint(to);
        let (a, b) = scope.join(|s| children(s, first, each, from, middle), |s| children(s, first, each, middle, to));
        a + b
    }
    fn node(scope: &mut chili::Scope<'_>, first: u64, leaves: u64) -> u64 {
        if leaves == 1 { first } else { children(scope, first, leaves / 10, 0, 10) }
    }
    let config = chili::Config { thread_count: NonZero::new(workers), ..Default::default() };
    let pool = chili::ThreadPool::with_config(config);
    let mut scope = pool.scope();
    let times = (n / leaves()).max(1);
    let watch = Stopwatch::start();
    for _ in 0..times {
        assert_eq!(node(&mut scope, 0, leaves()), sum());
    }
    watch.stop(times * leaves())
}

/// A node whose children are fibers.
fn fibers_of(first: u64, leaves: u64) -> u64 {
    if leaves == 1 {
        return first;
    }
    let each = leaves / 10;
    let children =
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(|n| crowd::Segue.spawn(move || fibers_of(first + n * each, each)));
    children.into_iter().map(<crowd::Segue as SpawnFiber>::join).sum()
}

/// A node whose children are tasks.
fn tasks_of<S: SpawnTask>(start: S, first: u64, leaves: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if leaves == 1 {
            return first;
        }
        let each = leaves / 10;
        let child = |n| start.spawn(tasks_of(start.clone(), first + n * each, each));
        let children: Vec<_> = (0..10).map(child).collect();
        let mut sum = 0;
        for child in children {
            sum += S::join(child).await;
        }
        sum
    })
}

/// The parent as a task.
async fn tasks<S: SpawnTask>(start: S, n: u64) -> Span {
    let times = (n / leaves()).max(1);
    let watch = Stopwatch::start();
    for _ in 0..times {
        assert_eq!(tasks_of(start.clone(), 0, leaves()).await, sum());
    }
    watch.stop(times * leaves())
}
