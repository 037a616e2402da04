//! Read-write locks: who is in together, who comes next, and that no lock is lost whoever leaves
//! when.

use crate::meet;

use meet::{block_on, everywhere, poll_once, pool, simulated, task};
use segue::sync::{RwLock, RwLockWriteGuard};
use segue::{CancelToken, scope, shield, timeout, yield_now};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

#[test]
fn readers_are_in_together_and_a_writer_alone() {
    let together = AtomicUsize::new(0);
    everywhere(|| {
        let (lock, readers) = (RwLock::new((0, 0)), AtomicUsize::new(0));
        scope(|s| {
            for n in 0..8 {
                let (lock, readers, together) = (&lock, &readers, &together);
                s.spawn(move || {
                    for round in 0..20 {
                        if (n + round) % 4 == 0 {
                            let mut guard = lock.write().unwrap();
                            assert_eq!(readers.load(SeqCst), 0);
                            guard.0 += 1;
                            let _ = yield_now();
                            guard.1 += 1;
                        } else {
                            let guard = lock.read().unwrap();
                            together.fetch_max(readers.fetch_add(1, SeqCst) + 1, SeqCst);
                            assert_eq!(guard.0, guard.1);
                            let _ = yield_now();
                            assert_eq!(guard.0, guard.1);
                            readers.fetch_sub(1, SeqCst);
                        }
                    }
                });
            }
        });
        assert_eq!(lock.into_inner(), (40, 40));
    });
    assert!(together.into_inner() > 1);
}

#[test]
fn it_has_the_shape_of_the_one_in_std() {
    static LOCK: RwLock<u32> = RwLock::new(1);
    let (one, two) = (LOCK.try_read().unwrap(), LOCK.read().unwrap());
    assert!(LOCK.try_write().is_none());
    assert_eq!(format!("{LOCK:?} {one:?} {}", *two), "RwLock { value: 1 } 1 1");
    drop((one, two));
    let mut writer = LOCK.try_write().unwrap();
    *writer = 2;
    assert!(LOCK.try_read().is_none() && LOCK.try_write().is_none());
    assert_eq!(format!("{LOCK:?} {writer:?}"), "RwLock { value: <locked> } 2");
    fn is_send<T: Send>(_: T) {}
    is_send(LOCK.write_source().into_future());
    is_send(LOCK.read_source().into_future());
    is_send(RwLockWriteGuard::downgrade(writer));
    assert_eq!(*block_on(LOCK.read_source()), 2);
    let mut lock = RwLock::from(vec![1]);
    lock.get_mut().push(2);
    let unsized_lock: &RwLock<[u8]> = &RwLock::new([1, 2]);
    assert_eq!(unsized_lock.read().unwrap().len(), lock.into_inner().len());
    assert_eq!(RwLock::<u8>::default().into_inner(), 0);
}

#[test]
fn a_waiting_writer_holds_off_readers_and_waiting_readers_enter_before_the_next_writer() {
    let lock = RwLock::new(());
    let reader = lock.read().unwrap();
    let mut writers = [(); 2].map(|()| task(lock.write_source()));
    assert!(writers.iter_mut().all(|writer| poll_once(writer).is_none()));
    let mut readers = [(); 2].map(|()| task(lock.read_source()));
    assert!(readers.iter_mut().all(|reader| poll_once(reader).is_none()), "a writer waits");
    assert!(lock.try_read().is_none());
    drop(reader);
    let [mut first, mut second] = writers;
    let guard = poll_once(&mut first).expect("the readers were held off");
    assert!(poll_once(&mut second).is_none() && readers.iter_mut().all(|reader| poll_once(reader).is_none()));
    drop(guard);
    assert!(poll_once(&mut second).is_none());
    let batch: Vec<_> = readers.iter_mut().map(|reader| poll_once(reader).expect("they enter together")).collect();
    assert!(lock.try_read().is_none(), "the second writer waits");
    drop(batch);
    assert!(poll_once(&mut second).is_some());
    assert!(lock.try_write().is_some());
}

