//! The structures: against sequential models, between fibers, threads and tasks, and their waits.

use segue::testing::Sim;
use segue_stm::{Stop, TChan, TMVar, TMap, TQueue, TSet, TVar, Tx, atomically, transaction};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// How many random operations each model sees.
const STEPS: usize = if cfg!(miri) { 300 } else { 20_000 };

/// Runs a body, and sometimes gives the transaction up: then none of its operations happened.
/// Answers the result, and whether it counts.
fn maybe<R>(random: &mut fastrand::Rng, body: impl for<'t> Fn(&Tx<'t>) -> Result<R, Stop>) -> (R, bool) {
    let counts = random.u8(..5) != 0;
    let outcome = atomically(|tx| tx.catch(|tx| body(tx).map(|result| if counts { Ok(result) } else { Err(result) })));
    match outcome.expect("nobody cancels") {
        Ok(result) | Err(result) => (result, counts),
    }
}

#[test]
fn a_place_is_a_model_of_an_option() {
    let mut random = fastrand::Rng::with_seed(1);
    let (place, mut model) = (TMVar::empty(), None);
    for n in 0..STEPS {
        let before = model;
        let ((), counts) = match random.u8(..5) {
            0 => {
                let (taken, counts) = maybe(&mut random, |tx| Ok(place.try_take(tx)?.copied()));
                assert_eq!(taken, model.take());
                ((), counts)
            }
            1 => {
                let (put, counts) = maybe(&mut random, |tx| place.try_put(tx, n));
                assert_eq!(put, if model.is_none() { Ok(()) } else { Err(n) });
                model = model.or(Some(n));
                ((), counts)
            }
            2 if model.is_some() => {
                let (replaced, counts) = maybe(&mut random, |tx| place.replace(tx, n).copied());
                assert_eq!(Some(replaced), model.replace(n));
                ((), counts)
            }
            3 if model.is_some() => {
                let (read, counts) = maybe(&mut random, |tx| place.read(tx).copied());
                assert_eq!(Some(read), model);
                ((), counts)
            }
            _ => {
                let (is_empty, counts) = maybe(&mut random, |tx| place.is_empty(tx));
                assert_eq!(is_empty, model.is_none());
                ((), counts)
            }
        };
        if !counts {
            model = before;
        }
    }
}

/// Several operations in one transaction, each compared with the model's.
fn queue_against_model(seed: u64, capacity: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let queue = TQueue::bounded(capacity);
    let mut model = VecDeque::new();
    for n in 0..STEPS {
        let (reads, writes) = (random.usize(..4), random.usize(..4));
        let before = model.clone();
        let ((read, written, peeked, len, is_empty), counts) = maybe(&mut random, |tx| {
            let mut read = Vec::new();
            for _ in 0..reads {
                read.push(queue.try_read(tx)?.copied());
            }
            let mut written = Vec::new();
            for _ in 0..writes {
                written.push(queue.try_write(tx, n)?.is_ok());
            }
            let is_empty = queue.is_empty(tx)?;
            Ok((read, written, queue.peek(tx)?.copied(), queue.len(tx)?, is_empty))
        });
        let expected: Vec<_> = (0..reads).map(|_| model.pop_front()).collect();
        assert_eq!(read, expected);
        let room = capacity - model.len();
        assert_eq!(written, (0..writes).map(|at| at < room).collect::<Vec<_>>());
        model.extend((0..writes.min(room)).map(|_| n));
        assert_eq!((peeked, len), (model.front().copied(), model.len()));
        assert_eq!(is_empty, model.is_empty());
        if !counts {
            model = before;
        }
    }
}

/// The items lie at the writers' end, and a writer comes between: only a read-only body goes on.
#[test]
fn a_peek_writes_nothing_and_so_does_not_begin_again() {
    let (queue, attempts) = (TQueue::bounded(8), Cell::new(0));
    let write = |n| atomically(|tx| queue.write(tx, n)).unwrap();
    (0..3).for_each(write);
    let peeked = atomically(|tx| {
        attempts.set(attempts.get() + 1);
        let oldest = queue.peek(tx)?.copied();
        std::thread::scope(|s| _ = s.spawn(|| write(3)));
        Ok((oldest, queue.len(tx)?, queue.peek(tx)?.copied()))
    });
    assert_eq!((peeked, attempts.get()), (Ok((Some(0), 3, Some(0))), 1));
}

