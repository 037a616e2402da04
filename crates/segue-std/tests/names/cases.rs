// What std's names do, written once: `like` is `std`, or ours. Each case runs on both.

use like::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use like::sync::mpsc::{self, RecvTimeoutError, TryRecvError, TrySendError, sync_channel};
use like::sync::{Arc, Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, TryLockError};
use like::sync::{RwLock, RwLockWriteGuard};
use like::thread;
use like::time::{Duration, Instant};
use std::panic::{AssertUnwindSafe, catch_unwind};

const SOON: Duration = Duration::from_millis(2);

fn message(payload: Box<dyn std::any::Any + Send>) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).expect("it has a text")
}

fn panics<T>(f: impl FnOnce() -> T) -> String {
    catch_unwind(AssertUnwindSafe(f)).err().map(message).expect("it panics")
}

pub fn a_mutex_lets_one_in_at_a_time() {
    let counted = Arc::new(Mutex::new(0));
    let all: Vec<_> = (0..8)
        .map(|_| {
            let counted = Arc::clone(&counted);
            thread::spawn(move || {
                for _ in 0..20 {
                    let mut guard = counted.lock().unwrap();
                    let before = *guard;
                    thread::yield_now();
                    *guard = before + 1;
                }
            })
        })
        .collect();
    all.into_iter().for_each(|one| one.join().unwrap());
    assert_eq!(*counted.lock().unwrap(), 160);
    let held = counted.lock().unwrap();
    assert!(matches!(counted.try_lock(), Err(TryLockError::WouldBlock)));
    drop(held);
    assert_eq!(Arc::into_inner(counted).unwrap().into_inner().unwrap(), 160);
}

pub fn a_lock_is_poisoned_by_an_owner_that_panics() {
    let mut mutex = Mutex::new(1);
    let _ = panics(|| {
        let mut guard = mutex.lock().unwrap();
        *guard = 2;
        std::panic::panic_any("half way");
    });
    assert!(mutex.is_poisoned());
    assert_eq!(*mutex.lock().unwrap_err().into_inner(), 2);
    assert!(matches!(mutex.try_lock(), Err(TryLockError::Poisoned(guard)) if **guard.get_ref() == 2));
    assert_eq!(*mutex.get_mut().unwrap_err().into_inner(), 2);
    mutex.clear_poison();
    assert_eq!(mutex.into_inner().unwrap(), 2);

    let lock = RwLock::new(1);
    let _ = panics(|| {
        let _guard = lock.read().unwrap();
        std::panic::panic_any("a reader changes nothing");
    });
    assert!(!lock.is_poisoned());
    let _ = panics(|| {
        let _guard = lock.write().unwrap();
        std::panic::panic_any("a writer does");
    });
    assert!(lock.is_poisoned() && lock.read().is_err() && lock.write().is_err());
    assert!(lock.into_inner().is_err());
}

pub fn a_lock_that_was_locked_during_a_panic_is_not_poisoned_by_it() {
    struct Locks<'a>(&'a Mutex<u32>);
    impl Drop for Locks<'_> {
        fn drop(&mut self) {
            *self.0.lock().unwrap() += 1;
        }
    }
    let mutex = Mutex::new(0);
    let _ = panics(|| {
        let _locks = Locks(&mutex);
        std::panic::panic_any("elsewhere");
    });
    assert_eq!(*mutex.lock().unwrap(), 1);
}

pub fn readers_share_and_writers_do_not() {
    let lock = RwLock::new(vec![1]);
    let (one, other) = (lock.read().unwrap(), lock.try_read().unwrap());
    assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
    drop((one, other));
    thread::scope(|s| {
        for n in 0..4 {
            let lock = &lock;
            s.spawn(move || lock.write().unwrap().push(n));
        }
    });
    assert_eq!(lock.read().unwrap().len(), 5);
}

