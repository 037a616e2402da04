//! Generators: elements, ends, panics, drops halfway, effects through them; and regions.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use segue_fiber::effect::{Continuation, Effect, Handler, perform};
use segue_fiber::{Generator, Yielder, generator, leaked_stacks, region};

struct Ask;
impl Effect for Ask {
    type Output = u32;
}

/// Sets a flag when it is dropped.
struct Note<'a>(&'a Cell<u32>);
impl Drop for Note<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    payload.downcast_ref::<&str>().unwrap()
}

#[test]
fn elements_come_in_order_and_the_end_stays() {
    let mut numbers = generator(|y| (0..3).for_each(|it| y.give(it)));
    assert_eq!([numbers.next(), numbers.next(), numbers.next()], [Some(0), Some(1), Some(2)]);
    assert_eq!([numbers.next(), numbers.next()], [None, None]);
    assert_eq!(generator(|_: &Yielder<u8>| ()).next(), None);
    let owned: Vec<String> = generator(|y| ["a", "b"].iter().for_each(|it| y.give(it.to_string()))).collect();
    assert_eq!(owned, ["a", "b"]);
}

#[test]
fn a_recursive_walk_that_borrows() {
    struct Tree(Vec<Tree>, u32);
    fn walk<'t>(tree: &'t Tree, y: &Yielder<&'t u32>) {
        tree.0.iter().for_each(|child| walk(child, y));
        y.give(&tree.1);
    }
    let tree = Tree(vec![Tree(vec![Tree(vec![], 1)], 2), Tree(vec![], 3)], 4);
    region(|region| {
        assert!(region.generator(|y| walk(&tree, y)).eq(&[1, 2, 3, 4]));
        let two: Vec<_> =
            region.generator(|y| walk(&tree, y)).zip(region.generator(|y| walk(&tree, y)).skip(1)).collect();
        assert_eq!(two, [(&1, &2), (&2, &3), (&3, &4)]);
    });
}

#[test]
fn dropped_halfway_the_body_is_unwound() {
    let cleaned = Rc::new(Cell::new(0));
    let body = {
        let cleaned = Rc::clone(&cleaned);
        move |y: &Yielder<u32>| {
            let _note = Note(&cleaned);
            loop {
                y.give(1);
            }
        }
    };
    let mut ones = generator(body.clone());
    assert_eq!((ones.next(), cleaned.get()), (Some(1), 0));
    drop(ones);
    assert_eq!(cleaned.get(), 1);
    assert_eq!(generator(body.clone()).take(5).sum::<u32>(), 5);
    assert_eq!(cleaned.get(), 2);
    drop(generator(body));
    assert_eq!(cleaned.get(), 2, "never started");
    assert_eq!((Rc::strong_count(&cleaned), leaked_stacks()), (1, 0));
}

#[test]
fn a_body_that_catches_the_unwind_ends_all_the_same() {
    let tries = Rc::new(Cell::new(0));
    let mut stubborn = generator({
        let tries = Rc::clone(&tries);
        move |y: &Yielder<u32>| {
            y.give(0);
            while tries.get() < 3 {
                tries.set(tries.get() + 1);
                let _ = catch_unwind(AssertUnwindSafe(|| y.give(1)));
            }
        }
    });
    stubborn.next();
    stubborn.next();
    drop(stubborn);
    assert_eq!((tries.get(), leaked_stacks()), (3, 0));
}

#[test]
fn a_destructor_that_gives_while_the_body_unwinds_gives_nothing() {
    struct Last<'a>(&'a Yielder<u32>);
    impl Drop for Last<'_> {
        fn drop(&mut self) {
            self.0.give(99);
        }
    }
    let mut numbers = generator(|y| {
        let _last = Last(y);
        y.give(1);
        y.give(2);
    });
    assert_eq!(numbers.next(), Some(1));
    drop(numbers);
    assert!(generator(|y| drop(Last(y))).eq([99]), "in peace it gives");
    let mut panics = generator(|y| {
        let _last = Last(y);
        panic!("body");
    });
    let payload = catch_unwind(AssertUnwindSafe(|| panics.next())).unwrap_err();
    assert_eq!(message(&*payload), "body");
}

