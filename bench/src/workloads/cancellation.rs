//! `cancellation`: producers and consumers with a place for one number between them, some of whom
//! are cancelled while they wait; an operation is one of 50,000 items. The set-up of figure 6.3 of
//! the thesis "Effectively Composing Concurrency Libraries": one producer and 10,000 consumers
//! (SPMC), 10,000 and one (MPSC), 5,000 and 5,000 (MPMC), of which 0, 10, 20 or 30 % are cancelled.
//! As many items arrive however many are cancelled, so that free cancellation would show in no
//! figure; "against" is the median divided by the same contestant's at 0 %.
//!
//! Everybody waits at a gate until all have started. Then the clock starts, producers put and
//! consumers take, for ever, and at the 50,000th item the clock stops. The cancellations are spread
//! evenly over the items: whoever takes an item after which one is due, cancels the next victim;
//! victims are spread evenly over those of whom there are many. Timed: the transfers, the
//! cancellations, the ends of the cancelled. Not timed: spawning, the first turn of each, the end
//! of those who are not cancelled. Those who remain are fewer, so a figure may also fall.
//!
//! To cancel is what each library's user would do: the scope of a fiber is cancelled, which ends
//! its waits with an error; a task of tokio is aborted, a task of smol dropped, both of which drop
//! the future that waits; a goroutine selects between the channel and a channel of its own that is
//! closed (in all its waits, at 0 % too).
//!
//! In the thesis producers and consumers have a core each; here all share one worker, since parking
//! and waking threads costs a hundred times what is looked for. Tokio's channel has one receiver,
//! so it takes part in MPSC only. May takes no part: its channels have no bound.

use super::channels::{AsyncChannel, Calls, CrossfireMany, Kanal, MVar, Tasks, Tokio};
use super::{segue_run, smol_executor, tokio_runtime};
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload, smoke};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "cancellation", timed: "producers and consumers of whom some are cancelled, per item", variants };

fn items() -> u64 {
    if smoke() { 1_000 } else { 50_000 }
}

/// How many of each, and how many percent of those of whom there are many are cancelled.
#[derive(Clone, Copy)]
struct Setup {
    producers: u64,
    consumers: u64,
    percent: u64,
}

impl Setup {
    /// Whether this one of `count` is to be cancelled.
    fn is_victim(&self, i: u64, count: u64) -> bool {
        count > 1 && (i + 1) * self.percent / 100 > i * self.percent / 100
    }

    fn victims(&self) -> u64 {
        let of = |count| (0..count).filter(|i| self.is_victim(*i, count)).count() as u64;
        of(self.producers) + of(self.consumers)
    }
}

fn variants() -> Vec<Variant> {
    let mut variants = Vec::new();
    let many = if smoke() { 200 } else { 10_000 };
    for (name, producers, consumers) in [("SPMC", 1, many), ("MPSC", many, 1), ("MPMC", many / 2, many / 2)] {
        for percent in [0, 10, 20, 30] {
            let setup = Setup { producers, consumers, percent };
            let mut variant = Variant::new(format!("{name}, {percent} %"), "item", 1);
            if percent > 0 {
                variant = variant.against_first();
            }
            if consumers == 1 {
                variant = variant.add("tokio", move |n| repeat(n, || tokio::<Tokio>(setup, one_receiver(setup))));
            }
            variants.push(
                variant
                    .add(SEGUE, move |n| repeat(n, || segue(setup)))
                    .add("kanal on tokio", move |n| repeat(n, || tokio::<Kanal>(setup, ends::<Kanal>(setup))))
                    .add("kanal on smol", move |n| repeat(n, || smol::<Kanal>(setup, ends::<Kanal>(setup))))
                    .add("crossfire on tokio", move |n| {
                        repeat(n, || tokio::<CrossfireMany>(setup, ends::<CrossfireMany>(setup)))
                    })
                    .add("async-channel on tokio", move |n| {
                        repeat(n, || tokio::<AsyncChannel>(setup, ends::<AsyncChannel>(setup)))
                    })
                    .add("smol", move |n| repeat(n, || smol::<AsyncChannel>(setup, ends::<AsyncChannel>(setup))))
                    .add_go(&[&producers.to_string(), &consumers.to_string(), &percent.to_string()])
                    .absent("flume", "it searches its queue of waiters, up to 16 µs an item"),
            );
        }
    }
    variants
}

