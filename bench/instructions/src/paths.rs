//! The paths whose instructions are counted: each is a function that does something `n` times.
//!
//! What is done once, such as to start a scheduler, falls out of the difference of two counts. All
//! run with one worker, or none, so that nothing depends on who comes first.

use crate::{clock, http};
use segue::effect::{Effect, Handler, generator, perform, perform_result};
use segue::stm::{TVar, atomically};
use segue::sync::{MVar, Mutex, Promise, Resolver, Semaphore, promise};
use segue::{Builder, Either, any_of, channel, scope, select, spawn, wait_future, yield_now};
use segue_fiber::{Coroutine, Stack, StackArena, StackConfig, StackPool, Step, suspend};
use std::cell::Cell;
use std::hint::black_box;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A path.
pub struct Path {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What is done `n` times.
    pub once: &'static str,
    /// Does it.
    pub run: fn(u64),
}

const fn path(name: &'static str, once: &'static str, run: fn(u64)) -> Path {
    Path { name, once, run }
}

/// All of them, in the order of the page.
pub const ALL: &[Path] = &[
    path("switch", "a coroutine is resumed, and suspends", switch),
    path("yield_alone", "a fiber yields, and nobody else is there", |n| yields(1, n)),
    path("yield_2", "a turn: one of 2 fibers yields", |n| yields(2, n)),
    path("yield_1000", "a turn: one of 1,000 fibers yields", |n| yields(1000, n)),
    path("spawn_join", "a fiber spawns a child, which returns, and joins it", spawn_join),
    path("scope", "a fiber is spawned in a scope, and ends", |n| scopes(n, || ())),
    path("scope_yield", "the same, and it yields once", |n| scopes(n, || yield_now().unwrap())),
    path("fork", "a computation is forked, and no other worker takes a half", fork),
    path("mvar", "a message by an MVar, to a fiber that waits", mvar),
    path("promise", "a question and its answer, each by a promise", promises),
    path("promise_ready", "a promise is made, filled, and taken", promise_ready),
    path("mutex", "a free mutex is locked, and unlocked", mutex),
    path("mutex_handed", "a mutex is held across a yield, and goes to a fiber that waits", mutex_handed),
    path("semaphore", "a permit is acquired that is there, and released", semaphore),
    path("select_ready", "a cell is filled, and a choice takes from it or another", |n| select(n, true)),
    path("select_wait", "a choice of two cells, of which one is filled later", |n| select(n, false)),
    path("channel_free", "a value is sent to an unbounded channel, and received", channel_free),
    path("channel", "a message over a channel with room for one, to a fiber that waits", channel),
    path("select_channel", "a value is sent, and a choice receives from its channel or another", select_channel),
    path("race", "a yield, and a choice among 4 choices among 5, to each of which a fiber sends", race),
    path("race_vain", "a choice among 20 looks, and finds nothing", race_vain),
    path("stm_read", "a transaction that reads 10 variables", stm_read),
    path("stm_modify", "a transaction that reads and writes 2 variables", stm_modify),
    path("stm_retry", "a message by a variable, to a fiber that waits by retry", stm_retry),
    path("timeout", "a timeout is opened, and closed in time", timeout),
    path("cancel", "a fiber is spawned, waits, and is cancelled", cancel),
    path("future", "a fiber waits for a future that wakes it at once", future),
    path("future_hosted", "the same, by a fiber that is a task of an executor, and a poll of the task", future_hosted),
    path("task", "a task is spawned, which returns, and joined", task),
    path("task_wake", "the same, and it wakes itself once before", task_wake),
    path("task_sleep", "one of 100 tasks is spawned, sleeps, and is joined", task_sleep),
    path("generator", "a generator is asked, and gives", generate),
    path("perform", "an effect is performed, and its continuation resumed", perform_resume),
    path("perform_far", "the same, through nine handlers of something else", |n| perform_through(9, n)),
    path("perform_between", "the same, and a handler is installed, performed to, and left", perform_between),
    path("answer", "an effect is performed, and answered at once", answer),
    path("handle", "a handler is installed, its computation returns", handle),
    path("discontinue", "a handler is installed, an effect performed and discontinued as a value", discontinue),
    path("http_1", "an HTTP request with 1 header is read, handled and answered, without a socket", |n| {
        http::requests(1, n)
    }),
    path("http_8", "the same, with 8 headers", |n| http::requests(8, n)),
    path("http_30", "the same, with 30 headers", |n| http::requests(30, n)),
    path("http_closing", "a connection of one request is accepted, gets a fiber, and ends", |n| {
        http::connections(1, n)
    }),
];

