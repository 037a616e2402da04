//! Wakers that do at once what executors do later: drop the task that they wake, or poll it.
#![cfg(not(loom))]

use segue_core::{WaitQueue, Waitable, WaitsFor};
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A waker that drops its task when it is woken, and then says so: so does that of an executor
/// which has been shut down.
struct Drops(Mutex<Option<Task>>, mpsc::Sender<()>);

impl Wake for Drops {
    fn wake(self: Arc<Self>) {
        let task = self.0.lock().unwrap().take();
        if task.is_some() {
            drop(task);
            let _ = self.1.send(());
        }
    }
}

/// Fails instead of hanging.
fn ends(f: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = mpsc::channel::<()>();
    thread::spawn(move || {
        let _sender = sender;
        f();
    });
    let waited = receiver.recv_timeout(Duration::from_secs(if cfg!(miri) { 60 } else { 5 }));
    assert_eq!(waited, Err(mpsc::RecvTimeoutError::Disconnected), "it never ended");
}

fn both(mut a: Task, mut b: Task) -> Task {
    Box::pin(std::future::poll_fn(move |task| {
        let (a, b) = (a.as_mut().poll(task), b.as_mut().poll(task));
        if a.is_ready() && b.is_ready() { Poll::Ready(()) } else { Poll::Pending }
    }))
}

/// Polls a task that its waker drops, and says where it is heard of; nothing if it does not wait.
fn dropped_by_its_waker(a: Task, b: Task) -> Option<mpsc::Receiver<()>> {
    let (sender, dropped) = mpsc::channel();
    let waker = Arc::new(Drops(Mutex::new(None), sender));
    let mut task = both(a, b);
    // The waker, which may be called at once, finds the task.
    let mut place = waker.0.lock().unwrap();
    let polled = task.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&waker))));
    polled.is_pending().then(|| {
        *place = Some(task);
        dropped
    })
}

#[test]
fn a_waker_that_drops_a_task_with_two_places_in_a_queue_that_is_notified() {
    ends(|| {
        static GATE: WaitQueue<bool> = WaitQueue::new(false);
        let wait = || -> Task {
            Box::pin(Waitable::new(GATE.source(WaitsFor::new("a gate"), |open| *open, |_| ())).into_future())
        };
        let dropped = dropped_by_its_waker(wait(), wait()).expect("the gate is shut");
        let mut gate = GATE.lock();
        *gate.state() = true;
        gate.notify_all(0);
        dropped.try_recv().unwrap();
    });
}

#[test]
fn a_waker_that_drops_a_task_with_two_timers() {
    ends(|| {
        // The thread of the timers has a real clock. Where this thread is so late that the time has
        // come before the poll, later is tried.
        let mut wait = Duration::from_millis(5);
        let dropped = std::iter::repeat_with(|| {
            wait *= 2;
            let at = segue_core::now() + wait;
            let alarm = || -> Task { Box::pin(segue_core::at(Some(at)).into_future()) };
            dropped_by_its_waker(alarm(), alarm())
        });
        dropped.flatten().next().unwrap().recv().unwrap();
        // The thread of the timers is still there.
        segue_core::sleep(Duration::from_millis(1)).unwrap();
    });
}

#[test]
fn tasks_are_woken_in_the_order_in_which_they_were_served() {
    struct Notes(u32, Arc<Mutex<Vec<u32>>>);
    impl Wake for Notes {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }
    let gate: WaitQueue<bool> = WaitQueue::new(false);
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks: Vec<_> = (0..5)
        .map(|number| {
            let source = gate.source(WaitsFor::new("a gate"), |open| *open, |_| ());
            let mut task = Box::pin(Waitable::new(source).into_future());
            let waker = Waker::from(Arc::new(Notes(number, Arc::clone(&order))));
            assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            task
        })
        .collect();
    let mut guard = gate.lock();
    *guard.state() = true;
    guard.notify_all(0);
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
    for task in &mut tasks {
        assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
}

/// Calls a closure, with the number that it was made for.
struct Calls<F>(usize, Arc<F>);

impl<F: Fn(usize) + Send + Sync + 'static> Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        (self.1)(self.0);
    }
}

#[test]
fn to_notify_all_lets_go_of_the_lock_and_tells_those_alone_who_were_there() {
    static GATE: WaitQueue<()> = WaitQueue::new(());
    const TASKS: usize = 100;
    let wait = || -> Task {
        // It is never ready.
        Box::pin(Waitable::new(GATE.source(WaitsFor::new("a gate"), |_| false, |_| ())).into_future())
    };
    let tasks: Arc<Mutex<Vec<Option<Task>>>> = Arc::default();
    let seen: Arc<Mutex<Vec<(usize, bool)>>> = Arc::default();
    let (all, notes) = (Arc::clone(&tasks), Arc::clone(&seen));
    // Each waker that is called polls its task again, which joins again, at the end. The first one
    // of the second batch drops the last task, which has not been told yet.
    let wake = Arc::new(move |number: usize| {
        let others_wait = !GATE.lock().is_empty(0);
        let mut tasks = all.lock().unwrap();
        if number == 32 {
            tasks[TASKS - 1] = None;
        }
        let again = tasks[number].as_mut().expect("it waits").as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(again.is_pending());
        notes.lock().unwrap().push((number, others_wait));
    });
    for number in 0..TASKS {
        let mut task = wait();
        let waker = Waker::from(Arc::new(Calls(number, Arc::clone(&wake))));
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        tasks.lock().unwrap().push(Some(task));
    }
    GATE.lock().notify_all(0);
    let seen = seen.lock().unwrap();
    assert_eq!(*seen, (0..TASKS - 1).map(|number| (number, true)).collect::<Vec<_>>());
}