#[test]
fn a_consumer_that_panics_gets_elements_in_its_destructors() {
    struct Rest<'a>(Generator<'static, u32>, &'a RefCell<Vec<u32>>);
    impl Drop for Rest<'_> {
        fn drop(&mut self) {
            self.1.borrow_mut().extend(self.0.by_ref());
        }
    }
    let rest = RefCell::new(vec![]);
    let payload = catch_unwind(AssertUnwindSafe(|| {
        let mut numbers = Rest(generator(|y| (0..4).for_each(|it| y.give(it))), &rest);
        numbers.0.next();
        panic!("consumer");
    }));
    assert_eq!(message(&*payload.unwrap_err()), "consumer");
    assert_eq!(*rest.borrow(), [1, 2, 3]);
}

#[test]
fn a_panic_of_the_body_goes_to_who_asked() {
    let mut numbers = generator(|y| {
        y.give(1);
        panic!("body");
    });
    assert_eq!(numbers.next(), Some(1));
    let payload = catch_unwind(AssertUnwindSafe(|| numbers.next())).unwrap_err();
    assert_eq!(message(&*payload), "body");
    assert_eq!(numbers.next(), None);

    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("bomb");
            }
        }
    }
    let mut halfway = generator(|y| {
        y.give(1);
        let _ = catch_unwind(AssertUnwindSafe(|| y.give(2)));
        drop(Bomb);
    });
    halfway.by_ref().take(2).count();
    let payload = catch_unwind(AssertUnwindSafe(|| drop(halfway))).unwrap_err();
    assert_eq!(message(&*payload), "bomb");
    assert_eq!(leaked_stacks(), 0);
}

#[test]
fn generators_nest_and_handlers_lie_between() {
    fn count_down(from: u32, y: &Yielder<u32>) {
        y.give(from);
        if from > 0 {
            generator(move |y| count_down(from - 1, y)).for_each(|it| y.give(it));
        }
    }
    assert!(generator(|y| count_down(9, y)).eq((0..10).rev()));

    // From inside of a handled body, and from a nested generator's stack, straight to the outer
    // consumer.
    let outer = generator(|y: &Yielder<u32>| {
        let sum = Handler::new().on(|_: Ask, k| k.resume(7)).handle(|| {
            y.give(1);
            let asked = perform(Ask);
            region(|region| {
                region
                    .generator(|inner: &Yielder<u32>| {
                        y.give(2);
                        inner.give(perform(Ask));
                        y.give(3);
                    })
                    .sum::<u32>()
                    + asked
            })
        });
        y.give(sum);
    });
    assert!(outer.eq([1, 2, 3, 14]));
}

#[test]
fn effects_of_a_body_go_to_who_asks() {
    let mut asks = generator(|y| {
        loop {
            y.give(
                perform(Ask)
                    + Handler::new().answer(|_: Ask| 100).handle(|| {
                        y.give(0);
                        perform(Ask)
                    }),
            );
        }
    });
    let next = |answer: u32, asks: &mut Generator<'static, u32>| {
        Handler::new().on(|_: Ask, k| k.resume(answer)).handle(|| asks.next().unwrap())
    };
    assert_eq!(next(1, &mut asks), 0);
    assert_eq!(next(2, &mut asks), 101);
    assert_eq!(next(3, &mut asks), 0);
    assert_eq!(Handler::new().answer(|_: Ask| 4).handle(|| asks.next()), Some(103));
    drop(asks);
    assert_eq!(leaked_stacks(), 0);
}

#[test]
fn a_region_ends_what_was_forgotten() {
    let cleaned = Cell::new(0);
    let value = region(|region| {
        let mut forgotten = region.generator(|y| {
            let _note = Note(&cleaned);
            y.give(1);
        });
        forgotten.next();
        std::mem::forget(forgotten);
        let kept: Cell<Option<Continuation<u32, u32>>> = Cell::new(None);
        let kept = &*Box::leak(Box::new(kept));
        let first = region
            .handler()
            .on(move |_: Ask, k| {
                kept.set(Some(k));
                5
            })
            .handle(|| {
                let _note = Note(&cleaned);
                perform(Ask)
            });
        assert_eq!(cleaned.get(), 0);
        first
    });
    assert_eq!((value, cleaned.get(), leaked_stacks()), (5, 2, 0));
}

