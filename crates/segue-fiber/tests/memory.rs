//! What stacks cost and give back, and that guards guard, on real stacks.

#![cfg(all(not(threads), target_os = "linux"))]
#![allow(unsafe_code)] // `suspend`, and touching memory on purpose.

use std::cell::Cell;
use std::io::BufRead;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use segue_fiber::incremental::{Fed, Feed, push};
use segue_fiber::{Coroutine, Stack, StackArena, StackConfig, StackPool, Step, suspend};

/// Memory and mappings are the whole process': tests that look at them take turns.
static TURN: Mutex<()> = Mutex::new(());

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// Writes to every page that a function could use.
fn touch_all(stack: &Stack) {
    for address in stack.bounds().unwrap().step_by(4096) {
        // SAFETY: the stack is ours and nothing runs on it.
        unsafe { (address as *mut u8).write(1) };
    }
}

#[test]
fn trimming_gives_memory_back_to_the_kernel() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut pool = StackPool::new(StackArena::new(StackConfig::new().keep_warm(10)).unwrap());
    let before = resident();
    let stacks: Vec<_> = (0..1_000).map(|_| pool.take().unwrap()).collect();
    stacks.iter().for_each(touch_all);
    let full = resident();
    assert!(full - before > 220 << 20, "a thousand stacks of 240 KiB: {}", full - before);
    for stack in stacks {
        pool.put(stack);
    }
    assert!(resident() > full - (4 << 20), "putting alone gives nothing back");
    while pool.trim() {}
    let trimmed = resident();
    assert!(trimmed < before + (8 << 20), "only ten stacks are left: {}", trimmed - before);
    assert!(trimmed > before + (2 << 20), "the ten hottest are kept: {}", trimmed - before);
}

#[test]
fn the_arena_gives_memory_back_of_stacks_that_are_dropped() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let arena = StackArena::new(StackConfig::new().keep_warm(10)).unwrap();
    let mut pool = StackPool::new(arena.clone());
    let before = resident();
    let stacks: Vec<_> = (0..1_000).map(|_| pool.take().unwrap()).collect();
    stacks.iter().for_each(touch_all);
    drop(stacks);
    assert!(resident() < before + (20 << 20));
    drop(pool);
    assert_eq!(arena.outstanding(), 0);
}

/// Uses some of the stack below.
fn deep(n: u64) -> u64 {
    let numbers = std::hint::black_box([n; 500]);
    numbers[0] + if n == 0 { 0 } else { deep(n - 1) }
}

/// How many pages of a running coroutine's stack are there.
fn resident_pages(stack: &std::ops::Range<usize>) -> usize {
    let mut pages = vec![0u8; stack.len() / 4096];
    // SAFETY: the range is mapped, and there is a byte for each page.
    assert_eq!(unsafe { libc::mincore(stack.start as *mut _, stack.len(), pages.as_mut_ptr()) }, 0);
    pages.iter().filter(|page| **page & 1 == 1).count()
}

#[test]
fn a_running_coroutine_gives_back_what_lies_below_its_frames() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let arena = StackArena::new(StackConfig::new()).unwrap();
    let mut pool = StackPool::new(arena);
    let stack = pool.take().unwrap();
    let bounds = stack.bounds().unwrap();
    let mut coroutine = Coroutine::new(stack, Cell::new((0, 0)), move |seen: &Cell<(usize, usize)>| {
        for round in 0..3 {
            // What was given back is used again.
            assert_eq!(deep(10), 55);
            let full = resident_pages(&bounds);
            let kept = std::hint::black_box([round; 1000]);
            segue_core::trim_stack();
            seen.set((full, resident_pages(&bounds)));
            assert_eq!(std::hint::black_box(kept), [round; 1000]);
        }
    });
    assert_eq!(coroutine.resume(), Step::Returned);
    let (seen, stack) = coroutine.finish();
    pool.put(stack);
    let (full, left) = seen.get();
    assert!(full >= 11, "{full}");
    // One page at least for the numbers kept; a build without optimisation has larger frames.
    assert!((2..8).contains(&left), "{left}");
    // Elsewhere it does nothing.
    segue_core::trim_stack();
}

#[test]
fn what_was_given_back_is_guarded_and_usable_again() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut pool = StackPool::new(StackArena::new(StackConfig::new().keep_warm(0)).unwrap());
    for _ in 0..3 {
        let stacks: Vec<_> = (0..100).map(|_| pool.take().unwrap()).collect();
        for stack in &stacks {
            touch_all(stack);
            let bottom = stack.bounds().unwrap().start;
            assert!(!is_accessible(bottom - 1) && is_accessible(bottom));
        }
        stacks.into_iter().for_each(|stack| pool.put(stack));
        while pool.trim() {}
    }
}

/// Asks the kernel to read a byte, which fails where an access would fault.
fn is_accessible(address: usize) -> bool {
    let (mut from, mut to) = ([0; 2], 0u8);
    // SAFETY: plain system calls; `write` checks the address instead of faulting.
    unsafe {
        assert_eq!(libc::pipe(from.as_mut_ptr()), 0);
        let written = libc::write(from[1], address as *const _, 1);
        if written == 1 {
            libc::read(from[0], (&raw mut to).cast(), 1);
        }
        libc::close(from[0]);
        libc::close(from[1]);
        written == 1
    }
}

