//! Regions end computations while what stands for them is in use on the stack of another one, which
//! they end later.

use std::cell::{Cell, RefCell};
use std::mem;
use std::panic::catch_unwind;
use std::rc::Rc;

use segue_fiber::effect::{Continuation, Effect, perform, try_perform};
use segue_fiber::{leaked_stacks, region};

struct Ask;
impl Effect for Ask {
    type Output = u64;
}

/// An answer whose destructor asks.
struct Asks;
impl Drop for Asks {
    fn drop(&mut self) {
        perform(Ask);
    }
}

struct Give;
impl Effect for Give {
    type Output = Asks;
}

/// What a handler of [`Ask`] comes to.
enum Outcome<'r> {
    Asked(Continuation<'r, u64, Outcome<'r>>),
    Done,
}

type Kept<'r> = Rc<Cell<Option<Continuation<'r, u64, Outcome<'r>>>>>;

/// The computation that drops counts those who hold its clauses and its frames; both are let go.
#[test]
fn what_is_being_dropped_is_ended_and_then_freed() {
    let (clause, frame) = (Rc::new(()), Rc::new(()));
    region(|region| {
        let (clause, frame) = (Rc::clone(&clause), Rc::clone(&frame));
        let outcome = region.handler().on(|_: Ask, k| Outcome::Asked(k)).value(|()| Outcome::Done).handle(move || {
            let dropping = region.handler().on(move |_: Give, k| {
                let _clause = &clause;
                // The drop of the answer asks. So the drop of the continuation is suspended, and
                // with it whoever drops.
                drop(k.tail(Asks));
            });
            dropping.handle(move || {
                let _frame = frame;
                mem::forget(perform(Give));
            });
        });
        let Outcome::Asked(k) = outcome else { panic!("the destructor has asked") };
        mem::forget(k);
    });
    assert_eq!((Rc::strong_count(&frame), Rc::strong_count(&clause)), (1, 1));
    assert_eq!(leaked_stacks(), 0);
}

#[test]
fn what_is_being_dropped_runs_whoever_drops_it() {
    let (went_on, clause) = (Rc::new(Cell::new(0)), Rc::new(()));
    region(|region| {
        let (went_on, clause) = (Rc::clone(&went_on), Rc::clone(&clause));
        let kept: Kept = Rc::default();
        let inside = Rc::clone(&kept);
        let outcome = region.handler().on(|_: Ask, k| Outcome::Asked(k)).value(|()| Outcome::Done).handle(move || {
            let dropping = region.handler().on(move |_: Give, k| {
                let _clause = &clause;
                drop(k.tail(Asks));
            });
            let after = Rc::clone(&went_on);
            dropping.handle(move || {
                let ended = catch_unwind(|| mem::forget(perform(Give)));
                assert!(ended.is_err());
                // Now the region ends, and this runs. The other one is in the middle of dropping
                // this.
                let k = inside.take().unwrap();
                assert!(matches!(k.resume(1), Outcome::Done));
                went_on.set(went_on.get() + 1);
            });
            after.set(after.get() + 10);
        });
        let Outcome::Asked(k) = outcome else { panic!("the destructor has asked") };
        kept.set(Some(k));
    });
    assert_eq!((went_on.get(), Rc::strong_count(&clause), leaked_stacks()), (11, 1, 0));
}

#[test]
fn a_state_that_is_lent_stays_until_it_is_given_back() {
    /// Looks at what it has borrowed when it is dropped.
    struct Borrows<'a>(&'a mut Vec<u64>, Rc<RefCell<Vec<u64>>>);
    impl Drop for Borrows<'_> {
        fn drop(&mut self) {
            self.1.borrow_mut().append(self.0);
        }
    }
    struct Counts;
    impl Effect for Counts {
        type Output = u64;
    }
    struct Push;
    impl Effect for Push {
        type Output = usize;
    }
    /// Pushes when it is dropped, if it can.
    struct Pushes(Rc<Cell<Option<bool>>>);
    impl Drop for Pushes {
        fn drop(&mut self) {
            self.0.set(Some(try_perform(Push).is_ok()));
        }
    }

    let seen: Rc<RefCell<Vec<u64>>> = Rc::default();
    let pushed: Rc<Cell<Option<bool>>> = Rc::default();
    let cased = Rc::new(Cell::new(false));
    region(|region| {
        let (borrower, pushes, case) = (Rc::clone(&seen), Rc::clone(&pushed), Rc::clone(&cased));
        let outcome = region.handler().on(|_: Ask, k| Outcome::Asked(k)).value(|()| Outcome::Done).handle(move || {
            let lending = region
                .handler_with_state(vec![1, 2, 3])
                .on(move |_: Counts, mut k: Continuation<u64, u64, Vec<u64>>| {
                    let _borrows = Borrows(k.state(), Rc::clone(&borrower));
                    // Suspends this clause, which has borrowed the state.
                    perform(Ask)
                })
                .answer_with(|state: &mut Vec<u64>, _: Push| {
                    state.resize(1000, 7);
                    state.len()
                })
                .panic_with(move |state: Vec<u64>, _| {
                    case.set(true);
                    state[0]
                });
            lending.handle(move || {
                let _pushes = Pushes(pushes);
                perform(Counts)
            });
        });
        let Outcome::Asked(k) = outcome else { panic!("the clause has asked") };
        mem::forget(k);
    });
    assert_eq!(*seen.borrow(), [1, 2, 3], "nobody else has used the state meanwhile");
    assert_eq!((pushed.get(), cased.get()), (Some(false), false), "it was left without its clauses and cases");
    assert_eq!(leaked_stacks(), 0);
}

#[test]
fn a_state_that_is_not_lent_goes_to_the_cases() {
    let seen = Rc::new(Cell::new(0));
    region(|region| {
        let case = Rc::clone(&seen);
        let outcome = region
            .handler_with_state(Box::new(5))
            .on(|_: Ask, k: Continuation<u64, _, Box<u64>>| {
                mem::forget(k);
                1
            })
            .panic_with(move |state: Box<u64>, _| {
                case.set(*state);
                2
            })
            .handle(|| perform(Ask));
        assert_eq!(outcome, 1);
    });
    assert_eq!(seen.get(), 5);
}
