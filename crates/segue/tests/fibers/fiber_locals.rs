//! Fiber-local values: one for each fiber, thread and task, from its first use to its end.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{AtDrop, everywhere, pool};
use segue::core::scheduling::{Job, Spawn};
use segue::effect::{Effect, Handler, perform};
use segue::fiber::AccessError;
use segue::{Builder, Pool, Scope, after, fiber_local, scope, sleep, spawn, spawn_task, yield_now};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

fiber_local! {
    static COUNT: Cell<u32> = Cell::new(0);
    /// What a child begins with.
    static REQUEST: RefCell<String> = RefCell::new("none".to_owned()), inherited;
}

#[test]
fn each_fiber_has_its_own_and_it_is_there_after_a_wait() {
    everywhere(|| {
        let before = COUNT.get();
        COUNT.set(before + 1);
        let counts: Vec<u32> = scope(|s| {
            let fibers: Vec<_> = (0..10)
                .map(|n| {
                    s.spawn(move || {
                        assert_eq!(COUNT.get(), 0, "it is new");
                        for _ in 0..n {
                            COUNT.set(COUNT.get() + 1);
                            yield_now().unwrap();
                        }
                        COUNT.get()
                    })
                })
                .collect();
            fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect()
        });
        assert_eq!(counts, (0..10).collect::<Vec<_>>());
        assert_eq!(COUNT.get(), before + 1);
    });
}

#[test]
fn a_child_inherits_a_clone_of_what_is_declared_so_at_its_spawn() {
    everywhere(|| {
        REQUEST.with_borrow_mut(|request| *request = "no. 7".to_owned());
        let read = || REQUEST.with_borrow(String::clone);
        scope(|s| {
            let child = s.spawn(move || {
                let first = read();
                REQUEST.with_borrow_mut(|request| request.push_str(", changed"));
                (first, s.spawn(read).join().unwrap())
            });
            let local = s.spawn_local(read);
            let daemon = s.spawn_daemon(read);
            let task = s.spawn_task(async move { read() });
            let detached = spawn(read);
            REQUEST.with_borrow_mut(|request| *request = "later".to_owned());
            assert_eq!(child.join().unwrap(), ("no. 7".to_owned(), "no. 7, changed".to_owned()));
            for fiber in [local, daemon, task, detached] {
                assert_eq!(fiber.join().unwrap(), "no. 7");
            }
        });
        assert_eq!(read(), "later");
    });
}

/// Says when it is dropped.
struct Tells(&'static str, Arc<Mutex<Vec<&'static str>>>);

impl Drop for Tells {
    fn drop(&mut self) {
        // It may wait.
        let waited = sleep(Duration::from_micros(1)).is_ok();
        self.1.lock().unwrap().push(if waited { self.0 } else { "refused" });
    }
}

fiber_local! {
    static FIRST: RefCell<Option<Tells>> = RefCell::new(None);
    static SECOND: RefCell<Option<Tells>> = RefCell::new(None);
}

#[test]
fn they_are_dropped_on_the_fiber_before_its_scope_ends_the_newest_first() {
    everywhere(|| {
        let log = Arc::new(Mutex::new(Vec::new()));
        let fill = || {
            FIRST.with_borrow_mut(|first| *first = Some(Tells("first", Arc::clone(&log))));
            SECOND.with_borrow_mut(|second| *second = Some(Tells("second", Arc::clone(&log))));
        };
        scope(|s| drop(s.spawn(fill)));
        assert_eq!(*log.lock().unwrap(), ["second", "first"]);
        log.lock().unwrap().clear();
        // Also if the fiber panics, and of a task that ends, or is dropped where it waits.
        let caught = catch_unwind(AssertUnwindSafe(|| {
            scope(|s| {
                drop(s.spawn(|| {
                    fill();
                    resume_unwind(Box::new(()))
                }));
            });
        }));
        assert!(caught.is_err());
        assert_eq!(*log.lock().unwrap(), ["refused"; 2], "the panic has cancelled the scope");
        log.lock().unwrap().clear();
        scope(|s| drop(s.spawn_task(async { fill() })));
        assert_eq!(*log.lock().unwrap(), ["second", "first"]);
        log.lock().unwrap().clear();
        scope(|s| {
            let task = s.spawn_task(async {
                fill();
                after(Duration::MAX).await;
            });
            while !SECOND.with_borrow(Option::is_some) && log.lock().unwrap().is_empty() && !task.is_finished() {
                yield_now().unwrap();
                if Arc::strong_count(&log) == 3 {
                    break;
                }
            }
            s.cancel();
        });
        assert_eq!(log.lock().unwrap().len(), 2);
    });
}

