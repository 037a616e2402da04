//! `chameneos`: creatures of three colours meet in pairs and take on new colours; an operation is
//! one meeting. Chameneos-redux of the benchmarks game: three creatures and then ten, half of the
//! meetings each. One of the five programs with which the paper "Composable Scheduler Activations
//! for Haskell" measures.
//!
//! Timed: starting the creatures, entering the place where they meet, waiting for the other, being
//! woken, until all meetings have taken place and every creature knows it. Not timed: starting the
//! runtime. Whoever comes first waits to be told the other's colour, and whoever comes second tells
//! it. Each creature counts its meetings, and the sum is checked.
//!
//! Segue is as in the paper: the place is an `MVar`, and each creature waits at an `MVar` of its
//! own. As the place is never full for long, a mutex would do: "segue, mutex" has one, and "segue,
//! channel" has channels of capacity 1 besides, for the creatures to wait at. The rivals' place is
//! in a mutex that blocks threads, as it is never held across a wait, and each of their creatures
//! waits at a channel of its own, made before the clock starts; with "oneshot on tokio", at a new
//! one for each meeting.

use super::channels::{AsyncChannel, CrossfireMany, Flume, Kanal, Tasks};
use super::crowd::{self, SpawnFiber, SpawnTask};
use super::{policies, segue_run};
use crate::measure::{Span, Stopwatch, Variant, Workload};
use parking_lot::Mutex;
use segue::sync::MVar;
use std::sync::Arc;

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "chameneos", timed: "three creatures and then ten meet in pairs, per meeting", variants };

