//! Every host against every other at a promise: whoever waits is told, whatever it and the other run on.

mod common;

use common::{Host, Side};
use segue::sync::{Promise, Resolver, promise};
use std::sync::{Arc, Mutex};

#[test]
fn each_host_fills_what_each_other_waits_for() {
    for (one, other) in Host::pairs() {
        for round in 0..4 {
            let (there, promised) = promise();
            let (back, answer) = promise();
            let waiting = |promised: Promise<u32>, back: Resolver<u32>| {
                // Only one of the two forms is run, so they share what they use.
                let parts = Arc::new(Mutex::new(Some((promised, back))));
                let again = Arc::clone(&parts);
                Side::new(
                    move || {
                        let (promised, back) = parts.lock().unwrap().take().unwrap();
                        back.fill(promised.take().unwrap() + 1);
                    },
                    async move {
                        let (mut promised, back) = again.lock().unwrap().take().unwrap();
                        let got = promised.take_source().await.unwrap();
                        back.fill(got + 1);
                    },
                )
            };
            let asking = {
                let parts = Arc::new(Mutex::new(Some((there, answer))));
                let again = Arc::clone(&parts);
                Side::new(
                    move || {
                        let (there, answer) = parts.lock().unwrap().take().unwrap();
                        there.fill(round);
                        assert_eq!(answer.take(), Ok(round + 1));
                    },
                    async move {
                        let (there, mut answer) = again.lock().unwrap().take().unwrap();
                        there.fill(round);
                        assert_eq!(answer.take_source().await, Ok(round + 1));
                    },
                )
            };
            println!("{one} waits for {other}");
            let waiting = one.spawn(waiting(promised, back));
            let asking = other.spawn(asking);
            waiting.join();
            asking.join();
        }
    }
}