#[test]
fn a_continuation_is_kept_in_a_region_and_resumed() {
    let data = [1, 2, 3];
    let sum = region(|region| {
        let kept: Rc<Cell<Option<Continuation<u32, u32>>>> = Rc::default();
        let first = region
            .handler()
            .on({
                let kept = Rc::clone(&kept);
                move |_: Ask, k| {
                    kept.set(Some(k));
                    0
                }
            })
            .handle(|| perform(Ask) + data.iter().sum::<u32>());
        assert_eq!(first, 0);
        kept.take().unwrap().resume(10)
    });
    assert_eq!(sum, 16);
}

#[test]
fn what_stands_for_a_computation_may_lie_on_the_stack_of_another() {
    // Each holds the other's handle while both are suspended, and both are forgotten.
    let cleaned = Cell::new(0);
    region(|region| {
        let inner = region.generator(|y: &Yielder<u32>| {
            let _note = Note(&cleaned);
            y.give(1);
            y.give(2);
        });
        let mut outer = region.generator(|y: &Yielder<u32>| {
            let mut inner = inner;
            let mut later = region.generator(|y: &Yielder<u32>| {
                let _note = Note(&cleaned);
                y.give(3);
            });
            y.give(inner.next().unwrap() + later.next().unwrap());
        });
        assert_eq!(outer.next(), Some(4));
        std::mem::forget(outer);
    });
    assert_eq!((cleaned.get(), leaked_stacks()), (2, 0));

    // A continuation on a generator's stack, made after the generator.
    let cleaned = Cell::new(0);
    region(|region| {
        let mut outer = region.generator(|y: &Yielder<u32>| {
            let kept: Rc<Cell<Option<Continuation<u32, u32>>>> = Rc::default();
            region
                .handler()
                .on({
                    let kept = Rc::clone(&kept);
                    move |_: Ask, k| {
                        kept.set(Some(k));
                        0
                    }
                })
                .handle(|| {
                    let _note = Note(&cleaned);
                    perform(Ask)
                });
            y.give(1);
            drop(kept);
        });
        assert_eq!(outer.next(), Some(1));
        std::mem::forget(outer);
    });
    assert_eq!((cleaned.get(), leaked_stacks()), (1, 0));
}

#[test]
fn what_has_not_started_does_not_start_at_the_end_of_its_region() {
    /// Asks a generator of its region for an element, and forgets it.
    struct Asks<'r, 'a>(Option<Generator<'r, u32>>, &'a Cell<Option<Option<u32>>>);
    impl Drop for Asks<'_, '_> {
        fn drop(&mut self) {
            let mut late = self.0.take().unwrap();
            self.1.set(Some(late.next()));
            std::mem::forget(late);
        }
    }
    let (got, started) = (Cell::new(None), Cell::new(false));
    region(|region| {
        let (got, started) = (&got, &started);
        let mut outer = region.generator(move |y: &Yielder<u32>| {
            let late = region.generator(move |y: &Yielder<u32>| {
                started.set(true);
                // Inside of `thread::scope` for instance this would have to be ended.
                y.give(1);
            });
            let _asks = Asks(Some(late), got);
            y.give(0);
        });
        outer.next();
        std::mem::forget(outer);
    });
    assert_eq!((got.get(), started.get()), (Some(None), false));
}

#[test]
fn panics_of_a_region_and_of_what_it_ends() {
    let payload = catch_unwind(|| {
        region(|region| {
            let mut generator = region.generator(|y| {
                let _ = catch_unwind(AssertUnwindSafe(|| y.give(1)));
                panic!("ended");
            });
            generator.next();
            std::mem::forget(generator);
        })
    });
    assert_eq!(message(&*payload.unwrap_err()), "ended");
    let cleaned = Cell::new(0);
    let payload = catch_unwind(AssertUnwindSafe(|| {
        region(|region| {
            let mut generator = region.generator(|y| {
                let _note = Note(&cleaned);
                y.give(1);
            });
            generator.next();
            panic!("region");
        })
    }));
    assert_eq!((message(&*payload.unwrap_err()), cleaned.get()), ("region", 1));
    assert_eq!(leaked_stacks(), 0);
}

#[test]
fn a_generator_in_a_thread_local_ends_with_its_thread_or_is_leaked() {
    thread_local! {
        static KEPT: RefCell<Option<Generator<'static, u32>>> = const { RefCell::new(None) };
    }
    std::thread::spawn(|| {
        let mut numbers = generator(|y| (0..9).for_each(|it| y.give(it)));
        numbers.next();
        KEPT.with(|kept| *kept.borrow_mut() = Some(numbers));
    })
    .join()
    .unwrap();
}
