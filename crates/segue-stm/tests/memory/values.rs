use crate::{Counted, alone};
use segue_stm::{TVar, atomically};

/// A commit sorts its writes by address: whichever order the two have, a value that was replaced
/// within the transaction is freed as one of its own type.
#[test]
fn a_value_that_was_written_over_in_the_transaction_is_freed_as_one_of_its_type() {
    let _alone = alone();
    for is_second_written_twice in [false, true] {
        let counted = Counted::default();
        let number = TVar::new(0_u8);
        let values = [(); 2].map(|()| TVar::new(counted.clone()));
        let twice = &values[usize::from(is_second_written_twice)];
        let once = &values[usize::from(!is_second_written_twice)];
        for _ in 0..2 {
            atomically(|tx| {
                tx.write(twice, counted.clone())?;
                tx.write(&number, 1)?;
                tx.write(twice, counted.clone())?;
                tx.write(&number, 2)?;
                tx.write(once, counted.clone())
            })
            .unwrap();
        }
        assert_eq!(counted.drops(), 6);
        drop((values, number));
        assert_eq!(counted.drops(), 8);
    }
}

/// References stay good across a second write, a roll-back of either kind, and the loss of the last
/// handle, until the attempt's end; then all goes.
#[test]
fn what_a_body_has_a_reference_to_stays_until_the_end_of_the_attempt() {
    let _alone = alone();
    let counted = Counted::default();
    let text = |text: &str| (text.to_owned(), counted.clone());
    let var = TVar::new(text("first"));
    atomically(|tx| {
        let first = tx.read(&var)?;
        tx.write(&var, text("second"))?;
        let second = tx.read(&var)?;
        let caught = tx.catch(|tx| {
            tx.write(&var, text("third"))?;
            Ok(Err::<(), _>(tx.read(&var)?))
        })?;
        let third = caught.unwrap_err();
        assert_eq!(tx.read(&var)?.0, "second");
        let other = TVar::new(text("other"));
        let seen = tx.read(&other)?;
        tx.write(&other, text("lost"))?;
        drop(other);
        let fourth = std::cell::Cell::new("");
        tx.or_else(
            |tx| {
                tx.write(&var, text("fourth"))?;
                fourth.set(&tx.read(&var)?.0);
                tx.retry()
            },
            |_| Ok(()),
        )?;
        assert_eq!(
            [&*first.0, &*second.0, &*third.0, fourth.get(), &*seen.0],
            ["first", "second", "third", "fourth", "other"]
        );
        assert_eq!(counted.drops(), 0);
        Ok(())
    })
    .unwrap();
    // All but the second, which is the value.
    assert_eq!(counted.drops(), 5);
    assert_eq!(var.get().0, "second");
    drop(var);
    assert_eq!(counted.drops(), 7);
}

/// A thread that still reads keeps what it may see, and its end frees that.
#[test]
fn the_last_attempt_that_may_see_a_value_frees_it() {
    let _alone = alone();
    let counted = Counted::default();
    let (first, second) = (TVar::new(counted.clone()), TVar::new(counted.clone()));
    let (look, looks) = std::sync::mpsc::channel();
    let (go, goes) = std::sync::mpsc::channel();
    let goes = std::sync::Mutex::new(goes);
    std::thread::scope(|s| {
        let reader = s.spawn(|| {
            atomically(|tx| {
                let seen = tx.read(&first)?;
                look.send(()).unwrap();
                goes.lock().unwrap().recv().unwrap();
                // Both were replaced meanwhile, the second one ten times.
                tx.read(&second)?;
                assert_eq!(seen.drops(), 0);
                Ok(())
            })
            .unwrap();
            counted.drops()
        });
        looks.recv().unwrap();
        first.set(counted.clone()).unwrap();
        for _ in 0..10 {
            second.set(counted.clone()).unwrap();
        }
        assert_eq!(counted.drops(), 0);
        go.send(()).unwrap();
        assert_eq!(reader.join().unwrap(), 11);
    });
}

/// Each node has the variable that names the next; the handle of the first is dropped.
#[test]
fn a_long_list_of_variables_needs_no_long_stack() {
    struct Node {
        _next: Option<TVar<Node>>,
        _counted: Counted,
    }
    let _alone = alone();
    let counted = Counted::default();
    let list = |length| {
        let mut list = None;
        for _ in 0..length {
            list = Some(TVar::new(Node { _next: list, _counted: counted.clone() }));
        }
        list
    };
    drop(list(100_000));
    assert_eq!(counted.drops(), 100_000);
    // And in the destructors of a thread, of which the crate's own come first.
    thread_local!(static LIST: std::cell::RefCell<Option<TVar<Node>>> = const { std::cell::RefCell::new(None) });
    let long = list(100_000);
    std::thread::spawn(|| {
        LIST.with(|list| *list.borrow_mut() = long);
        TVar::new(0).set(1).unwrap();
    })
    .join()
    .unwrap();
    assert_eq!(counted.drops(), 200_000);
}

#[test]
fn a_transaction_runs_in_the_destructors_of_a_thread() {
    struct Last(TVar<u32>);
    impl Drop for Last {
        fn drop(&mut self) {
            atomically(|tx| tx.modify(&self.0, |n| n + 1)).unwrap();
            self.0.set(self.0.get() + 1).unwrap();
        }
    }
    thread_local!(static LAST: std::cell::OnceCell<Last> = const { std::cell::OnceCell::new() });
    let _alone = alone();
    let var = TVar::new(0);
    let kept = var.clone();
    std::thread::spawn(move || {
        LAST.with(|last| _ = last.set(Last(kept)));
        TVar::new(String::new()).set("used".into()).unwrap();
    })
    .join()
    .unwrap();
    assert_eq!(var.get(), 2);
}

#[test]
fn a_sender_that_was_replaced_closes_its_channel_at_once() {
    let _alone = alone();
    segue::run(|| {
        let (sender, receiver) = segue::channel::unbounded::<u32>();
        let var = TVar::new(Some(sender));
        let end = segue::spawn(move || receiver.recv().is_err());
        atomically(|tx| {
            tx.read(&var)?.as_ref().unwrap();
            tx.write(&var, None)
        })
        .unwrap();
        assert!(end.join().unwrap());
    });
}