#[test]
fn neither_side_starves() {
    everywhere(|| {
        let (lock, done) = (RwLock::new(()), [AtomicBool::new(false), AtomicBool::new(false)]);
        scope(|s| {
            for n in 0..6 {
                let (lock, done) = (&lock, &done);
                s.spawn(move || {
                    // Two each go on until the other side has had its turns.
                    for round in 0.. {
                        let write = n % 2 == 0;
                        if (n < 2 && round == 5) || (n >= 2 && done[usize::from(!write)].load(SeqCst)) {
                            if n < 2 {
                                done[usize::from(write)].store(true, SeqCst);
                            }
                            break;
                        }
                        if write {
                            let _guard = lock.write().unwrap();
                            let _ = yield_now();
                        } else {
                            let _guard = lock.read().unwrap();
                            let _ = yield_now();
                        }
                    }
                });
            }
        });
        assert!(lock.try_write().is_some());
    });
}

#[test]
fn a_downgraded_writer_reads_on_and_lets_waiting_readers_in() {
    let lock = RwLock::new(0);
    let mut guard = lock.write().unwrap();
    let (mut writer, mut reader) = (task(lock.write_source()), task(lock.read_source()));
    assert!(poll_once(&mut writer).is_none() && poll_once(&mut reader).is_none());
    *guard = 1;
    let guard = RwLockWriteGuard::downgrade(guard);
    let read = poll_once(&mut reader).expect("it enters with the one that was a writer");
    assert_eq!((*guard, *read), (1, 1));
    drop(read);
    assert!(poll_once(&mut writer).is_none());
    drop(guard);
    assert!(poll_once(&mut writer).is_some());
}

#[test]
fn a_writer_that_leaves_lets_in_the_readers_that_it_held_off() {
    let lock = RwLock::new(());
    let reader = lock.read().unwrap();
    let (mut writer, mut held_off) = (task(lock.write_source()), task(lock.read_source()));
    assert!(poll_once(&mut writer).is_none() && poll_once(&mut held_off).is_none());
    drop(writer);
    assert!(poll_once(&mut held_off).is_some());
    assert!(lock.try_read().is_some() && lock.try_write().is_none());
    drop(reader);
    everywhere(|| {
        let lock = RwLock::new(());
        let reader = lock.read().unwrap();
        let failed = timeout(Duration::from_millis(1), || lock.write().map(drop));
        assert!(failed.is_err_and(|cancelled| cancelled.timed_out()));
        assert!(lock.read().is_ok());
        drop(reader);
        let writer = lock.write().unwrap();
        let failed = timeout(Duration::from_millis(1), || lock.read().map(drop));
        assert!(failed.is_err_and(|cancelled| cancelled.timed_out()));
        drop(writer);
        assert!(lock.write().is_ok());
    });
}

#[test]
fn conservation_a_task_that_was_let_in_and_is_dropped_lets_in_the_next() {
    let lock = RwLock::new(());
    let guard = lock.write().unwrap();
    let mut readers = [(); 2].map(|()| task(lock.read_source()));
    let mut writers = [(); 2].map(|()| task(lock.write_source()));
    assert!(readers.iter_mut().all(|reader| poll_once(reader).is_none()));
    assert!(writers.iter_mut().all(|writer| poll_once(writer).is_none()));
    drop(guard);
    let [first, mut second] = readers;
    drop(first);
    let guard = poll_once(&mut second).expect("it was let in");
    let [mut first, mut last] = writers;
    assert!(poll_once(&mut first).is_none());
    drop(guard);
    drop(first);
    assert!(poll_once(&mut last).is_some());
    assert!(lock.try_write().is_some());
}

