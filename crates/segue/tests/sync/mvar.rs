//! MVars: who gets which value in which order.

use crate::meet;

use meet::{Task, block_on, everywhere, mixed};
use segue::sync::MVar;
use segue::{CancelToken, Full, Rejected, scope, timeout, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn values_are_put_taken_swapped_read_changed_and_borrowed() {
    static PLACE: MVar<u32> = MVar::empty();
    everywhere(|| {
        assert!(PLACE.is_empty() && PLACE.try_take().is_none() && PLACE.try_borrow().is_none());
        PLACE.put(1).unwrap();
        assert_eq!(
            (PLACE.try_put(2), PLACE.read(), PLACE.is_empty()),
            (Err(Rejected { value: 2, error: Full }), Ok(1), false)
        );
        assert_eq!(PLACE.swap(3).unwrap(), 1);
        assert_eq!(PLACE.modify(|value| std::mem::replace(value, 4)), Ok(3));
        *PLACE.borrow().unwrap() += 1;
        *PLACE.try_borrow().unwrap() += 1;
        *block_on(PLACE.borrow_source()) += 1;
        assert_eq!((block_on(PLACE.take_source()), PLACE.try_put(8), PLACE.try_take()), (7, Ok(()), Some(8)));
        block_on(PLACE.put_source(9));
        assert_eq!(PLACE.take(), Ok(9));
    });
    assert_eq!((MVar::new(1).into_inner(), MVar::<u8>::default().into_inner()), (Some(1), None));
    let place = MVar::from(5);
    assert_eq!(format!("{place:?}"), "MVar { place: \"full\" }");
    let loan = place.borrow().unwrap();
    assert_eq!(format!("{place:?} {loan:?}"), "MVar { place: \"lent\" } 5");
    assert!(place.is_empty() && place.try_take().is_none() && place.try_borrow().is_none());
    assert_eq!(place.try_put(6).unwrap_err().value, 6);
    drop(loan);
    assert_eq!((place.take(), format!("{place:?}").as_str()), (Ok(5), "MVar { place: \"empty\" }"));
}

#[test]
fn those_who_take_and_borrow_are_served_in_the_order_of_their_arrival() {
    everywhere(|| {
        let place = MVar::empty();
        let mut first = Task::waiting(place.take_source());
        let mut second = Task::waiting(place.borrow_source());
        let mut third = Task::waiting(place.take_source());
        let mut fourth = Task::waiting(place.borrow_source());
        place.put(1).unwrap();
        assert_eq!([first.wakes(), second.wakes(), third.wakes()], [1, 0, 0]);
        place.put(2).unwrap();
        assert_eq!([first.wakes(), second.wakes(), third.wakes()], [1, 1, 0]);
        let mut loan = second.poll().expect("it was served");
        let (mut put, mut late) = (Task::waiting(place.put_source(4)), Task::waiting(place.take_source()));
        *loan = 3;
        drop(loan);
        assert_eq!((third.poll(), fourth.poll().map(|loan| *loan)), (Some(3), Some(4)));
        assert_eq!((put.poll(), late.poll(), first.poll()), (Some(()), Some(4), Some(1)));
        assert!(place.is_empty());
    });
}

#[test]
fn those_who_put_are_served_in_the_order_of_their_arrival() {
    everywhere(|| {
        let place = MVar::new(0);
        let mut putters = [1, 2, 3].map(|n| Task::waiting(place.put_source(n)));
        for n in 0..4 {
            assert_eq!(place.try_take(), Some(n));
            let gone = putters.iter_mut().filter(|putter| putter.wakes() == 1).count();
            assert_eq!(gone, 3.min(n + 1));
        }
        assert!(putters.iter_mut().all(|putter| putter.poll().is_some()) && place.is_empty());
    });
}

#[test]
fn a_cancelled_put_or_swap_gives_its_value_back() {
    everywhere(|| {
        let place = MVar::new(String::from("there"));
        let token = CancelToken::new();
        token.cancel_with(std::io::Error::other("planted"));
        let ended = [
            token.run(|| place.put("mine".into())).unwrap_err(),
            token.run(|| place.swap("mine".into())).unwrap_err(),
            // In the middle of the wait.
            timeout(MILLI, || place.put("mine".into())).unwrap_err(),
            {
                let _loan = place.borrow().unwrap();
                timeout(MILLI, || place.swap("mine".into())).unwrap_err()
            },
        ];
        for (n, error) in ended.into_iter().enumerate() {
            assert_eq!((error.value.as_str(), error.error.timed_out()), ("mine", n > 1));
            assert!(n > 1 || error.to_string() == "cancelled: planted");
            assert!(error.error.reason().is_some() && format!("{error:?}").contains("Cancelled"));
        }
        // Also where it need not have waited.
        assert!(token.run(|| place.take()).is_err() && token.run(|| place.read()).is_err());
        assert!(token.run(|| place.modify(|_| unreachable!("it was not called"))).is_err());
        // What never waits ignores it.
        assert_eq!(token.run(|| place.try_take()).as_deref(), Some("there"));
        assert_eq!(token.run(|| place.try_put("last".into())), Ok(()));
        assert_eq!(place.into_inner().as_deref(), Some("last"));
    });
}

#[test]
fn one_whose_time_is_over_has_left_and_those_behind_it_are_served() {
    everywhere(|| {
        let place = MVar::<u32>::empty();
        assert!(timeout(MILLI, || place.take()).is_err_and(|cancelled| cancelled.timed_out()));
        assert!(timeout(MILLI, || place.read()).is_err_and(|cancelled| cancelled.timed_out()));
        place.put(1).unwrap();
        assert!(timeout(MILLI, || place.put(2)).is_err());
        assert_eq!((place.take(), place.try_take()), (Ok(1), None));
    });
}

#[test]
fn a_change_that_panics_leaves_the_value_as_it_is_and_ends_the_loan() {
    everywhere(|| {
        let place = MVar::new(vec![1]);
        let change = catch_unwind(AssertUnwindSafe(|| {
            place.modify(|values| {
                values.push(2);
                std::panic::panic_any("planted");
            })
        }));
        assert!(change.is_err());
        assert_eq!(place.take().unwrap(), [1, 2]);
    });
}

#[test]
fn a_loan_that_is_leaked_keeps_everybody_out_for_ever() {
    everywhere(|| {
        let place = MVar::new(Box::new(1));
        std::mem::forget(place.borrow().unwrap());
        let (taker, putter) = (Task::waiting(place.take_source()), Task::waiting(place.put_source(Box::new(2))));
        assert!(place.try_take().is_none() && place.try_borrow().is_none() && place.try_put(Box::new(3)).is_err());
        assert!(timeout(MILLI, || place.take()).is_err() && timeout(MILLI, || place.put(Box::new(4))).is_err());
        drop((taker, putter));
        assert!(place.into_inner().is_none());
        // A value that comes back meanwhile is not lost with it.
        let place = MVar::empty();
        let taker = Task::waiting(place.take_source());
        place.put(Box::new(1)).unwrap();
        place.put(Box::new(2)).unwrap();
        std::mem::forget(place.borrow().unwrap());
        drop(taker);
        assert_eq!(place.into_inner(), Some(Box::new(1)));
    });
}

/// Takes all that is there, and from those who wait to put.
fn drain<T>(place: &MVar<T>) -> Vec<T> {
    std::iter::from_fn(|| place.try_take()).collect()
}

#[test]
fn a_value_that_comes_back_goes_before_those_that_were_put_meanwhile() {
    everywhere(|| {
        let place = MVar::empty();
        let (first, second) = (Task::waiting(place.take_source()), Task::waiting(place.take_source()));
        for n in 1..=3 {
            place.put(n).unwrap();
        }
        let mut putter = Task::waiting(place.put_source(4));
        drop(second);
        drop(first);
        assert_eq!((place.read(), drain(&place), putter.poll()), (Ok(1), vec![1, 2, 3, 4], Some(())));
        // To one who waits.
        let (first, mut next) = (Task::waiting(place.take_source()), Task::waiting(place.take_source()));
        place.put(1).unwrap();
        drop(first);
        assert_eq!((next.poll(), place.is_empty()), (Some(1), true));
    });
}

#[test]
fn a_value_that_comes_back_to_a_place_that_is_lent_goes_before_the_loan_and_the_loan_before_the_rest() {
    everywhere(|| {
        let place = MVar::empty();
        let takers = [(); 4].map(|()| Task::waiting(place.take_source()));
        for n in 1..=5 {
            place.put(n).unwrap();
        }
        let [first, second, third, fourth] = takers;
        // 4, with 5 behind it, is in the place when it is lent; then 3 and 2 come back, and 1 to
        // the full place.
        drop(fourth);
        let loan = place.borrow().unwrap();
        assert_eq!(*loan, 4);
        drop(third);
        drop(second);
        let mut borrower = Task::waiting(place.borrow_source());
        assert!(place.is_empty());
        drop(loan);
        // Whoever waited for the end of the loan gets what is first.
        let loan = borrower.poll().expect("the loan has ended");
        assert_eq!(*loan, 2);
        drop(first);
        drop(loan);
        assert_eq!(drain(&place), [1, 2, 3, 4, 5]);
    });
}

#[test]
fn a_borrower_that_was_served_and_is_dropped_ends_its_loan() {
    everywhere(|| {
        let place = MVar::empty();
        let borrower = Task::waiting(place.borrow_source());
        let mut next = Task::waiting(place.borrow_source());
        place.put(1).unwrap();
        let mut putter = Task::waiting(place.put_source(2));
        assert_eq!((place.try_take(), next.wakes()), (None, 0));
        drop(borrower);
        *next.poll().expect("it is next") += 10;
        assert_eq!((drain(&place), putter.poll()), (vec![11, 2], Some(())));
        // And one that had been handed a value that it takes, behind a borrower.
        let (borrower, taker) = (Task::waiting(place.borrow_source()), Task::waiting(place.take_source()));
        place.put(3).unwrap();
        drop(borrower);
        assert_eq!(taker.wakes(), 1);
        drop(taker);
        assert_eq!(drain(&place), [3]);
    });
}

#[test]
fn thousands_wait_on_both_sides_while_it_is_lent_and_go_on_at_its_end() {
    const EACH: usize = 5000;
    let place = MVar::new(0);
    let loan = place.borrow().unwrap();
    let mut takers: Vec<_> = (0..=EACH).map(|_| Task::waiting(place.take_source())).collect();
    let mut putters: Vec<_> = (1..=EACH).map(|n| Task::waiting(place.put_source(n))).collect();
    drop(loan);
    for (n, taker) in takers.iter_mut().enumerate() {
        assert_eq!(taker.poll(), Some(n));
    }
    assert!(putters.iter_mut().all(|putter| putter.poll() == Some(())) && place.is_empty());
    // The same when they are dropped instead, the last first: what was handed comes back.
    let loan = {
        place.put(0).unwrap();
        place.borrow().unwrap()
    };
    let mut takers: Vec<_> = (0..=EACH).map(|_| Task::waiting(place.take_source())).collect();
    let putters: Vec<_> = (1..=EACH).map(|n| Task::waiting(place.put_source(n))).collect();
    drop(loan);
    drop(putters);
    while let Some(last) = takers.pop() {
        drop(last);
    }
    assert!(drain(&place).into_iter().eq(0..=EACH));
}

#[test]
fn as_a_lock_it_keeps_others_out_also_of_one_who_waits_inside() {
    everywhere(|| {
        let (place, inside) = (MVar::new(0), AtomicUsize::new(0));
        scope(|s| {
            for n in 0..6 {
                let (place, inside) = (&place, &inside);
                s.spawn(move || {
                    for _ in 0..20 {
                        let change = |value: &mut usize| {
                            assert_eq!(inside.fetch_add(1, SeqCst), 0);
                            let before = *value;
                            let _ = yield_now();
                            *value = before + 1;
                            inside.fetch_sub(1, SeqCst);
                        };
                        match n % 3 {
                            0 => place.modify(change).unwrap(),
                            1 => {
                                let mut value = place.take().unwrap();
                                change(&mut value);
                                place.put(value).unwrap();
                            }
                            _ => change(&mut block_on(place.borrow_source())),
                        }
                    }
                });
            }
        });
        assert_eq!(place.into_inner(), Some(120));
    });
}

#[test]
fn as_a_channel_of_capacity_one_it_keeps_the_order() {
    everywhere(|| {
        let (there, back) = (MVar::empty(), MVar::empty());
        scope(|s| {
            s.spawn(|| (0..100).for_each(|n| there.put(n).unwrap()));
            s.spawn(|| (0..100).for_each(|_| back.put(there.take().unwrap()).unwrap()));
            s.spawn(|| (0..100).for_each(|n| assert_eq!(block_on(back.take_source()), n)));
        });
        assert!(there.is_empty() && back.is_empty());
    });
}

#[test]
fn many_put_and_take_at_once_fibers_threads_and_tasks() {
    const EACH: usize = 200;
    let (place, sum) = (MVar::empty(), AtomicUsize::new(0));
    mixed(12, |n| {
        for round in 0..EACH {
            // By three: each kind of caller on each side, waiting in each way.
            match (n / 3 % 2, round % 2) {
                (0, 0) => place.put(round).unwrap(),
                (0, _) => block_on(place.put_source(round)),
                (_, 0) => drop(sum.fetch_add(place.take().unwrap(), SeqCst)),
                _ => drop(sum.fetch_add(block_on(place.take_source()), SeqCst)),
            }
        }
    });
    assert!(place.is_empty());
    assert_eq!(sum.into_inner(), 6 * (0..EACH).sum::<usize>());
}

#[test]
fn each_value_is_dropped_once_however_it_ends() {
    #[derive(Clone)]
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    everywhere(|| {
        let drops = AtomicUsize::new(0);
        let dropped = || drops.swap(0, SeqCst);
        let full = || MVar::new(Counted(&drops));
        let empty = || MVar::<Counted<'_>>::empty();
        drop(full());
        assert_eq!(dropped(), 1);
        drop(full().into_inner());
        assert_eq!(dropped(), 1);
        drop((full().take(), full().try_take(), full().read()));
        assert_eq!(dropped(), 5 - 1);
        drop(full().swap(Counted(&drops)));
        assert_eq!(dropped(), 2);
        drop(full().try_put(Counted(&drops)));
        assert_eq!(dropped(), 2);
        drop(timeout(MILLI, || full().put(Counted(&drops))));
        assert_eq!(dropped(), 2);
        // A source that was never waited for, a future that was not served, one that was.
        let place = full();
        drop(place.put_source(Counted(&drops)));
        drop(Task::waiting(place.put_source(Counted(&drops))));
        assert_eq!(dropped(), 2);
        let putter = Task::waiting(place.put_source(Counted(&drops)));
        drop(place.take());
        drop(putter);
        assert_eq!(dropped(), 1);
        drop(place);
        assert_eq!(dropped(), 1);
        // Several in the place, since two came back.
        let place = empty();
        let takers = [(); 2].map(|()| Task::waiting(place.take_source()));
        for _ in 0..3 {
            place.put(Counted(&drops)).unwrap();
        }
        drop(takers);
        assert_eq!(dropped(), 0);
        drop(place);
        assert_eq!(dropped(), 3);
    });
}

// ---------------------------------------------------------------------------------------------------------------------------------------------------
// Conservation: what was put is taken once, or still there.
