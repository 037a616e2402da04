//! What a task that has ended leaves to the next one of its thread, seen from outside: it delays an
//! owner no longer than until the thread settles.

#![cfg(not(loom))]
#![allow(unsafe_code)] // A family's jobs are unsafe to make: each test completes its family.

use segue_core::JoinHandle;
use segue_core::scheduling::{Family, keep_spares, settle};

/// Makes a fiber of the family and runs it here and now.
fn run_one<T: Send + 'static>(family: &Family, f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    // SAFETY: every test completes its family before that goes, and the closure borrows nothing.
    let (job, handle) = unsafe { family.job(segue_core::Builder::new(), f) };
    job.run();
    handle
}

fn members(family: &Family) -> usize {
    let text = format!("{family:?}");
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits.parse::<usize>().unwrap() - 1
}

#[test]
fn nothing_is_kept_unless_it_is_allowed() {
    let family = Family::detached();
    assert_eq!(run_one(&family, || 1).join().unwrap(), 1);
    assert_eq!(members(&family), 0);
    assert!(!settle());
    // SAFETY: no member is made after this.
    unsafe { family.complete() };
}

#[test]
fn a_membership_is_kept_for_the_next_and_given_up_once() {
    assert!(!keep_spares(true));
    let family = Family::detached();
    for number in 0..10 {
        assert_eq!(run_one(&family, move || number).join().unwrap(), number);
        assert_eq!(members(&family), 1, "one is kept, and no more");
    }
    assert!(settle());
    assert_eq!(members(&family), 0);
    assert!(!settle());
    drop(run_one(&family, || ()));
    assert_eq!(members(&family), 1);
    assert!(keep_spares(false), "to forbid it settles");
    assert_eq!(members(&family), 0);
    // SAFETY: no member is made after this.
    unsafe { family.complete() };
}

#[test]
fn an_owner_on_the_same_thread_does_not_wait_for_itself() {
    keep_spares(true);
    let family = Family::detached();
    drop(run_one(&family, || ()));
    // SAFETY: no member is made after this.
    unsafe { family.complete() };
    keep_spares(false);
}

#[test]
fn one_family_is_not_taken_for_another() {
    keep_spares(true);
    let (first, second) = (Family::detached(), Family::detached());
    drop(run_one(&first, || ()));
    drop(run_one(&second, || ()));
    assert_eq!((members(&first), members(&second)), (1, 0));
    assert!(settle());
    assert_eq!((members(&first), members(&second)), (0, 0));
    // SAFETY: no members are made after this.
    unsafe {
        first.complete();
        second.complete();
    }
    keep_spares(false);
}

#[test]
fn an_owner_elsewhere_goes_on_when_the_thread_settles() {
    let family = Family::detached();
    std::thread::scope(|threads| {
        let (ended, wait) = std::sync::mpsc::channel();
        let family = &family;
        threads.spawn(move || {
            keep_spares(true);
            drop(run_one(family, || ()));
            ended.send(()).unwrap();
            assert!(settle());
            keep_spares(false);
        });
        wait.recv().unwrap();
        // SAFETY: no member is made after this.
        unsafe { family.complete() };
    });
}

#[test]
fn tasks_of_all_sizes_get_memory_and_give_it_back() {
    #[repr(align(128))]
    struct Aligned(u8);

    keep_spares(true);
    let family = Family::detached();
    for round in 0..100_u8 {
        let mut kept = Vec::new();
        for number in 0..40 {
            let large = [round; 300];
            kept.push(run_one(&family, move || u64::from(number)));
            kept.push(run_one(&family, move || u64::from(large[299]) + u64::from(number)));
            let aligned = Aligned(number);
            drop(run_one(&family, move || (&raw const aligned).addr() % 128 + usize::from(aligned.0)));
        }
        let sum: u64 = kept.into_iter().map(|handle| handle.join().unwrap()).sum();
        assert_eq!(sum, 2 * (0..40).sum::<u64>() + 40 * u64::from(round));
    }
    // SAFETY: no member is made after this.
    unsafe { family.complete() };
    keep_spares(false);
}
