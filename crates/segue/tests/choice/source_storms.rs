//! The sources of the structures in the suite of sources.
//!
//! Four sources have no storm, as the suite makes several of them in one world, and serves them
//! when it likes:
//!
//! * the wait of a condition: a notification that nobody waits for is for nobody, so a look never
//!   finds one, and what is served before the wait is lost;
//! * a deadline: it is time that serves it, without being asked, and under a simulator, where it
//!   could be asked, there are no other threads to race;
//! * the end of a fiber: it is joined once, by its one handle;
//! * the exclusive receiver of a channel: it has one source at a time.
//!
//! `condvar.rs`, `choices.rs`, `handles.rs` and `channel_model.rs` have their tests; the sources of
//! `segue-core` are in a suite of that crate.

use segue::channel::{self, broadcast, watch};
use segue::sync::{
    Barrier, Entry, Initializer, Latch, Lazy, MVar, Mutex, Notify, Once, OnceCell, Promise, Resolver, RwLock,
    Semaphore, WaitGroup, promise,
};
use segue_conformance::Sources;
use segue_core::{BoxSource, Waitable};
use std::pin::Pin;
use std::sync::{Arc, Mutex as StdMutex, mpsc};
use std::task::{Context, Waker};
use std::thread::{self, JoinHandle};

#[test]
fn the_place_of_an_mvar() {
    let put = |place: &MVar<u8>| place.try_put(1).unwrap();
    Sources::new("take", MVar::empty, |place| place.take_source().map(drop).boxed(), put).check();
    Sources::new("borrow", MVar::empty, |place| place.borrow_source().map(drop).boxed(), put).lasting().check();
    Sources::new(
        "put",
        || MVar::new(1),
        |place| place.put_source(2).boxed(),
        |place| assert_eq!(place.try_take(), Some(1)),
    )
    .stays_done()
    .check();
}

#[test]
fn permits_and_notifications() {
    Sources::new(
        "acquire",
        || Semaphore::new(0),
        |semaphore| semaphore.acquire_source().map(|permit| permit.unwrap().forget()).boxed(),
        |semaphore| semaphore.add_permits(1),
    )
    .check();
    Sources::new("notified", Notify::new, |notify| notify.wait_source().boxed(), Notify::notify_one).check();
}

#[test]
fn what_is_there_for_good() {
    Sources::new("latch", || Latch::new(1), |latch| latch.wait_source().boxed(), |latch| latch.count_down(1))
        .lasting()
        .check();
    let full = |cell: &OnceCell<u8>| cell.try_set(1).unwrap();
    Sources::new("cell", OnceCell::new, |cell| cell.wait_source().map(drop).boxed(), full).lasting().check();
    type World = (Promise<u8>, StdMutex<Option<Resolver<u8>>>);
    let world = || -> World {
        let (resolver, promise) = promise();
        (promise, StdMutex::new(Some(resolver)))
    };
    let fill = |world: &World| world.1.lock().unwrap().take().unwrap().fill(1).unwrap();
    Sources::new("promise", world, |world| world.0.wait_source().map(drop).boxed(), fill).lasting().check();
}

/// A lock that is held, and the guard.
struct Held<L: 'static, G>(&'static L, StdMutex<Option<G>>);