#[test]
fn a_bounded_queue_is_a_model_of_a_bounded_deque() {
    for capacity in [1, 2, 7, usize::MAX] {
        queue_against_model(capacity as u64, capacity);
    }
}

#[test]
fn ends_of_a_channel_are_models_of_a_list_with_cursors() {
    let mut random = fastrand::Rng::with_seed(3);
    let first = TChan::new();
    let mut written = Vec::new();
    let mut ends = vec![(first.clone(), 0)];
    for n in 0..STEPS {
        match random.u8(..4) {
            0 => {
                let ((), counts) = maybe(&mut random, |tx| first.write(tx, n));
                written.extend(counts.then_some(n));
            }
            1 if ends.len() < 10 => {
                // An end that was made in a transaction that is undone reads all the same.
                let (end, _) = maybe(&mut random, |tx| first.dup(tx));
                ends.push((end, written.len()));
            }
            1 => drop(ends.swap_remove(random.usize(1..ends.len()))),
            _ => {
                let at = random.usize(..ends.len());
                let (end, passed) = &mut ends[at];
                let next = written.get(*passed).copied();
                let peeked = atomically(|tx| Ok(end.peek(tx)?.copied()));
                assert_eq!(peeked, Ok(next));
                let (read, counts) = maybe(&mut random, |tx| Ok(end.try_read(tx)?.copied()));
                assert_eq!(read, next);
                *passed += usize::from(counts && read.is_some());
            }
        }
    }
}

/// Hashes of few values: leaves fill up, and some never split.
#[derive(Default)]
struct Poor(u64);

impl Hasher for Poor {
    fn finish(&self) -> u64 {
        self.0 % 7 * 0x1111_1111_1111_1111
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 += bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    }
}

fn map_against_model<S: std::hash::BuildHasher + Default>(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (map, set) = (TMap::<u16, usize, S>::default(), TSet::<u16, S>::default());
    let mut model = BTreeMap::new();
    for n in 0..STEPS {
        let key = random.u16(..300);
        let before = model.clone();
        let counts = match random.u8(..10) {
            0..4 => {
                let (old, counts) = maybe(&mut random, |tx| {
                    let is_new = set.insert(tx, key)?;
                    let old = map.insert(tx, key, n)?.copied();
                    assert_eq!(is_new, old.is_none());
                    assert!(!set.insert(tx, key)?);
                    Ok(old)
                });
                assert_eq!(old, model.insert(key, n));
                counts
            }
            4..7 => {
                let (old, counts) = maybe(&mut random, |tx| {
                    let old = map.remove(tx, &key)?.copied();
                    assert_eq!(set.remove(tx, &key)?, old.is_some());
                    Ok(old)
                });
                assert_eq!(old, model.remove(&key));
                counts
            }
            7..9 => {
                let (value, counts) = maybe(&mut random, |tx| {
                    let value = map.get(tx, &key)?.copied();
                    assert_eq!(
                        (map.contains_key(tx, &key)?, set.contains(tx, &key)?),
                        (value.is_some(), value.is_some())
                    );
                    Ok(value)
                });
                assert_eq!(value.as_ref(), model.get(&key));
                counts
            }
            _ => {
                let ((entries, keys), counts) = maybe(&mut random, |tx| {
                    let entries: BTreeMap<_, _> = map.entries(tx)?.into_iter().map(|(k, v)| (*k, *v)).collect();
                    let keys: BTreeSet<_> = set.keys(tx)?.into_iter().copied().collect();
                    Ok((entries, keys))
                });
                assert_eq!(entries, model);
                assert!(keys.iter().eq(model.keys()));
                counts
            }
        };
        if !counts {
            model = before;
        }
    }
}

#[test]
fn a_map_and_a_set_are_models_of_those_of_std() {
    map_against_model::<std::hash::RandomState>(4);
}

