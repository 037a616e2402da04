//! What a fiber is told of itself.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{everywhere, pool};
use segue::core::in_fiber;
use segue::sched::Handle;
use segue::{Builder, fiber, scope, sleep, spawn, spawn_task, yield_now};
use std::collections::HashSet;
use std::time::Duration;

#[test]
fn a_fiber_has_its_name_and_an_id_that_stays() {
    everywhere(|| {
        let Some(own) = fiber::current() else { return assert!(!in_fiber()) };
        let other = Builder::new().name("other").spawn(|| {
            let before = fiber::current();
            sleep(Duration::from_millis(1)).unwrap();
            yield_now().unwrap();
            assert_eq!(before, fiber::current());
            before
        });
        let other = other.join().unwrap().unwrap();
        assert_eq!((other.name(), other.to_string().as_str()), (Some("other"), "fiber `other`"));
        assert_ne!(own.id(), other.id());
        assert_eq!(Some(own), fiber::current());
    });
}

#[test]
fn what_a_builder_says_holds_wherever_its_fiber_is_spawned() {
    let pool = pool(1);
    let named = || Builder::new().name("courier");
    let own = || fiber::current().unwrap().name().map(str::to_owned);
    let joined = [
        named().on(&pool).spawn(own).join(),
        segue::core::Builder::new().name("courier").on(&pool).spawn(own).join(),
        named().on(&pool.run(Handle::current).unwrap().unwrap()).spawn(own).join(),
        scope(|s| named().within(s).on(&pool).spawn(own).join()),
        scope(|s| named().on(&pool).within(s).spawn(own).join()),
    ];
    assert!(joined.into_iter().all(|name| name.unwrap().as_deref() == Some("courier")));
    let hosted = pool.run(|| segue::wait_future(segue::sched::hosted_as(named(), own))).unwrap();
    assert_eq!(hosted.unwrap().unwrap().as_deref(), Some("courier"));
}

#[test]
fn no_two_fibers_share_an_id_also_one_after_the_other() {
    for workers in [1, 3] {
        let ids = pool(workers).run(|| {
            let one_by_one = (0..200).map(|_| spawn(|| fiber::current().unwrap().id()).join().unwrap());
            let mut ids: Vec<_> = one_by_one.collect();
            scope(|s| {
                let fibers: Vec<_> = (0..200).map(|_| s.spawn(|| fiber::current().unwrap().id())).collect();
                ids.extend(fibers.into_iter().map(|fiber| fiber.join().unwrap()));
            });
            ids
        });
        let ids = ids.unwrap();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    }
}

#[test]
fn a_task_has_that_of_its_poll_and_a_thread_none() {
    assert!(fiber::current().is_none());
    let name = pool(1).run(|| spawn_task(async { fiber::current().is_some() }).join().unwrap());
    assert_eq!(name, Ok(true));
}
