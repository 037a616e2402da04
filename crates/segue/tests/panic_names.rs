//! A panic's message names its fiber, and its backtrace has the user's frames.
#![cfg(feature = "sched")]

use std::process::Command;

/// Runs the named test once more in a process of its own, in this role, and returns what it says.
fn child(test: &str, role: &str) -> String {
    child_with(test, role, "0")
}

/// The same, with a backtrace or without.
fn child_with(test: &str, role: &str, backtrace: &str) -> String {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, role)
        .env("RUST_BACKTRACE", backtrace)
        .output()
        .unwrap();
    let said = String::from_utf8(child.stderr).unwrap();
    assert!(child.status.success(), "{said}");
    said
}

const ROLE: &str = "SEGUE_TEST_ROLE";

fn panics_in_a_fiber() {
    segue::run(|| {
        let printer = segue::Builder::new().name("printer").spawn(|| panic!("out of ink"));
        assert!(printer.join().unwrap_err().is_panic());
    });
}

#[test]
fn a_panic_names_its_fiber_once_and_the_other_hooks_go_on() {
    match std::env::var(ROLE).as_deref() {
        // Debug builds do so by themselves.
        Ok("by itself") => panics_in_a_fiber(),
        Ok("asked for") => {
            segue::fiber::name_fibers_in_panics();
            segue::fiber::name_fibers_in_panics();
            panics_in_a_fiber();
        }
        Ok("asked for later") => {
            segue::run(|| ());
            segue::fiber::name_fibers_in_panics();
            panics_in_a_fiber();
        }
        // A hook of the program's has replaced that of a debug build.
        Ok("asked for behind another hook") => {
            segue::run(|| ());
            let _ = std::panic::take_hook();
            segue::fiber::name_fibers_in_panics();
            panics_in_a_fiber();
        }
        Ok(role) => unreachable!("{role}"),
        Err(_) => {
            for role in ["by itself", "asked for", "asked for later", "asked for behind another hook"] {
                let said = child("a_panic_names_its_fiber_once_and_the_other_hooks_go_on", role);
                let lines: Vec<_> = said.lines().filter(|line| !line.is_empty()).collect();
                let named: Vec<_> = (0..lines.len()).filter(|&n| lines[n].starts_with("segue: in ")).collect();
                if role == "by itself" && !cfg!(debug_assertions) {
                    assert!(named.is_empty(), "{said}");
                    continue;
                }
                assert_eq!(named.len(), 1, "{role}: {said}");
                assert_eq!(lines[named[0]], "segue: in fiber `printer`:");
                assert!(
                    lines[named[0] + 1].contains("panicked at") && lines[named[0] + 2].contains("out of ink"),
                    "{said}"
                );
            }
            return;
        }
    }
    assert!(std::thread::spawn(|| panic!("on a plain thread")).join().is_err());
}

/// Also where the panic of each schedule is printed once.
#[test]
fn an_exploration_names_the_fiber_of_a_panic_that_it_prints() {
    let test = "an_exploration_names_the_fiber_of_a_panic_that_it_prints";
    if std::env::var_os(ROLE).is_some() {
        let fails = || drop(segue::Builder::new().name("printer").spawn(|| -> u32 { panic!("out of ink") }).join());
        assert!(segue::testing::Explore::random(5).run(fails).is_ok());
        return panics_in_a_fiber();
    }
    let said = child(test, "explores");
    let names = said.matches("segue: in fiber `printer`:").count();
    assert_eq!(said.matches("out of ink").count(), 2, "{said}");
    assert_eq!(names, if cfg!(debug_assertions) { 2 } else { 0 }, "{said}");
}

/// A runtime that is started in a destructor during a panic can't install a hook.
#[test]
fn a_run_in_a_destructor_during_a_panic_is_no_second_panic() {
    struct Runs;
    impl Drop for Runs {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            drop(segue::runtime().workers(1));
        }
    }
    let test = "a_run_in_a_destructor_during_a_panic_is_no_second_panic";
    if std::env::var_os(ROLE).is_some() {
        let ended = std::panic::catch_unwind(|| {
            let _runs = Runs;
            std::panic::resume_unwind(Box::new("out of ink"));
        });
        assert!(ended.is_err());
        return;
    }
    child(test, "panics");
}