/// As many runs as have about `n` items.
fn repeat(n: u64, run: impl Fn() -> Span) -> Span {
    let mut sum = run();
    while sum.ops < n {
        sum = sum.and(run());
    }
    sum
}

/// What all fibers of one run share. They have one worker, so counting needs no locked
/// instructions.
struct Run {
    arrived: AtomicU64,
    open: AtomicBool,
    items: AtomicU64,
    /// When the next cancellation is due, in items.
    due: AtomicU64,
    cold: Mutex<Cold>,
}

struct Cold {
    /// Items from one cancellation to the next.
    every: u64,
    /// Victims that are not cancelled yet.
    left: u64,
    /// Cancels the next victim.
    cancel: Box<dyn FnMut() + Send>,
    watch: Option<Stopwatch>,
    /// Gets the result and thereby wakes the main fiber.
    end: Option<Box<dyn FnOnce(Span) + Send>>,
}

impl Run {
    fn new(setup: Setup, end: impl FnOnce(Span) + Send + 'static) -> Arc<Self> {
        let left = setup.victims();
        let every = items() / (left + 1);
        let cold = Cold { every, left, cancel: Box::new(|| {}), watch: None, end: Some(Box::new(end)) };
        Arc::new(Self {
            arrived: AtomicU64::new(0),
            open: AtomicBool::new(false),
            items: AtomicU64::new(0),
            due: AtomicU64::new(every),
            cold: Mutex::new(cold),
        })
    }

    /// Whoever arrives at the gate yields until it is open.
    fn arrive(&self) {
        self.arrived.store(self.arrived.load(Relaxed) + 1, Relaxed);
    }

    fn is_open(&self) -> bool {
        self.open.load(Relaxed)
    }

    fn all_arrived(&self, setup: Setup) -> bool {
        self.arrived.load(Relaxed) == setup.producers + setup.consumers
    }

    /// Starts the clock.
    fn open(&self, cancel: impl FnMut() + Send + 'static) {
        let mut cold = self.cold.lock().expect("no panic");
        cold.cancel = Box::new(cancel);
        self.open.store(true, Relaxed);
        cold.watch = Some(Stopwatch::start());
    }

    /// Called after each item.
    #[inline]
    fn received(&self) {
        let items = self.items.load(Relaxed) + 1;
        self.items.store(items, Relaxed);
        if items == self.due.load(Relaxed) {
            self.due(items);
        }
    }

    #[cold]
    fn due(&self, items: u64) {
        let (all, mut cold) = (self::items(), self.cold.lock().expect("no panic"));
        if items < all {
            (cold.cancel)();
            cold.left -= 1;
            self.due.store(if cold.left == 0 { all } else { items + cold.every }, Relaxed);
        } else if let (Some(watch), Some(end)) = (cold.watch.take(), cold.end.take()) {
            let span = watch.stop(all);
            assert_eq!(cold.left, 0, "every victim was cancelled");
            end(span);
        }
    }
}

async fn produce<C: Tasks, F: Future<Output = ()>>(run: Arc<Run>, mut sender: C::Sender, yield_now: fn() -> F) {
    run.arrive();
    while !run.is_open() {
        yield_now().await;
    }
    let mut number = 0;
    while C::send(&mut sender, number).await {
        number += 1;
    }
}

async fn consume<C: Tasks, F: Future<Output = ()>>(run: Arc<Run>, mut receiver: C::Receiver, yield_now: fn() -> F) {
    run.arrive();
    while !run.is_open() {
        yield_now().await;
    }
    while C::recv(&mut receiver).await.is_some() {
        run.received();
    }
}

/// The scope of each victim is cancelled.
fn segue(setup: Setup) -> Span {
    segue_run(1, || {
        let (resolver, ended) = segue::sync::promise();
        let run = Run::new(setup, move |span| drop(resolver.fill(span)));
        let (sender, receiver) = MVar::new();
        let victims = Arc::new(Mutex::new(VecDeque::new()));
        let arrive = |token, is_victim| {
            if is_victim {
                victims.lock().expect("no panic").push_back(token);
            }
            run.arrive();
            while !run.is_open() {
                segue::yield_now().expect("not cancelled yet");
            }
        };
        let (run, sender, receiver, arrive) = (&run, &sender, &receiver, &arrive);
        segue::scope(|scope| {
            for i in 0..setup.consumers {
                scope.spawn(move || {
                    segue::scope(|own| {
                        arrive(own.token(), setup.is_victim(i, setup.consumers));
                        let mut receiver = receiver.clone();
                        while MVar::recv(&mut receiver).is_some() {
                            run.received();
                        }
                    });
                });
            }
            for i in 0..setup.producers {
                scope.spawn(move || {
                    segue::scope(|own| {
                        arrive(own.token(), setup.is_victim(i, setup.producers));
                        let mut number = 0;
                        while MVar::send(sender, number) {
                            number += 1;
                        }
                    });
                });
            }
            while !run.all_arrived(setup) {
                segue::yield_now().expect("nobody cancels the main fiber");
            }
            let victims = victims.clone();
            run.open(move || {
                let token: segue::CancelToken =
                    victims.lock().expect("no panic").pop_front().expect("as many as are due");
                token.cancel();
            });
            let span = ended.take().expect("the items arrive");
            scope.cancel();
            span
        })
    })
}

