//! Push parsers in fibers: a body that waits suspends the fiber around the feed.
#![cfg(feature = "sched")]

use crate::meet::everywhere;
use segue::cancel::no_suspend;
use segue::incremental::{Fed, Feed, push};
use segue::sync::Semaphore;
use segue::{scope, timeout, yield_now};
use std::io::{BufRead, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const MACHINES: usize = 10;
const PIECES: usize = 5;

#[test]
fn a_body_that_waits_suspends_the_fiber_that_feeds() {
    everywhere(|| {
        let (permits, waiting) = (&Semaphore::new(0), &AtomicUsize::new(0));
        scope(|s| {
            let machines: Vec<_> = (0..MACHINES)
                .map(|number| {
                    s.spawn(move || {
                        segue::effect::region(|region| {
                            let mut machine = region.push(|input: &mut Feed| {
                                let mut read = 0;
                                loop {
                                    // The piece is lent during the wait.
                                    let piece = input.fill_buf().unwrap();
                                    if piece.is_empty() {
                                        return read;
                                    }
                                    waiting.fetch_add(1, SeqCst);
                                    permits.acquire().unwrap().forget();
                                    assert!(piece.iter().all(|byte| usize::from(*byte) == number));
                                    read += piece.len();
                                    let length = piece.len();
                                    input.consume(length);
                                }
                            });
                            for length in 1..=PIECES {
                                assert_eq!(machine.feed(&vec![number as u8; length]), Fed::NeedMore);
                                let _ = yield_now();
                            }
                            machine.finish()
                        })
                    })
                })
                .collect();
            // All of them are in the middle of a feed before the first one goes on.
            while waiting.load(SeqCst) < MACHINES {
                let _ = yield_now();
            }
            permits.add_permits(MACHINES * PIECES);
            for machine in machines {
                assert_eq!(machine.join().unwrap(), PIECES * (PIECES + 1) / 2);
            }
        });
    });
}

#[test]
fn a_cancelled_wait_in_a_body_is_an_error_there() {
    everywhere(|| {
        let permits = Semaphore::new(0);
        let ended = segue::effect::region(|region| {
            let mut machine = region.push(|input: &mut Feed| {
                let byte = input.bytes().next().unwrap().unwrap();
                (byte, timeout(Duration::from_millis(1), || permits.acquire().map(drop)).is_err())
            });
            match machine.feed(b"12") {
                Fed::Done { value, unread } => (value, unread.len()),
                Fed::NeedMore => unreachable!(),
            }
        });
        assert_eq!(ended, ((b'1', true), 1));
    });
}

#[test]
fn a_read_that_would_have_to_wait_in_an_operation_panics_and_says_so() {
    everywhere(|| {
        let mut machine = push(|input: &mut Feed| {
            let read = |input: &mut Feed| input.read(&mut [0; 4]).unwrap();
            assert_eq!(no_suspend(|| read(input)), 2, "this is there");
            let panic = catch_unwind(AssertUnwindSafe(|| no_suspend(|| read(input)))).unwrap_err();
            (panic.downcast_ref::<String>().unwrap().clone(), read(input))
        });
        assert!(matches!(machine.feed(b"12"), Fed::NeedMore));
        // One that returns after that, without another read, has its value.
        let mut returns = push(|input: &mut Feed| {
            let read = catch_unwind(AssertUnwindSafe(|| no_suspend(|| input.fill_buf().map(<[u8]>::len))));
            (read.is_err(), 7)
        });
        assert_eq!(returns.feed(b""), Fed::Done { value: (true, 7), unread: b"" });
        match machine.feed(b"3") {
            Fed::Done { value: (said, read), .. } => {
                assert!(said.contains("the input of a machine was read, in the middle of an operation"), "{said}");
                assert_eq!(read, 1);
            }
            Fed::NeedMore => unreachable!(),
        }
    });
}