#[test]
fn a_map_whose_hashes_collide_is_a_map() {
    map_against_model::<BuildHasherDefault<Poor>>(5);
}

/// Writers put their numbers in order; all that is read of one writer is in order, and all is read.
fn passes_all_in_order(
    write: impl Fn(&Tx<'_>, (usize, usize)) -> Result<(), Stop> + Copy + Send + Sync,
    read: impl for<'t> Fn(&Tx<'t>) -> Result<(usize, usize), Stop> + Copy + Send + Sync,
) {
    const EACH: usize = if cfg!(miri) { 20 } else { 1_000 };
    let read_of_one = |counts: &mut [usize; 4]| {
        for _ in 0..EACH {
            let (writer, n) = atomically(read).unwrap();
            // Several readers share the numbers, each sees a rising part.
            assert!(counts[writer] <= n);
            counts[writer] = n + 1;
        }
    };
    let write_all = |writer| (0..EACH).for_each(|n| atomically(|tx| write(tx, (writer, n))).unwrap());
    segue::run(|| {
        segue::scope(|s| {
            // Two fibers and two threads write; a fiber, a thread, and two tasks read.
            s.spawn(|| write_all(0));
            s.spawn(|| write_all(1));
            s.spawn(|| read_of_one(&mut [0; 4]));
            s.spawn_task(async {
                let mut counts = [0; 4];
                for _ in 0..EACH {
                    let (writer, n) = transaction(read).await;
                    assert!(counts[writer] <= n);
                    counts[writer] = n + 1;
                }
            });
            std::thread::scope(|threads| {
                threads.spawn(|| write_all(2));
                threads.spawn(|| write_all(3));
                threads.spawn(|| read_of_one(&mut [0; 4]));
                let polled = async {
                    for _ in 0..EACH {
                        transaction(read).await;
                    }
                };
                threads.spawn(|| segue::wait_future(polled));
            });
        });
    });
}

#[test]
fn a_queue_passes_all_in_order_between_fibers_threads_and_tasks() {
    let queue = TQueue::unbounded();
    passes_all_in_order(|tx, item| queue.write(tx, item), |tx| queue.read(tx).copied());
    assert_eq!(atomically(|tx| queue.is_empty(tx)), Ok(true));
}

#[test]
fn a_bounded_queue_is_never_over_full() {
    let queue = TQueue::bounded(3);
    passes_all_in_order(
        |tx, item| {
            queue.write(tx, item)?;
            assert!(queue.len(tx)? <= queue.capacity());
            Ok(())
        },
        |tx| {
            assert!(queue.len(tx)? <= queue.capacity());
            queue.read(tx).copied()
        },
    );
    for n in 0..3 {
        assert_eq!(atomically(|tx| queue.try_write(tx, (n, n))), Ok(Ok(())));
    }
    assert_eq!(atomically(|tx| queue.try_write(tx, (9, 9))), Ok(Err((9, 9))));
    assert_eq!(atomically(|tx| queue.len(tx)), Ok(3));
}

#[test]
fn a_place_passes_all_in_order() {
    let place = TMVar::empty();
    passes_all_in_order(
        |tx, item| place.put(tx, item),
        |tx| {
            let item = *place.take(tx)?;
            assert!(place.is_empty(tx)?);
            Ok(item)
        },
    );
    assert_eq!(atomically(|tx| place.is_empty(tx)), Ok(true));
}

