//! What a dump says of a fiber: line, thing, owner, scope, age, calls; as text and as JSON.

use crate::{dump_until, named};
use segue::sched::{FiberState, Sim, settle};
use segue::sync::{Mutex, OnceCell, RwLock, promise};
use segue::{Builder, after, scope, sleep, spawn};
use std::panic::Location;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

#[test]
fn a_waiter_has_its_line_its_age_and_the_line_of_its_spawn() {
    let _alone = crate::alone();
    let run = Sim::new(1).run(|| {
        let here = Location::caller().line();
        let patient = Builder::new().name("patient").cancellable().spawn(|| after(Duration::MAX).wait());
        sleep(Duration::from_secs(3)).unwrap();
        let dump = segue::dump();
        let found = named(&dump, "patient");
        assert_eq!(found.waits_for.unwrap().at.line(), here + 1);
        assert_eq!(found.spawned_at.unwrap().line(), here + 1);
        assert!(found.spawned_at.unwrap().file().ends_with("said.rs"));
        assert!((Duration::from_secs(2)..=Duration::from_secs(3)).contains(&found.age.unwrap()), "{dump}");
        assert_eq!(found.state, FiberState::Waiting);
        let caller = dump.fibers().find(|fiber| fiber.state == FiberState::Running).unwrap();
        assert_ne!(caller.number, found.number);
        patient.cancel();
    });
    assert_eq!(run, Ok(()));
}

/// A fiber of its own waits in each of the ways, and the object leads to the owner.
#[test]
fn the_owners_of_locks_cells_joins_and_scopes_are_known() {
    let _alone = crate::alone();
    let run = Sim::new(1).run(|| {
        let (mutex, lock, cell) = (Mutex::new(0), RwLock::new(0), OnceCell::<u32>::new());
        let (resolver, promised) = promise::<()>();
        scope(|s| {
            Builder::new().name("owner").within(s).spawn(|| {
                let _guards = (mutex.lock().unwrap(), lock.write().unwrap());
                cell.get_or_init(|| promised.wait().map_or(0, |()| 1)).map(drop)
            });
            settle().unwrap();
            Builder::new().name("mutex").within(s).spawn(|| mutex.lock().map(drop));
            Builder::new().name("read").within(s).spawn(|| lock.read().map(drop));
            Builder::new().name("write").within(s).spawn(|| lock.write().map(drop));
            Builder::new().name("cell").within(s).spawn(|| cell.get_or_init(|| 2).map(drop));
            Builder::new().name("scope").within(s).spawn(|| {
                scope(|inner| {
                    Builder::new().name("inner").within(inner).spawn(|| promised.wait().map(drop));
                });
            });
            Builder::new().name("join").within(s).spawn(|| {
                let joined = Builder::new().name("joined").spawn(|| after(Duration::from_secs(1)).wait());
                joined.join().unwrap()
            });
            settle().unwrap();
            let dump = segue::dump();
            let owner = named(&dump, "owner");
            for name in ["mutex", "read", "write", "cell"] {
                let waiter = named(&dump, name);
                let of = waiter.owner.as_ref().unwrap_or_else(|| panic!("`{name}` has no owner:\n{dump}"));
                assert_eq!((of.number, &*of.name), (owner.number, "fiber `owner`"), "{name}: {dump}");
            }
            if cfg!(debug_assertions) {
                let at = named(&dump, "mutex").owner.as_ref().unwrap().locked_at.unwrap();
                assert!(at.file().ends_with("said.rs"), "{at}");
            }
            assert_eq!(named(&dump, "join").owner.as_ref().unwrap().name, "fiber `joined`");
            assert_eq!(named(&dump, "scope").object, named(&dump, "inner").scope);
            assert_eq!(dump.deadlocks, []);
            let _ = resolver.fill(());
        });
    });
    assert_eq!(run, Ok(()));
}

/// A thread that holds a lock, and one that waits for the lock.
#[test]
fn plain_threads_wait_and_own() {
    let _alone = crate::alone();
    let mutex = Mutex::new(0);
    let guard = mutex.lock().unwrap();
    thread::scope(|s| {
        let waiter = thread::Builder::new().name("a plain one".to_owned());
        waiter.spawn_scoped(s, || mutex.lock().map(drop)).unwrap();
        let owner = dump_until(|dump| {
            let thread = dump.threads.iter().find(|it| it.name.as_deref() == Some("a plain one"))?;
            assert_eq!(thread.waits_for.what, "a mutex");
            thread.owner.clone()
        });
        assert_eq!(owner.name, "a thread that does not wait, or has ended");
        assert!(owner.number >> 63 == 1);
        drop(guard);
    });
}

