//! Fiber-local values on plain threads, fit for Miri: what is lent stays where it is while others
//! are made, read and handed down. `fiber_locals.rs` of the umbrella crate has the rest.

use segue_core::{AccessError, fiber_local, scope};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fiber_local! {
    static FIRST: RefCell<String> = RefCell::new("first".to_owned()), inherited;
    static SECOND: Cell<u64> = Cell::new(2);
    static THIRD: RefCell<Vec<u8>> = RefCell::new(vec![3]), inherited;
    static FOURTH: u8 = 4, inherited;
    static FIFTH: Box<u8> = Box::new(5);
}

#[test]
fn what_is_lent_stays_in_place_while_others_are_made_and_handed_down() {
    let thread = std::thread::spawn(|| {
        FIRST.with(|first| {
            FOURTH.with(|fourth| {
                SECOND.set(SECOND.get() + u64::from(*fourth));
                THIRD.with_borrow_mut(|third| third.push(FIFTH.with(|fifth| **fifth)));
                first.borrow_mut().push_str(", changed");
                let child = scope(|s| {
                    s.spawn(|| (FIRST.with_borrow(String::clone), THIRD.with_borrow(Vec::clone), SECOND.get())).join()
                });
                assert_eq!(child.unwrap(), ("first, changed".to_owned(), vec![3, 5], 2));
                first.borrow_mut().push('!');
                assert_eq!((*fourth, SECOND.get()), (4, 6));
            });
        });
        // A clone that fails, of a value that is borrowed, fails the spawn and loses nothing.
        THIRD.with_borrow_mut(|third| {
            assert!(catch_unwind(AssertUnwindSafe(|| scope(|s| drop(s.spawn(|| ()))))).is_err());
            third.push(6);
        });
        (FIRST.with_borrow(String::clone), THIRD.with_borrow(Vec::clone))
    });
    assert_eq!(thread.join().unwrap(), ("first, changed!".to_owned(), vec![3, 5, 6]));
}

/// What the destructor of a value has read: an older value, itself, a newer one, and one that is
/// new; and what a child of it has, which has values of its own, and is handed down what is there.
type Seen = ([Result<u64, AccessError>; 4], (u64, u8, Vec<u8>));

static SEEN: Mutex<Vec<Seen>> = Mutex::new(Vec::new());

struct Reads;

impl Drop for Reads {
    fn drop(&mut self) {
        let older = SECOND.try_with(Cell::get);
        let own = READS.try_with(|_| 0);
        let newer = FIFTH.try_with(|fifth| u64::from(**fifth));
        let new = FOURTH.try_with(|fourth| u64::from(*fourth));
        let child =
            scope(|s| s.spawn(|| (SECOND.get(), FIFTH.with(|fifth| **fifth), THIRD.with_borrow(Vec::clone))).join());
        SEEN.lock().unwrap().push(([older, own, newer, new], child.unwrap()));
    }
}

fiber_local! {
    static READS: Reads = Reads;
}

fn use_and_end() {
    SECOND.set(7);
    THIRD.with_borrow_mut(|third| *third = vec![6]);
    READS.with(|_| ());
    FIFTH.with(|_| ());
}

#[test]
#[cfg_attr(windows, ignore = "such destructors run under the loader's lock there: no thread can start meanwhile")]
fn a_destructor_reads_what_is_still_there_on_a_thread_as_on_a_fiber() {
    std::thread::spawn(use_and_end).join().unwrap();
    scope(|s| s.spawn(use_and_end).join().unwrap());
    let expected = ([Ok(7), Err(AccessError), Err(AccessError), Err(AccessError)], (2, 5, vec![6]));
    assert_eq!(*SEEN.lock().unwrap(), [expected.clone(), expected]);
}

#[test]
#[cfg_attr(windows, ignore = "such destructors run under the loader's lock there: no thread can start meanwhile")]
fn a_thread_that_is_past_its_end_has_no_values_but_its_jobs_have() {
    struct Late(bool);
    impl Drop for Late {
        fn drop(&mut self) {
            if self.0 {
                // Whichever is dropped first of this and what ends the values.
                let own = SECOND.try_with(Cell::get);
                assert!(matches!(own, Ok(8) | Err(AccessError)));
                let job = scope(|s| s.spawn(|| (SECOND.replace(9), SECOND.get())).join());
                assert_eq!(job.unwrap(), (2, 9));
                assert_eq!(SECOND.try_with(Cell::get), own, "the job has left the thread's alone");
                LATE.fetch_add(1, Relaxed);
            }
        }
    }
    thread_local! {
        static BEFORE: Cell<Late> = const { Cell::new(Late(false)) };
        static AFTER: Cell<Late> = const { Cell::new(Late(false)) };
    }
    static LATE: AtomicUsize = AtomicUsize::new(0);

    let thread = std::thread::spawn(|| {
        BEFORE.set(Late(true));
        SECOND.set(8);
        AFTER.set(Late(true));
    });
    thread.join().unwrap();
    assert_eq!(LATE.load(Relaxed), 2);
}
