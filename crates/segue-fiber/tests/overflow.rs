//! What a fault prints and how the process ends: each case in a child process, on real stacks.
//!
//! A test calls itself again with a variable set; the child does the deed and must not come back.

#![cfg(all(not(threads), target_os = "linux"))]
#![allow(unsafe_code)] // Faults on purpose.

use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use segue_conformance::this_program;
use segue_fiber::{Coroutine, StackArena, StackConfig, StackPool, ensure_alternate_stack, install_overflow_handler};

const VARIABLE: &str = "SEGUE_FIBER_DEED";

/// In the parent: runs the named test again in a child and returns what became of it. In the child:
/// does the deed.
fn child(test: &str, deed: impl FnOnce()) -> Option<Output> {
    if std::env::var_os(VARIABLE).is_some() {
        deed();
        return None;
    }
    let output =
        this_program().args([test, "--exact", "--nocapture", "--test-threads=1"]).env(VARIABLE, "1").output().unwrap();
    Some(output)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[allow(unconditional_recursion)] // That is the fault.
#[inline(never)]
fn recurse(depth: usize) -> usize {
    let frame = black_box([depth; 20]);
    recurse(depth + 1) + frame[depth % 20]
}

fn overflow(config: StackConfig, name: Option<&str>) {
    let mut pool = StackPool::new(StackArena::new(config).unwrap());
    // Another coroutine with another name, suspended or not, is not the culprit.
    let bystander = Coroutine::new(pool.take().unwrap(), (), |()| ());
    bystander.set_label(1, Some("bystander"));
    let mut culprit = Coroutine::new(pool.take().unwrap(), (), |()| {
        black_box(recurse(0));
    });
    culprit.set_label(42, name);
    let _ = culprit.resume();
}

#[test]
fn an_overflow_names_the_fiber_and_aborts() {
    let Some(output) = child("an_overflow_names_the_fiber_and_aborts", || {
        install_overflow_handler().unwrap();
        install_overflow_handler().unwrap();
        overflow(StackConfig::new().slot_size(64 * 1024), Some("greedy"));
    }) else {
        return;
    };
    let text = stderr(&output);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    assert!(text.contains("fiber 'greedy' (42) overflowed its stack of 47 KiB"), "{text}");
    assert!(text.contains("Builder::stack_size") && text.contains("StackConfig::slot_size"), "{text}");
    assert!(text.contains("SEGUE_STACK_SIZE=128K"), "{text}");
    let named = text.lines().filter(|line| line.starts_with("  0x") && line.ends_with("overflow::recurse")).count();
    assert!(named >= 5, "the frames are named: {text}");
    assert!(!text.contains("bystander"), "{text}");
    let frames = text.lines().filter(|line| line.starts_with("  0x")).count();
    assert!(frames >= 5, "a recursion of thousands shows some frames: {text}");
}

#[test]
fn an_overflow_of_a_handled_computation_says_what_it_may_be() {
    use segue_fiber::effect::{Effect, Handler, perform};
    struct Ask;
    impl Effect for Ask {
        type Output = usize;
    }
    let Some(output) = child("an_overflow_of_a_handled_computation_says_what_it_may_be", || {
        Handler::new().on(|_: Ask, k| k.resume(0)).handle(|| recurse(perform(Ask)));
    }) else {
        return;
    };
    let text = stderr(&output);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    assert!(text.contains("the body of an effect handler or of a generator overflowed its stack of 2"), "{text}");
    assert!(text.contains("Handler::stack_size or generator_with_stack"), "{text}");
    assert!(text.contains("SEGUE_STACK_SIZE=512K"), "{text}");
}

/// As deep as in a walk of a degenerate tree.
#[inline(never)]
fn descend(depth: usize) -> usize {
    let frame = black_box([depth; 20]);
    if depth == 0 { 0 } else { descend(depth - 1) + frame[depth % 20] / depth }
}

#[test]
fn a_body_that_needs_more_stack_asks_for_it() {
    use segue_fiber::effect::{Effect, Handler, perform};
    use segue_fiber::{generator_with_stack, region};
    struct Ask;
    impl Effect for Ask {
        type Output = usize;
    }
    const DEPTH: usize = 20_000;
    const BYTES: usize = 30 << 20;
    assert!(generator_with_stack(BYTES, |y| y.give(descend(DEPTH))).eq([DEPTH]));
    region(|r| assert!(r.generator_with_stack(BYTES, |y| y.give(descend(DEPTH))).eq([DEPTH])));
    let body = || descend(perform(Ask));
    let scoped = Handler::new().on(|_: Ask, k| k.resume(DEPTH)).stack_size(BYTES);
    assert_eq!(scoped.handle(body), DEPTH);
    let stored = Handler::stored().stack_size(BYTES).value(|depth: usize| depth + 1);
    assert_eq!(stored.on(|_: Ask, k| k.resume(DEPTH)).handle(body), DEPTH + 1);
    // Each goes back where it came from.
    for _ in 0..1000 {
        assert!(generator_with_stack(BYTES, |y| y.give(1)).eq([1]));
    }
}

#[test]
#[should_panic(expected = "no stack for a generator or a machine: a stack of 1073741824 bytes is too large")]
fn a_stack_that_nobody_can_have_is_refused() {
    drop(segue_fiber::generator_with_stack(1 << 30, |y| y.give(1)));
}

#[test]
fn the_environment_and_the_program_say_what_stacks_are_like() {
    let Some(output) = child("the_environment_and_the_program_say_what_stacks_are_like", || {
        if std::env::var_os("SEGUE_STACK_SIZE").is_none() {
            // SAFETY: no other thread reads the environment: this process runs one test.
            unsafe { std::env::set_var("SEGUE_STACK_SIZE", "3000k") };
        }
        let size = || StackArena::new(StackConfig::new()).unwrap().slot_size();
        assert_eq!(size(), 4 << 20);
        StackConfig::set_default_slot_size(32 << 20).unwrap();
        assert!(StackConfig::set_default_slot_size(3 << 20).is_err());
        assert_eq!(size(), 32 << 20);
        // Bodies that say nothing have it.
        assert!(segue_fiber::generator(|y| y.give(descend(20_000))).eq([20_000]));
    }) else {
        return;
    };
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn an_overflow_is_found_with_mprotect_guards_too_and_without_a_name() {
    let Some(output) = child("an_overflow_is_found_with_mprotect_guards_too_and_without_a_name", || {
        install_overflow_handler().unwrap();
        overflow(StackConfig::new().mprotect_guards(true), None);
    }) else {
        return;
    };
    let text = stderr(&output);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    assert!(text.contains("fiber (42) overflowed its stack of 239 KiB"), "{text}");
}

#[test]
fn a_long_name_is_cut_at_a_character_and_control_characters_are_masked() {
    let Some(output) = child("a_long_name_is_cut_at_a_character_and_control_characters_are_masked", || {
        install_overflow_handler().unwrap();
        overflow(StackConfig::new(), Some("\u{1b}[2J 0123456789 0123456789 0123456789 01234567\u{e4}\u{e4}"));
    }) else {
        return;
    };
    let text = stderr(&output);
    assert!(text.contains("fiber '?[2J 0123456789 0123456789 0123456789 01234567' (42)"), "{text}");
}

#[test]
fn without_the_handler_an_overflow_is_a_bare_fault() {
    // The planted case: the message above comes from the handler and nothing else.
    let Some(output) = child("without_the_handler_an_overflow_is_a_bare_fault", || {
        overflow(StackConfig::new(), Some("greedy"));
    }) else {
        return;
    };
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    assert!(!stderr(&output).contains("overflowed"));
}

#[test]
fn a_null_dereference_inside_a_coroutine_is_an_ordinary_fault() {
    let Some(output) = child("a_null_dereference_inside_a_coroutine_is_an_ordinary_fault", || {
        install_overflow_handler().unwrap();
        let mut pool = StackPool::new(StackArena::new(StackConfig::new()).unwrap());
        let mut coroutine = Coroutine::new(pool.take().unwrap(), (), |()| {
            // SAFETY: none: this is the fault under test, in a process made for it.
            unsafe { black_box(std::ptr::null_mut::<u8>()).write_volatile(1) };
        });
        let _ = coroutine.resume();
    }) else {
        return;
    };
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    assert!(!stderr(&output).contains("overflowed"), "{}", stderr(&output));
}

#[test]
fn a_stray_pointer_into_a_guard_is_no_overflow() {
    let Some(output) = child("a_stray_pointer_into_a_guard_is_no_overflow", || {
        install_overflow_handler().unwrap();
        let mut pool = StackPool::new(StackArena::new(StackConfig::new()).unwrap());
        let stack = pool.take().unwrap();
        // SAFETY: none: this is the fault under test, in a process made for it.
        unsafe { ((stack.bounds().unwrap().start - 1) as *mut u8).write_volatile(1) };
    }) else {
        return;
    };
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "the guard is there");
    assert!(!stderr(&output).contains("overflowed"), "{}", stderr(&output));
}

#[test]
fn a_threads_own_overflow_is_left_to_std() {
    let Some(output) = child("a_threads_own_overflow_is_left_to_std", || {
        install_overflow_handler().unwrap();
        let thread = std::thread::Builder::new().name("deep".into()).stack_size(64 * 1024);
        thread.spawn(|| black_box(recurse(0))).unwrap().join().unwrap();
    }) else {
        return;
    };
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    assert!(stderr(&output).contains("thread 'deep'") && stderr(&output).contains("has overflowed its stack"));
}

#[test]
fn a_handler_that_was_there_before_gets_other_faults() {
    unsafe extern "C" fn earlier(_: i32) {
        // SAFETY: async-signal-safe.
        unsafe {
            libc::write(2, b"earlier handler".as_ptr().cast(), 15);
            libc::_exit(7);
        }
    }
    let Some(output) = child("a_handler_that_was_there_before_gets_other_faults", || {
        // SAFETY: the handler is async-signal-safe.
        unsafe { libc::signal(libc::SIGSEGV, earlier as *const () as usize) };
        install_overflow_handler().unwrap();
        // SAFETY: none: this is the fault under test, in a process made for it.
        unsafe { black_box(std::ptr::null_mut::<u8>()).write_volatile(1) };
    }) else {
        return;
    };
    assert_eq!(output.status.code(), Some(7));
    assert!(stderr(&output).contains("earlier handler"));
}

#[test]
fn a_signal_that_was_sent_still_kills() {
    let Some(output) = child("a_signal_that_was_sent_still_kills", || {
        // SAFETY: a plain signal to the own process, back to the default first as in a program
        // without std's handler.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        install_overflow_handler().unwrap();
        // SAFETY: as above.
        unsafe { libc::raise(libc::SIGSEGV) };
    }) else {
        return;
    };
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
}

#[test]
fn a_foreign_thread_gets_an_alternate_stack() {
    extern "C" fn body(_: *mut libc::c_void) -> *mut libc::c_void {
        ensure_alternate_stack().unwrap();
        overflow(StackConfig::new(), Some("abroad"));
        std::ptr::null_mut()
    }
    let Some(output) = child("a_foreign_thread_gets_an_alternate_stack", || {
        install_overflow_handler().unwrap();
        // SAFETY: a thread made by the C library, joined before anything it uses goes away.
        unsafe {
            let mut thread = std::mem::zeroed();
            assert_eq!(libc::pthread_create(&mut thread, std::ptr::null(), body, std::ptr::null_mut()), 0);
            libc::pthread_join(thread, std::ptr::null_mut());
        }
    }) else {
        return;
    };
    let text = stderr(&output);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    assert!(text.contains("fiber 'abroad' (42)"), "{text}");
}

#[test]
fn alternate_stacks_end_with_their_threads() {
    extern "C" fn body(_: *mut libc::c_void) -> *mut libc::c_void {
        ensure_alternate_stack().unwrap();
        ensure_alternate_stack().unwrap();
        std::ptr::null_mut()
    }
    fn run() {
        // SAFETY: a thread made by the C library, joined at once.
        unsafe {
            let mut thread = std::mem::zeroed();
            assert_eq!(libc::pthread_create(&mut thread, std::ptr::null(), body, std::ptr::null_mut()), 0);
            libc::pthread_join(thread, std::ptr::null_mut());
        }
    }
    let Some(output) = child("alternate_stacks_end_with_their_threads", || {
        let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
        run();
        let before = mappings();
        (0..100).for_each(|_| run());
        assert!(mappings() < before + 10, "{} mappings became {}", before, mappings());
    }) else {
        return;
    };
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn an_alternate_stack_that_somebody_takes_away_comes_back() {
    let disable = || {
        let none = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: libc::SIGSTKSZ };
        // SAFETY: no handler of this thread runs.
        assert_eq!(unsafe { libc::sigaltstack(&none, std::ptr::null_mut()) }, 0);
    };
    let Some(output) = child("an_alternate_stack_that_somebody_takes_away_comes_back", || {
        install_overflow_handler().unwrap();
        let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
        disable();
        ensure_alternate_stack().unwrap();
        let before = mappings();
        for _ in 0..100 {
            disable();
            ensure_alternate_stack().unwrap();
        }
        assert!(mappings() < before + 10, "{} mappings became {}", before, mappings());
        overflow(StackConfig::new(), Some("again"));
    }) else {
        return;
    };
    let text = stderr(&output);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    assert!(text.contains("fiber 'again' (42)"), "{text}");
}

/// std has taken its alternate stack away by then, and the library's variables may be gone.
#[test]
fn an_overflow_in_a_destructor_of_a_thread_local_variable_is_reported() {
    struct Overflows;
    impl Drop for Overflows {
        fn drop(&mut self) {
            ensure_alternate_stack().unwrap();
            overflow(StackConfig::new(), Some("late"));
        }
    }
    thread_local!(static LATE: Overflows = const { Overflows });
    extern "C" fn body(_: *mut libc::c_void) -> *mut libc::c_void {
        LATE.with(|_| ensure_alternate_stack().unwrap());
        std::ptr::null_mut()
    }
    let Some(output) = child("an_overflow_in_a_destructor_of_a_thread_local_variable_is_reported", || {
        install_overflow_handler().unwrap();
        // SAFETY: a thread made by the C library, joined at once.
        unsafe {
            let mut thread = std::mem::zeroed();
            assert_eq!(libc::pthread_create(&mut thread, std::ptr::null(), body, std::ptr::null_mut()), 0);
            libc::pthread_join(thread, std::ptr::null_mut());
        }
    }) else {
        return;
    };
    let text = stderr(&output);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    assert!(text.contains("fiber 'late' (42)"), "{text}");
}

#[test]
fn locked_memory_falls_back_to_guards_that_work() {
    let Some(output) = child("locked_memory_falls_back_to_guards_that_work", || {
        // SAFETY: affects mappings that this process is going to make.
        if unsafe { libc::mlockall(libc::MCL_FUTURE) } != 0 {
            eprintln!("not permitted to lock memory");
            std::process::abort();
        }
        install_overflow_handler().unwrap();
        overflow(StackConfig::new().slot_size(64 * 1024).max_slots(64), Some("locked"));
    }) else {
        return;
    };
    let text = stderr(&output);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    let skipped = text.contains("not permitted");
    assert!(skipped || text.contains("fiber 'locked' (42) overflowed its stack"), "{text}");
}