#[test]
fn a_task_keeps_its_values_from_poll_to_poll_wherever_it_is_polled() {
    everywhere(|| {
        let tasks: Vec<_> = (0..20)
            .map(|n| {
                spawn_task(async move {
                    assert_eq!(COUNT.get(), 0);
                    COUNT.set(n);
                    for _ in 0..5 {
                        after(Duration::from_micros(10)).await;
                        COUNT.set(COUNT.get() + 1);
                    }
                    COUNT.get()
                })
            })
            .collect();
        for (n, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.join().unwrap(), n as u32 + 5);
        }
    });
}

/// Reads others when it is dropped.
struct Nosy(Arc<Mutex<Vec<Result<u32, AccessError>>>>);

impl Drop for Nosy {
    fn drop(&mut self) {
        let read = [OLDER.try_with(Cell::get), NEWER.try_with(Cell::get), UNUSED.try_with(Cell::get)];
        self.0.lock().unwrap().extend(read);
    }
}

fiber_local! {
    static OLDER: Cell<u32> = Cell::new(1);
    static NOSY: RefCell<Option<Nosy>> = RefCell::new(None);
    static NEWER: Cell<u32> = Cell::new(2);
    static UNUSED: Cell<u32> = Cell::new(3);
}

#[test]
fn read_in_another_one_s_destructor_it_is_there_or_an_error() {
    everywhere(|| {
        let log = Arc::new(Mutex::new(Vec::new()));
        scope(|s| {
            drop(s.spawn(|| {
                OLDER.set(10);
                NOSY.with_borrow_mut(|nosy| *nosy = Some(Nosy(Arc::clone(&log))));
                NEWER.set(20);
            }));
        });
        assert_eq!(*log.lock().unwrap(), [Ok(10), Err(AccessError), Err(AccessError)]);
    });
    // A plain thread's, which end with the thread.
    let log = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&log);
    std::thread::spawn(move || {
        OLDER.set(10);
        NOSY.with_borrow_mut(|nosy| *nosy = Some(Nosy(own)));
        NEWER.set(20);
    })
    .join()
    .unwrap();
    assert_eq!(*log.lock().unwrap(), [Ok(10), Err(AccessError), Err(AccessError)]);
}

#[test]
fn what_a_fiber_leaves_does_not_see_its_values_when_it_is_dropped() {
    struct Late(Arc<Mutex<Vec<Result<u32, AccessError>>>>);
    impl Drop for Late {
        fn drop(&mut self) {
            self.0.lock().unwrap().push(COUNT.try_with(Cell::get));
        }
    }
    everywhere(|| {
        let log = Arc::new(Mutex::new(Vec::new()));
        scope(|s| {
            let log = &log;
            let (gone, is_gone) = segue::sync::promise();
            drop(s.spawn(move || {
                COUNT.set(1);
                is_gone.wait().unwrap();
                Late(Arc::clone(log))
            }));
            gone.fill(()).unwrap();
        });
        assert_eq!(*log.lock().unwrap(), [Err(AccessError)]);
    });
}

