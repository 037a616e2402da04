//! Stacks that the kernel grows, on Windows: pages, panics, large frames, reports of overflows.
//!
//! A test of a fault calls itself again with a variable set; the child does the deed and must not
//! come back.

#![cfg(all(not(threads), windows))]
#![allow(unsafe_code)] // Faults on purpose.

use std::arch::{asm, naked_asm};
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::Output;
use std::ptr;

use segue_conformance::this_program;
use segue_core::switch::{Resting, Root, prepare, switch};
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

/// Two sides of a switch by hand: the one that calls [`rests`], and another that lets the first go
/// on at once, on memory of its own.
#[repr(C)]
struct Sides {
    root: Root,
    other: Resting,
    /// The lowest word that the first side has when it rests.
    lowest: usize,
}

#[repr(C, align(16))]
struct Memory([u8; 64 * 1024]);

unsafe extern "C" fn goes_back(root: *mut Root) -> ! {
    let sides = root.cast::<Sides>();
    loop {
        // SAFETY: the root is the first field. The first side rests at the link, and comes back.
        unsafe { switch(&raw mut (*sides).other, (*sides).root.link) }
    }
}

/// The limit of the stack on which the caller runs.
#[inline(always)]
fn limit() -> usize {
    let limit;
    // SAFETY: gs has the thread's block.
    unsafe { asm!("mov {}, gs:[0x10]", out(reg) limit, options(nostack, readonly, preserves_flags)) };
    limit
}

/// Rests, which is the deepest act of this stack, as there is no call before. Then the limit is at
/// or below all that was touched, and a panic is caught one frame deeper.
#[inline(never)]
unsafe extern "C-unwind" fn rests(sides: *mut Sides) {
    let after: usize;
    // SAFETY: the other side rests, and comes back to the link. The first instruction reads a
    // register.
    unsafe {
        asm!("lea {}, [rsp - 64]", out(reg)(*sides).lowest, options(nomem, nostack, preserves_flags));
        switch(&raw mut (*sides).root.link, (*sides).other);
        after = limit();
        assert!(after <= (*sides).lowest, "the limit {after:#x} lies above the word {:#x}", (*sides).lowest);
    }
    assert!(catch_unwind(|| resume_unwind(Box::new(()))).is_err());
}

/// Calls `f` with its return address right below `top`, in memory below all frames.
///
/// # Safety
///
/// `top` is a multiple of 16. The memory below belongs to the stack on which the caller runs, and
/// grows from the page of `top` on; 32 bytes above are of nobody. `f` may be called with `sides`.
#[unsafe(naked)]
unsafe extern "C-unwind" fn call_below(top: usize, f: unsafe extern "C-unwind" fn(*mut Sides), sides: *mut Sides) {
    naked_asm!(
        ".seh_proc {this}",
        "push rbp",
        ".seh_pushreg rbp",
        "mov rbp, rsp",
        ".seh_setframe rbp, 0",
        ".seh_endprologue",
        "mov rsp, rcx",
        "mov rcx, r8",
        "call rdx",
        "mov rsp, rbp",
        "pop rbp",
        "ret",
        ".seh_endproc",
        this = sym call_below,
    )
}

#[test]
fn the_limit_is_true_wherever_in_a_page_a_coroutine_rests() {
    const PAGE: usize = 4096;
    for place in (0..PAGE).step_by(16) {
        run(&mut pool(StackConfig::new()), move || {
            let mut memory = Box::new(Memory([0; _]));
            let root = Root { link: ptr::null_mut(), entry: goes_back };
            let mut sides = Sides { root, other: ptr::null_mut(), lowest: 0 };
            let sides = &raw mut sides;
            // So that the lowest page has no frame.
            descend(20, false);
            // SAFETY: the end of the memory is a multiple of 16; the other side needs far less, and
            // never goes on after this. The pages from the limit on can be accessed, and have no
            // frames, which begin more than a page above.
            unsafe {
                (*sides).other = prepare(memory.0.as_mut_ptr_range().end, sides.cast());
                call_below(limit() + place, rests, sides);
            }
        });
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