#[test]
fn every_slot_has_its_guard_right_below_what_can_be_used() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for config in [
        StackConfig::new(),
        StackConfig::new().slot_size(64 * 1024),
        StackConfig::new().slot_size(32 * 1024).guard_pages(1),
        StackConfig::new().slot_size(8 << 20).guard_pages(100),
        StackConfig::new().mprotect_guards(true),
    ] {
        let mut pool = StackPool::new(StackArena::new(config.clone()).unwrap());
        let stacks: Vec<_> = (0..50).map(|_| pool.take().unwrap()).collect();
        for stack in &stacks {
            let usable = stack.bounds().unwrap();
            let guard = stack.arena().slot_size() - usable.len();
            assert_eq!(usable.len(), stack.arena().usable_size());
            for address in (usable.start - guard..usable.start).step_by(4096) {
                assert!(!is_accessible(address), "{config:?}");
                assert!(!is_accessible(address + 4095), "{config:?}");
            }
            assert!(is_accessible(usable.start) && is_accessible(usable.end - 1), "{config:?}");
        }
    }
}

#[test]
fn lightweight_guards_split_no_mapping() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut pool = StackPool::new(StackArena::new(StackConfig::new()).unwrap());
    drop(pool.take().unwrap());
    let before = mappings();
    let stacks: Vec<_> = (0..2_000).map(|_| pool.take().unwrap()).collect();
    let after = mappings();
    // On a kernel before 6.13 the guards are mappings of their own: two for a slot.
    let splits = !kernel_has_guards();
    assert_eq!(after > before + 100, splits, "{before} mappings before, {after} after");
    drop(stacks);
}

fn kernel_has_guards() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut parts = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next(), parts.next()) >= (Some(6), Some(13))
}

#[test]
fn guards_by_mprotect_are_limited_with_an_error_that_says_so() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let config = StackConfig::new().slot_size(64 * 1024).mprotect_guards(true);
    let arena = StackArena::new(config.clone()).unwrap();
    let mut pool = StackPool::new(arena);
    let mut stacks = Vec::new();
    let error = loop {
        match pool.take() {
            Ok(stack) => stacks.push(stack),
            Err(error) => break error,
        }
        assert!(stacks.len() <= 28_000, "there must be a limit");
    };
    assert_eq!(stacks.len(), 28_000);
    assert!(error.to_string().contains("28000") && error.to_string().contains("6.13"), "{error}");
    // The process is still well: it can map memory, and lightweight guards have no limit.
    std::thread::spawn(|| ()).join().unwrap();
    if kernel_has_guards() {
        StackPool::new(StackArena::new(StackConfig::new()).unwrap()).take().unwrap();
    }
    // The limit is the process', not the arena's; what ends makes room.
    assert!(StackPool::new(StackArena::new(config.clone()).unwrap()).take().is_err());
    drop((stacks, pool));
    StackPool::new(StackArena::new(config).unwrap()).take().unwrap();
}

struct Header {
    me: Cell<Option<NonNull<Header>>>,
}

#[test]
fn a_suspended_coroutine_costs_one_page() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    const MANY: usize = 20_000;
    let mut pool = StackPool::new(StackArena::new(StackConfig::new().slot_size(64 * 1024)).unwrap());
    let mut all = Vec::with_capacity(MANY);
    // The first touches code, and this vector.
    all.resize_with(MANY, || None::<Coroutine<Header>>);
    let before = resident();
    for place in &mut all {
        let coroutine = Coroutine::new(pool.take().unwrap(), Header { me: Cell::new(None) }, |header: &Header| {
            // SAFETY: the pointer of this coroutine, which is running.
            unsafe { suspend(header.me.get().unwrap()) }
        });
        coroutine.header().me.set(Some(coroutine.header_ptr()));
        assert_eq!(place.insert(coroutine).resume(), Step::Suspended);
    }
    let each = (resident() - before) / MANY;
    assert!((4096..4300).contains(&each), "{each} bytes each");
    for coroutine in all.into_iter().flatten() {
        let mut coroutine = coroutine;
        assert_eq!(coroutine.resume(), Step::Returned);
        pool.put(coroutine.finish().1);
    }
}

#[test]
fn a_machine_that_waits_costs_two_pages_at_most() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    const MANY: usize = 2_000;
    let body = |input: &mut Feed| input.lines().map_while(Result::ok).map(|line| line.len()).max();
    // The thread has a pool of stacks, which is to go before the next test.
    let machines = std::thread::spawn(move || {
        let mut all = Vec::with_capacity(MANY);
        // The first touches code, and this vector.
        all.resize_with(MANY, || None);
        assert_eq!(push(body).feed(b"one"), Fed::NeedMore);
        let before = resident();
        for place in &mut all {
            let machine = place.insert(push(body));
            assert_eq!(machine.feed(b"a line\nand a half"), Fed::NeedMore);
        }
        let each = (resident() - before) / MANY;
        assert!((4096..8192 + 200).contains(&each), "{each} bytes each");
        assert!(all.into_iter().flatten().all(|machine| machine.finish() == Some(10)));
    });
    machines.join().unwrap();
}