#[test]
fn conservation_whoever_is_cancelled_at_whichever_step() {
    let counts: [AtomicUsize; 4] = Default::default();
    simulated(400, |seed| {
        let lock = RwLock::new((0_u64, 0_u64));
        scope(|s| {
            for n in 0..6 {
                let (lock, counts) = (&lock, &counts);
                let token = CancelToken::new();
                let canceller = token.clone();
                s.spawn(move || {
                    token.run(|| {
                        for round in 0..4 {
                            let outcome = if (n + round + seed) % 3 == 0 {
                                lock.write().map(|mut guard| {
                                    guard.0 += 1;
                                    let _ = yield_now();
                                    guard.1 += 1;
                                    0
                                })
                            } else {
                                lock.read().map(|guard| {
                                    let _ = yield_now();
                                    assert_eq!(guard.0, guard.1);
                                    1
                                })
                            };
                            let outcome = outcome.unwrap_or(2 + usize::from((n + round + seed) % 3 == 0));
                            counts[outcome].fetch_add(1, SeqCst);
                        }
                    });
                });
                if n % 2 == 0 {
                    s.spawn(move || {
                        for _ in 0..(seed + n) % 11 {
                            let _ = yield_now();
                        }
                        canceller.cancel();
                    });
                }
            }
        });
        assert!(lock.try_write().is_some());
    });
    assert!(counts.iter().all(|count| count.load(SeqCst) > 100), "{counts:?}");
}

#[test]
fn conservation_on_threads_with_cancelled_fibers_and_dropped_tasks() {
    let lock = RwLock::new((0_usize, 0_usize));
    let counts: [AtomicUsize; 7] = Default::default();
    let count = |n: usize| counts[n].fetch_add(1, SeqCst);
    let write = |guard: &mut (usize, usize)| {
        guard.0 += 1;
        std::hint::spin_loop();
        guard.1 += 1;
    };
    std::thread::scope(|t| {
        for workers in [1, 2] {
            let (lock, count, write) = (&lock, &count, &write);
            t.spawn(move || {
                pool(workers).run(|| {
                    for round in 0..2000 {
                        scope(|s| {
                            let token = CancelToken::new();
                            let canceller = token.clone();
                            let waits = s.spawn(move || {
                                token.run(|| {
                                    let outcome = if round % 4 < 2 {
                                        lock.write().map(|mut guard| {
                                            write(&mut guard);
                                            0
                                        })
                                    } else {
                                        lock.read().map(|guard| {
                                            assert_eq!(guard.0, guard.1);
                                            1
                                        })
                                    };
                                    count(outcome.unwrap_or(2));
                                });
                            });
                            if round % 2 == 0 {
                                let _ = yield_now();
                            }
                            if round % 3 != 0 {
                                canceller.cancel();
                            }
                            shield(|| waits.join()).unwrap();
                        });
                    }
                })
            });
        }
        t.spawn(|| {
            for round in 0..4000 {
                let (mut reads, mut writes) = (task(lock.read_source()), task(lock.write_source()));
                for _ in 0..round % 5 {
                    if let Some(guard) = poll_once(&mut reads) {
                        assert_eq!(guard.0, guard.1);
                        count(3);
                        break;
                    }
                    std::thread::yield_now();
                }
                drop(reads);
                for _ in 0..round % 5 {
                    if let Some(mut guard) = poll_once(&mut writes) {
                        write(&mut guard);
                        count(4);
                        break;
                    }
                    std::thread::yield_now();
                }
            }
        });
        t.spawn(|| {
            for round in 0..4000 {
                let mut guard = block_on(lock.write_source());
                write(&mut guard);
                count(5);
                if round % 2 == 0 {
                    let guard = RwLockWriteGuard::downgrade(guard);
                    assert_eq!(guard.0, guard.1);
                } else {
                    drop(guard);
                }
                let guard = block_on(lock.read_source());
                assert_eq!(guard.0, guard.1);
                count(6);
            }
        });
    });
    let counts = counts.map(AtomicUsize::into_inner);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    let writes = counts[0] + counts[4] + counts[5];
    assert_eq!(lock.into_inner(), (writes, writes));
}