#[test]
fn a_duplicate_reads_all_later_messages_and_no_earlier_one() {
    const ALL: usize = if cfg!(miri) { 20 } else { 500 };
    let news = TChan::broadcast();
    let dup = || atomically(|tx| news.dup(tx)).unwrap();
    atomically(|tx| news.write(tx, usize::MAX)).unwrap();
    let reads_all = |end: TChan<usize>| (0..ALL).all(|n| atomically(|tx| end.read(tx).copied()) == Ok(n));
    segue::run(|| {
        segue::scope(|s| {
            let (one, two, three) = (dup(), dup(), dup());
            let one = s.spawn(move || reads_all(one));
            let thread = std::thread::spawn(move || reads_all(two));
            s.spawn(|| (0..ALL).for_each(|n| atomically(|tx| news.write(tx, n)).unwrap()));
            let task = s.spawn_task(async move {
                for n in 0..ALL {
                    assert_eq!(transaction(|tx| three.read(tx).copied()).await, n);
                }
                true
            });
            assert!(one.join().unwrap() && task.join().unwrap() && thread.join().unwrap());
        });
    });
    let late = dup();
    assert_eq!(atomically(|tx| Ok((late.peek(tx)?.is_none(), news.peek(tx)?.is_none()))), Ok((true, true)));
    // The clones of one end share the messages.
    let clone = late.clone();
    (1..=2).for_each(|n| atomically(|tx| news.write(tx, n)).unwrap());
    assert_eq!(atomically(|tx| Ok((*clone.read(tx)?, *late.read(tx)?))), Ok((1, 2)));
}

#[test]
fn no_wake_up_is_lost_under_any_schedule() {
    for seed in 0..200 {
        let (queue, place, news) = (TQueue::bounded(1), TMVar::empty(), TChan::new());
        let relayed = Sim::new(seed).preemptive().run(|| {
            segue::scope(|s| {
                // Each hands on to the next: a wake-up that is lost is a deadlock.
                s.spawn(|| (0..5).for_each(|n| atomically(|tx| queue.write(tx, n)).unwrap()));
                s.spawn(|| {
                    for _ in 0..5 {
                        atomically(|tx| place.put(tx, *queue.read(tx)?)).unwrap();
                    }
                });
                s.spawn(|| {
                    for _ in 0..5 {
                        atomically(|tx| news.write(tx, *place.take(tx)?)).unwrap();
                    }
                });
                (0..5).map(|_| atomically(|tx| news.read(tx).copied()).unwrap()).collect::<Vec<_>>()
            })
        });
        assert_eq!(relayed.unwrap_or_else(|deadlock| panic!("{deadlock}")), [0, 1, 2, 3, 4]);
    }
}

#[test]
fn one_of_several_structures_is_read_by_or_else() {
    for seed in 0..50 {
        let (queue, news, place) = (TQueue::unbounded(), TChan::new(), TMVar::empty());
        let read = |tx: &Tx<'_>| {
            let others = |tx: &Tx<'_>| tx.or_else(|tx| news.read(tx).copied(), |tx| place.take(tx).copied());
            tx.or_else(|tx| queue.read(tx).copied(), others)
        };
        let all = Sim::new(seed).preemptive().run(|| {
            segue::scope(|s| {
                s.spawn(|| atomically(|tx| place.put(tx, 1)));
                s.spawn(|| atomically(|tx| news.write(tx, 2)));
                s.spawn(|| atomically(|tx| queue.write(tx, 4)));
                (0..3).map(|_| atomically(read).unwrap()).sum::<u32>()
            })
        });
        assert_eq!(all.unwrap_or_else(|deadlock| panic!("{deadlock}")), 7);
    }
}

#[test]
fn entries_of_a_map_move_as_one() {
    const KEYS: u32 = 64;
    let rounds = if cfg!(miri) { 20 } else { 3_000 };
    let (left, right) = (TMap::new(), TMap::new());
    (0..KEYS).for_each(|key| assert_eq!(atomically(|tx| Ok(left.insert(tx, key, key)?.is_none())), Ok(true)));
    std::thread::scope(|s| {
        for seed in 0..3 {
            let (left, right) = (&left, &right);
            s.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..rounds {
                    let (key, back) = (random.u32(..KEYS), random.bool());
                    let (from, to) = if back { (right, left) } else { (left, right) };
                    atomically(|tx| {
                        if let Some(value) = from.remove(tx, &key)? {
                            assert!(to.insert(tx, key, *value)?.is_none(), "a key in both maps");
                        }
                        Ok(())
                    })
                    .unwrap();
                }
            });
        }
        s.spawn(|| {
            for _ in 0..rounds / 10 {
                assert_eq!(atomically(|tx| Ok(left.entries(tx)?.len() + right.entries(tx)?.len())), Ok(KEYS as usize));
            }
        });
    });
    let both = atomically(|tx| {
        let all = left.entries(tx)?.into_iter().chain(right.entries(tx)?);
        Ok(all.map(|(key, value)| (*key, *value)).collect::<BTreeMap<_, _>>())
    });
    assert!(both.unwrap().into_iter().eq((0..KEYS).map(|key| (key, key))));
}