pub fn a_condition_hands_over() {
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let others = Arc::clone(&shared);
    let other = thread::spawn(move || {
        let (turn, changed) = &*others;
        for n in (1..20).step_by(2) {
            let mut turn = changed.wait_while(turn.lock().unwrap(), |turn| *turn != n).unwrap();
            *turn += 1;
            changed.notify_all();
        }
    });
    let (turn, changed) = &*shared;
    for n in (0..20).step_by(2) {
        let mut turn = turn.lock().unwrap();
        while *turn != n {
            turn = changed.wait(turn).unwrap();
        }
        *turn += 1;
        changed.notify_all();
    }
    other.join().unwrap();
    assert_eq!(*turn.lock().unwrap(), 20);
}

pub fn a_condition_waits_no_longer_than_it_is_told() {
    let (mutex, never) = (Mutex::new(7), Condvar::new());
    let begun = Instant::now();
    let (guard, result) = never.wait_timeout_while(mutex.lock().unwrap(), SOON, |_| true).unwrap();
    assert!(result.timed_out() && *guard == 7 && begun.elapsed() >= SOON);
    let (guard, result) = never.wait_timeout_while(guard, SOON, |n| *n != 7).unwrap();
    assert!(!result.timed_out());
    drop(guard);
    assert!(mutex.try_lock().is_ok(), "it was left locked");
    thread::scope(|s| {
        let guard = mutex.lock().unwrap();
        s.spawn(|| {
            *mutex.lock().unwrap() = 8;
            never.notify_one();
        });
        let (guard, result) = never.wait_timeout_while(guard, Duration::from_secs(3600), |n| *n == 7).unwrap();
        assert!(!result.timed_out() && *guard == 8);
    });
}

pub fn one_of_each_round_leads() {
    let (barrier, leaders) = (Barrier::new(3), AtomicUsize::new(0));
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                for _ in 0..5 {
                    leaders.fetch_add(barrier.wait().is_leader().into(), SeqCst);
                }
            });
        }
    });
    assert_eq!(leaders.into_inner(), 5);
}

pub fn what_is_done_once_is_waited_for() {
    let (once, runs) = (Once::new(), AtomicUsize::new(0));
    thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                once.call_once(|| {
                    // The others come meanwhile, or later: both are right.
                    thread::sleep(SOON);
                    runs.fetch_add(1, SeqCst);
                });
                assert!(once.is_completed() && runs.load(SeqCst) == 1);
            });
        }
    });
    let failing = Once::new();
    assert_eq!(panics(|| failing.call_once(|| std::panic::panic_any("at first"))), "at first");
    panics(|| failing.call_once(|| unreachable!("it is poisoned")));
    assert!(!failing.is_completed());

    let cell = OnceLock::new();
    assert_eq!(cell.get(), None);
    assert_eq!(panics(|| cell.get_or_init(|| std::panic::panic_any("no value"))), "no value");
    assert_eq!(*cell.get_or_init(|| 1), 1, "it is not poisoned");
    assert_eq!(cell.set(2), Err(2));
    assert_eq!(cell.clone().into_inner(), Some(1));
    assert_eq!(OnceLock::from(1), cell);

    let lazy = LazyLock::new(|| vec![1, 2]);
    assert_eq!((lazy.len(), LazyLock::force(&lazy)[1]), (2, 2));
    let broken: LazyLock<u32> = LazyLock::new(|| std::panic::panic_any("broken"));
    assert_eq!(panics(|| *broken), "broken");
    panics(|| *broken);
}

pub fn who_only_waits_is_told_of_the_end() {
    let (once, cell) = (Once::new(), OnceLock::new());
    thread::scope(|s| {
        s.spawn(|| {
            once.wait();
            assert!(once.is_completed());
        });
        s.spawn(|| once.wait_force());
        s.spawn(|| assert_eq!(*cell.wait(), 7));
        thread::yield_now();
        once.call_once_force(|state| assert!(!state.is_poisoned()));
        assert_eq!(panics(|| cell.get_or_init(|| std::panic::panic_any("no value"))), "no value");
        cell.set(7).unwrap();
    });
    once.wait();
    once.call_once_force(|_| unreachable!("it is done"));
    assert_eq!(*cell.wait(), 7);
}