/// Runs a function as a fiber of a scheduler with one worker.
pub fn on_worker(main: impl FnOnce() + Send + 'static) {
    segue::sched::Runtime::new().workers(1).run(main).expect("a scheduler")
}

fn stack() -> Stack {
    let arena = StackArena::new(StackConfig::new()).expect("address space for a stack");
    StackPool::new(arena).take().expect("a stack")
}

#[allow(unsafe_code, reason = "as schedulers do")]
fn switch(n: u64) {
    struct Header {
        me: Cell<Option<NonNull<Header>>>,
        left: Cell<u64>,
    }
    let header = Header { me: Cell::new(None), left: Cell::new(n) };
    let mut coroutine = Coroutine::new(stack(), header, |header: &Header| {
        let me = header.me.get().expect("set before the first resume");
        while header.left.get() != 0 {
            header.left.set(header.left.get() - 1);
            // SAFETY: the pointer is to the header of this coroutine, which is the running one.
            unsafe { suspend(me) };
        }
    });
    coroutine.header().me.set(Some(coroutine.header_ptr()));
    // SAFETY: no handler is in place.
    while unsafe { coroutine.resume_outside() } == Step::Suspended {}
    drop(coroutine.finish());
}

fn yields(fibers: u64, n: u64) {
    on_worker(move || {
        scope(|s| {
            for _ in 0..fibers {
                s.spawn(move || (0..n / fibers).for_each(|_| yield_now().unwrap()));
            }
        })
    });
}

fn spawn_join(n: u64) {
    on_worker(move || {
        let sum: u64 = (0..n).map(|i| spawn(move || i).join().unwrap()).sum();
        assert_eq!(sum, n * (n - 1) / 2);
    });
}

fn scopes(n: u64, body: fn()) {
    on_worker(move || {
        for _ in 0..n / 100 {
            scope(|s| {
                for _ in 0..100 {
                    s.spawn(body);
                }
            });
        }
    });
}

fn fork(n: u64) {
    fn forks(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (a, b) = segue::join(|| forks(n / 2), || forks(n - n / 2));
        a + b
    }
    on_worker(move || assert_eq!(forks(black_box(n)), n));
}

fn mvar(n: u64) {
    on_worker(move || {
        let (there, back) = (MVar::empty(), MVar::empty());
        scope(|s| {
            s.spawn(|| (0..n / 2).for_each(|_| back.put(there.take().unwrap()).unwrap()));
            for i in 0..n / 2 {
                there.put(i).unwrap();
                assert_eq!(back.take().unwrap(), i);
            }
        });
    });
}

/// A number, and where to send the next one.
struct Question(u64, Option<Resolver<Question>>);

fn promises(n: u64) {
    on_worker(move || {
        scope(|s| {
            let (mut first, mut question): (Resolver<Question>, Promise<Question>) = promise();
            s.spawn(move || {
                while let Question(i, Some(answer)) = question.take().unwrap() {
                    let (reply, next) = promise();
                    assert!(answer.fill(Question(i + 1, Some(reply))).is_ok());
                    question = next;
                }
            });
            for i in 0..n {
                let (reply, answer) = promise();
                assert!(first.fill(Question(i, Some(reply))).is_ok());
                let Question(sum, next) = answer.take().unwrap();
                assert_eq!(sum, i + 1);
                first = next.unwrap();
            }
            assert!(first.fill(Question(0, None)).is_ok());
        });
    });
}

fn promise_ready(n: u64) {
    on_worker(move || {
        for i in 0..n {
            let (resolver, promise) = promise();
            assert!(resolver.fill(i).is_ok());
            assert_eq!(promise.take().unwrap(), i);
        }
    });
}

fn mutex(n: u64) {
    on_worker(move || {
        let mutex = Mutex::new(0);
        (0..n).for_each(|_| *mutex.lock().unwrap() += 1);
        assert_eq!(mutex.into_inner(), n);
    });
}

fn mutex_handed(n: u64) {
    on_worker(move || {
        let mutex = Mutex::new(0);
        scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    for _ in 0..n / 2 {
                        let mut count = mutex.lock().unwrap();
                        *count += 1;
                        yield_now().unwrap();
                    }
                });
            }
        });
        assert_eq!(mutex.into_inner(), n / 2 * 2);
    });
}

