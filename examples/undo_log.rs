//! An undo log: a write is an effect, and its handler keeps a log. If the body ends by a panic, all
//! that the body has written is taken back.
//!
//! A body inside of another hands its log over at its end, so that the outer one can still take all
//! of that back. One thread alone sees the accounts: for transactions that others share see
//! `segue::stm`.

use segue::effect::{Effect, Handler, perform, try_perform};
use std::any::Any;
use std::cell::Cell;
use std::panic::resume_unwind;
use std::rc::Rc;

/// What is read anywhere, and written inside of such a body.
type Account = Rc<Cell<i64>>;

struct Write(Account, i64);
impl Effect for Write {
    type Output = ();
}

/// What was written, with the values before.
type Log = Vec<(Account, i64)>;

/// What an inner body has written, for the outer one's log.
struct Ended(Log);
impl Effect for Ended {
    type Output = ();
}

/// Runs `body`; if it panics, nothing was written.
fn all_or_nothing<T>(body: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    Handler::with_state(Log::new())
        .answer_with(|log: &mut Log, Write(account, balance)| {
            let before = account.replace(balance);
            log.push((account, before));
        })
        .answer_with(|log: &mut Log, Ended(inner)| log.extend(inner))
        .value_with(|log, value: T| {
            // This runs under the outer handlers. If there is no body around, the log is not
            // needed any more.
            let _outermost = try_perform(Ended(log)).is_err();
            Ok(value)
        })
        .panic_with(|log: Log, payload| {
            log.into_iter().rev().for_each(|(account, before)| account.set(before));
            Err(payload)
        })
        .handle(body)
}

fn transfer(from: &Account, to: &Account, amount: i64) {
    perform(Write(Rc::clone(to), to.get() + amount));
    perform(Write(Rc::clone(from), from.get() - amount));
    if from.get() < 0 {
        // As `panic!`, without its message.
        resume_unwind(Box::new("not enough money"));
    }
}

fn main() {
    let (ours, theirs) = (Account::new(Cell::new(100)), Account::default());
    all_or_nothing(|| transfer(&ours, &theirs, 70)).expect("enough money");
    assert_eq!((ours.get(), theirs.get()), (30, 70));

    let refused = all_or_nothing(|| transfer(&ours, &theirs, 70)).expect_err("not enough money");
    assert_eq!(refused.downcast_ref(), Some(&"not enough money"));
    assert_eq!((ours.get(), theirs.get()), (30, 70));

    // The inner body fails and is taken back alone; the one after it succeeds, and is taken
    // back with the outer one.
    let outer: Result<(), _> = all_or_nothing(|| {
        assert!(all_or_nothing(|| transfer(&ours, &theirs, 70)).is_err());
        assert!(all_or_nothing(|| transfer(&theirs, &ours, 70)).is_ok());
        assert_eq!((ours.get(), theirs.get()), (100, 0));
        resume_unwind(Box::new("changed my mind"));
    });
    assert!(outer.is_err());
    assert_eq!((ours.get(), theirs.get()), (30, 70));
    println!("ours: {}, theirs: {}", ours.get(), theirs.get());
}