pub fn who_waits_for_a_closure_that_panics_does_as_well() {
    let once = Once::new();
    thread::scope(|s| {
        let waits = s.spawn(|| panics(|| once.wait()));
        let insists = s.spawn(|| once.wait_force());
        let fails = || {
            // The others come meanwhile, or later: both are right.
            thread::sleep(SOON);
            std::panic::panic_any("out of ink");
        };
        assert_eq!(panics(|| once.call_once(fails)), "out of ink");
        waits.join().unwrap();
        panics(|| once.wait());
        panics(|| once.call_once(|| unreachable!("it is poisoned")));
        assert!(!once.is_completed());
        // It is poisoned still, until one is done.
        let again = panics(|| {
            once.call_once_force(|state| {
                assert!(state.is_poisoned());
                std::panic::panic_any("out of paper");
            });
        });
        assert_eq!(again, "out of paper");
        once.call_once_force(|state| assert!(state.is_poisoned()));
        insists.join().unwrap();
    });
    once.wait();
    once.call_once(|| unreachable!("it is done"));
}

pub fn a_lazy_value_is_looked_at_and_changed() {
    let mut lazy = LazyLock::new(|| vec![1]);
    assert!(LazyLock::get(&lazy).is_none() && LazyLock::get_mut(&mut lazy).is_none());
    LazyLock::force_mut(&mut lazy).push(2);
    lazy.push(3);
    LazyLock::get_mut(&mut lazy).unwrap().push(4);
    assert_eq!(LazyLock::get(&lazy).unwrap(), &[1, 2, 3, 4]);
    let mut broken: LazyLock<u32> = LazyLock::new(|| std::panic::panic_any("broken"));
    assert_eq!(panics(|| *LazyLock::force_mut(&mut broken)), "broken");
    panics(|| *broken += 1);
    assert!(LazyLock::get(&broken).is_none() && LazyLock::get_mut(&mut broken).is_none());
}

pub fn a_writer_goes_on_as_a_reader() {
    let lock = RwLock::new(1);
    thread::scope(|s| {
        let mut writer = lock.write().unwrap();
        let other = s.spawn(|| *lock.write().unwrap() += 10);
        *writer = 2;
        thread::yield_now();
        let reader = RwLockWriteGuard::downgrade(writer);
        assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
        assert_eq!(*reader, 2, "a writer came in between");
        drop(reader);
        other.join().unwrap();
    });
    assert_eq!(*lock.read().unwrap(), 12);
    let _ = panics(|| {
        let _reader = RwLockWriteGuard::downgrade(lock.write().unwrap());
        std::panic::panic_any("a reader changes nothing");
    });
    assert!(!lock.is_poisoned() && lock.try_write().is_ok());
}

pub fn a_channel_ends_with_its_senders_and_its_receiver() {
    let (send, receive) = mpsc::channel();
    assert_eq!(receive.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(receive.recv_timeout(SOON), Err(RecvTimeoutError::Timeout));
    for n in 0..4 {
        let send = send.clone();
        thread::spawn(move || send.send(n).unwrap());
    }
    drop(send);
    let mut all: Vec<i32> = receive.iter().collect();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3]);
    assert!(receive.recv().is_err());
    assert_eq!(receive.recv_timeout(SOON), Err(RecvTimeoutError::Disconnected));
    assert_eq!(receive.try_recv(), Err(TryRecvError::Disconnected));

    let (send, receive) = mpsc::channel();
    send.send(1).unwrap();
    send.send(2).unwrap();
    assert_eq!(receive.recv_timeout(Duration::ZERO), Ok(1));
    assert_eq!(receive.try_iter().collect::<Vec<_>>(), [2]);
    drop(receive);
    assert_eq!(send.send(3).unwrap_err().0, 3);
}

