//! `channel`: senders and receivers with a channel of numbers between them; an operation is one
//! message.
//!
//! * *rendezvous*, *room for 1*, *room for 100*, *unbounded*: how many messages may wait.
//! * *1 to 1*, *8 to 1*, *8 to 8*: how many senders and receivers there are. Every sender has the
//!   same share of the messages; a receiver takes what it gets until the channel is closed, which
//!   the last sender does that goes. The sum is checked.
//! * *one worker*, *two workers*: all are fibers or tasks of one runtime, or threads. *Kept apart*:
//!   sender and receiver have a thread and a CPU of their own, as in `mvar`.
//!
//! * *a million at a time*: one flow of control sends a million messages, and then receives them;
//!   and again. So the buffer grows and shrinks by a million each time.
//!
//! Timed: sending, receiving, waiting, the end of the channel, and starting the fibers, of which
//! there are 16 at most. Kept apart, the receiver begins with a message that shows that both have
//! started. Not timed: starting the runtime.
//!
//! An unbounded channel never makes its sender wait. So each sender lets others run after every 100
//! messages, by whatever its runtime has for that: otherwise the memory for all messages would be
//! what is measured.
//!
//! "Segue, exclusive receiver" says that it is the only one. Who has no rendezvous, no bound, only
//! one sender or only one receiver takes part where it can.

use super::channels::{
    AsyncChannel, Calls, Channel, Crossbeam, Crossfire, CrossfireArray, CrossfireArrayCalls, CrossfireCalls,
    CrossfireList, CrossfireListCalls, CrossfireMany, CrossfireManyArray, CrossfireManyList, Exclusive, Flume,
    FlumeCalls, Kanal, KanalCalls, May, MayMany, MayToOne, Std, StdUnbounded, Tasks, Tokio, TokioUnbounded, UNBOUNDED,
};
use super::crowd::{self, SpawnFiber, SpawnTask};
use super::{pair, policies, segue_run};
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "channel", timed: "senders and receivers with a channel between them, per message", variants };

const EXCLUSIVE: &str = "segue, exclusive receiver";

/// How many messages a sender sends to an unbounded channel before it lets others run.
const BURST: u64 = 100;

fn variants() -> Vec<Variant> {
    let mut all = Vec::new();
    for workers in [1, 2] {
        for (senders, receivers) in [(1, 1), (8, 1), (8, 8)] {
            // Two that are placed freely may come to one worker: they are kept apart below.
            if workers == 1 || senders > 1 {
                all.extend(ROOMS.map(|room| together(Setup { room, senders, receivers }, workers)));
            }
        }
    }
    all.extend(ROOMS.map(apart));
    all.push(in_bursts());
    all
}

const ROOMS: [usize; 4] = [0, 1, 100, UNBOUNDED];

fn name_of(room: usize) -> String {
    match room {
        0 => "rendezvous".to_owned(),
        UNBOUNDED => "unbounded".to_owned(),
        room => format!("room for {room}"),
    }
}

#[derive(Clone, Copy)]
struct Setup {
    room: usize,
    senders: usize,
    receivers: usize,
}

/// The ends of one channel, each for somebody.
type Ends<S, R> = (Vec<S>, Vec<R>);

/// Of a channel for any number of both.
fn many<S: Clone, R: Clone>(setup: Setup, (sender, receiver): (S, R)) -> Ends<S, R> {
    (vec![sender; setup.senders], vec![receiver; setup.receivers])
}

/// Of one for a single receiver.
fn to_one<S: Clone, R>(setup: Setup, (sender, receiver): (S, R)) -> Ends<S, R> {
    (vec![sender; setup.senders], vec![receiver])
}

/// Of one for a single sender and a single receiver.
fn one_to_one<S, R>(_: Setup, (sender, receiver): (S, R)) -> Ends<S, R> {
    (vec![sender], vec![receiver])
}

