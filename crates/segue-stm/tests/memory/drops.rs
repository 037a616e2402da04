//! The drop of a value is foreign code.
use crate::{AtDrop, Counted, alone};
use segue_stm::{TVar, atomically};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};

/// The drop has a transaction of its own. The body that lets go of the variable begins again: so
/// would the drop's writes be undone, if they were a part of that.
#[test]
fn a_drop_is_no_part_of_the_transaction_in_which_its_variable_was_let_go() {
    let _alone = alone();
    let drops = TVar::new(0);
    let attempts = AtomicUsize::new(0);
    let var = TVar::new(0);
    let made = |drops: &TVar<i32>| {
        let drops = drops.clone();
        TVar::new(AtDrop(move || atomically(|tx| tx.modify(&drops, |n| n + 1)).unwrap()))
    };
    atomically(|tx| {
        let seen = *tx.read(&var)?;
        // The last handle goes; a value of another thread's is freed by a look.
        drop(made(&drops));
        let _ = var.get();
        if attempts.fetch_add(1, SeqCst) == 0 {
            std::thread::scope(|s| _ = s.spawn(|| var.set(1).unwrap()));
        }
        tx.write(&var, seen + 1)
    })
    .unwrap();
    assert_eq!((attempts.load(SeqCst), drops.get(), var.get()), (2, 2, 2));
}

/// The thread that frees runs a transaction, in a drop. What is replaced meanwhile waits for the
/// end of that, and for nothing else.
#[test]
fn a_transaction_in_a_drop_frees_what_it_alone_could_see() {
    let _alone = alone();
    let counted = Counted::default();
    let var = TVar::new(counted.clone());
    let (look, looks) = mpsc::channel();
    let (go, goes) = mpsc::channel();
    let seen = var.clone();
    let goes = Arc::new(std::sync::Mutex::new(goes));
    let outer = TVar::new(AtDrop(move || {
        atomically(|tx| {
            tx.read(&seen)?;
            look.send(()).unwrap();
            goes.lock().unwrap().recv().unwrap();
            Ok(())
        })
        .unwrap();
    }));
    std::thread::scope(|s| {
        s.spawn(|| drop(outer));
        looks.recv().unwrap();
        var.set(counted.clone()).unwrap();
        assert_eq!(counted.drops(), 0);
        go.send(()).unwrap();
    });
    assert_eq!(counted.drops(), 1);
}

#[test]
fn a_panic_in_a_drop_is_caught_and_the_rest_is_freed() {
    let _alone = alone();
    std::panic::set_hook(Box::new(|_| ()));
    let counted = Counted::default();
    let panics = || AtDrop(|| panic!("planted"));
    let vars = [TVar::new((Some(panics()), counted.clone())), TVar::new((None, counted.clone()))];
    atomically(|tx| {
        tx.write(&vars[0], (None, counted.clone()))?;
        tx.write(&vars[1], (None, counted.clone()))
    })
    .unwrap();
    assert_eq!(counted.drops(), 2);
    // A panic with such a value in an attempt.
    let unwound = std::panic::catch_unwind(|| {
        atomically(|tx| -> Result<(), _> {
            tx.write(&vars[0], (Some(panics()), counted.clone()))?;
            panic!("planted, too")
        })
    });
    assert!(unwound.is_err());
    let _ = std::panic::take_hook();
    assert_eq!(counted.drops(), 3);
    drop(vars);
    assert_eq!(counted.drops(), 5);
}

#[test]
fn the_waits_of_a_drop_are_refused_on_a_fiber() {
    let _alone = alone();
    let refused = Arc::new(AtomicUsize::new(0));
    segue::run(|| {
        let (_resolver, promise) = segue::sync::promise::<()>();
        let refused = refused.clone();
        let never = TVar::new(false);
        let var = TVar::new(Some(AtDrop(move || {
            refused.fetch_add(usize::from(promise.wait().is_err()), SeqCst);
            refused.fetch_add(usize::from(segue::yield_now().is_err()), SeqCst);
            // A retry is a wait, too.
            refused.fetch_add(usize::from(atomically(|tx| tx.check(*tx.read(&never)?)).is_err()), SeqCst);
        })));
        var.set(None).unwrap();
    });
    assert_eq!(refused.load(SeqCst), 3);
}

/// A clone that panics leaves its slot, so that nothing is kept for it.
#[test]
fn a_clone_that_panics_keeps_nothing() {
    #[derive(Default)]
    struct Picky(Counted);
    impl Clone for Picky {
        fn clone(&self) -> Self {
            panic!("planted")
        }
    }
    let _alone = alone();
    std::panic::set_hook(Box::new(|_| ()));
    let value = Picky::default();
    let counted = value.0.clone();
    let var = TVar::new(value);
    let unwound = std::panic::catch_unwind(|| var.get());
    let _ = std::panic::take_hook();
    assert!(unwound.is_err());
    var.set(Picky(counted.clone())).unwrap();
    assert_eq!(counted.drops(), 1);
}
