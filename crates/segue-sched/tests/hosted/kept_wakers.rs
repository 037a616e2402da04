//! Wakers that were kept since others were being called, and run when a wait has begun: what they
//! do with contexts must not hide that wait from its canceller.

use segue_core::{CancelToken, Outcome, Trigger, WaitQueue, Waitable, WaitsFor, wait_future};
use segue_sched::hosted;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;

struct Calls(Box<dyn Fn() + Send + Sync>);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn open(gate: &WaitQueue<bool>) {
    let mut guard = gate.lock();
    *guard.state() = true;
    guard.notify_all(0);
}

type Waiting = Pin<Box<dyn Future<Output = ()>>>;

/// A future that waits for the gate, with a waker that calls `f`.
fn when_open(gate: &Arc<WaitQueue<bool>>, f: impl Fn() + Send + Sync + 'static) -> Waiting {
    let gate = Arc::clone(gate);
    let is_open = async move { Waitable::new(gate.source(WaitsFor::new("a gate"), |open| *open, |_| ())).await };
    let mut future: Waiting = Box::pin(is_open);
    let waker = Waker::from(Arc::new(Calls(Box::new(f))));
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    future
}

/// A fiber inside of a token opens the first of nine gates, each of whose wakers opens the next.
/// The eighth waker waits, for ever but for the token; and the ninth, which is kept since so many
/// are being called, is called when that wait has begun: `kept`. Then another thread cancels.
fn a_waker_that_waits_is_cancelled(kept: impl Fn() + Send + Sync + 'static) {
    let token = Arc::new(CancelToken::new());
    let (tell, told) = mpsc::channel();
    let cancels = Arc::clone(&token);
    let canceller = thread::spawn(move || {
        told.recv().unwrap();
        cancels.cancel();
    });
    let fiber = hosted(move || {
        let gates: [_; 9] = std::array::from_fn(|_| Arc::new(WaitQueue::new(false)));
        let opens = |gate: &Arc<WaitQueue<bool>>| {
            let gate = Arc::clone(gate);
            move || open(&gate)
        };
        let mut waiting: Vec<_> = (0..7).map(|i| when_open(&gates[i], opens(&gates[i + 1]))).collect();
        let opens_last = opens(&gates[8]);
        let outcome = Arc::new(std::sync::Mutex::new(None));
        let ended = Arc::clone(&outcome);
        waiting.push(when_open(&gates[7], move || {
            opens_last();
            *ended.lock().unwrap() = Some(Trigger::new().wait(WaitsFor::new("nobody signals")));
        }));
        waiting.push(when_open(&gates[8], move || {
            kept();
            tell.send(()).unwrap();
        }));
        token.run(|| open(&gates[0]));
        *outcome.lock().unwrap()
    });
    assert_eq!(wait_future(fiber).unwrap().unwrap(), Some(Outcome::Cancelled));
    canceller.join().unwrap();
}

#[test]
fn a_kept_waker_that_does_nothing() {
    a_waker_that_waits_is_cancelled(|| {});
}

#[test]
fn a_kept_waker_is_refused_a_wait_in_a_context_of_its_own() {
    a_waker_that_waits_is_cancelled(|| {
        let refused = CancelToken::new().run(|| Trigger::new().wait(WaitsFor::new("nobody signals")));
        assert_eq!(refused, Outcome::Cancelled);
    });
}

#[test]
fn a_kept_waker_takes_from_a_generator_that_gives_inside_of_a_context() {
    a_waker_that_waits_is_cancelled(|| {
        let mut numbers =
            segue_fiber::generator(|to: &segue_fiber::Yielder<u32>| CancelToken::new().run(|| to.give(1)));
        assert_eq!(numbers.next(), Some(1));
    });
}