/// All in one runtime.
fn together(setup: Setup, workers: usize) -> Variant {
    let Setup { room, senders, receivers } = setup;
    let place = if workers == 1 { "one worker" } else { "two workers" };
    let name = format!("{}, {senders} to {receivers}, {place}", name_of(room));
    let mut variant = Variant::new(name, "message", workers)
        .add(SEGUE, move |n| segue::<Channel>(workers, setup, many, n))
        .add("kanal on tokio", move |n| tokio::<Kanal>(workers, setup, many, n))
        .add("kanal on smol", move |n| smol::<Kanal>(workers, setup, many, n))
        .add("flume on tokio", move |n| tokio::<Flume>(workers, setup, many, n))
        .add("flume on smol", move |n| smol::<Flume>(workers, setup, many, n));
    if receivers == 1 {
        variant = variant.add(EXCLUSIVE, move |n| segue::<Exclusive>(workers, setup, to_one, n));
    }
    if workers > 1 {
        variant = variant
            .add("kanal, threads", move |n| threads::<KanalCalls>(setup, n))
            .add("flume, threads", move |n| threads::<FlumeCalls>(setup, n))
            .add("crossbeam, threads", move |n| threads::<Crossbeam>(setup, n));
    }
    if room > 0 {
        variant = variant
            .add("async-channel on tokio", move |n| tokio::<AsyncChannel>(workers, setup, many, n))
            .add("smol", move |n| smol::<AsyncChannel>(workers, setup, many, n));
        variant = match (room, senders) {
            (1, 1) => add_crossfire::<Crossfire>(setup, workers, one_to_one, variant),
            (1, _) => add_crossfire::<CrossfireMany>(setup, workers, many, variant),
            (UNBOUNDED, 1) => add_crossfire::<CrossfireList>(setup, workers, one_to_one, variant),
            (UNBOUNDED, _) => add_crossfire::<CrossfireManyList>(setup, workers, many, variant),
            (_, 1) => add_crossfire::<CrossfireArray>(setup, workers, one_to_one, variant),
            (_, _) => add_crossfire::<CrossfireManyArray>(setup, workers, many, variant),
        };
    }
    if room == UNBOUNDED {
        if receivers == 1 {
            variant = variant.add("tokio", move |n| tokio::<TokioUnbounded>(workers, setup, to_one, n));
        }
        let may = match (senders, receivers) {
            (1, 1) => |workers, setup, n| may::<May>(workers, setup, one_to_one, n),
            (_, 1) => |workers, setup, n| may::<MayToOne>(workers, setup, to_one, n),
            (_, _) => |workers, setup, n| may::<MayMany>(workers, setup, many, n),
        };
        return variant.add_apart("may", move |n| may(workers, setup, n)).absent("Go", "its channels have a bound");
    }
    if room > 0 && receivers == 1 {
        variant = variant.add("tokio", move |n| tokio::<Tokio>(workers, setup, to_one, n));
    }
    variant
        .add_go(&["together", &room.to_string(), &senders.to_string(), &receivers.to_string()])
        .absent("may", "its channels have no bound")
}

fn add_crossfire<C: Tasks>(setup: Setup, workers: usize, ends: EndsOf<C>, variant: Variant) -> Variant {
    variant
        .add("crossfire on tokio", move |n| tokio::<C>(workers, setup, ends, n))
        .add("crossfire on smol", move |n| smol::<C>(workers, setup, ends, n))
}

/// All is sent before the first is received.
fn in_bursts() -> Variant {
    Variant::new("unbounded, a million at a time, one worker", "message", 1)
        .add(SEGUE, |n| segue_run(1, || calls_in_bursts::<Channel>(n)))
        .add(EXCLUSIVE, |n| segue_run(1, || calls_in_bursts::<Exclusive>(n)))
        .add("kanal, thread", calls_in_bursts::<KanalCalls>)
        .add("flume, thread", calls_in_bursts::<FlumeCalls>)
        .add("crossbeam, thread", calls_in_bursts::<Crossbeam>)
        .add("std, thread", calls_in_bursts::<StdUnbounded>)
        .add("tokio", |n| crowd::tokio(1, |_| tasks_in_bursts::<TokioUnbounded>(n)))
        .absent("Go", "its channels have a bound")
}

const MILLION: u64 = 1_000_000;

/// How many messages each burst of so many in all has.
fn bursts(n: u64) -> impl Iterator<Item = u64> {
    (0..n).step_by(MILLION as usize).map(move |sent| (n - sent).min(MILLION))
}

fn calls_in_bursts<C: Calls>(n: u64) -> Span {
    let (sender, mut receiver) = C::with_room(UNBOUNDED);
    let watch = Stopwatch::start();
    for burst in bursts(n) {
        (0..burst).for_each(|number| assert!(C::send(&sender, number), "somebody receives"));
        (0..burst).for_each(|number| assert_eq!(C::recv(&mut receiver), Some(number)));
    }
    watch.stop(n)
}

async fn tasks_in_bursts<C: Tasks>(n: u64) -> Span {
    let (mut sender, mut receiver) = C::with_room(UNBOUNDED);
    let watch = Stopwatch::start();
    for burst in bursts(n) {
        for number in 0..burst {
            assert!(C::send(&mut sender, number).await, "somebody receives");
        }
        for number in 0..burst {
            assert_eq!(C::recv(&mut receiver).await, Some(number));
        }
    }
    watch.stop(n)
}

