//! Fibers with planted names, each of which is found exactly once, whatever goes on beside it.

use crate::{dump_until, find, named};
use segue::channel;
use segue::sched::{FiberState, Runtime};
use segue::sync::{Mutex, promise};
use segue::{Builder, scope};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

const PLANTED: usize = 60;

#[test]
fn each_fiber_is_found_exactly_once_while_others_begin_and_end() {
    let _alone = crate::alone();
    let pools =
        [Runtime::new().workers(2).name("one").pool().unwrap(), Runtime::new().workers(1).name("two").pool().unwrap()];
    let (resolver, promised) = promise::<()>();
    let promised = Arc::new(promised);
    let ready = Arc::new(AtomicUsize::new(0));
    let plant = |(pool, number): (usize, usize)| {
        let (promised, ready) = (Arc::clone(&promised), Arc::clone(&ready));
        let name = format!("planted-{pool}-{number}");
        Builder::new().name(name).on(&pools[pool]).spawn(move || {
            ready.fetch_add(1, Relaxed);
            promised.wait().map(drop)
        })
    };
    let planted: Vec<_> = (0..PLANTED).map(|number| (number % 2, number)).map(plant).collect();
    let over = Arc::new(AtomicBool::new(false));
    // They begin, yield, end; so that the planted ones move about in the lists.
    let churn = pools.each_ref().map(|pool| {
        let over = Arc::clone(&over);
        pool.spawn(move || {
            while !over.load(Relaxed) {
                scope(|s| (0..50).for_each(|_| drop(s.spawn(segue::yield_now))));
            }
        })
    });
    while ready.load(Relaxed) < PLANTED {
        thread::yield_now();
    }
    let mut seen_others = 0;
    for _ in 0..if cfg!(miri) { 2 } else { 100 } {
        let dump = segue::dump();
        let mut found = HashMap::new();
        for fiber in dump.fibers() {
            match fiber.name.as_deref().filter(|name| name.starts_with("planted")) {
                Some(name) => *found.entry(name.to_owned()).or_insert(0) += 1,
                None => seen_others += 1,
            }
        }
        assert_eq!(found.len(), PLANTED, "{dump}");
        assert!(found.values().all(|count| *count == 1), "{found:?}");
        let numbers: std::collections::HashSet<_> = dump.fibers().map(|fiber| fiber.number).collect();
        assert_eq!(numbers.len(), dump.fibers().count(), "numbers are unique in the process");
    }
    assert!(seen_others > 0, "no fiber was seen that ends");
    over.store(true, Relaxed);
    let _ = resolver.fill(());
    churn.into_iter().for_each(|fiber| fiber.join().unwrap());
    planted.into_iter().for_each(|fiber| fiber.join().unwrap().unwrap());
}

#[test]
fn a_name_of_a_megabyte_is_cut_and_one_in_any_characters_is_whole() {
    let _alone = crate::alone();
    let pool = Runtime::new().workers(1).pool().unwrap();
    let (resolver, promised) = promise::<()>();
    let promised = Arc::new(promised);
    let names = ["é".repeat(1 << 19), "\u{0}\"\\\n日本".to_owned()];
    let fibers = names.clone().map(|name| {
        let promised = Arc::clone(&promised);
        Builder::new().name(name).on(&pool).spawn(move || promised.wait().map(drop))
    });
    let long = dump_until(|dump| {
        find(dump, &names[1])?;
        dump.fibers().find_map(|fiber| fiber.name.clone().filter(|name| name.starts_with('é')))
    });
    assert!(long.ends_with("...") && long.len() < 200, "{long}");
    let _ = resolver.fill(());
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap().unwrap());
}

#[test]
fn fibers_behind_one_that_does_not_come_back_are_found_as_well() {
    let _alone = crate::alone();
    let pool = Runtime::new().workers(1).name("stuck").pool().unwrap();
    let (sender, receiver) = channel::bounded::<u32>(1);
    let waiting = Builder::new().name("behind it").on(&pool).spawn(move || receiver.recv());
    dump_until(|dump| (find(dump, "behind it")?.state == FiberState::Waiting).then_some(()));
    let (over, began) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let busy = {
        let (over, began) = (Arc::clone(&over), Arc::clone(&began));
        Builder::new().name("computes").on(&pool).spawn(move || {
            began.store(true, Relaxed);
            while !over.load(Relaxed) {
                std::hint::spin_loop();
            }
        })
    };
    while !began.load(Relaxed) {
        thread::yield_now();
    }
    let dump = segue::dump();
    assert_eq!(named(&dump, "computes").state, FiberState::Running, "{dump}");
    assert_eq!(named(&dump, "behind it").waits_for.unwrap().what, "a value in a channel", "{dump}");
    // Closures that wait behind it have not started; they were sent from outside.
    let late = Builder::new().name("late").on(&pool).spawn(|| ());
    let dump = segue::dump();
    let closures: Vec<_> = dump.schedulers.iter().flat_map(|it| &it.closures).collect();
    assert!(closures.iter().any(|it| it.name.as_deref() == Some("late") && it.spawned_at.is_some()), "{dump}");
    over.store(true, Relaxed);
    busy.join().unwrap();
    late.join().unwrap();
    drop(sender);
    assert!(waiting.join().unwrap().is_err());
}

/// Says how long that takes, and how much memory: of a release build the figures that count.
#[test]
fn many_fibers_are_dumped_whole() {
    let _alone = crate::alone();
    let many = if cfg!(debug_assertions) { 2_000 } else { 100_000 };
    let pool = Runtime::new().workers(2).name("many").pool().unwrap();
    let (resolver, promised) = promise::<()>();
    let (promised, ready) = (Arc::new(promised), Arc::new(AtomicUsize::new(0)));
    let start = |_| {
        let (promised, ready) = (Arc::clone(&promised), Arc::clone(&ready));
        Builder::new().name("one of many").on(&pool).spawn(move || {
            ready.fetch_add(1, Relaxed);
            promised.wait().map(drop)
        })
    };
    let fibers: Vec<_> = (0..many).map(start).collect();
    while ready.load(Relaxed) < many {
        thread::yield_now();
    }
    for _ in 0..3 {
        let dump = segue::dump();
        let began = std::time::Instant::now();
        let text = dump.to_string();
        let found = dump.fibers().filter(|fiber| fiber.name.as_deref() == Some("one of many")).count();
        println!("{found} fibers in {:?}; as text of {} MB in {:?}", dump.took, text.len() >> 20, began.elapsed());
        assert_eq!(found, many);
    }
    let _ = resolver.fill(());
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap().unwrap());
}

#[test]
fn schedulers_begin_and_end_during_dumps() {
    let _alone = crate::alone();
    let over = AtomicBool::new(false);
    thread::scope(|s| {
        let dumps = s.spawn(|| {
            let mut dumps = 0;
            while !over.load(Relaxed) {
                let _ = segue::dump();
                dumps += 1;
            }
            dumps
        });
        for _ in 0..if cfg!(miri) { 2 } else { 100 } {
            let total = Runtime::new().workers(2).run(|| {
                let total = Mutex::new(0);
                scope(|s| {
                    for n in 0..4 {
                        let total = &total;
                        s.spawn(move || total.lock().map(|mut total| *total += n));
                    }
                });
                total.into_inner()
            });
            assert_eq!(total.unwrap(), 6);
        }
        over.store(true, Relaxed);
        assert!(dumps.join().unwrap() > 0);
    });
}