impl<L, G> Held<L, G> {
    /// The lock is leaked: the guard borrows from it.
    fn new(lock: L, hold: fn(&'static L) -> G) -> Self {
        let lock = Box::leak(Box::new(lock));
        Self(lock, StdMutex::new(Some(hold(lock))))
    }

    fn release(&self) {
        drop(self.1.lock().unwrap().take());
    }
}

#[test]
fn locks() {
    Sources::new(
        "lock",
        || Held::new(Mutex::new(()), |lock| lock.lock().unwrap()),
        |held| held.0.lock_source().map(drop).boxed(),
        Held::release,
    )
    .lasting()
    .check();
    Sources::new(
        "read",
        || Held::new(RwLock::new(()), |lock| lock.write().unwrap()),
        |held| held.0.read_source().map(drop).boxed(),
        Held::release,
    )
    .lasting()
    .check();
    Sources::new(
        "write",
        || Held::new(RwLock::new(()), |lock| lock.read().unwrap()),
        |held| held.0.write_source().map(drop).boxed(),
        Held::release,
    )
    .lasting()
    .check();
}

/// The right to initialise a cell is taken; it is used, or handed to the first that waits.
#[test]
fn entries_of_a_cell() {
    type Taken = Held<OnceCell<u8>, Initializer<'static, u8>>;
    let taken = || -> Taken {
        Held::new(OnceCell::new(), |cell| match cell.try_entry() {
            Some(Entry::Empty(initializer)) => initializer,
            _ => unreachable!("it is empty"),
        })
    };
    let fill = |taken: &Taken| assert_eq!(taken.1.lock().unwrap().take().unwrap().fill(1), &1);
    Sources::new("full entry", taken, |taken| taken.0.entry_source().map(drop).boxed(), fill).lasting().check();
    Sources::new("empty entry", taken, |taken| taken.0.entry_source().map(drop).boxed(), Held::release)
        .lasting()
        .check();
    Sources::new("filled by others", taken, |taken| taken.0.get_or_init_source(|| 2).map(drop).boxed(), fill)
        .lasting()
        .check();
    Sources::new("filled", taken, |taken| taken.0.get_or_init_source(|| 2).map(drop).boxed(), Held::release)
        .lasting()
        .check();
}

/// What a thread has begun to initialise, and what lets it end.
struct Begun<C>(Arc<C>, StdMutex<Option<(mpsc::Sender<()>, JoinHandle<()>)>>);

type Initialiser = Box<dyn FnMut() + Send>;

impl<C: Send + Sync + 'static> Begun<C> {
    fn new(make: fn(Initialiser) -> C, force: fn(&C)) -> Self {
        let ((begins, begun), (ends, end)) = (mpsc::channel(), mpsc::channel());
        let cell = Arc::new(make(Box::new(move || {
            begins.send(()).unwrap();
            let _ = end.recv();
        })));
        let forced = Arc::clone(&cell);
        let thread = thread::spawn(move || force(&forced));
        begun.recv().unwrap();
        Self(cell, StdMutex::new(Some((ends, thread))))
    }

    fn end(&self) {
        if let Some((ends, thread)) = self.1.lock().unwrap().take() {
            drop(ends);
            thread.join().unwrap();
        }
    }
}

#[test]
fn what_others_have_begun_to_initialise() {
    type Call = (Once, StdMutex<Option<Initialiser>>);
    let once = || -> Begun<Call> {
        Begun::new(
            |initialise| (Once::new(), StdMutex::new(Some(initialise))),
            |(once, initialise)| once.call_once(initialise.lock().unwrap().take().unwrap()).unwrap(),
        )
    };
    Sources::new("once", once, |begun| begun.0.0.call_once_source(|| ()).map(drop).boxed(), Begun::end)
        .lasting()
        .check();
    let lazy = || Begun::new(Lazy::<(), Initialiser>::new, |lazy| *lazy.force().unwrap());
    Sources::new("lazy", lazy, |begun| begun.0.force_source().map(drop).boxed(), Begun::end).lasting().check();
}

#[test]
fn groups_that_wait_for_their_members() {
    Sources::new(
        "wait group",
        || {
            let group = WaitGroup::new();
            group.add(1);
            group
        },
        |group| group.wait_source().boxed(),
        WaitGroup::done,
    )
    .lasting()
    .check();
}

/// The other party at a barrier of two has come, and waits: its future, polled once, stays.
#[test]
fn barriers() {
    type Party = Pin<Box<dyn Future<Output = ()> + Send>>;
    Sources::new(
        "barrier",
        || (Arc::new(Barrier::new(2)), StdMutex::new(Vec::<Party>::new())),
        |world| world.0.wait_source().map(drop).boxed(),
        |world| {
            let barrier = Arc::clone(&world.0);
            let mut party: Party = Box::pin(async move { _ = barrier.wait_source().await });
            let _ = party.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            world.1.lock().unwrap().push(party);
        },
    )
    .stays_done()
    .check();
}

