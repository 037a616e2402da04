//! Stacks that the kernel grows, on Windows: pages, panics, large frames, reports of overflows.
//!
//! A test of a fault calls itself again with a variable set; the child does the deed and must not
//! come back.

#![cfg(all(not(threads), windows))]
#![allow(unsafe_code)] // Faults on purpose.

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Output;

use segue_conformance::this_program;
use segue_fiber::{Coroutine, StackArena, StackConfig, StackPool, install_overflow_handler};

const VARIABLE: &str = "SEGUE_FIBER_DEED";

// How processes end, as `ExitStatus::code` has it.
const ABORTED: i32 = 0xc000_0409_u32 as i32;
const OVERFLOWED: i32 = 0xc000_00fd_u32 as i32;
const FAULTED: i32 = 0xc000_0005_u32 as i32;

/// In the parent: runs the named test again in a child and returns what became of it. In the child:
/// does the deed.
fn child(test: &str, deed: impl FnOnce()) -> Option<(i32, String)> {
    if std::env::var_os(VARIABLE).is_some() {
        deed();
        return None;
    }
    let arguments = [test, "--exact", "--nocapture", "--test-threads=1"];
    let Output { status, stderr, .. } = this_program().args(arguments).env(VARIABLE, "1").output().unwrap();
    Some((status.code().unwrap(), String::from_utf8_lossy(&stderr).into_owned()))
}

fn pool(config: StackConfig) -> StackPool {
    StackPool::new(StackArena::new(config).unwrap())
}

/// Runs a function on a stack, and gives that back.
fn run(pool: &mut StackPool, body: impl FnOnce() + 'static) {
    let mut coroutine = Coroutine::new(pool.take().unwrap(), (), move |()| body());
    coroutine.set_label(42, Some("greedy"));
    let _ = coroutine.resume();
    pool.put(coroutine.into_stack());
}

#[allow(unconditional_recursion)] // That is the fault.
#[inline(never)]
fn recurse(depth: usize) -> usize {
    let frame = black_box([depth; 20]);
    recurse(depth + 1) + frame[depth % 20]
}

fn overflow() {
    black_box(recurse(0));
}

/// Goes down so many KiB, and panics there, or not.
#[inline(never)]
fn descend(kib: usize, panics: bool) -> usize {
    let frame = black_box([kib; 120]);
    match kib {
        0 if panics => panic!("deep down"),
        0 => 0,
        _ => descend(kib - 1, panics) + frame[kib % 120] / kib,
    }
}

/// A frame larger than the guard of a slot.
#[inline(never)]
fn large_frame() -> u8 {
    let frame = black_box([7_u8; 60 * 1024]);
    frame[black_box(1)]
}

fn catches_a_panic(kib: usize) {
    let payload = catch_unwind(AssertUnwindSafe(|| descend(kib, true))).unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"deep down"));
}

#[test]
fn a_stack_grows_and_is_used_again_by_the_next_coroutine() {
    let mut pool = pool(StackConfig::new());
    for kib in [100, 0, 10, 100, 3, 50, 100] {
        run(&mut pool, move || assert_eq!(descend(kib, false), kib));
    }
}

#[test]
fn panics_are_caught_in_all_depths_also_on_a_stack_that_was_deeper_before() {
    let mut pool = pool(StackConfig::new());
    for kib in [0, 5, 100, 1, 50, 100, 20] {
        run(&mut pool, move || catches_a_panic(kib));
    }
}

#[test]
fn a_large_frame_goes_page_by_page() {
    let mut pool = pool(StackConfig::new());
    for _ in 0..2 {
        run(&mut pool, || assert_eq!(large_frame(), 7));
    }
}

#[test]
fn a_stack_whose_memory_was_given_back_grows_again() {
    let mut pool = pool(StackConfig::new().keep_warm(0).max_slots(8));
    for kib in [100, 0, 100, 5] {
        run(&mut pool, move || assert_eq!(descend(kib, false), kib));
        while pool.trim() {}
        assert_eq!(pool.idle(), 0);
        run(&mut pool, move || catches_a_panic(kib));
    }
}

