//! Handlers far out: who is found from deep inside, over and over, while handlers around come, go
//! and are put elsewhere. Each case performs more than once from the same place, so that what a
//! search remembers is used where it is good, and would be used where it is not.

use std::panic::{AssertUnwindSafe, catch_unwind};

use segue_fiber::effect::{Continuation, Effect, Handler, perform, perform_result, try_perform};
use segue_fiber::{Yielder, generator};

struct Which;
impl Effect for Which {
    type Output = u32;
}

struct Pause;
impl Effect for Pause {
    type Output = ();
}

struct Other;
impl Effect for Other {
    type Output = ();
}

/// More handlers than a search passes before it looks at what it remembers.
const FAR: u32 = 9;

/// Runs `body` inside of so many handlers of something else.
fn inside_of<T>(others: u32, body: &mut dyn FnMut() -> T) -> T {
    match others {
        0 => body(),
        _ => Handler::new().answer(|Other| ()).handle(|| inside_of(others - 1, body)),
    }
}

fn far<T>(mut body: impl FnMut() -> T) -> T {
    inside_of(FAR, &mut body)
}

/// Asks again and again.
#[track_caller]
fn assert_which(expected: u32) {
    for _ in 0..3 {
        assert_eq!(perform(Which), expected);
        assert_eq!(try_perform(Which).ok(), Some(expected));
        assert_eq!(perform_result(Which).unwrap(), expected);
    }
}

#[test]
fn the_innermost_of_far_handlers_answers_however_often() {
    Handler::new().answer(|Which| 1).handle(|| {
        far(|| {
            assert_which(1);
            Handler::new().answer(|Which| 2).handle(|| far(|| assert_which(2)));
            assert_which(1);
        });
    });
}

/// Runs `body` inside of [`FAR`] handlers, of which one answers with its number: the one of this
/// number. All calls take the same stack, so that the frames come to the same addresses.
#[inline(never)]
fn one_of<T>(at: u32, number: u32, body: &mut dyn FnMut() -> T) -> T {
    if at == FAR {
        return body();
    }
    let (answering, other) = (Handler::new().answer(move |Which| at), Handler::new().answer(|Other| ()));
    if at == number {
        answering.handle(|| one_of(at + 1, number, body))
    } else {
        other.handle(|| one_of(at + 1, number, body))
    }
}

#[test]
fn handlers_that_come_to_the_same_addresses_are_told_apart() {
    for _ in 0..3 {
        for n in 0..FAR {
            one_of(0, n, &mut || far(|| assert_which(n)));
        }
    }
    assert!(far(|| try_perform(Which).is_err()));
}

#[test]
fn a_computation_that_is_resumed_elsewhere_finds_the_handlers_there() {
    enum Step {
        Paused(Continuation<'static, (), Step>),
        Over,
    }
    let body = || {
        far(|| {
            for n in 0..FAR {
                assert_which(n);
                perform(Pause);
            }
        });
    };
    let handler = || Handler::stored().on(|Pause, k| Step::Paused(k)).value(|()| Step::Over);
    let mut step = one_of(0, 0, &mut || handler().handle(body));
    for n in 1..FAR {
        let Step::Paused(k) = step else { panic!("it pauses") };
        let mut k = Some(k);
        step = one_of(0, n, &mut || k.take().expect("once").resume(()));
    }
    let Step::Paused(k) = step else { panic!("it pauses") };
    assert!(matches!(k.resume(()), Step::Over));
}

#[test]
fn a_generator_finds_the_handlers_of_whoever_asks_it() {
    let mut asking = generator(|y: &Yielder<u32>| {
        far(|| {
            for _ in 0..FAR {
                y.give(perform(Which) + perform(Which));
            }
        });
    });
    for n in 0..FAR {
        assert_eq!(one_of(0, n, &mut || asking.next()), Some(2 * n));
    }
    assert_eq!(asking.next(), None);
}

#[test]
fn a_generator_that_is_put_elsewhere_without_a_new_handler_looks_again() {
    let mut asking = generator(|y: &Yielder<u32>| {
        far(|| {
            for _ in 0..4 {
                y.give(perform(Which) + perform(Which));
            }
        });
    });
    Handler::new().answer(|Which| 1).handle(|| {
        Handler::new().answer(|Which| 2).handle(|| {
            assert_eq!(asking.next(), Some(4));
            assert_eq!(asking.next(), Some(4));
        });
        assert_eq!(asking.next(), Some(2));
        assert_eq!(asking.next(), Some(2));
    });
}

#[test]
fn every_place_on_the_way_out_finds_its_own() {
    /// Installs one handler after the other, and asks at each when those within have ended.
    fn climb(others: u32, expected: u32, body: &mut dyn FnMut()) {
        if others == 0 {
            return body();
        }
        Handler::new().answer(|Other| ()).handle(|| {
            climb(others - 1, expected, body);
            assert_which(expected);
        });
    }
    Handler::new().answer(|Which| 1).handle(|| {
        climb(30, 1, &mut || {
            Handler::new().answer(|Which| 2).handle(|| climb(30, 2, &mut || ()));
        });
    });
}

#[test]
fn clauses_that_a_panicking_thread_passes_over_are_found_again_afterwards() {
    struct Asks(u32);
    impl Drop for Asks {
        fn drop(&mut self) {
            assert_which(self.0);
        }
    }
    let answering = Handler::new().answer(|Which| 1);
    answering.handle(|| {
        let capturing = Handler::new().on_tail(|Which, k| k.tail(2));
        capturing.handle(|| {
            far(|| {
                assert_which(2);
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    let _asks = Asks(1);
                    panic!("planted");
                }));
                assert!(caught.is_err());
                assert_which(2);
            });
        });
    });
}

#[test]
fn many_effects_from_one_place_keep_to_their_handlers() {
    struct Nth<const N: u32>;
    impl<const N: u32> Effect for Nth<N> {
        type Output = u32;
    }
    macro_rules! all {
        ($($n:literal)*) => {
            let mut body = || far(|| {
                for _ in 0..3 {
                    $(assert_eq!(perform(Nth::<$n>), $n);)*
                }
            });
            // One around the other.
            $(let mut body = || Handler::new().answer(|Nth::<$n>| $n).handle(&mut body);)*
            body();
        };
    }
    // More than are remembered.
    all!(1 2 3 4 5 6 7 8 9 10 11 12);
}

#[test]
fn far_handlers_capture() {
    let sum = Handler::new().on(|Which, k| k.resume(5) + 1).handle(|| far(|| perform(Which) + perform(Which)));
    assert_eq!(sum, 12);
}
