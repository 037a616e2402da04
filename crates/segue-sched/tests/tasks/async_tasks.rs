//! Futures that a scheduler runs next to its fibers: polled when woken, on whatever worker, dropped
//! when cancelled, waited for at the end.
#![cfg(not(miri))]

use crate::common::{Counted, Meet, STAND_IN, everywhere, everywhere_and_on_threads, on_real_schedulers, pool, scaled};
use segue_core::scheduling::Job;
use segue_core::{
    Attribute, Attributes, Builder, CancelToken, JoinError, attribute, in_fiber, scope, sleep, spawn, spawn_task,
    timeout, yield_now,
};
use segue_sched::{Fifo, Goes, Policy, Task, Why};
use std::collections::HashSet;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

/// Pending so many times, each time woken at once.
struct Turns(usize);

impl Future for Turns {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        task.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Never ready; leaves its waker.
struct Never<'a>(
    Arc<Mutex<Option<Waker>>>,
    #[allow(dead_code)] // It is dropped.
    Counted<'a>,
);

impl Future for Never<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<()> {
        *self.0.lock().unwrap() = Some(task.waker().clone());
        Poll::Pending
    }
}

#[test]
fn a_task_yields_its_value() {
    everywhere_and_on_threads(|| {
        let task = spawn_task(async {
            Turns(10).await;
            6 * spawn(|| 7).await.unwrap()
        });
        assert_eq!(task.join().unwrap(), 42);
    });
}

#[test]
fn a_task_is_awaited_by_a_task() {
    everywhere_and_on_threads(|| {
        let inner = spawn_task(async {
            Turns(3).await;
            1
        });
        assert_eq!(spawn_task(async { inner.await.unwrap() + 1 }).join().unwrap(), 2);
    });
}

#[test]
fn a_panic_is_an_error_of_the_handle() {
    everywhere_and_on_threads(|| {
        let task = spawn_task(async {
            Turns(1).await;
            panic!("planted");
        });
        let payload = task.join().unwrap_err().into_panic().unwrap();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "planted");
    });
}

#[test]
fn tasks_and_fibers_take_turns() {
    everywhere(|| {
        scope(|s| {
            s.spawn(|| (0..100).for_each(|_| yield_now().unwrap()));
            let tasks: Vec<_> = (0..10).map(|n| s.spawn_task(Turns(n))).collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
    });
    // One that wakes itself for ever starves nobody.
    on_real_schedulers(|| {
        drop(spawn_task(Turns(usize::MAX)));
        let fiber = spawn(|| (0..100).all(|_| yield_now().is_ok()));
        assert!(fiber.join().unwrap());
        assert!(spawn_task(Turns(100)).join().is_ok());
    });
}

#[test]
fn a_task_borrows_from_its_scope() {
    everywhere_and_on_threads(|| {
        let words = ["straight", "line"];
        let sum = Mutex::new(0);
        scope(|s| {
            for word in &words {
                drop(s.spawn_task(async {
                    Turns(2).await;
                    *sum.lock().unwrap() += word.len();
                }));
            }
        });
        assert_eq!(*sum.lock().unwrap(), 12);
    });
}

#[test]
fn a_task_that_waits_is_woken_by_strangers() {
    let tasks = scaled(100, 10);
    on_real_schedulers(|| {
        let (sender, receiver) = std::sync::mpsc::channel::<Waker>();
        let stranger = thread::spawn(move || receiver.into_iter().for_each(Waker::wake));
        struct Asks(usize, std::sync::mpsc::Sender<Waker>);
        impl Future for Asks {
            type Output = ();

            fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<()> {
                if self.0 == 0 {
                    return Poll::Ready(());
                }
                self.0 -= 1;
                self.1.send(task.waker().clone()).unwrap();
                Poll::Pending
            }
        }
        let all: Vec<_> = (0..tasks).map(|_| spawn_task(Asks(scaled(100, 10), sender.clone()))).collect();
        drop(sender);
        all.into_iter().for_each(|task| task.join().unwrap());
        stranger.join().unwrap();
    });
}

#[test]
fn a_task_moves_between_workers() {
    if STAND_IN {
        return;
    }
    let pool = pool(2);
    // Each worker in turn is kept by a fiber that does not let it go before the task has been
    // polled elsewhere.
    let seen = Arc::new(Mutex::new(HashSet::new()));
    while seen.lock().unwrap().len() < 2 {
        let seen = Arc::clone(&seen);
        let task = pool.spawn_task(async move {
            for _ in 0..100 {
                seen.lock().unwrap().insert(thread::current().id());
                Turns(1).await;
            }
        });
        task.join().unwrap();
    }
}

#[test]
fn a_cancelled_task_is_dropped_where_it_waits() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    everywhere_and_on_threads(|| {
        let (waker, before) = (Arc::new(Mutex::new(None)), DROPPED.load(SeqCst));
        let task = scope(|s| {
            let task = s.spawn_task(Never(Arc::clone(&waker), Counted(&DROPPED)));
            while waker.lock().unwrap().is_none() {
                yield_now().unwrap();
            }
            s.cancel();
            task
        });
        assert_eq!(DROPPED.load(SeqCst), before + 1);
        assert!(matches!(task.join(), Err(JoinError::Cancelled(_))));
        // Its waker outlives it, and does nothing.
        waker.lock().unwrap().take().unwrap().wake();
    });
}

#[test]
fn one_that_is_cancelled_before_its_first_poll_is_not_polled() {
    everywhere(|| {
        let polled = AtomicUsize::new(0);
        let task = scope(|s| {
            s.cancel();
            s.spawn_task(async { polled.fetch_add(1, SeqCst) })
        });
        assert!(matches!(task.join(), Err(JoinError::NeverRan(_))));
        assert_eq!(polled.load(SeqCst), 0);
    });
}

#[test]
fn a_run_ends_what_waits_for_ever() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    let waker = Arc::new(Mutex::new(None));
    on_real_schedulers(|| {
        let before = DROPPED.load(SeqCst);
        let inner = segue_sched::Runtime::new().workers(2).run(|| {
            for _ in 0..10 {
                drop(spawn_task(Never(Arc::clone(&waker), Counted(&DROPPED))));
            }
            yield_now().unwrap();
        });
        inner.unwrap();
        assert_eq!(DROPPED.load(SeqCst), before + 10);
    });
}