/// One sender and one receiver, each on a CPU.
fn apart(room: usize) -> Variant {
    let mut variant = Variant::new(format!("{}, 1 to 1, kept apart", name_of(room)), "message", 2)
        .add(SEGUE, move |n| pair::segue_apart(calls_apart::<Channel>(room, n, fiber)))
        .add(EXCLUSIVE, move |n| pair::segue_apart(calls_apart::<Exclusive>(room, n, fiber)))
        .add("kanal, threads", move |n| pair::threads(calls_apart::<KanalCalls>(room, n, thread)))
        .add("flume, threads", move |n| pair::threads(calls_apart::<FlumeCalls>(room, n, thread)))
        .add("crossbeam, threads", move |n| pair::threads(calls_apart::<Crossbeam>(room, n, thread)))
        .add("kanal on tokio", move |n| pair::tokio_apart(tasks_apart::<Kanal, _>(room, n, tokio::task::yield_now)))
        .absent("may", "its workers are not bound to CPUs");
    if room > 0 {
        variant = variant
            .add("smol", move |n| pair::smol_apart(tasks_apart::<AsyncChannel, _>(room, n, smol::future::yield_now)));
    }
    if room == UNBOUNDED {
        return variant
            .add("std, threads", move |n| pair::threads(calls_apart::<StdUnbounded>(room, n, thread)))
            .add("crossfire, threads", move |n| pair::threads(calls_apart::<CrossfireListCalls>(room, n, thread)))
            .add("tokio", move |n| pair::tokio_apart(tasks_apart::<TokioUnbounded, _>(room, n, tokio::task::yield_now)))
            .absent("Go", "its channels have a bound");
    }
    variant = variant.add("std, threads", move |n| pair::threads(calls_apart::<Std>(room, n, thread))).add_go(&[
        "apart",
        &room.to_string(),
        "1",
        "1",
    ]);
    if room == 0 {
        return variant;
    }
    let crossfire = match room {
        1 => |_, n| pair::threads(calls_apart::<CrossfireCalls>(1, n, thread)),
        _ => |room, n| pair::threads(calls_apart::<CrossfireArrayCalls>(room, n, thread)),
    };
    variant
        .add("crossfire, threads", move |n| crossfire(room, n))
        .add("tokio", move |n| pair::tokio_apart(tasks_apart::<Tokio, _>(room, n, tokio::task::yield_now)))
}

/// Lets others run.
fn fiber() {
    segue::yield_now().expect("nobody cancels");
}

/// The kernel does that.
fn thread() {}

/// Makes the ends for all out of a channel of this kind.
type EndsOf<C> =
    fn(Setup, (<C as Tasks>::Sender, <C as Tasks>::Receiver)) -> Ends<<C as Tasks>::Sender, <C as Tasks>::Receiver>;
/// The same.
type EndsOfCalls<C> =
    fn(Setup, (<C as Calls>::Sender, <C as Calls>::Receiver)) -> Ends<<C as Calls>::Sender, <C as Calls>::Receiver>;

fn tokio<C: Tasks>(workers: usize, setup: Setup, ends: EndsOf<C>, n: u64) -> Span {
    let ends = ends(setup, C::with_room(setup.room));
    crowd::tokio(workers, |start| tasks::<C, _, _>(start, ends, Burst::of(setup.room, tokio::task::yield_now), n))
}

fn smol<C: Tasks>(workers: usize, setup: Setup, ends: EndsOf<C>, n: u64) -> Span {
    let ends = ends(setup, C::with_room(setup.room));
    crowd::smol(workers, |start| tasks::<C, _, _>(start, ends, Burst::of(setup.room, smol::future::yield_now), n))
}

fn segue<C: Calls>(workers: usize, setup: Setup, ends: EndsOfCalls<C>, n: u64) -> Span {
    let ends = ends(setup, C::with_room(setup.room));
    crowd::segue(&policies::DEFAULT, workers, |start| calls::<C, _>(&start, ends, Burst::of(setup.room, fiber), n))
}

fn may<C: Calls>(workers: usize, setup: Setup, ends: EndsOfCalls<C>, n: u64) -> Span {
    let ends = ends(setup, C::with_room(setup.room));
    crowd::may(workers, move |start| calls::<C, _>(&start, ends, Burst::of(setup.room, may::coroutine::yield_now), n))
}

fn threads<C: Calls<Sender: Clone, Receiver: Clone>>(setup: Setup, n: u64) -> Span {
    let ends = many(setup, C::with_room(setup.room));
    calls::<C, _>(&crowd::Threads, ends, Burst::of(setup.room, thread), n)
}

/// After how many messages a sender lets others run, and how.
#[derive(Clone, Copy)]
struct Burst<Y>(u64, Y);

impl<Y> Burst<Y> {
    fn of(room: usize, others: Y) -> Self {
        Self(if room == UNBOUNDED { BURST } else { u64::MAX }, others)
    }
}

/// The numbers below this, from each sender.
fn share<T>(senders: &[T], n: u64) -> u64 {
    n.div_ceil(senders.len() as u64)
}