#[test]
fn an_owner_that_has_ended_or_has_forgotten_its_guard_is_said_to_have_ended() {
    let _alone = crate::alone();
    let run = Sim::new(1).run(|| {
        let mutex = Arc::new(Mutex::new(0));
        let of = Arc::clone(&mutex);
        spawn(move || std::mem::forget(of.lock())).join().unwrap();
        let of = Arc::clone(&mutex);
        let waiter = Builder::new().name("waiter").cancellable().spawn(move || of.lock().map(drop));
        settle().unwrap();
        // Others live where the owner did.
        let others: Vec<_> =
            (0..10).map(|_| Builder::new().cancellable().spawn(|| after(Duration::MAX).wait())).collect();
        settle().unwrap();
        let dump = segue::dump();
        assert_eq!(named(&dump, "waiter").owner.as_ref().unwrap().name, "a fiber that has ended", "{dump}");
        waiter.cancel();
        others.iter().for_each(|other| other.cancel());
    });
    assert_eq!(run, Ok(()));
}

#[test]
fn a_lock_that_is_free_again_has_no_owner_and_one_that_was_handed_over_names_nobody_else() {
    let _alone = crate::alone();
    let run = Sim::new(3).run(|| {
        let mutex = Mutex::new(0);
        scope(|s| {
            let guard = mutex.lock().unwrap();
            Builder::new().name("waiter").within(s).spawn(|| mutex.lock().map(drop));
            settle().unwrap();
            assert!(named(&segue::dump(), "waiter").owner.is_some());
            drop(guard);
            let dump = segue::dump();
            assert_eq!(named(&dump, "waiter").owner, None, "{dump}");
        });
    });
    assert_eq!(run, Ok(()));
}

#[cfg(not(feature = "threads"))]
#[test]
fn the_calls_are_those_of_the_program_and_equal_ones_stand_together() {
    let _alone = crate::alone();
    use crate::find;
    use segue::sched::Runtime;

    #[inline(never)]
    fn waits_in_here(of: &segue::sync::Promise<()>) {
        let _ = of.wait();
    }
    let pool = Runtime::new().workers(1).name("calls").pool().unwrap();
    let (resolver, promised) = promise::<()>();
    let promised = Arc::new(promised);
    let fibers: Vec<_> = (0..5)
        .map(|number| {
            let promised = Arc::clone(&promised);
            Builder::new().name(format!("alike-{number}")).on(&pool).spawn(move || waits_in_here(&promised))
        })
        .collect();
    let text = dump_until(|dump| {
        let waits = |number| find(dump, &format!("alike-{number}")).is_some_and(|it| it.state == FiberState::Waiting);
        (0..5).all(waits).then(|| dump.to_string())
    });
    assert!(text.contains("5 with these calls"), "{text}");
    assert!(text.contains("waits_in_here"), "{text}");
    let _ = resolver.fill(());
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
}

/// The rest behind one value of JSON.
fn value(text: &str) -> Result<&str, &str> {
    let text = text.trim_start();
    let (first, rest) = text.split_at_checked(1).ok_or(text)?;
    match first {
        "{" | "[" => {
            let end = if first == "{" { '}' } else { ']' };
            let mut rest = rest;
            if let Some(rest) = rest.strip_prefix(end) {
                return Ok(rest);
            }
            loop {
                if first == "{" {
                    rest = value(rest)?.strip_prefix(':').ok_or(rest)?;
                }
                rest = value(rest)?;
                match rest.chars().next() {
                    Some(',') => rest = &rest[1..],
                    Some(last) if last == end => return Ok(&rest[1..]),
                    _ => return Err(rest),
                }
            }
        }
        "\"" => {
            let mut escaped = false;
            for (at, byte) in rest.bytes().enumerate() {
                match byte {
                    b'"' if !escaped => return Ok(&rest[at + 1..]),
                    0..32 => return Err(&rest[at..]),
                    _ => escaped = byte == b'\\' && !escaped,
                }
            }
            Err(rest)
        }
        _ => {
            let end = text.find([',', '}', ']']).unwrap_or(text.len());
            let word = &text[..end];
            let is_fine = ["null", "true", "false"].contains(&word) || word.parse::<f64>().is_ok();
            if is_fine { Ok(&text[end..]) } else { Err(text) }
        }
    }
}

#[test]
fn the_json_is_json_and_names_of_any_characters_are_in_it() {
    let _alone = crate::alone();
    assert!(value("{\"a\":[1,,2]}").is_err() && value("[\"\u{1}\"]").is_err(), "the check checks");
    let run = Sim::new(1).run(|| {
        let name = "quo\"te \\ \u{7} \n tab\t 日本";
        let (mutex, guarded) = (Mutex::new(0), Mutex::new(0));
        scope(|s| {
            let _guard = guarded.lock().unwrap();
            Builder::new().name(name).within(s).spawn(|| mutex.lock().map(drop));
            Builder::new().name("second").within(s).spawn(|| guarded.lock().map(drop));
            settle().unwrap();
            let json = segue::dump().to_json();
            assert_eq!(value(&json), Ok(""), "{json}");
            assert!(json.contains("\"waits_for\":\"a mutex\"") && json.contains("\"stacks\":["), "{json}");
        });
    });
    assert_eq!(run, Ok(()));
}