pub fn a_bounded_channel_waits_for_room() {
    let (send, receive) = sync_channel(1);
    send.try_send(1).unwrap();
    assert_eq!(send.try_send(2), Err(TrySendError::Full(2)));
    let sender = thread::spawn(move || send.send(2).unwrap());
    assert_eq!((receive.recv(), receive.recv()), (Ok(1), Ok(2)));
    sender.join().unwrap();

    let (send, receive) = sync_channel(0);
    assert_eq!(send.try_send(1), Err(TrySendError::Full(1)));
    let sender = thread::spawn(move || (0..3).for_each(|n| send.send(n).unwrap()));
    assert_eq!(receive.into_iter().collect::<Vec<i32>>(), [0, 1, 2]);
    sender.join().unwrap();
    let (send, receive) = sync_channel(1);
    drop(receive);
    assert_eq!(send.try_send(1), Err(TrySendError::Disconnected(1)));
    assert_eq!(send.send(2).unwrap_err().0, 2);
}

pub fn a_join_has_the_result_or_the_panic() {
    assert_eq!(thread::spawn(|| 6 * 7).join().unwrap(), 42);
    let failed = thread::spawn(|| std::panic::panic_any("out of ink")).join();
    assert_eq!(message(failed.unwrap_err()), "out of ink");
    let builder = thread::Builder::new().name("courier".to_owned()).stack_size(256 << 10);
    let handle = builder.spawn(|| (thread::current().id(), thread::current().name().map(str::to_owned))).unwrap();
    let (id, name) = (handle.thread().id(), handle.thread().name().map(str::to_owned));
    let inside = handle.join().unwrap();
    assert_eq!(inside, (id, name));
    assert_eq!(inside.1.unwrap(), "courier");
    assert_ne!(id, thread::current().id());
    assert_eq!(thread::current().id(), thread::current().id());
}

pub fn a_scope_waits_and_lends() {
    let (mut words, mut total) = (vec!["straight", "line"], 0);
    thread::scope(|s| {
        let total = &mut total;
        let words = &words;
        s.spawn(move || {
            let lengths: Vec<_> = words.iter().map(|word| s.spawn(move || word.len())).collect();
            *total = lengths.into_iter().map(|length| length.join().unwrap()).sum();
        });
    });
    words.push("code");
    assert_eq!(total, 12);
}

pub fn a_scope_tells_of_a_panic_that_nobody_has_joined() {
    let others = AtomicUsize::new(0);
    let told = panics(|| {
        thread::scope(|s| {
            s.spawn(|| std::panic::panic_any("unseen"));
            s.spawn(|| {
                // It ends after the panic, mostly; both orders are right.
                thread::sleep(SOON);
                others.fetch_add(1, SeqCst);
            });
        });
    });
    assert!(told.starts_with("a scoped "), "{told}");
    assert_eq!(others.load(SeqCst), 1, "one that panics does not stop the others");
    let seen = thread::scope(|s| message(s.spawn(|| std::panic::panic_any("seen")).join().unwrap_err()));
    assert_eq!(seen, "seen");
    let body = panics(|| {
        thread::scope(|s| {
            s.spawn(|| {
                // It ends after the panic, mostly; both orders are right.
                thread::sleep(SOON);
                others.fetch_add(1, SeqCst);
            });
            std::panic::panic_any("the body");
        })
    });
    assert_eq!((body.as_str(), others.load(SeqCst)), ("the body", 2));
}

pub fn a_token_is_taken_by_one_park() {
    let begun = Instant::now();
    thread::current().unpark();
    thread::current().unpark();
    thread::park();
    thread::park_timeout(SOON);
    assert!(begun.elapsed() >= SOON, "there were two tokens");
    let flag = Arc::new(AtomicUsize::new(0));
    let sets = Arc::clone(&flag);
    let parked = thread::spawn(move || {
        while sets.load(SeqCst) == 0 {
            thread::park();
        }
    });
    flag.store(1, SeqCst);
    parked.thread().unpark();
    parked.join().unwrap();
    // The handle may be gone before the park.
    let own = thread::current();
    thread::spawn(move || own.unpark()).join().unwrap();
    thread::park();
}
