//! A scheduler inside of a fiber of another: the outer one takes its fibers in turns, the inner one
//! runs what is urgent first. A wait inside suspends only that fiber of the outer one, what
//! is cancelled outside is cancelled inside, and when the inner one has ended, so have its fibers.

use segue::sched::{self, ByPriority, Fifo, Priority};
use segue::sync::{Mutex, promise};
use segue::{Builder, after, scope, timeout, yield_now};
use std::time::Duration;

/// Runs the orders by their urgency in a scheduler of their own, and says in which order that was.
fn kitchen(orders: &[(&'static str, u8)]) -> Vec<&'static str> {
    let served = Mutex::new(Vec::new());
    let inside = || {
        scope(|s| {
            for &(dish, urgency) in orders {
                let served = &served;
                let cook = move || served.lock().unwrap().push(dish);
                Builder::new().attribute(Priority(urgency.into())).within(s).spawn(cook);
            }
        });
    };
    sched::Runtime::new().workers(1).run_with(ByPriority::strict, inside).expect("a scheduler in a fiber");
    served.into_inner()
}

fn main() {
    let outer = sched::Runtime::new().workers(1).run_with(Fifo::default, || {
        scope(|s| {
            // Two kitchens and a guest take turns on the one thread.
            let lunch = s.spawn(|| kitchen(&[("soup", 1), ("ice cream that melts", 9), ("stew", 2)]));
            let dinner = s.spawn(|| kitchen(&[("fish", 3), ("toast that burns", 8)]));
            s.spawn(|| (0..10).try_for_each(|_| yield_now()));
            assert_eq!(lunch.join().unwrap(), ["ice cream that melts", "stew", "soup"]);
            assert_eq!(dinner.join().unwrap(), ["toast that burns", "fish"]);

            // A fiber inside and one outside meet at a promise that knows neither scheduler.
            let (resolver, order) = promise();
            let inside = s.spawn(move || sched::Runtime::new().workers(1).run(|| order.wait().copied()).unwrap());
            resolver.fill("the bill").expect("somebody waits for it");
            assert_eq!(inside.join().unwrap(), Ok("the bill"));

            // A deadline outside ends what waits inside, and the inner scheduler with it.
            let closing = timeout(Duration::from_millis(5), || {
                sched::Runtime::new().workers(1).run(|| {
                    segue::spawn(|| after(Duration::MAX).wait());
                    after(Duration::MAX).wait()
                })
            });
            assert!(closing.unwrap().unwrap_err().timed_out());
        });
    });
    outer.expect("a scheduler");
    println!("what is urgent came first in each kitchen, and each kitchen had its turns");
}
