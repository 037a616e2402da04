//! The sources of the structures in the suite of sources.

use segue::sync::{Latch, MVar, Notify, OnceCell, Promise, Resolver, Semaphore, promise};
use segue_core::conformance::Sources;
use std::sync::Mutex;

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
    type World = (Promise<u8>, Mutex<Option<Resolver<u8>>>);
    let world = || -> World {
        let (resolver, promise) = promise();
        (promise, Mutex::new(Some(resolver)))
    };
    let fill = |world: &World| world.1.lock().unwrap().take().unwrap().fill(1).unwrap();
    Sources::new("promise", world, |world| world.0.wait_source().map(drop).boxed(), fill).lasting().check();
}