/// Panics two calls further in.
#[inline(never)]
fn outer() -> u32 {
    1 + std::hint::black_box(inner())
}

#[inline(never)]
fn inner() -> u32 {
    panic!("out of ink")
}

/// Everything that begins a fiber, or a closure elsewhere, with a panic in it. (A half of a join
/// that runs in place is a part of its caller's call.)
const BEGIN: &[(&str, fn())] = &[
    ("a run", || _ = segue::run(outer)),
    ("a move", || _ = segue::move_to(&segue::sched::default_pool().handle(), outer)),
    ("a pool", || _ = segue::runtime().workers(1).pool().unwrap().run(outer)),
    ("a fiber", || _ = segue::spawn(outer).join()),
    ("a fiber of a scope", || _ = segue::scope(|s| s.spawn(outer).join().unwrap())),
    ("a local fiber", || _ = segue::run(|| segue::scope(|s| s.spawn_local(outer).join().unwrap()))),
    ("a task", || _ = segue::spawn_task(async { outer() }).join()),
    ("a closure that blocks", || _ = segue::run(|| segue::blocking(outer))),
    ("a delayed closure", || _ = segue::Builder::new().after(std::time::Duration::ZERO).spawn(outer).join()),
    ("a simulation", || _ = segue::testing::Sim::new(1).run(outer)),
    ("the plain scheduler", || _ = segue::sched::Plain::run(outer)),
    ("so many at once", || _ = segue::run(|| segue::concurrent::at_most(1).map([()], |()| outer()))),
    ("a hosted fiber", || _ = segue::wait_future(segue::sched::hosted(outer))),
];

#[test]
fn a_backtrace_ends_where_the_user_s_code_begins() {
    const CHILD: &str = "SEGUE_TEST_BEGINS";
    if let Ok(number) = std::env::var(CHILD) {
        let begin = BEGIN[number.parse::<usize>().unwrap()].1;
        let _ = std::panic::catch_unwind(begin);
        return;
    }
    for (number, (what, _)) in BEGIN.iter().enumerate() {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_backtrace_ends_where_the_user_s_code_begins", "--nocapture"])
            .env(CHILD, number.to_string())
            .env("RUST_BACKTRACE", "1")
            .output()
            .unwrap();
        let said = String::from_utf8(child.stderr).unwrap();
        let (_, trace) = said.split_once("stack backtrace:").unwrap_or_else(|| panic!("{what}: {said}"));
        let (trace, _) = trace.split_once("note: ").unwrap_or_else(|| panic!("{what}: {said}"));
        let is_frame =
            |line: &&str| line.split_once(": ").is_some_and(|(number, _)| number.trim().parse::<u32>().is_ok());
        let frames: Vec<_> = trace.lines().filter(is_frame).collect();
        assert!(frames.iter().any(|frame| frame.ends_with("::inner")), "{what}: {said}");
        assert!(frames.iter().any(|frame| frame.ends_with("::outer")), "{what}: {said}");
        // Two of the panic, two of the user's, and what the compiler puts around a closure.
        assert!(frames.len() <= 10, "{what} has {} frames: {said}", frames.len());
        let ours = frames.iter().filter(|frame| frame.contains("segue")).count();
        assert!(ours <= 3, "{what} has {ours} frames of the library's: {said}");
    }
}

/// A call that runs in place, on a plain thread, is a part of its caller's.
#[test]
fn a_backtrace_of_a_blocking_call_in_place_goes_on_to_the_caller() {
    #[inline(never)]
    fn calls_in_place() {
        _ = std::hint::black_box(segue::blocking(outer));
    }
    let test = "a_backtrace_of_a_blocking_call_in_place_goes_on_to_the_caller";
    if std::env::var_os(ROLE).is_some() {
        let _ = std::panic::catch_unwind(calls_in_place);
        return;
    }
    let said = child_with(test, "panics", "1");
    assert!(said.contains("::inner") && said.contains("::calls_in_place"), "{said}");
}