fn semaphore(n: u64) {
    on_worker(move || {
        let semaphore = Semaphore::new(1);
        (0..n).for_each(|_| drop(semaphore.acquire().unwrap()));
    });
}

fn select(n: u64, is_ready: bool) {
    on_worker(move || {
        let (never, cell) = (MVar::<u64>::empty(), MVar::empty());
        scope(|s| {
            let choose = || match never.take_source().or(cell.take_source()).wait().unwrap() {
                Either::Left(i) | Either::Right(i) => i,
            };
            if is_ready {
                for i in 0..n {
                    cell.put(i).unwrap();
                    assert_eq!(choose(), i);
                }
            } else {
                s.spawn(|| (0..n).for_each(|i| cell.put(i).unwrap()));
                (0..n).for_each(|i| assert_eq!(choose(), i));
            }
        });
    });
}

fn race(n: u64) {
    on_worker(move || {
        let (to, from): (Vec<_>, Vec<_>) = (0..20).map(|_| channel::rendezvous::<u64>()).unzip();
        scope(|s| {
            for to in to {
                s.spawn(move || while to.send(1).is_ok() {});
            }
            let group = |group: usize| {
                let sources: [_; 5] = std::array::from_fn(|index| from[5 * group + index].recv_source());
                any_of(sources).map(|(_, received)| received)
            };
            let choose = || any_of([group(0), group(1), group(2), group(3)]).map(|(_, received)| received);
            for _ in 0..n {
                yield_now().unwrap();
                assert_eq!(choose().wait().unwrap(), Ok(1));
            }
            drop(from);
        });
    });
}

fn race_vain(n: u64) {
    on_worker(move || {
        let (_to, from): (Vec<_>, Vec<_>) = (0..20).map(|_| channel::rendezvous::<u64>()).unzip();
        for _ in 0..n {
            let sources: [_; 20] = std::array::from_fn(|index| from[index].recv_source());
            assert!(black_box(any_of(sources).attempt()).is_none());
        }
    });
}

fn channel_free(n: u64) {
    on_worker(move || {
        let (sender, receiver) = channel::unbounded();
        for i in 0..n {
            sender.send(i).unwrap();
            assert_eq!(receiver.recv().unwrap(), i);
        }
    });
}

fn channel(n: u64) {
    on_worker(move || {
        let (there, receive) = channel::bounded(1);
        let (back, answers) = channel::bounded(1);
        scope(|s| {
            s.spawn(move || (0..n / 2).for_each(|_| back.send(receive.recv().unwrap()).unwrap()));
            for i in 0..n / 2 {
                there.send(i).unwrap();
                assert_eq!(answers.recv().unwrap(), i);
            }
        });
    });
}

fn select_channel(n: u64) {
    on_worker(move || {
        let (_never, empty) = channel::bounded::<u64>(1);
        let (sender, receiver) = channel::bounded(1);
        for i in 0..n {
            sender.send(i).unwrap();
            let received = select! {
                received = empty.recv_source() => received,
                received = receiver.recv_source() => received,
            };
            assert_eq!(received.unwrap().unwrap(), i);
        }
    });
}

fn stm_read(n: u64) {
    on_worker(move || {
        let vars: [TVar<u64>; 10] = std::array::from_fn(|i| TVar::new(i as u64));
        let sum = || atomically(|tx| vars.iter().try_fold(0, |sum, var| Ok(sum + *tx.read(var)?)));
        (0..n).for_each(|_| assert_eq!(sum(), Ok(45)));
    });
}

fn stm_modify(n: u64) {
    on_worker(move || {
        let (from, to) = (TVar::new(n), TVar::new(0));
        for _ in 0..n {
            let moved = atomically(|tx| {
                tx.modify(&from, |balance| balance - 1)?;
                tx.modify(&to, |balance| balance + 1)
            });
            moved.unwrap();
        }
        assert_eq!((from.get(), to.get()), (0, n));
    });
}

fn stm_retry(n: u64) {
    /// Waits for a value, and takes it.
    fn take(var: &TVar<Option<u64>>) -> u64 {
        let taken = atomically(|tx| match *tx.replace(var, None)? {
            Some(value) => Ok(value),
            None => tx.retry(),
        });
        taken.unwrap()
    }
    on_worker(move || {
        let (there, back) = (TVar::new(None), TVar::new(None));
        scope(|s| {
            s.spawn(|| (0..n / 2).for_each(|_| back.set(Some(take(&there))).unwrap()));
            for i in 0..n / 2 {
                there.set(Some(i)).unwrap();
                assert_eq!(take(&back), i);
            }
        });
    });
}