struct Sour(&'static str);

impl Drop for Sour {
    fn drop(&mut self) {
        resume_unwind(Box::new(self.0));
    }
}

/// Its heir is sour.
struct Bequeaths(Option<&'static str>, #[allow(dead_code, reason = "it is dropped")] Option<Sour>);

impl Clone for Bequeaths {
    fn clone(&self) -> Self {
        Self(None, self.0.map(Sour))
    }
}

fiber_local! {
    static SOUR: RefCell<Option<Sour>> = RefCell::new(None);
    static SOUR_TOO: RefCell<Option<Sour>> = RefCell::new(None);
    static ESTATE: RefCell<Bequeaths> = RefCell::new(Bequeaths(None, None)), inherited;
}

fn leave_sour_ones() {
    SOUR.with_borrow_mut(|sour| *sour = Some(Sour("older")));
    SOUR_TOO.with_borrow_mut(|sour| *sour = Some(Sour("newer")));
}

/// The text that the scope raises.
fn raised<'env>(body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>)) -> String {
    let raised = catch_unwind(AssertUnwindSafe(|| scope(body))).expect_err("two drops panic");
    *raised.downcast().expect("of two texts")
}

#[test]
fn all_drops_that_panic_are_the_scope_s_and_keep_no_other_value() {
    everywhere(|| {
        let log = Arc::new(Mutex::new(Vec::new()));
        let of_fiber = raised(|s| {
            let fiber = s.spawn(|| {
                FIRST.with_borrow_mut(|first| *first = Some(Tells("first", Arc::clone(&log))));
                leave_sour_ones();
                7
            });
            assert_eq!(fiber.join().unwrap(), 7, "its result is there");
        });
        assert_eq!(log.lock().unwrap().len(), 1);
        let of_task = raised(|s| {
            let polls = async {
                leave_sour_ones();
                after(Duration::from_micros(1)).await;
                7
            };
            assert_eq!(s.spawn_task(polls).join().unwrap(), 7);
        });
        let of_local = raised(|s| assert_eq!(s.spawn_local(leave_sour_ones).join().unwrap(), ()));
        let of_daemon = raised(|s| assert_eq!(s.spawn_daemon(leave_sour_ones).join().unwrap(), ()));
        for text in [of_fiber, of_task, of_local, of_daemon] {
            assert_eq!(text, "newer; then the drop of what a fiber has left panicked: older");
        }
    });
}

/// A scheduler that is over.
struct Over;

impl Spawn for Over {
    fn spawn(&self, job: Job) {
        drop(job);
    }

    fn share(&self) -> Arc<dyn Spawn + Send + Sync> {
        Arc::new(Self)
    }
}

#[test]
fn a_drop_that_panics_of_what_a_fiber_was_to_inherit_is_the_scope_s() {
    everywhere(|| {
        let text = raised(|s| {
            for heir in ["one", "two"] {
                ESTATE.with_borrow_mut(|estate| estate.0 = Some(heir));
                assert!(Builder::new().within(s).on(&Over).spawn(|| ()).join().unwrap_err().is_cancelled());
            }
            ESTATE.with_borrow_mut(|estate| estate.0 = None);
        });
        assert_eq!(text, "one; then the drop of what a fiber has left panicked: two");
    });
}

#[test]
fn an_initial_value_may_use_others_wait_and_panic() {
    fiber_local! {
        static SUM: Cell<u32> = {
            yield_now().unwrap();
            Cell::new(COUNT.get() + 1)
        };
        static FAILS: Cell<u32> = if COUNT.get() == 0 { resume_unwind(Box::new(())) } else { Cell::new(5) };
    }
    everywhere(|| {
        scope(|s| {
            let read = s.spawn(|| {
                assert!(catch_unwind(|| FAILS.get()).is_err());
                COUNT.set(3);
                SUM.get() + FAILS.get()
            });
            assert_eq!(read.join().unwrap(), 9);
        });
    });
}

#[test]
fn nothing_is_captured_across_the_loan_of_a_value() {
    struct Ask;
    impl Effect for Ask {
        type Output = u32;
    }
    let captured = Handler::new().on(|Ask, _| None).value(Some);
    let refused = captured.handle(|| catch_unwind(|| COUNT.with(|_| perform(Ask))).is_err());
    assert_eq!(refused, Some(true));
}

#[test]
fn a_job_that_runs_in_its_spawner_s_place_has_values_of_its_own() {
    everywhere(|| {
        let seen = AtomicUsize::new(usize::MAX);
        COUNT.set(9);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _late = AtDrop(|| {
                scope(|s| {
                    drop(s.spawn(|| {
                        seen.store(COUNT.get() as usize, SeqCst);
                        COUNT.set(1);
                    }));
                });
            });
            resume_unwind(Box::new(()))
        }));
        assert!(caught.is_err());
        assert_eq!((seen.into_inner(), COUNT.get()), (0, 9));
    });
}

/// Its first clone spawns on the same scheduler: a clone is foreign code.
struct Breeds;

static POOL: OnceLock<Pool> = OnceLock::new();
static BRED: AtomicBool = AtomicBool::new(false);

impl Clone for Breeds {
    fn clone(&self) -> Self {
        // The inner fiber inherits as well.
        if !BRED.swap(true, SeqCst) {
            drop(Builder::new().on(&POOL.get().unwrap().handle()).spawn(|| ()));
        }
        Self
    }
}

fiber_local! {
    static BREEDS: RefCell<Option<Breeds>> = RefCell::new(None), inherited;
}

#[test]
fn a_clone_for_an_heir_may_spawn_where_the_heir_is_going_to_run() {
    let pool = POOL.get_or_init(|| pool(1));
    BREEDS.with_borrow_mut(|breeds| *breeds = Some(Breeds));
    let heir = Builder::new().on(pool).spawn(|| BREEDS.with_borrow(Option::is_some));
    BREEDS.with_borrow_mut(|breeds| *breeds = None);
    assert!(heir.join().unwrap() && BRED.load(SeqCst));
}
