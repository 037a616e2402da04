//! Sources made of closures, futures and time, under every scheduler and in simulations: a request
//! that is taken back by its nack, a guard that asks first, foreign futures as arms, ticks.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{Task, block_on, everywhere, mixed, simulated};
use segue::core::{CancelToken, Source};
use segue::source::{Fate, Missed, Nack, future_source, guard, with_nack};
use segue::sync::{MVar, Semaphore, promise};
use segue::testing::Explore;
use segue::{Either, Waitable, after, interval, now, scope, shield, sleep, spawn, timeout, yield_now};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A server by whom each request is answered or taken back.
#[derive(Default)]
struct Server {
    requests: MVar<Option<Request>>,
    asked: AtomicUsize,
    answered: AtomicUsize,
    taken_back: AtomicUsize,
}

struct Request {
    answer: segue::sync::Resolver<u32>,
    nack: Waitable<Nack>,
    takes: Duration,
}

impl Server {
    /// Serves each request by a fiber of its own, until there is `None`.
    fn run(&self) {
        scope(|s| {
            while let Some(Request { answer, nack, takes }) = self.requests.take().unwrap() {
                s.spawn(move || {
                    let counter = match after(takes).or(nack.clone()).wait().unwrap() {
                        // It may be lost while the answer is on its way.
                        Either::Left(()) => {
                            let _ = answer.fill(1);
                            match nack.wait().unwrap() {
                                Fate::Chosen => &self.answered,
                                Fate::Lost => &self.taken_back,
                            }
                        }
                        Either::Right(fate) => {
                            assert_eq!(fate, Fate::Lost, "it was not answered");
                            &self.taken_back
                        }
                    };
                    counter.fetch_add(1, SeqCst);
                });
            }
        });
    }

    /// How many of those that have asked were answered and taken back.
    fn counts(self) -> (usize, usize) {
        let (asked, answered) = (self.asked.into_inner(), self.answered.into_inner());
        assert_eq!(answered + self.taken_back.into_inner(), asked);
        (asked, answered)
    }

    /// The answer to a request that is made when the wait for it begins.
    fn ask_source(&self, takes: Duration) -> Waitable<impl Source<Output = u32> + Send> {
        with_nack(move |nack| {
            self.asked.fetch_add(1, SeqCst);
            let (answer, promised) = promise();
            shield(|| self.requests.put(Some(Request { answer, nack, takes }))).unwrap();
            future_source(async move { *promised.wait_source().await.unwrap() })
        })
    }
}

#[test]
fn a_request_is_answered_or_taken_back() {
    everywhere(|| {
        let server = Server::default();
        scope(|s| {
            s.spawn(|| server.run());
            assert_eq!(server.ask_source(ms(0)).wait(), Ok(1));
            assert_eq!(server.ask_source(Duration::MAX).or(after(ms(1))).wait(), Ok(Either::Right(())));
            assert!(timeout(ms(1), || server.ask_source(Duration::MAX).wait()).is_err());
            assert_eq!(block_on(server.ask_source(ms(0))), 1);
            drop(Task::waiting(server.ask_source(Duration::MAX)));
            server.requests.put(None).unwrap();
        });
        // A time that is up before it is waited for is one for which nobody asks.
        let (asked, answered) = server.counts();
        assert!(answered == 2 && (3..=5).contains(&asked), "{asked} have asked");
    });
}

#[test]
fn requests_that_are_answered_and_given_up_at_the_same_time() {
    Explore::random(200).check(|| {
        let server = &Server::default();
        let answered = scope(|s| {
            s.spawn(|| server.run());
            let clients = [1, 2, 3].map(|n| {
                let ask = move || server.ask_source(ms(2)).or(after(ms(n))).wait();
                s.spawn(move || matches!(ask(), Ok(Either::Left(1))))
            });
            let answered = clients.map(|client| client.join().unwrap()).iter().filter(|answered| **answered).count();
            server.requests.put(None).unwrap();
            answered
        });
        assert_eq!((server.answered.load(SeqCst), server.taken_back.load(SeqCst)), (answered, 3 - answered));
    });
}

#[test]
fn fibers_threads_and_tasks_ask_at_once() {
    let server = Server::default();
    let chosen = AtomicUsize::new(0);
    std::thread::scope(|t| {
        let serves = t.spawn(|| server.run());
        mixed(30, |n| {
            let choice = server.ask_source(ms(n as u64 % 3)).or(after(ms(1)));
            let got = if n.is_multiple_of(2) { choice.wait().unwrap() } else { block_on(choice) };
            chosen.fetch_add(usize::from(got == Either::Left(1)), SeqCst);
        });
        server.requests.put(None).unwrap();
        serves.join().unwrap();
    });
    assert_eq!(server.counts().1, chosen.into_inner());
}

