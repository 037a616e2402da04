//! The sources of the structures in the suite of sources.

use segue::sync::{
    Barrier, Latch, MVar, Mutex, Notify, OnceCell, Promise, Resolver, RwLock, Semaphore, WaitGroup, promise,
};
use segue_core::conformance::Sources;
use std::pin::Pin;
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Waker};

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