#[test]
fn a_poll_may_wait_as_fibers_do() {
    everywhere_and_on_threads(|| {
        let meet = Arc::new(Meet::new());
        let task = {
            let meet = Arc::clone(&meet);
            spawn_task(async move {
                Turns(1).await;
                let first = meet.wait().unwrap();
                Turns(1).await;
                first + meet.wait().unwrap()
            })
        };
        spawn(move || meet.put(21));
        assert_eq!(task.join().unwrap(), 42);
    });
}

#[test]
fn a_cancelled_poll_that_waits_as_a_fiber_fails_there() {
    everywhere(|| {
        let token = CancelToken::new();
        let task = token.run(|| {
            scope(|s| {
                let never = Meet::<()>::new();
                let task = s.spawn_task(async move { never.wait() });
                spawn({
                    let token = token.clone();
                    move || token.cancel()
                });
                task
            })
        });
        // Its one poll is over either way: with an error, or not begun.
        match task.join() {
            Ok(waited) => assert!(waited.is_err()),
            Err(error) => assert!(matches!(error, JoinError::NeverRan(_))),
        }
    });
}

#[test]
fn sources_and_timers_work_in_tasks() {
    everywhere(|| {
        let task = spawn_task(async { segue_core::after(Duration::from_millis(1)).await });
        task.join().unwrap();
        let late = spawn_task(async { segue_core::after(Duration::from_secs(3600)).await });
        let limited = timeout(Duration::from_millis(1), || late.join());
        assert!(matches!(limited, Err(JoinError::WaitCancelled(reason, _)) if reason.timed_out()));
        sleep(Duration::from_millis(1)).unwrap();
    });
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Rank(u32);

impl Attribute for Rank {
    fn to_bits(self) -> u64 {
        self.0.into()
    }

    fn from_bits(bits: u64) -> Self {
        Self(bits as u32)
    }
}

#[test]
fn every_poll_carries_the_name_and_the_attributes() {
    everywhere(|| {
        let attributes = Attributes::new().with(Rank(1));
        let look = || (segue_core::with_current(|fiber| fiber.name().map(str::to_owned)), attribute::<Rank>());
        let change = attributes.clone();
        let task = Builder::new().name("polled").attributes(attributes).spawn_task(async move {
            assert!(in_fiber());
            let first = look();
            Turns(1).await;
            change.set(Rank(2));
            (first, look())
        });
        let named = Some("polled".to_owned());
        assert_eq!(task.join().unwrap(), ((named.clone(), Some(Rank(1))), (named, Some(Rank(2)))));
    });
}

#[test]
fn a_dropped_handle_detaches() {
    everywhere_and_on_threads(|| {
        let (meet, told) = (Arc::new(Meet::new()), Arc::new(Meet::new()));
        drop(spawn_task({
            let (meet, told) = (Arc::clone(&meet), Arc::clone(&told));
            async move {
                Turns(2).await;
                told.put(meet.wait().unwrap());
            }
        }));
        meet.put(5);
        assert_eq!(told.wait(), Ok(5));
    });
}

/// A policy that gives polls away, to whoever is at the other end: those that come for this reason.
struct GivesAway(Why, Fifo, mpsc::Sender<Job>);

impl Policy for GivesAway {
    fn push(&mut self, task: Task, why: Why) -> Goes {
        match task {
            Task::Fresh(job) if why == self.0 => {
                self.2.send(job).unwrap();
                Goes::Here
            }
            task => self.1.push(task, why),
        }
    }

    fn pop(&mut self) -> Option<Task> {
        self.1.pop()
    }
}

/// Runs `body` on a scheduler that gives polls away to a plain thread, which runs them as parts of
/// itself, inside of a time-out.
fn with_polls_given_away(why: Why, body: impl FnOnce()) {
    let (send, receive) = mpsc::channel::<Job>();
    let stranger = thread::spawn(move || {
        for job in receive {
            timeout(Duration::from_secs(3600), || job.run());
        }
    });
    let policy = move || GivesAway(why, Fifo::default(), send.clone());
    segue_sched::Runtime::new().workers(1).run_with(policy, body).unwrap();
    stranger.join().unwrap();
}

#[test]
fn a_task_whose_first_poll_is_a_part_of_a_stranger_stays_in_its_own_context() {
    let polls = Arc::new(AtomicUsize::new(0));
    with_polls_given_away(Why::Spawned, || {
        let polled = Arc::clone(&polls);
        let pending = std::future::poll_fn::<(), _>(move |_| {
            polled.fetch_add(1, SeqCst);
            Poll::Pending
        });
        drop(spawn_task(pending));
        while polls.load(SeqCst) == 0 {
            yield_now().unwrap();
        }
        // The end of the run cancels the task, wherever the stranger is by then.
    });
    assert_eq!(polls.load(SeqCst), 1);
}

#[test]
fn a_task_whose_second_poll_is_a_part_of_a_stranger_leaves_that_where_it_is() {
    with_polls_given_away(Why::Resumed, || {
        spawn_task(Turns(1)).join().unwrap();
    });
}