#[test]
fn an_endless_filter_is_an_arm_like_others() {
    everywhere(|| {
        let (permits, letters, token) = (Semaphore::new(1), MVar::empty(), CancelToken::new());
        scope(|s| {
            let never = permits.acquire_source().filter_map(|permit| permit.map(drop).err().map(drop));
            let fiber = s.spawn(|| never.or(letters.take_source()).wait());
            yield_now().unwrap();
            letters.put(7).unwrap();
            assert_eq!(fiber.join().unwrap(), Ok(Either::Right(7)));
            // Alone it lets others run, and is cancelled.
            let never = permits.acquire_source().filter_map(|permit| permit.map(drop).err().map(drop));
            let fiber = s.spawn(|| token.run(|| never.wait()));
            yield_now().unwrap();
            token.cancel();
            assert!(fiber.join().unwrap().is_err());
        });
        assert_eq!(permits.available_permits(), 1);
    });
}

#[test]
fn a_guard_asks_when_the_wait_begins() {
    everywhere(|| {
        let (permits, letters) = (Semaphore::new(0), MVar::empty());
        let asks = guard(|| {
            permits.acquire().unwrap().forget();
            letters.take_source()
        });
        scope(|s| {
            let fiber = s.spawn(|| asks.or(after(Duration::MAX)).wait());
            permits.add_permits(1);
            letters.put(7).unwrap();
            assert_eq!(fiber.join().unwrap(), Ok(Either::Left(7)));
        });
    });
}

#[test]
fn a_foreign_future_next_to_other_arms() {
    everywhere(|| {
        let letters = MVar::empty();
        scope(|s| {
            // As often as it is not the one that is chosen it goes on where it was.
            let mut sum = future_source(async {
                let mut sum = 0;
                while sum < 6 {
                    sum += letters.take_source().await;
                }
                sum
            });
            let fiber = s.spawn(|| letters.put(1).and_then(|()| letters.put(2)).and_then(|()| letters.put(3)));
            loop {
                match after(Duration::ZERO).or(sum.by_ref()).wait().unwrap() {
                    Either::Left(()) => drop(yield_now()),
                    Either::Right(sum) => break assert_eq!(sum, 6),
                }
            }
            fiber.join().unwrap().unwrap();
        });
    });
}

#[test]
fn ticks_in_virtual_time() {
    simulated(20, |_| {
        let (start, mut ticks) = (now(), interval(ms(10)));
        let since = || now().duration_since(start);
        assert_eq!((ticks.tick(), since()), (Ok(1), ms(10)));
        // What is done in between does not shift them.
        sleep(ms(4)).unwrap();
        assert_eq!((ticks.tick(), since()), (Ok(1), ms(20)));
        sleep(ms(35)).unwrap();
        assert_eq!((ticks.tick(), since()), (Ok(3), ms(55)), "two were missed, and the last of three is there");
        assert_eq!((ticks.tick(), since()), (Ok(1), ms(60)));
        assert_eq!((block_on(ticks.tick_source()), since()), (1, ms(70)));
        // One that another arm or a cancellation has cut short is still to come.
        assert_eq!(ticks.tick_source().or(after(ms(3))).wait(), Ok(Either::Right(())));
        assert!(timeout(ms(3), || ticks.tick()).is_err());
        assert_eq!((ticks.tick(), since()), (Ok(1), ms(80)));
        let long = ms(u64::MAX / 2);
        assert_eq!(interval(long).tick_source().or(after(ms(1))).wait(), Ok(Either::Right(())));
    });
}

#[test]
fn ticks_that_were_missed_are_left_out_made_up_for_or_shift_those_after_them() {
    simulated(20, |_| {
        for (missed, expected) in [
            (Missed::Skip, [(3, 35), (1, 40), (1, 50), (1, 60)]),
            (Missed::Burst, [(1, 35), (1, 35), (1, 35), (1, 40)]),
            (Missed::Delay, [(3, 35), (1, 45), (1, 55), (1, 65)]),
        ] {
            let (start, mut ticks) = (now(), interval(ms(10)).missed(missed));
            sleep(ms(35)).unwrap();
            let came = [(); 4].map(|()| (ticks.tick().unwrap(), (now() - start).as_millis()));
            assert_eq!(came, expected, "{missed:?}");
        }
        // One that takes too long in each round.
        let (start, mut ticks) = (now(), interval(ms(10)).missed(Missed::Delay));
        let rounds = [(); 3].map(|()| {
            ticks.tick().unwrap();
            let at = (now() - start).as_millis();
            sleep(ms(25)).unwrap();
            at
        });
        assert_eq!(rounds, [10, 35, 60]);
    });
}

#[test]
fn a_fiber_outside_of_a_token_waits_for_its_cancellation_as_an_arm() {
    everywhere(|| {
        let token = CancelToken::new();
        let stopped = spawn({
            let token = token.clone();
            move || {
                let mut ticks = interval(Duration::from_micros(100));
                while let Either::Right(_) = token.cancelled_source().or(ticks.tick_source()).wait().unwrap() {}
            }
        });
        sleep(ms(1)).unwrap();
        token.cancel();
        stopped.join().unwrap();
    });
}