#[test]
fn an_item_goes_when_it_was_read() {
    // No transaction of another test that is under way keeps it longer than that one.
    let item = Arc::new(());
    let gone = |what| {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while Arc::strong_count(&item) > 1 {
            assert!(std::time::Instant::now() < deadline, "{what} keeps an item");
            std::thread::yield_now();
        }
    };
    let (queue, news, place) = (TQueue::unbounded(), TChan::new(), TMVar::empty());
    atomically(|tx| queue.write(tx, Some(Arc::clone(&item)))).unwrap();
    atomically(|tx| queue.write(tx, None)).unwrap();
    atomically(|tx| queue.read(tx).map(drop)).unwrap();
    gone("a queue");
    atomically(|tx| news.write(tx, Some(Arc::clone(&item)))).unwrap();
    atomically(|tx| news.write(tx, None)).unwrap();
    atomically(|tx| news.read(tx).map(drop)).unwrap();
    gone("a channel");
    atomically(|tx| TChan::broadcast().write(tx, Arc::clone(&item))).unwrap();
    gone("a channel that nobody reads");
    atomically(|tx| place.put(tx, Arc::clone(&item))).unwrap();
    atomically(|tx| place.take(tx).map(drop)).unwrap();
    gone("a place");
    let map = TMap::new();
    atomically(|tx| map.insert(tx, 1, Arc::clone(&item)).map(drop)).unwrap();
    atomically(|tx| map.remove(tx, &1).map(drop)).unwrap();
    gone("a map");
}

#[test]
fn long_lists_are_dropped_on_a_short_stack() {
    const LONG: usize = if cfg!(miri) { 100 } else { 100_000 };
    let (queue, turned, news) = (TQueue::unbounded(), TQueue::unbounded(), TChan::new());
    for n in 0..LONG {
        atomically(|tx| {
            queue.write(tx, n)?;
            turned.write(tx, n)?;
            news.write(tx, n)
        })
        .unwrap();
    }
    assert_eq!(atomically(|tx| turned.read(tx).copied()), Ok(0));
    let dropped = std::thread::Builder::new().stack_size(64 << 10).spawn(move || drop((queue, turned, news)));
    dropped.unwrap().join().unwrap();
}

#[test]
fn a_structure_in_a_variable_is_replaced_as_a_value() {
    // Handles are values: a transaction may make a structure, and publish it.
    let current = TVar::new(TQueue::unbounded());
    atomically(|tx| tx.read(&current)?.write(tx, 1)).unwrap();
    let before = atomically(|tx| {
        let next = TQueue::unbounded();
        next.write(tx, 2)?;
        tx.replace(&current, next).cloned()
    });
    let both = atomically(|tx| Ok((*before.as_ref().unwrap().read(tx)?, *tx.read(&current)?.read(tx)?)));
    assert_eq!(both, Ok((1, 2)));
}

#[test]
fn a_transaction_in_a_choice_has_the_chance_of_any_other_arm() {
    let (place, (sender, inbox)) = (TMVar::empty(), segue::channel::unbounded());
    let mut taken = 0;
    for _ in 0..1_000 {
        atomically(|tx| place.put(tx, ())).unwrap();
        sender.send(()).unwrap();
        let is_taken = segue::select! {
            () = transaction(|tx| place.take(tx).copied()) => true,
            _ = inbox.recv_source() => false,
        };
        let is_taken = is_taken.unwrap();
        taken += u32::from(is_taken);
        // The other one has not happened.
        let left = (atomically(|tx| Ok(place.try_take(tx)?.is_some())), inbox.try_recv().is_ok());
        assert_eq!(left, (Ok(!is_taken), is_taken));
    }
    assert!((300..700).contains(&taken), "{taken} of 1000");
}