fn variants() -> Vec<Variant> {
    let with = |name, workers| {
        policies::add_all(Variant::new(name, "meeting", workers), move |policy, n| {
            policy.run(workers, || games(n, segue::<MVar<_>, MVar<_>>))
        })
        .add("segue, mutex", move |n| segue_run(workers, || games(n, segue::<segue::sync::Mutex<_>, MVar<_>>)))
        .add("segue, channel", move |n| segue_run(workers, || games(n, segue::<segue::sync::Mutex<_>, Channel>)))
        .add("kanal on tokio", move |n| crowd::tokio(workers, move |start| games_of_tasks::<Kanal, _>(start, n)))
        .add("oneshot on tokio", move |n| crowd::tokio(workers, move |_| oneshot::games(n)))
        .add("tokio", move |n| {
            crowd::tokio(workers, move |start| games_of_tasks::<super::channels::Tokio, _>(start, n))
        })
        .add("flume on tokio", move |n| crowd::tokio(workers, move |start| games_of_tasks::<Flume, _>(start, n)))
        .add("kanal on smol", move |n| crowd::smol(workers, move |start| games_of_tasks::<Kanal, _>(start, n)))
        .add("crossfire on tokio", move |n| {
            crowd::tokio(workers, move |start| games_of_tasks::<CrossfireMany, _>(start, n))
        })
        .add("crossfire on smol", move |n| {
            crowd::smol(workers, move |start| games_of_tasks::<CrossfireMany, _>(start, n))
        })
        .add("smol", move |n| crowd::smol(workers, move |start| games_of_tasks::<AsyncChannel, _>(start, n)))
        .add_apart("may", move |n| {
            crowd::may(workers, move |fibers| games(n, |colours, meetings| calls(fibers, colours, meetings)))
        })
        .add_go(&[])
    };
    let two = with("two workers", 2)
        .add("kanal, threads", |n| games(n, |colours, meetings| calls(crowd::Threads, colours, meetings)));
    vec![with("one worker", 1), two]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colour {
    Blue,
    Red,
    Yellow,
}
use Colour::{Blue, Red, Yellow};

const THREE: &[Colour] = &[Blue, Red, Yellow];
const TEN: &[Colour] = &[Blue, Red, Yellow, Red, Yellow, Blue, Red, Yellow, Red, Blue];

impl Colour {
    /// What it becomes by meeting the other: the same if both are alike, else the third.
    fn complement(self, other: Self) -> Self {
        match (self, other) {
            (one, same) if one == same => one,
            (Blue, Red) | (Red, Blue) => Yellow,
            (Blue, _) | (_, Blue) => Red,
            _ => Blue,
        }
    }

    fn from_code(code: u64) -> Self {
        match code {
            0 => Blue,
            1 => Red,
            2 => Yellow,
            _ => unreachable!("not a colour"),
        }
    }
}

/// The place where creatures meet: the meetings to come, and who waits for another, by its colour
/// and by what is told it.
struct Place<W> {
    left: u64,
    waiting: Option<(Colour, W)>,
}

/// What a creature has to do that has come to the place.
enum Next<W> {
    Leave,
    Wait,
    Tell(Colour, W),
}

impl<W> Place<W> {
    fn new(left: u64) -> Self {
        Self { left, waiting: None }
    }

    fn enter(&mut self, colour: Colour, me: impl FnOnce() -> W) -> Next<W> {
        if self.left == 0 {
            return Next::Leave;
        }
        match self.waiting.take() {
            None => {
                self.waiting = Some((colour, me()));
                Next::Wait
            }
            Some((other, who)) => {
                self.left -= 1;
                Next::Tell(other, who)
            }
        }
    }
}

/// Both games, with half of `n` meetings each. A game answers with the sum of its creatures'
/// counts.
fn games(n: u64, game: impl Fn(&'static [Colour], u64) -> u64) -> Span {
    let half = n.div_ceil(2);
    let watch = Stopwatch::start();
    let met = game(THREE, half) + game(TEN, half);
    let span = watch.stop(2 * half);
    assert_eq!(met, 4 * half);
    span
}

/// Segue's creatures borrow the place and what they wait at.
fn segue<P: Shared, C: Cell>(colours: &'static [Colour], meetings: u64) -> u64 {
    let wakers: Vec<C> = colours.iter().map(|_| C::new()).collect();
    let place = P::new(Place::new(meetings));
    let creature = |me: usize| {
        let mut colour = colours[me];
        let mut met = 0;
        loop {
            let other = match place.enter(colour, me) {
                Next::Leave => return met,
                Next::Wait => wakers[me].wait(),
                Next::Tell(other, who) => {
                    wakers[who].tell(colour);
                    other
                }
            };
            colour = colour.complement(other);
            met += 1;
        }
    };
    let creature = &creature;
    segue::scope(|scope| {
        let creatures: Vec<_> = (0..colours.len()).map(|me| scope.spawn(move || creature(me))).collect();
        creatures.into_iter().map(|creature| creature.join().expect("no panic")).sum()
    })
}

/// A place that Segue's creatures share.
trait Shared: Sync {
    fn new(place: Place<usize>) -> Self;
    fn enter(&self, colour: Colour, me: usize) -> Next<usize>;
}

impl Shared for MVar<Place<usize>> {
    fn new(place: Place<usize>) -> Self {
        Self::new(place)
    }

    fn enter(&self, colour: Colour, me: usize) -> Next<usize> {
        let mut place = self.take().expect("nobody cancels");
        let next = place.enter(colour, || me);
        self.put(place).map_err(|_| "cancelled").expect("nobody cancels");
        next
    }
}

impl Shared for segue::sync::Mutex<Place<usize>> {
    fn new(place: Place<usize>) -> Self {
        Self::new(place)
    }

    fn enter(&self, colour: Colour, me: usize) -> Next<usize> {
        self.lock().expect("nobody cancels").enter(colour, || me)
    }
}

/// What a creature of Segue's waits at.
trait Cell: Sync {
    fn new() -> Self;
    fn tell(&self, colour: Colour);
    fn wait(&self) -> Colour;
}

impl Cell for MVar<Colour> {
    fn new() -> Self {
        Self::empty()
    }

    fn tell(&self, colour: Colour) {
        self.put(colour).expect("nobody cancels");
    }

    fn wait(&self) -> Colour {
        self.take().expect("nobody cancels")
    }
}

/// Both ends of a channel of capacity 1.
struct Channel(segue::channel::Sender<Colour>, segue::channel::Receiver<Colour>);

impl Cell for Channel {
    fn new() -> Self {
        let (sender, receiver) = segue::channel::bounded(1);
        Self(sender, receiver)
    }

    fn tell(&self, colour: Colour) {
        assert!(self.0.send(colour).is_ok(), "it waits");
    }

    fn wait(&self) -> Colour {
        self.1.recv().expect("somebody comes")
    }
}

/// Both games with tasks that wait at channels.
async fn games_of_tasks<C: Tasks<Sender: Clone>, S: SpawnTask>(start: S, n: u64) -> Span {
    let half = n.div_ceil(2);
    let watch = Stopwatch::start();
    let met = tasks::<C, S>(&start, THREE, half).await + tasks::<C, S>(&start, TEN, half).await;
    let span = watch.stop(2 * half);
    assert_eq!(met, 4 * half);
    span
}

async fn tasks<C: Tasks<Sender: Clone>, S: SpawnTask>(start: &S, colours: &'static [Colour], meetings: u64) -> u64 {
    let place = Arc::new(Mutex::new(Place::new(meetings)));
    let (senders, receivers): (Vec<_>, Vec<_>) = colours.iter().map(|_| C::new()).unzip();
    let creature = |(me, mut waker): (usize, C::Receiver)| {
        let (place, mut senders, mut colour) = (place.clone(), senders.clone(), colours[me]);
        start.spawn(async move {
            let mut met = 0;
            loop {
                let next = place.lock().enter(colour, || me);
                let other = match next {
                    Next::Leave => return met,
                    Next::Wait => Colour::from_code(C::recv(&mut waker).await.expect("somebody comes")),
                    Next::Tell(other, who) => {
                        assert!(C::send(&mut senders[who], colour as u64).await, "it waits");
                        other
                    }
                };
                colour = colour.complement(other);
                met += 1;
            }
        })
    };
    let creatures: Vec<_> = receivers.into_iter().enumerate().map(creature).collect();
    let mut met = 0;
    for creature in creatures {
        met += S::join(creature).await;
    }
    met
}

/// With fibers or threads of somebody else. May's waits at its own channels, threads at kanal's.
trait Waker: SpawnFiber {
    type Sender: Clone + Send + 'static;
    type Receiver: Send + 'static;
    fn new() -> (Self::Sender, Self::Receiver);
    fn tell(to: &Self::Sender, colour: Colour);
    fn wait(at: &Self::Receiver) -> Colour;
}

impl Waker for crowd::May {
    type Sender = may::sync::mpsc::Sender<Colour>;
    type Receiver = may::sync::mpsc::Receiver<Colour>;

    fn new() -> (Self::Sender, Self::Receiver) {
        may::sync::mpsc::channel()
    }

    fn tell(to: &Self::Sender, colour: Colour) {
        to.send(colour).map_err(|_| "gone").expect("it waits");
    }

    fn wait(at: &Self::Receiver) -> Colour {
        at.recv().expect("somebody comes")
    }
}

impl Waker for crowd::Threads {
    type Sender = kanal::Sender<Colour>;
    type Receiver = kanal::Receiver<Colour>;

    fn new() -> (Self::Sender, Self::Receiver) {
        kanal::bounded(1)
    }

    fn tell(to: &Self::Sender, colour: Colour) {
        to.send(colour).expect("it waits");
    }

    fn wait(at: &Self::Receiver) -> Colour {
        at.recv().expect("somebody comes")
    }
}

fn calls<F: Waker>(start: F, colours: &'static [Colour], meetings: u64) -> u64 {
    let place = Arc::new(Mutex::new(Place::new(meetings)));
    let (senders, receivers): (Vec<_>, Vec<_>) = colours.iter().map(|_| F::new()).unzip();
    let creature = |(me, waker): (usize, F::Receiver)| {
        let (place, senders, mut colour) = (place.clone(), senders.clone(), colours[me]);
        start.spawn(move || {
            let mut met = 0;
            loop {
                let next = place.lock().enter(colour, || me);
                let other = match next {
                    Next::Leave => return met,
                    Next::Wait => F::wait(&waker),
                    Next::Tell(other, who) => {
                        F::tell(&senders[who], colour);
                        other
                    }
                };
                colour = colour.complement(other);
                met += 1;
            }
        })
    };
    let creatures: Vec<_> = receivers.into_iter().enumerate().map(creature).collect();
    creatures.into_iter().map(F::join).sum()
}

/// A new channel for each meeting, whose sender waits in the place.
mod oneshot {
    use super::{Arc, Colour, Mutex, Next, Place, Span, Stopwatch, TEN, THREE};
    use tokio::sync::oneshot::{Sender, channel};

    pub async fn games(n: u64) -> Span {
        let half = n.div_ceil(2);
        let watch = Stopwatch::start();
        let met = game(THREE, half).await + game(TEN, half).await;
        let span = watch.stop(2 * half);
        assert_eq!(met, 4 * half);
        span
    }

    async fn game(colours: &'static [Colour], meetings: u64) -> u64 {
        let place: Arc<Mutex<Place<Sender<Colour>>>> = Arc::new(Mutex::new(Place::new(meetings)));
        let creature = |&colour: &Colour| {
            let (place, mut colour) = (place.clone(), colour);
            tokio::spawn(async move {
                let mut met = 0;
                loop {
                    let mut waker = None;
                    let next = place.lock().enter(colour, || {
                        let (sender, receiver) = channel();
                        waker = Some(receiver);
                        sender
                    });
                    let other = match next {
                        Next::Leave => return met,
                        Next::Wait => waker.expect("made above").await.expect("somebody comes"),
                        Next::Tell(other, who) => {
                            who.send(colour).map_err(|_| "gone").expect("it waits");
                            other
                        }
                    };
                    colour = colour.complement(other);
                    met += 1;
                }
            })
        };
        let creatures: Vec<_> = colours.iter().map(creature).collect();
        let mut met = 0;
        for creature in creatures {
            met += creature.await.expect("no panic");
        }
        met
    }
}
