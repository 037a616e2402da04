//! Waits in contexts that others claim: which context a claimer looks at. Small, for Miri and the
//! thread sanitizer, with the feature `threads`.

use segue_core::{CancelToken, Guard, Operation, Outcome, Trigger, Unlocked, WaitQueue, WaitsFor, shield, wait};
use segue_core::{Waitable, wait_future};
use segue_sched::hosted;
use std::sync::{Arc, mpsc};
use std::thread;

/// Waits until somebody stands in the queue.
fn await_waiter<S, T>(queue: &WaitQueue<S, T>) {
    while queue.lock().is_empty(0) {
        thread::yield_now();
    }
}

fn open(gate: &WaitQueue<bool>) {
    await_waiter(gate);
    let mut guard = gate.lock();
    *guard.state() = true;
    guard.notify_all(0);
}

/// The claimer must not look at the context that has ended, which the new one's address once named.
#[test]
fn contexts_at_one_address_one_after_the_other() {
    let (send, receive) = mpsc::channel::<Arc<Trigger>>();
    let claimer = thread::spawn(move || receive.iter().filter(|trigger| trigger.signal(0)).count());
    let fiber = hosted(move || {
        for _ in 0..24 {
            let trigger = Arc::new(Trigger::new());
            let wait = || {
                send.send(trigger.clone()).unwrap();
                trigger.wait(WaitsFor::new("a signal"))
            };
            assert_eq!(CancelToken::new().run(wait), Outcome::Taken(0));
        }
    });
    wait_future(fiber).unwrap().unwrap();
    assert_eq!(claimer.join().unwrap(), 24);
}

#[test]
fn waits_in_one_context_are_served_until_that_is_cancelled() {
    let queue: Arc<WaitQueue<(), u32>> = Arc::new(WaitQueue::new(()));
    let token = Arc::new(CancelToken::new());
    let (canceller, server) = (Arc::clone(&token), Arc::clone(&queue));
    let other = thread::spawn(move || {
        for _ in 0..4 {
            await_waiter(&server);
            server.lock().hand_over(0, 7).unwrap();
        }
        await_waiter(&server);
        canceller.cancel();
        assert!(server.lock().hand_over(0, 8).is_err(), "it was cancelled before");
    });
    let fiber = hosted(move || {
        let wait = || queue.wait(WaitsFor::new("a value"), |()| false, |()| 0);
        token.run(|| {
            assert_eq!((wait(), wait(), shield(wait), wait()), (Ok(7), Ok(7), Ok(7), Ok(7)));
            assert!(wait().is_err());
            assert!(wait().is_err());
        });
    });
    wait_future(fiber).unwrap().unwrap();
    other.join().unwrap();
}

/// Waits for the inner gate, in a context of its own, while it looks whether the outer one is open.
struct WaitsInItsLook<'a> {
    inner: &'a WaitQueue<bool>,
    token: &'a CancelToken,
}

impl Operation<bool, ()> for WaitsInItsLook<'_> {
    type Output = ();

    fn attempt_unlocked(&mut self) -> Unlocked<()> {
        let wait = || Waitable::new(self.inner.source(WaitsFor::new("the inner gate"), |open| *open, |_| ())).wait();
        assert_eq!(self.token.run(wait).is_err(), self.token.is_cancelled());
        Unlocked::Look
    }

    fn attempt(&mut self, queue: &mut Guard<'_, bool, ()>) -> Option<()> {
        queue.state().then_some(())
    }

    fn is_ready(&mut self, queue: &mut Guard<'_, bool, ()>) -> bool {
        *queue.state()
    }

    fn commit(&mut self, _: Option<()>) -> Option<()> {
        Some(())
    }

    fn give_back(&mut self, _: Option<()>, _: &mut Guard<'_, bool, ()>) -> Option<()> {
        None
    }
}

fn a_look_waits_itself(ends: impl FnOnce(&WaitQueue<bool>, &CancelToken) + Send + 'static) {
    let inner = Arc::new(WaitQueue::new(false));
    let outer: Arc<WaitQueue<bool, ()>> = Arc::new(WaitQueue::new(false));
    let token = Arc::new(CancelToken::new());
    let (lies_in, opens, ended) = (Arc::clone(&inner), Arc::clone(&outer), Arc::clone(&token));
    let other = thread::spawn(move || {
        await_waiter(&lies_in);
        ends(&lies_in, &ended);
        drop(ended);
        open(&opens);
    });
    let fiber = hosted(move || {
        let operation = WaitsInItsLook { inner: &inner, token: &token };
        wait(&mut outer.operation(WaitsFor::new("the outer gate"), operation))
    });
    assert_eq!(wait_future(fiber).unwrap().unwrap(), Ok(()), "nobody cancels the outer wait");
    other.join().unwrap();
}

#[test]
fn a_look_that_waits_in_a_context_of_its_own_leaves_no_trace_of_it() {
    a_look_waits_itself(|inner, _| open(inner));
}

#[test]
fn a_look_whose_own_wait_is_cancelled_leaves_the_outer_one_alone() {
    a_look_waits_itself(|_, token| token.cancel());
}