type Watched = (watch::Sender<u8>, watch::Receiver<u8>);
type Broadcast = (broadcast::Sender<u8>, broadcast::Receiver<u8>);

/// Each source has a receiver of its own, a leaked copy of the one that the world keeps.
#[test]
fn what_every_receiver_is_told() {
    fn changed(world: &Watched) -> Waitable<BoxSource<'_, ()>> {
        Box::leak(Box::new(world.1.clone())).changed_source().map(drop).boxed()
    }
    Sources::new("a change", || watch::channel(0), changed, |world| drop(world.0.set(1))).lasting().check();
    fn receive(world: &Broadcast) -> Waitable<BoxSource<'_, ()>> {
        Box::leak(Box::new(world.1.clone())).recv_source().map(drop).boxed()
    }
    let send = |world: &Broadcast| _ = world.0.send(1).unwrap();
    Sources::new("a message", || broadcast::channel(1), receive, send).lasting().check();
    Sources::new("the end", || broadcast::channel(1), receive, |world| world.0.close()).lasting().check();
}

/// Room is made for one, and the other receiver, which makes it, is the only one.
#[test]
fn room_in_a_broadcast() {
    type World = (broadcast::Sender<u8, broadcast::Waits>, StdMutex<broadcast::Receiver<u8>>);
    let full = || -> World {
        let (sender, receiver) = broadcast::lossless(1);
        sender.send(1).unwrap();
        (sender, StdMutex::new(receiver))
    };
    Sources::new(
        "send",
        full,
        |world| world.0.send_source(2).map(drop).boxed(),
        |world| assert!(world.1.lock().unwrap().try_recv().is_some()),
    )
    .stays_done()
    .check();
}

/// The receiver has come, and waits: its future, polled once, stays. So does a sender's.
#[test]
fn both_sides_of_a_rendezvous() {
    type Side = Pin<Box<dyn Future<Output = ()> + Send>>;
    type World = (channel::Sender<u8>, channel::Receiver<u8>, StdMutex<Vec<Side>>);
    let world = || -> World {
        let (sender, receiver) = channel::rendezvous();
        (sender, receiver, StdMutex::default())
    };
    let comes = |world: &World, mut side: Side| {
        let _ = side.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        world.2.lock().unwrap().push(side);
    };
    let receiver_comes = move |world: &World| {
        let receiver = world.1.clone();
        comes(world, Box::pin(async move { _ = receiver.recv_source().await }));
    };
    let sender_comes = move |world: &World| {
        let sender = world.0.clone();
        comes(world, Box::pin(async move { _ = sender.send_source(1).await }));
    };
    Sources::new("send at a rendezvous", world, |world| world.0.send_source(1).map(drop).boxed(), receiver_comes)
        .stays_done()
        .check();
    Sources::new("receive at a rendezvous", world, |world| world.1.recv_source().map(drop).boxed(), sender_comes)
        .check();
}

#[test]
fn the_sources_of_a_channel() {
    const ROOM: usize = 16;
    type World = (channel::Sender<u8>, channel::Receiver<u8>);
    let full = || -> World {
        let (sender, receiver) = channel::bounded(ROOM);
        (0..ROOM).for_each(|_| sender.try_send(0).unwrap());
        (sender, receiver)
    };
    let receive = |world: &World| _ = world.1.try_recv().unwrap();
    Sources::new("send", full, |world| world.0.send_source(1).map(drop).boxed(), receive).stays_done().check();
    // Kept for good, so that what is served once is got once.
    Sources::new(
        "reserve",
        full,
        |world| world.0.reserve_source().map(|room| std::mem::forget(room.unwrap())).boxed(),
        receive,
    )
    .check();
    let send = |world: &World| world.0.try_send(1).unwrap();
    Sources::new("receive", channel::unbounded, |world| world.1.recv_source().map(drop).boxed(), send).check();
    let close = |world: &World| _ = world.1.close();
    Sources::new("the end", full, |world| world.0.closed_source().boxed(), close).lasting().check();
}
