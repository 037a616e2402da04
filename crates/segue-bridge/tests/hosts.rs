//! Every host against every other at promises: whoever waits is told, whatever it and the other run
//! on.

mod common;

use common::{Host, Side};
use segue::sync::{Promise, Resolver, promise};
use std::sync::{Arc, Mutex};

/// A side that fills `there` and then waits for the answer.
fn asks(there: Resolver<u32>, answer: Promise<u32>, n: u32) -> Side {
    // Only one of the two forms is run, so they share what they use.
    let parts = Arc::new(Mutex::new(Some((there, answer))));
    let again = Arc::clone(&parts);
    Side::new(
        move || {
            let (there, answer) = parts.lock().unwrap().take().unwrap();
            there.fill(n).unwrap();
            assert_eq!(answer.take(), Ok(n + 1));
        },
        async move {
            let (there, mut answer) = again.lock().unwrap().take().unwrap();
            there.fill(n).unwrap();
            assert_eq!(answer.take_source().await, Ok(n + 1));
        },
    )
}

/// A side that waits for a number and answers with the next.
fn answers(promised: Promise<u32>, back: Resolver<u32>) -> Side {
    let parts = Arc::new(Mutex::new(Some((promised, back))));
    let again = Arc::clone(&parts);
    Side::new(
        move || {
            let (promised, back) = parts.lock().unwrap().take().unwrap();
            back.fill(promised.take().unwrap() + 1).unwrap();
        },
        async move {
            let (mut promised, back) = again.lock().unwrap().take().unwrap();
            let n = promised.take_source().await.unwrap();
            back.fill(n + 1).unwrap();
        },
    )
}

#[test]
fn each_host_fills_what_each_other_waits_for() {
    for (one, other) in Host::pairs() {
        println!("{one} waits for {other}");
        // A host whose jobs park their worker can have only so many that wait.
        let sides = (0..4).map(|n| {
            let (there, promised) = promise();
            let (back, answer) = promise();
            (one.spawn(answers(promised, back)), other.spawn(asks(there, answer, n)))
        });
        for (answering, asking) in sides.collect::<Vec<_>>() {
            answering.join();
            asking.join();
        }
    }
}

#[test]
fn executors_that_block_their_thread_await_what_each_host_fills() {
    for host in Host::ALL {
        for n in 0..20 {
            let (there, promised) = promise();
            let (back, mut answer) = promise();
            let running = host.spawn(answers(promised, back));
            let task = async move {
                there.fill(n).unwrap();
                answer.take_source().await
            };
            let answer = match n % 4 {
                0 => futures::executor::block_on(task),
                1 => futures::executor::LocalPool::new().run_until(task),
                2 => smol::block_on(task),
                _ => segue_bridge::wait(task).unwrap(),
            };
            assert_eq!(answer, Ok(n + 1));
            running.join();
        }
    }
}

#[test]
fn many_of_each_pair_at_once() {
    // Without rayon, whose workers are parked by jobs that wait, and the simulator, which is a
    // thread for each side.
    let hosts = [Host::Fifo, Host::Stealing, Host::TokioCurrent, Host::TokioMulti, Host::Smol];
    for one in hosts {
        for other in hosts {
            let sides = (0..200).map(|n| {
                let (there, promised) = promise();
                let (back, answer) = promise();
                (one.spawn(answers(promised, back)), other.spawn(asks(there, answer, n)))
            });
            for (answering, asking) in sides.collect::<Vec<_>>() {
                answering.join();
                asking.join();
            }
        }
    }
}

#[test]
#[should_panic(expected = "planted")]
fn a_side_that_fails_fails_its_test() {
    let fails = || Side::new(|| panic!("planted"), async { panic!("planted") });
    // All but the last are looked at here.
    for host in &Host::ALL[1..] {
        let running = host.spawn(fails());
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| running.join())).is_err());
    }
    Host::ALL[0].spawn(fails()).join();
}
