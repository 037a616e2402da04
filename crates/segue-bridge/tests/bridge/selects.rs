//! A thousand fibers, eight threads and a hundred of tokio's tasks, which all select on both sides
//! of sixteen rendezvous for ten seconds, a tenth of them cancelled: each value that was sent is
//! received once, and each that was not comes back.
//!
//! That it lasts for ten seconds is what it is about; it is right however long it lasts.
//! `SEGUE_STORM_MS` says another time.

use segue::channel::{self, Receiver, Sender};
use segue::{after, select, timeout};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

const CHANNELS: usize = 16;
const MILLI: Duration = Duration::from_millis(1);

/// How many values, and what they add up to once each was mixed: of two sets that agree in both,
/// none has lost or doubled a value.
#[derive(Default)]
struct Sum {
    count: AtomicU64,
    sum: AtomicU64,
}

impl Sum {
    fn add(&self, value: u64) {
        // The finalizer of MurmurHash3.
        let mixed = (value ^ (value >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        self.count.fetch_add(1, SeqCst);
        self.sum.fetch_add(mixed ^ (mixed >> 33), SeqCst);
    }

    fn get(&self) -> (u64, u64) {
        (self.count.load(SeqCst), self.sum.load(SeqCst))
    }
}

#[derive(Default)]
struct World {
    channels: Vec<(Sender<u64>, Receiver<u64>)>,
    sent: Sum,
    received: Sum,
    /// By kind of participant.
    exchanges: [AtomicU64; 3],
    came_back: AtomicU64,
    cancelled: AtomicU64,
    late: AtomicU64,
    /// `None` is at once.
    ends: Option<Instant>,
}

impl World {
    fn is_over(&self) -> bool {
        self.ends.is_none_or(|ends| ends <= Instant::now())
    }
}

/// One of those who select.
struct Participant {
    kind: usize,
    /// The upper half says who it is.
    next: u64,
    draws: fastrand::Rng,
}

impl Participant {
    fn new(kind: usize, number: u64) -> Self {
        Self { kind, next: number << 32, draws: fastrand::Rng::with_seed(number) }
    }

    /// What it does next: where to send what, where to receive, and whether it is cancelled.
    fn draw<'w>(&mut self, world: &'w World) -> (&'w Sender<u64>, u64, &'w Receiver<u64>, bool) {
        self.next += 1;
        let (to, from) = (self.draws.usize(..CHANNELS), self.draws.usize(..CHANNELS));
        (&world.channels[to].0, self.next, &world.channels[from].1, self.draws.u8(..10) == 0)
    }

    /// What has come of it.
    fn note(&self, world: &World, value: u64, came_back: Option<u64>, received: Option<u64>) {
        match came_back {
            None => world.sent.add(value),
            Some(returned) => {
                assert_eq!(returned, value);
                world.came_back.fetch_add(1, SeqCst);
            }
        }
        if let Some(received) = received {
            world.received.add(received);
            assert!(came_back.is_some(), "both arms have had an effect");
        }
        world.exchanges[self.kind].fetch_add(u64::from(came_back.is_none() || received.is_some()), SeqCst);
    }

    /// As a fiber or a thread.
    fn select(mut self, world: &World) {
        while !world.is_over() {
            let (to, value, from, is_cancelled) = self.draw(world);
            let mut sending = to.send_source(value);
            let mut choose = || {
                select! {
                    sent = sending.by_ref() => { sent.unwrap(); None }
                    received = from.recv_source() => received.ok(),
                    () = after(10 * MILLI) => { world.late.fetch_add(1, SeqCst); None }
                }
            };
            let chosen = if is_cancelled {
                let limit = Duration::from_micros(self.draws.u64(..50));
                timeout(limit, choose)
            } else {
                choose()
            };
            world.cancelled.fetch_add(u64::from(chosen.is_err()), SeqCst);
            self.note(world, value, sending.into_value(), chosen.unwrap_or(None));
        }
    }

    /// As a task, whose choice is dropped after some polls if it is cancelled.
    async fn select_as_task(mut self, world: Arc<World>) {
        while !world.is_over() {
            let (to, value, from, is_cancelled) = self.draw(&world);
            let mut sending = to.send_source(value);
            let chosen = {
                let mut choice = pin!(async {
                    select! {
                        await;
                        sent = sending.by_ref() => { sent.unwrap(); None }
                        received = from.recv_source() => received.ok(),
                        () = after(10 * MILLI) => { world.late.fetch_add(1, SeqCst); None }
                    }
                });
                let mut polls = self.draws.u32(1..3);
                poll_fn(|task| {
                    let polled = choice.as_mut().poll(task);
                    polls -= u32::from(is_cancelled);
                    if polled.is_pending() && polls == 0 { Poll::Ready(None) } else { polled.map(Some) }
                })
                .await
            };
            world.cancelled.fetch_add(u64::from(chosen.is_none()), SeqCst);
            self.note(&world, value, sending.into_value(), chosen.flatten());
            tokio::task::yield_now().await;
        }
    }
}

#[test]
fn conservation_of_values_between_fibers_threads_and_tasks_that_select_on_both_sides() {
    let channels = (0..CHANNELS).map(|_| channel::rendezvous()).collect();
    let lasts = std::env::var("SEGUE_STORM_MS").map_or(10_000, |ms| ms.parse().expect("a number of ms"));
    let ends = Instant::now().checked_add(Duration::from_millis(lasts));
    let world = Arc::new(World { channels, ends, ..World::default() });
    let pools = [1, 2].map(|workers| segue::sched::Runtime::new().workers(workers).pool().unwrap());
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    thread::scope(|t| {
        for (number, pool) in pools.iter().enumerate() {
            let world = &world;
            t.spawn(move || {
                let spawn_all = || {
                    segue::scope(|s| {
                        for n in 0..500 {
                            s.spawn(move || Participant::new(0, (number as u64 + 1) * 1_000 + n).select(world));
                        }
                    });
                };
                pool.run(spawn_all).unwrap();
            });
        }
        for n in 0..8 {
            let world = &world;
            t.spawn(move || Participant::new(1, 10_000 + n).select(world));
        }
        let tasks: Vec<_> =
            (0..100).map(|n| tokio.spawn(Participant::new(2, 20_000 + n).select_as_task(Arc::clone(&world)))).collect();
        tasks.into_iter().for_each(|task| tokio.block_on(task).unwrap());
    });
    // What dropped tasks have given back.
    for (_, receiver) in &world.channels {
        receiver.try_iter().for_each(|value| world.received.add(value));
    }
    assert_eq!(world.sent.get(), world.received.get(), "lost or doubled");
    let count = |count: &AtomicU64| count.load(SeqCst);
    let reached = [&world.came_back, &world.cancelled, &world.late].map(count);
    let exchanges = world.exchanges.each_ref().map(count);
    println!("{} values; exchanges {exchanges:?}; came back, cancelled, late: {reached:?}", world.sent.get().0);
    assert!(exchanges.into_iter().chain(reached).all(|times| times > 0));
}
