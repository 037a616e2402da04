//! A queue in blocks does what `VecDeque` does, and keeps little. Part of `channel/blocks.rs`.

use super::{Blocks, Supply};
use std::collections::VecDeque;
use std::rc::Rc;

/// The older rings, with their count of values.
fn older<T>(blocks: &Blocks<T>) -> (impl Iterator<Item = &VecDeque<T>>, usize) {
    let older = blocks.older.as_deref();
    (older.into_iter().flat_map(|older| &older.rings), older.map_or(0, |older| older.len))
}

/// How many values the queue has room for.
fn room<T>(blocks: &Blocks<T>) -> usize {
    blocks.newest.capacity() + older(blocks).0.map(VecDeque::capacity).sum::<usize>()
}

fn push<T>(blocks: &mut Blocks<T>, value: T) {
    if let Err(value) = blocks.push_back(value) {
        blocks.push_with_room(value);
    }
}

fn check<T>(blocks: &Blocks<T>, model: usize) {
    assert_eq!((blocks.len(), blocks.is_empty()), (model, model == 0));
    let (rings, len) = older(blocks);
    assert_eq!(len, rings.map(VecDeque::len).sum::<usize>());
    assert!(older(blocks).0.all(|ring| !ring.is_empty()));
    assert_eq!(blocks.older.is_some(), older(blocks).0.next().is_some());
    assert!(!blocks.newest.is_empty() || blocks.older.is_none());
}

/// A value of so many words, which is counted.
type Value<const WORDS: usize> = (usize, Rc<()>, [u64; WORDS]);

/// Two queues that go through bursts, one after the other, and now and then have the values of the
/// other one.
fn does_what_a_vec_deque_does<const WORDS: usize>() {
    let counted = Rc::new(());
    let value = |number: usize| (number, Rc::clone(&counted), [0; WORDS]);
    let rounds = if cfg!(miri) { 3 } else { 20 };
    let mut appended = [0; 2];
    for seed in 0..rounds {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut queues: [(Blocks<Value<WORDS>>, VecDeque<usize>); 2] = Default::default();
        let most = [3, 6 * Blocks::<Value<WORDS>>::BLOCK][seed as usize % 2];
        for number in 0..6 * most {
            let [(blocks, model), (others, other_model)] = &mut queues;
            let is_burst = (number / most).is_multiple_of(2);
            match random.u8(0..8) {
                0 => {
                    blocks.push_front(value(number));
                    model.push_front(number);
                }
                // The two take turns at what follows.
                1 => queues.reverse(),
                2 if random.usize(0..=most / 8) == 0 => {
                    appended[usize::from(others.len() > Blocks::<Value<WORDS>>::BLOCK)] += 1;
                    blocks.append(others);
                    model.append(other_model);
                    check(others, 0);
                }
                3.. if is_burst => {
                    push(blocks, value(number));
                    model.push_back(number);
                }
                _ => assert_eq!(blocks.pop_front().map(|value| value.0), model.pop_front()),
            }
            queues.iter().for_each(|(blocks, model)| check(blocks, model.len()));
            assert_eq!(Rc::strong_count(&counted), 1 + queues.iter().map(|(_, model)| model.len()).sum::<usize>());
        }
        let [(blocks, model), last] = queues;
        assert!(blocks.map(|value| value.0).eq(model));
        drop(last);
        assert_eq!(Rc::strong_count(&counted), 1);
    }
    assert!(cfg!(miri) || appended.iter().all(|count| *count > 0), "{appended:?}");
}

#[test]
fn it_does_what_a_vec_deque_does() {
    does_what_a_vec_deque_does::<0>();
    does_what_a_vec_deque_does::<40>();
}

#[test]
fn its_memory_ebbs_with_the_values_and_grows_with_them() {
    let block = Blocks::<u64>::BLOCK;
    let mut blocks = Blocks::new();
    for round in 0..3 {
        for number in 0..100 * block {
            push(&mut blocks, number as u64);
            assert!(room(&blocks) <= blocks.len() + 2 * block, "round {round}");
        }
        for _ in 0..100 * block {
            assert!(blocks.pop_front().is_some());
            assert!(room(&blocks) <= blocks.len() + 3 * block, "round {round}");
            if let Some(older) = &blocks.older {
                assert!(older.rings.capacity() <= 4 * older.rings.len(), "round {round}");
            }
        }
        assert!(blocks.is_empty() && room(&blocks) <= 2 * block);
    }
}

#[test]
fn values_without_bytes_are_counted() {
    let mut blocks = Blocks::new();
    (0..100_000).for_each(|_| push(&mut blocks, ()));
    blocks.push_front(());
    assert_eq!(blocks.len(), 100_001);
    assert_eq!((&mut blocks).count(), 100_001);
    assert!(blocks.is_empty());
}

#[test]
fn a_supply_gives_out_what_it_has_taken_over_in_its_order() {
    let block = Blocks::<usize>::BLOCK;
    let (mut supply, mut model) = (Supply::new(), VecDeque::new());
    let mut random = fastrand::Rng::with_seed(1);
    let mut rings = 0;
    for number in 0..if cfg!(miri) { 100 } else { 20_000 } {
        match random.u8(0..100) {
            0 => {
                let mut all = supply.take_all();
                check(&all, model.len());
                rings = rings.max(older(&all).0.count());
                (0..random.usize(0..2 * block)).for_each(|more| {
                    push(&mut all, number + more);
                    model.push_back(number + more);
                });
                supply.load(&mut all);
                assert!(all.is_empty());
            }
            1..40 => {
                supply.push_front(number);
                model.push_front(number);
            }
            _ => assert_eq!(supply.pop(), model.pop_front()),
        }
        assert_eq!((supply.len(), supply.is_empty()), (model.len(), model.is_empty()));
    }
    assert!(cfg!(miri) || rings > 2, "{rings}");
    let mut all = supply.take_all();
    (&mut all).for_each(|value| assert_eq!(Some(value), model.pop_front()));
    assert!(model.is_empty());
}
