//! Arenas and pools, on either host: reuse, limits, errors, giving back.
//!
//! Run with and without `--features threads`.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::sync::Arc;

use segue_fiber::{StackArena, StackConfig, StackPool};

#[test]
fn stacks_are_reused_last_in_first_out() {
    let mut pool = StackPool::new(StackArena::new(StackConfig::new()).unwrap());
    let stacks: Vec<_> = (0..5).map(|_| pool.take().unwrap()).collect();
    let numbers: Vec<_> = stacks.iter().map(|stack| stack.number()).collect();
    for stack in stacks {
        pool.put(stack);
    }
    let again: Vec<_> = (0..5).map(|_| pool.take().unwrap()).collect();
    assert!(again.iter().map(|stack| stack.number()).eq(numbers.into_iter().rev()));
}

#[test]
fn no_two_stacks_share_a_slot() {
    let arena = StackArena::new(StackConfig::new().slot_size(64 * 1024)).unwrap();
    let mut pools = [StackPool::new(arena.clone()), StackPool::new(arena.clone())];
    let mut out = Vec::new();
    for round in 0..3_000 {
        out.push(pools[round % 2].take().unwrap());
        if round % 3 == 0 {
            let old = out.swap_remove(round % out.len());
            // Back to its pool, to the other worker's, or dropped.
            match round % 9 {
                0 => drop(old),
                3 => pools[0].put(old),
                _ => pools[1].put(old),
            }
        }
    }
    let numbers: HashSet<_> = out.iter().map(|stack| stack.number()).collect();
    assert_eq!(numbers.len(), out.len());
    drop(out);
    drop(pools);
    assert_eq!(arena.outstanding(), 0, "everything came back");
}

#[test]
fn the_limit_on_slots_is_an_error_that_says_what_to_do_and_goes_away() {
    let arena = StackArena::new(StackConfig::new().max_slots(20)).unwrap();
    let mut pool = StackPool::new(arena.clone());
    let mut stacks: Vec<_> = (0..20).map(|_| pool.take().unwrap()).collect();
    let error = pool.take().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("max_slots"), "{error}");
    drop(stacks.pop());
    let stack = pool.take().expect("one is free again");
    pool.put(stack);
    assert_eq!(arena.outstanding(), 20);
}

#[test]
fn trimming_keeps_the_hottest_and_serves_other_workers() {
    let arena = StackArena::new(StackConfig::new().max_slots(100).keep_warm(10)).unwrap();
    let mut first = StackPool::new(arena.clone());
    let stacks: Vec<_> = (0..100).map(|_| first.take().unwrap()).collect();
    let hottest = stacks[99].number();
    for stack in stacks {
        first.put(stack);
    }
    let mut second = StackPool::new(arena.clone());
    assert!(second.take().is_err(), "the first worker has them all");
    assert!(!first.trim(), "one call was enough");
    assert_eq!((first.idle(), arena.outstanding()), (10, 10));
    assert_eq!(first.take().unwrap().number(), hottest);
    let _stack = second.take().expect("the first worker gave back what it did not need");
    assert!(!first.trim(), "nothing more to do");
}

#[test]
fn a_stack_goes_back_to_its_own_arena() {
    let (one, two) = (StackArena::new(StackConfig::new()).unwrap(), StackArena::new(StackConfig::new()).unwrap());
    let (mut pool_one, mut pool_two) = (StackPool::new(one.clone()), StackPool::new(two.clone()));
    let stack = pool_one.take().unwrap();
    assert!(Arc::ptr_eq(stack.arena(), &one));
    let before = one.outstanding();
    pool_two.put(stack);
    assert_eq!((one.outstanding(), pool_two.idle()), (before - 1, 0));
}

#[test]
fn workers_take_and_give_at_the_same_time() {
    let arena = StackArena::new(StackConfig::new().slot_size(64 * 1024).keep_warm(16)).unwrap();
    std::thread::scope(|scope| {
        for seed in 0..4usize {
            let arena = &arena;
            scope.spawn(move || {
                let mut pool = StackPool::new(arena.clone());
                for round in 0..50 {
                    let stacks: Vec<_> = (0..(seed * 37 + round * 11) % 97).map(|_| pool.take().unwrap()).collect();
                    for (index, stack) in stacks.into_iter().enumerate() {
                        if index % 5 == seed { drop(stack) } else { pool.put(stack) }
                    }
                    pool.trim();
                }
            });
        }
    });
    assert_eq!(arena.outstanding(), 0);
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    let refused = |config: StackConfig, word: &str| {
        let error = StackArena::new(config).expect_err(word);
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(word), "{error}");
    };
    refused(StackConfig::new().slot_size(0), "power of two");
    refused(StackConfig::new().slot_size(100_000), "131072");
    refused(StackConfig::new().slot_size(usize::MAX), "power of two");
    refused(StackConfig::new().slot_size(1 << 40), "limit");
    refused(StackConfig::new().slot_size(4096), "no room");
    refused(StackConfig::new().guard_pages(0), "guard");
    refused(StackConfig::new().guard_pages(64), "no room");
    refused(StackConfig::new().guard_pages(usize::MAX), "no room");
    refused(StackConfig::new().max_slots(0), "at least 1");
    refused(StackConfig::new().max_slots(usize::MAX), "more than");
}

#[test]
fn an_arena_outlives_its_handle_as_long_as_a_stack_does() {
    let arena = StackArena::new(StackConfig::new()).unwrap();
    let weak = Arc::downgrade(&arena);
    let mut pool = StackPool::new(arena);
    let stack = pool.take().unwrap();
    drop(pool);
    assert_eq!(weak.upgrade().unwrap().outstanding(), 1);
    drop(stack);
    assert!(weak.upgrade().is_none());
}