fn timeout(n: u64) {
    on_worker(move || {
        for i in 0..n {
            assert_eq!(segue::timeout(Duration::from_secs(1), || black_box(i)), i);
        }
    });
}

fn cancel(n: u64) {
    on_worker(move || {
        let cell = MVar::<()>::empty();
        scope(|s| {
            for _ in 0..n {
                let waiter = Builder::new().cancellable().within(s).spawn(|| cell.take().is_err());
                yield_now().unwrap();
                waiter.cancel();
                assert!(waiter.join().unwrap());
            }
        });
    });
}

/// Pending once, and woken at once.
struct Once(bool);

impl Future for Once {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

fn future(n: u64) {
    on_worker(move || (0..n).for_each(|_| wait_future(Once(false)).unwrap()));
}

fn future_hosted(n: u64) {
    let mut task = Context::from_waker(Waker::noop());
    let mut fiber = segue::sched::hosted(move || (0..n).for_each(|_| wait_future(Once(false)).unwrap()));
    while Pin::new(&mut fiber).poll(&mut task).is_pending() {}
}

fn task(n: u64) {
    on_worker(move || {
        let sum: u64 = (0..n).map(|i| segue::spawn_task(async move { i }).join().unwrap()).sum();
        assert_eq!(sum, n * (n - 1) / 2);
    });
}

fn task_wake(n: u64) {
    on_worker(move || (0..n).for_each(|_| segue::spawn_task(Once(false)).join().unwrap()));
}

fn task_sleep(n: u64) {
    static ASLEEP: AtomicU64 = AtomicU64::new(0);
    let sleeping = || {
        segue::spawn_task(async {
            ASLEEP.fetch_add(1, Ordering::Relaxed);
            segue::core::after(Duration::from_millis(1)).await
        })
    };
    on_worker(move || {
        for hundred in 1..=n / 100 {
            let tasks: Vec<_> = (0..100).map(|_| sleeping()).collect();
            while ASLEEP.load(Ordering::Relaxed) < 100 * hundred {
                yield_now().unwrap();
            }
            clock::go_on(Duration::from_millis(2));
            tasks.into_iter().for_each(|task| task.join().unwrap());
        }
    });
}

fn generate(n: u64) {
    let numbers = generator(move |y| (0..n).for_each(|i| y.give(black_box(i))));
    assert_eq!(numbers.sum::<u64>(), n * (n - 1) / 2);
}

struct Next(u64);
impl Effect for Next {
    type Output = u64;
}

struct Other;
impl Effect for Other {
    type Output = ();
}

/// Counts to `n` by performing.
fn count(n: u64) {
    assert_eq!((0..n).fold(0, |last, _| perform(Next(last))), n);
}

fn perform_resume(n: u64) {
    Handler::new().on_tail(|Next(x), k| k.tail(x + 1)).handle(|| count(n));
}

fn through(others: u64, body: &mut dyn FnMut()) {
    match others {
        0 => body(),
        _ => Handler::new().on(|Other, k| k.resume(())).handle(|| through(others - 1, body)),
    }
}

fn perform_through(others: u64, n: u64) {
    Handler::new().on_tail(|Next(x), k| k.tail(x + 1)).handle(|| through(others, &mut || count(n)));
}

struct Near;
impl Effect for Near {
    type Output = ();
}

fn perform_between(n: u64) {
    let between = || {
        for i in 0..n {
            assert_eq!(perform(Next(i)), i + 1);
            Handler::new().on_tail(|Near, k| k.tail(())).handle(|| perform(Near));
        }
    };
    Handler::new().on_tail(|Next(x), k| k.tail(x + 1)).handle(|| through(9, &mut || between()));
}

fn answer(n: u64) {
    Handler::new().answer(|Next(x)| x + 1).handle(|| count(n));
}

fn handle(n: u64) {
    for i in 0..n {
        assert_eq!(Handler::new().on(|Next(x), k| k.resume(x + 1)).handle(|| black_box(i)), i);
    }
}

fn discontinue(n: u64) {
    for i in 0..n {
        let end =
            Handler::new().on(|Next(_), k| k.discontinue(())).handle(|| perform_result(Next(black_box(i))).is_err());
        assert!(end);
    }
}