#[test]
fn a_trimmed_stack_grows_again_below_its_frames() {
    let mut pool = pool(StackConfig::new());
    run(&mut pool, || {
        for kib in [100, 100, 0, 30, 100] {
            assert_eq!(descend(kib, false), kib);
            segue_core::trim_stack();
            segue_core::trim_stack();
            catches_a_panic(kib);
            segue_core::trim_stack();
        }
    });
    run(&mut pool, || catches_a_panic(100));
}

#[test]
fn an_overflow_names_the_fiber_and_aborts() {
    let Some((code, text)) = child("an_overflow_names_the_fiber_and_aborts", || {
        install_overflow_handler().unwrap();
        install_overflow_handler().unwrap();
        let mut pool = pool(StackConfig::new().slot_size(64 * 1024));
        // The handler also works on a stack that others have used.
        run(&mut pool, || catches_a_panic(20));
        run(&mut pool, overflow);
    }) else {
        return;
    };
    assert_eq!(code, ABORTED, "{text}");
    assert!(text.contains("fiber 'greedy' (42) overflowed its stack of 47 KiB"), "{text}");
    assert!(text.contains("SEGUE_STACK_SIZE=128K"), "{text}");
}

#[test]
fn an_overflow_is_found_where_a_page_is_all_of_the_guard() {
    let Some((code, text)) = child("an_overflow_is_found_where_a_page_is_all_of_the_guard", || {
        install_overflow_handler().unwrap();
        run(&mut pool(StackConfig::new().guard_pages(1)), overflow);
    }) else {
        return;
    };
    assert_eq!(code, ABORTED, "{text}");
    assert!(text.contains("fiber 'greedy' (42) overflowed its stack of 251 KiB"), "{text}");
}

#[test]
fn without_the_handler_an_overflow_is_a_bare_fault() {
    let Some((code, text)) = child("without_the_handler_an_overflow_is_a_bare_fault", || {
        run(&mut pool(StackConfig::new()), overflow);
    }) else {
        return;
    };
    assert_eq!(code, OVERFLOWED, "{text}");
    assert!(!text.contains("greedy"), "{text}");
}

#[test]
fn a_null_dereference_inside_a_coroutine_is_an_ordinary_fault() {
    let Some((code, text)) = child("a_null_dereference_inside_a_coroutine_is_an_ordinary_fault", || {
        install_overflow_handler().unwrap();
        run(&mut pool(StackConfig::new()), || {
            // SAFETY: none: this is the fault under test, in a process made for it.
            unsafe { black_box(std::ptr::null_mut::<u8>()).write_volatile(1) };
        });
    }) else {
        return;
    };
    assert_eq!(code, FAULTED, "{text}");
    assert!(!text.contains("overflowed"), "{text}");
}

#[test]
fn a_stray_pointer_into_a_guard_is_no_overflow() {
    let Some((code, text)) = child("a_stray_pointer_into_a_guard_is_no_overflow", || {
        install_overflow_handler().unwrap();
        let stack = pool(StackConfig::new()).take().unwrap();
        // SAFETY: none: this is the fault under test, in a process made for it.
        unsafe { ((stack.bounds().unwrap().start - 1) as *mut u8).write_volatile(1) };
    }) else {
        return;
    };
    assert_eq!(code, FAULTED, "the guard is there: {text}");
    assert!(!text.contains("overflowed"), "{text}");
}

#[test]
fn a_threads_own_overflow_is_left_to_std() {
    let Some((code, text)) = child("a_threads_own_overflow_is_left_to_std", || {
        install_overflow_handler().unwrap();
        let thread = std::thread::Builder::new().name("deep".into()).stack_size(64 * 1024);
        thread.spawn(|| black_box(recurse(0))).unwrap().join().unwrap();
    }) else {
        return;
    };
    // Of what Windows makes a fault of the process, Wine ends the thread.
    assert!(![0, ABORTED].contains(&code), "{text}");
    assert!(text.contains("thread 'deep'") && text.contains("has overflowed its stack"), "{text}");
}