fn sum_below(n: u64) -> u64 {
    n * n.saturating_sub(1) / 2
}

fn send_all<C: Calls>(to: &C::Sender, n: u64, Burst(burst, others): Burst<fn()>) {
    let mut left = burst;
    for number in 0..n {
        assert!(C::send(to, number), "somebody receives");
        left -= 1;
        if left == 0 {
            others();
            left = burst;
        }
    }
}

fn receive_all<C: Calls>(mut from: C::Receiver) -> u64 {
    let mut sum = 0;
    while let Some(number) = C::recv(&mut from) {
        sum += number;
    }
    sum
}

/// All of them, as fibers or threads.
fn calls<C: Calls, S: SpawnFiber>(
    start: &S,
    (senders, receivers): Ends<C::Sender, C::Receiver>,
    burst: Burst<fn()>,
    n: u64,
) -> Span {
    let (count, share) = (senders.len() as u64, share(&senders, n));
    let watch = Stopwatch::start();
    let receivers: Vec<_> = receivers.into_iter().map(|from| start.spawn(|| receive_all::<C>(from))).collect();
    let send = |to| start.spawn(move || send_all::<C>(&to, share, burst));
    let senders: Vec<_> = senders.into_iter().map(send).collect();
    senders.into_iter().for_each(S::join);
    let sum: u64 = receivers.into_iter().map(S::join).sum();
    let span = watch.stop(count * share);
    assert_eq!(sum, count * sum_below(share));
    span
}

/// Receiver and sender, for whoever keeps them apart.
fn calls_apart<C: Calls>(
    room: usize,
    n: u64,
    others: fn(),
) -> (impl FnOnce() -> Span + Send + 'static, impl FnOnce() + Send + 'static) {
    let (sender, mut receiver) = C::with_room(room);
    let receive = move || {
        C::recv(&mut receiver).expect("the sender goes on");
        let watch = Stopwatch::start();
        let sum = receive_all::<C>(receiver);
        let span = watch.stop(n);
        assert_eq!(sum, sum_below(n));
        span
    };
    let send = move || {
        assert!(C::send(&sender, 0), "the receiver goes on");
        send_all::<C>(&sender, n, Burst::of(room, others));
    };
    (receive, send)
}

async fn send_all_tasks<C, F>(mut to: C::Sender, n: u64, Burst(burst, others): Burst<fn() -> F>)
where
    C: Tasks,
    F: Future<Output = ()>,
{
    let mut left = burst;
    for number in 0..n {
        assert!(C::send(&mut to, number).await, "somebody receives");
        left -= 1;
        if left == 0 {
            others().await;
            left = burst;
        }
    }
}

async fn receive_all_tasks<C: Tasks>(mut from: C::Receiver) -> u64 {
    let mut sum = 0;
    while let Some(number) = C::recv(&mut from).await {
        sum += number;
    }
    sum
}

/// All of them, as tasks.
async fn tasks<C: Tasks, S, F>(
    start: S,
    (senders, receivers): Ends<C::Sender, C::Receiver>,
    burst: Burst<fn() -> F>,
    n: u64,
) -> Span
where
    S: SpawnTask,
    F: Future<Output = ()> + Send + 'static,
{
    let (count, share) = (senders.len() as u64, share(&senders, n));
    let watch = Stopwatch::start();
    let receivers: Vec<_> = receivers.into_iter().map(|from| start.spawn(receive_all_tasks::<C>(from))).collect();
    let send = |to| start.spawn(send_all_tasks::<C, F>(to, share, burst));
    let senders: Vec<_> = senders.into_iter().map(send).collect();
    for sender in senders {
        S::join(sender).await;
    }
    let mut sum = 0;
    for receiver in receivers {
        sum += S::join(receiver).await;
    }
    let span = watch.stop(count * share);
    assert_eq!(sum, count * sum_below(share));
    span
}

/// The same as tasks.
fn tasks_apart<C: Tasks, F: Future<Output = ()> + Send + 'static>(
    room: usize,
    n: u64,
    others: fn() -> F,
) -> (impl Future<Output = Span> + Send + 'static, impl Future<Output = ()> + Send + 'static) {
    let (mut sender, mut receiver) = C::with_room(room);
    let receive = async move {
        C::recv(&mut receiver).await.expect("the sender goes on");
        let watch = Stopwatch::start();
        let sum = receive_all_tasks::<C>(receiver).await;
        let span = watch.stop(n);
        assert_eq!(sum, sum_below(n));
        span
    };
    let send = async move {
        assert!(C::send(&mut sender, 0).await, "the receiver goes on");
        send_all_tasks::<C, F>(sender, n, Burst::of(room, others)).await;
    };
    (receive, send)
}