/// An end of one channel for each, all cloned.
fn ends<C: Tasks<Sender: Clone, Receiver: Clone>>(setup: Setup) -> (Vec<C::Sender>, Vec<C::Receiver>) {
    let (sender, receiver) = C::new();
    (vec![sender; setup.producers as usize], vec![receiver; setup.consumers as usize])
}

/// The same for a channel with one receiver.
fn one_receiver(setup: Setup) -> (Vec<<Tokio as Tasks>::Sender>, Vec<<Tokio as Tasks>::Receiver>) {
    let (sender, receiver) = Tokio::new();
    (vec![sender; setup.producers as usize], vec![receiver])
}

fn tokio<C: Tasks>(setup: Setup, (senders, receivers): (Vec<C::Sender>, Vec<C::Receiver>)) -> Span {
    let (end, ended) = oneshot::async_channel();
    let run = Run::new(setup, move |span| end.send(span).expect("the main task waits"));
    let main = async move {
        let mut victims = Vec::new();
        for (i, receiver) in (0..).zip(receivers) {
            let task = tokio::spawn(consume::<C, _>(run.clone(), receiver, tokio::task::yield_now));
            if setup.is_victim(i, setup.consumers) {
                victims.push(task.abort_handle());
            }
        }
        for (i, sender) in (0..).zip(senders) {
            let task = tokio::spawn(produce::<C, _>(run.clone(), sender, tokio::task::yield_now));
            if setup.is_victim(i, setup.producers) {
                victims.push(task.abort_handle());
            }
        }
        while !run.all_arrived(setup) {
            tokio::task::yield_now().await;
        }
        let mut victims = victims.into_iter();
        run.open(move || victims.next().expect("as many as are due").abort());
        ended.await.expect("the items arrive")
    };
    // Dropping the runtime ends those who are left.
    tokio_runtime(1).block_on(async { tokio::spawn(main).await }).expect("no panic")
}

fn smol<C: Tasks>(setup: Setup, (senders, receivers): (Vec<C::Sender>, Vec<C::Receiver>)) -> Span {
    let (end, ended) = oneshot::async_channel();
    let run = Run::new(setup, move |span| end.send(span).expect("the main task waits"));
    let executor = smol_executor();
    let main = executor.spawn(async move {
        let (mut victims, mut others) = (Vec::new(), Vec::new());
        for (i, receiver) in (0..).zip(receivers) {
            let task = executor.spawn(consume::<C, _>(run.clone(), receiver, smol::future::yield_now));
            if setup.is_victim(i, setup.consumers) { &mut victims } else { &mut others }.push(task);
        }
        for (i, sender) in (0..).zip(senders) {
            let task = executor.spawn(produce::<C, _>(run.clone(), sender, smol::future::yield_now));
            if setup.is_victim(i, setup.producers) { &mut victims } else { &mut others }.push(task);
        }
        while !run.all_arrived(setup) {
            smol::future::yield_now().await;
        }
        let mut victims = victims.into_iter();
        run.open(move || drop(victims.next().expect("as many as are due")));
        let span = ended.await.expect("the items arrive");
        // All at once: the others would go on with their transfers while one ended.
        drop(others);
        while Arc::strong_count(&run) > 1 {
            smol::future::yield_now().await;
        }
        span
    });
    smol::future::block_on(executor.run(main))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentage_is_cancelled_of_those_of_whom_there_are_many() {
        let victims = |producers, consumers| Setup { producers, consumers, percent: 30 }.victims();
        assert_eq!([victims(1, 10_000), victims(10_000, 1), victims(5_000, 5_000)], [3_000; 3]);
    }
}
