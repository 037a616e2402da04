//! The table of callbacks, of the structures: their closures, the wakers that each of their
//! operations calls, and the clones and drops of what they hold. `segue-sched/tests/barriers` has
//! the rest, and `common/table.rs` there says what rows, columns and cells are.
#![cfg(feature = "sched")]

#[path = "../../segue-sched/tests/common/table.rs"]
mod table;

use segue::channel::{self, broadcast, watch};
use segue::concurrent::{Incomplete, Retry, at_most, first_ok, join_all, race};
use segue::sync::{
    Barrier, Condvar, Entry, Latch, Lazy, MVar, Mutex, Notify, Once, OnceCell, RwLock, Semaphore, WaitGroup, promise,
};
use segue::{CancelToken, Waitable, scope, yield_now};
use segue_core::Source;
use std::sync::Arc;
use std::task::Waker;
use table::{ActsAtDrop, Counts, Must::*, RIGHT, Row, act, arm, disarm, fiber, poll, thread, waker};

const CELL: &str = "OnceCell<u64>";
const BROADCAST: &str = "a message of a broadcast";
const WAKER: &str = "a waker, a drop or other code";

fn acts() -> u64 {
    act();
    RIGHT
}

/// Has two tasks wait, the first of which has a waker that acts, and serves both by `serve`.
fn two<A: Source, B: Source>(first: Waitable<A>, second: Waitable<B>, serve: impl FnOnce()) -> u64 {
    let (mut first, mut second) = (Box::pin(first.into_future()), Box::pin(second.into_future()));
    let behind = Arc::new(Counts::default());
    assert!(poll(first.as_mut(), &waker()).is_none());
    assert!(poll(second.as_mut(), &behind.waker()).is_none());
    serve();
    assert_eq!(behind.get(), 1, "the waker behind was called before the operation was over");
    assert!(poll(second.as_mut(), Waker::noop()).is_some());
    assert!(poll(first.as_mut(), Waker::noop()).is_some());
    RIGHT
}

/// Has one task wait that nobody is behind.
fn one<A: Source>(only: Waitable<A>, serve: impl FnOnce()) -> u64 {
    let mut only = Box::pin(only.into_future());
    assert!(poll(only.as_mut(), &waker()).is_none());
    serve();
    assert!(poll(only.as_mut(), Waker::noop()).is_some());
    RIGHT
}

fn until(it_is_so: impl Fn() -> bool) {
    while !it_is_so() {
        yield_now().unwrap();
    }
}

/// The caller waits for more than there is, in front of two that could go on, and is cancelled.
fn cancelled_acquire() -> u64 {
    let (permits, token) = (Semaphore::new(2), CancelToken::new());
    let behind = Arc::new(Counts::default());
    scope(|s| {
        s.spawn(|| {
            // A permit can't be had any more when somebody waits for three.
            until(|| permits.try_acquire().is_none());
            let (mut first, mut second) =
                (Box::pin(permits.acquire_source().into_future()), Box::pin(permits.acquire_source().into_future()));
            assert!(poll(first.as_mut(), &waker()).is_none());
            assert!(poll(second.as_mut(), &behind.waker()).is_none());
            token.cancel();
            // The waiter's own thread serves them.
            until(|| behind.get() == 1);
            assert!(poll(first.as_mut(), Waker::noop()).is_some());
            assert!(poll(second.as_mut(), Waker::noop()).is_some());
        });
        assert!(token.run(|| permits.acquire_many(3)).is_err());
    });
    assert_eq!((behind.get(), permits.available_permits()), (1, 2));
    RIGHT
}

/// The same, in a task that is dropped.
fn dropped_acquire() -> u64 {
    let permits = Semaphore::new(2);
    let mut front = Box::pin(permits.acquire_many_source(3).into_future());
    assert!(poll(front.as_mut(), Waker::noop()).is_none());
    two(permits.acquire_source(), permits.acquire_source(), || drop(front))
}

/// A value whose clone acts.
struct Acts;

impl Clone for Acts {
    fn clone(&self) -> Self {
        act();
        Self
    }
}

fn wait_while() -> u64 {
    let (value, changed) = (Mutex::new(0), Condvar::new());
    let guard = value.lock().unwrap();
    let guard = changed
        .wait_while(guard, |value| {
            act();
            *value += 1;
            *value < 1
        })
        .unwrap();
    *guard + RIGHT - 1
}

/// What was obtained from one item. If its scheduler has ended meanwhile, no other one is begun.
fn worked_on(results: Result<Vec<u64>, Incomplete<u64>>) -> u64 {
    results.or_else(|ended| ended.results.into_iter().collect::<Option<Vec<_>>>().ok_or(ended.error)).unwrap()[0]
}

/// The condition is looked at again by a fiber that was notified.
fn wait_while_again() -> u64 {
    let (value, changed) = (Mutex::new(0), Condvar::new());
    disarm();
    scope(|s| {
        s.spawn(|| {
            until(|| value.try_lock().is_some_and(|value| *value == 1));
            let mut guard = value.lock().unwrap();
            *guard = 2;
            arm();
            changed.notify_one();
        });
        let guard = value.lock().unwrap();
        let condition = |value: &mut u64| {
            act();
            if *value == 0 {
                *value = 1;
            }
            *value < 2
        };
        let guard = changed.wait_while(guard, condition).unwrap();
        *guard + RIGHT - 2
    })
}

fn initializer() -> u64 {
    let cell = OnceCell::new();
    let Ok(Entry::Empty(initializer)) = cell.entry() else { unreachable!("it is empty") };
    two(cell.wait_source(), cell.wait_source(), || _ = initializer.fill(1))
}

fn turn_handed_over() -> u64 {
    let cell = OnceCell::<u64>::new();
    let Ok(Entry::Empty(initializer)) = cell.entry() else { unreachable!("it is empty") };
    one(cell.entry_source(), || drop(initializer))
}

fn barrier() -> u64 {
    let barrier = Barrier::new(3);
    two(barrier.wait_source(), barrier.wait_source(), || _ = barrier.wait().unwrap())
}

fn condition_source() -> u64 {
    let (value, changed) = (Mutex::new(0), Condvar::new());
    one(changed.wait_source(value.lock().unwrap()), || changed.notify_all())
}

/// Receivers of a broadcast that wait, of which one's waker acts, and `tell` tells them.
fn told<F>(
    (sender, mut first): (broadcast::Sender<u64, F>, broadcast::Receiver<u64>),
    tell: fn(broadcast::Sender<u64, F>),
) -> u64 {
    let mut second = first.clone();
    two(first.recv_source(), second.recv_source(), || tell(sender))
}

fn watched(tell: fn(watch::Sender<u64>)) -> u64 {
    let (sender, mut first) = watch::channel(1);
    let mut second = first.clone();
    two(first.changed_source(), second.changed_source(), || tell(sender))
}

static ROWS: &[Row] = &[
    fiber("OnceCell::get_or_init", Captured, || OnceCell::new().get_or_init(acts).copied().unwrap()),
    thread("OnceCell::get_or_init, on a thread", Captured, || OnceCell::new().get_or_init(acts).copied().unwrap()),
    fiber("OnceCell::get_or_try_init", Captured, || {
        OnceCell::new().get_or_try_init(|| Ok::<_, ()>(acts())).copied().unwrap()
    }),
    fiber("Once::call_once", Captured, || {
        let once = Once::new();
        once.call_once(|| _ = acts()).unwrap();
        assert!(once.is_completed());
        RIGHT
    }),
    fiber("Lazy::force", Captured, || *Lazy::new(acts).force().unwrap()),
    fiber("Lazy::force_fallible", Captured, || *Lazy::new(|| Ok::<_, ()>(acts())).force_fallible().unwrap()),
    fiber("Lazy::force_source, in a poll", Refused("Lazy<u64>"), || {
        let lazy = Lazy::new(acts);
        let mut forced = Box::pin(lazy.force_source().into_future());
        *poll(forced.as_mut(), Waker::noop()).unwrap().unwrap()
    }),
    fiber("OnceCell::get_or_init_source, in a poll", Refused(CELL), || {
        let cell = OnceCell::new();
        let mut source = Box::pin(cell.get_or_init_source(acts).into_future());
        *poll(source.as_mut(), Waker::noop()).unwrap().unwrap()
    }),
    fiber("OnceCell::get_or_try_init_source, in a poll", Refused(CELL), || {
        let cell = OnceCell::new();
        let mut source = Box::pin(cell.get_or_try_init_source(|| Ok::<_, ()>(acts())).into_future());
        *poll(source.as_mut(), Waker::noop()).unwrap().unwrap()
    }),
    fiber("Once::call_once_source, in a poll", Refused(""), || {
        let once = Once::new();
        let mut source = Box::pin(once.call_once_source(|| _ = acts()).into_future());
        poll(source.as_mut(), Waker::noop()).unwrap().unwrap();
        RIGHT
    }),
    fiber("MVar::modify", Captured, || MVar::new(1).modify(|_| acts()).unwrap()),
    thread("MVar::modify, on a thread", Captured, || MVar::new(1).modify(|_| acts()).unwrap()),
    fiber("MVar::read: the clone", Captured, || {
        let cell = MVar::new(Acts);
        assert!(cell.read().is_ok() && !cell.is_empty());
        RIGHT
    }),
    fiber("Condvar::wait_while", Captured, wait_while),
    fiber("Condvar::wait_while, again", Captured, wait_while_again),
    fiber("join_all: a closure", Apart, || join_all([acts]).unwrap()[0]),
    fiber("race: a closure", Apart, || race([acts]).unwrap().value),
    fiber("first_ok: a closure", Apart, || first_ok([|| Ok::<_, ()>(acts())]).unwrap().value),
    fiber("AtMost::map, by the caller", Captured, || worked_on(at_most(1).map([0], |_| acts()))),
    fiber("AtMost::for_each, by the caller", Captured, || {
        let mut worked = 0;
        let ended = at_most(1).for_each([&mut worked], |worked| *worked = acts());
        assert!(worked == RIGHT || ended.is_err());
        worked
    }),
    fiber("AtMost::any, by the caller", Captured, || {
        RIGHT * u64::from(at_most(1).any([0], |_| acts() == RIGHT).unwrap())
    }),
    fiber("AtMost::map: the iterator", Captured, || {
        worked_on(at_most(1).map([0].into_iter().map(|_| acts()), |item| item))
    }),
    fiber("Retry::run", Captured, || Retry::new(1).run(|_| Ok::<_, ()>(acts())).unwrap()),
    fiber("Retry::run_while: whether it is worth it", Captured, || {
        let again = |_: &()| acts() == 0;
        RIGHT * u64::from(Retry::new(2).run_while(again, |_| Err::<(), _>(())).unwrap_err().attempts)
    }),
    fiber("the drop of a structure with its value", Captured, || {
        drop((MVar::new(ActsAtDrop), Mutex::new(0)));
        RIGHT
    }),
    fiber("the drop of a value that a try_put did not put", Captured, || {
        let cell = MVar::new(None);
        assert!(cell.try_put(Some(ActsAtDrop)).is_err());
        RIGHT
    }),
    fiber("a waker, by MVar::put", Refused(WAKER), || {
        let cell = MVar::<u64>::empty();
        one(cell.take_source(), || cell.put(1).unwrap())
    }),
    fiber("a waker, by MVar::try_put", Refused(WAKER), || {
        let cell = MVar::<u64>::empty();
        one(cell.take_source(), || cell.try_put(1).unwrap())
    }),
    fiber("a waker, by MVar::take", Refused(WAKER), || {
        let cell = MVar::new(1);
        one(cell.put_source(2), || _ = cell.take().unwrap())
    }),
    fiber("a waker, by the end of a loan", Refused(WAKER), || {
        let cell = MVar::new(1);
        let loan = cell.borrow().unwrap();
        one(cell.borrow_source(), || drop(loan))
    }),
    fiber("the hook of a channel, by the last receiver", Captured, || {
        let (sender, receiver) = channel::Options::bounded(2).on_undelivered(|_| act()).build();
        sender.send(1).unwrap();
        drop(receiver);
        assert!(sender.is_closed() && sender.is_empty());
        RIGHT
    }),
    fiber("the hook of a resolver, by the drop of the promise", Captured, || {
        let (resolver, given) = promise::<u64>();
        resolver.on_close(act);
        drop(given);
        assert_eq!(resolver.fill(1).unwrap_err().value, 1);
        RIGHT
    }),
    fiber("the hook of a resolver, by a take that is cancelled", Captured, || {
        let (resolver, given) = promise::<u64>();
        let token = CancelToken::new();
        resolver.on_close(act);
        token.cancel();
        assert!(token.run(|| given.take()).is_err());
        assert_eq!(resolver.fill(1).unwrap_err().value, 1);
        RIGHT
    }),
    fiber("the hook of a resolver, that comes too late", Captured, || {
        let (resolver, given) = promise::<u64>();
        drop(given);
        resolver.on_close(act);
        assert_eq!(resolver.fill(1).unwrap_err().value, 1);
        RIGHT
    }),
    fiber("the drop of a hook that is not called", Captured, || {
        let (resolver, given) = promise();
        let acts = ActsAtDrop;
        resolver.on_close(move || drop(acts));
        resolver.fill(1).unwrap();
        assert_eq!(given.take(), Ok(1));
        RIGHT
    }),
    fiber("the drop of a value that a try_send did not send", Captured, || {
        let (sender, _receiver) = channel::rendezvous();
        assert!(sender.try_send(ActsAtDrop).is_err());
        RIGHT
    }),
    fiber("a waker, by Sender::send", Refused(WAKER), || {
        let (sender, receiver) = channel::bounded(1);
        one(receiver.recv_source(), || sender.send(1).unwrap())
    }),
    fiber("a waker, by Sender::try_send", Refused(WAKER), || {
        let (sender, receiver) = channel::rendezvous();
        one(receiver.recv_source(), || sender.try_send(1).unwrap())
    }),
    fiber("a waker, by Receiver::recv", Refused(WAKER), || {
        let (sender, receiver) = channel::rendezvous();
        one(sender.send_source(1), || _ = receiver.recv().unwrap())
    }),
    fiber("a waker, by Exclusive::recv", Refused(WAKER), || {
        let (sender, receiver) = channel::bounded(2);
        (0..2).for_each(|n| sender.send(n).unwrap());
        let mut receiver = receiver.into_exclusive().unwrap();
        two(sender.send_source(2), sender.send_source(3), || _ = receiver.recv().unwrap())
    }),
    fiber("a waker, by Reserved::send", Refused(WAKER), || {
        let (sender, receiver) = channel::bounded(1);
        let room = sender.reserve().unwrap();
        one(receiver.recv_source(), || room.send(1).unwrap())
    }),
    fiber("a waker, by the drop of reserved room", Refused(WAKER), || {
        let (sender, _receiver) = channel::bounded::<u64>(1);
        let room = sender.reserve().unwrap();
        one(sender.reserve_source(), || drop(room))
    }),
    fiber("a waker, by the end of a channel", Refused(WAKER), || {
        let (sender, receiver) = channel::bounded::<u64>(1);
        two(receiver.recv_source(), receiver.recv_source(), || drop(sender))
    }),
    fiber("a waker, by the last receiver", Refused(WAKER), || {
        let (sender, receiver) = channel::rendezvous::<u64>();
        two(sender.send_source(1), sender.send_source(2), || drop(receiver))
    }),
    fiber("a waker, by a mutex's guard", Refused(WAKER), || {
        let mutex = Mutex::new(1);
        let guard = mutex.lock().unwrap();
        one(mutex.lock_source(), || drop(guard))
    }),
    thread("a waker, by a mutex's guard, on a thread", Refused(WAKER), || {
        let mutex = Mutex::new(1);
        let guard = mutex.lock().unwrap();
        one(mutex.lock_source(), || drop(guard))
    }),
    fiber("a waker, by a writer's guard", Refused(WAKER), || {
        let lock = RwLock::new(1);
        let guard = lock.write().unwrap();
        two(lock.read_source(), lock.read_source(), || drop(guard))
    }),
    fiber("a waker, by a reader's guard", Refused(WAKER), || {
        let lock = RwLock::new(1);
        let guard = lock.read().unwrap();
        one(lock.write_source(), || drop(guard))
    }),
    fiber("a waker, by Semaphore::add_permits", Refused(WAKER), || {
        let permits = Semaphore::new(0);
        two(permits.acquire_source(), permits.acquire_source(), || permits.add_permits(2))
    }),
    fiber("a waker, by a permit's end", Refused(WAKER), || {
        let permits = Semaphore::new(2);
        let permit = permits.acquire_many(2).unwrap();
        two(permits.acquire_source(), permits.acquire_source(), || drop(permit))
    }),
    fiber("a waker, by the caller's cancelled acquire_many", Refused(WAKER), cancelled_acquire),
    thread("a waker, by the caller's cancelled acquire_many, on a thread", Refused(WAKER), cancelled_acquire),
    fiber("a waker, by a dropped acquire_many", Refused(WAKER), dropped_acquire),
    thread("a waker, by a dropped acquire_many, on a thread", Refused(WAKER), dropped_acquire),
    fiber("a waker, by Notify::notify_all", Refused(WAKER), || {
        let notify = Notify::new();
        two(notify.wait_source(), notify.wait_source(), || notify.notify_all())
    }),
    fiber("a waker, by Notify::notify_one", Refused(WAKER), || {
        let notify = Notify::new();
        one(notify.wait_source(), || notify.notify_one())
    }),
    fiber("a waker, by Condvar::notify_all", Refused(WAKER), condition_source),
    fiber("a waker, by Promise: fill", Refused(WAKER), || {
        let (resolver, given) = promise();
        two(given.wait_source(), given.wait_source(), || resolver.fill(1).unwrap())
    }),
    thread("a waker, by Promise: fill, on a thread", Refused(WAKER), || {
        let (resolver, given) = promise();
        two(given.wait_source(), given.wait_source(), || resolver.fill(1).unwrap())
    }),
    fiber("a waker, by Promise: the drop of the resolver", Refused(WAKER), || {
        let (resolver, given) = promise::<u64>();
        two(given.wait_source(), given.wait_source(), || drop(resolver))
    }),
    fiber("a waker, by Initializer::fill", Refused(WAKER), initializer),
    fiber("a waker, by an initializer that is dropped", Refused(WAKER), turn_handed_over),
    fiber("a waker, by OnceCell::set", Refused(WAKER), || {
        let cell = OnceCell::new();
        two(cell.wait_source(), cell.wait_source(), || cell.set(1).unwrap())
    }),
    fiber("a waker, by Latch::count_down", Refused(WAKER), || {
        let latch = Latch::new(1);
        two(latch.wait_source(), latch.wait_source(), || latch.count_down(1))
    }),
    fiber("a waker, by WaitGroup::done", Refused(WAKER), || {
        let group = WaitGroup::new();
        group.add(1);
        two(group.wait_source(), group.wait_source(), || group.done())
    }),
    fiber("a waker, by the end of a hold", Refused(WAKER), || {
        let group = WaitGroup::new();
        let hold = group.hold();
        two(group.wait_source(), group.wait_source(), || drop(hold))
    }),
    fiber("a waker, by the last at a barrier", Refused(WAKER), barrier),
    fiber("broadcast::Receiver::recv: the clone", Captured, || {
        let (sender, mut receiver) = broadcast::channel(1);
        let _other = receiver.clone();
        assert!(sender.send(Acts).is_ok() && receiver.recv().is_ok() && receiver.is_empty());
        RIGHT
    }),
    fiber("broadcast::Receiver::recv_source, in a poll: the clone", Refused(BROADCAST), || {
        let (sender, mut receiver) = broadcast::channel(1);
        let _other = receiver.clone();
        assert!(sender.send(Acts).is_ok());
        assert!(poll(Box::pin(receiver.recv_source().into_future()).as_mut(), Waker::noop()).is_some());
        RIGHT
    }),
    fiber("the drop of a message that is overwritten", Captured, || {
        let (sender, receiver) = broadcast::channel(1);
        assert!(sender.send(Some(ActsAtDrop)).is_ok() && sender.send(None).is_ok());
        RIGHT + receiver.len() as u64 - 1
    }),
    fiber("the drop of a message that the last receiver leaves", Captured, || {
        let (sender, receiver) = broadcast::channel(1);
        assert!(sender.send(ActsAtDrop).is_ok());
        drop(receiver);
        RIGHT + sender.len() as u64
    }),
    fiber("watch::Sender::update", Captured, || {
        let (sender, receiver) = watch::channel(1);
        sender.update(|_| acts());
        *receiver.peek()
    }),
    fiber("watch::Receiver::wait_for", Captured, || {
        let (_sender, mut receiver) = watch::channel(RIGHT);
        *receiver.wait_for(|value| acts() == *value).unwrap()
    }),
    fiber("the drop of a watched value", Captured, || {
        let (sender, receiver) = watch::channel(Some(ActsAtDrop));
        drop(sender.set(None));
        RIGHT + u64::from(receiver.peek().is_some())
    }),
    fiber("a waker, by broadcast::Sender::send", Refused(WAKER), || {
        told(broadcast::channel(1), |sender| assert!(sender.send(1).is_ok()))
    }),
    fiber("a waker, by a lossless broadcast::Sender::send", Refused(WAKER), || {
        told(broadcast::lossless(1), |sender| assert!(sender.send(1).is_ok()))
    }),
    fiber("a waker, by broadcast::Sender::close", Refused(WAKER), || {
        told(broadcast::channel(1), |sender| sender.close())
    }),
    fiber("a waker, by the drop of a broadcast's last sender", Refused(WAKER), || told(broadcast::channel(1), drop)),
    fiber("a waker, by broadcast::Receiver::recv", Refused(WAKER), || {
        let (sender, mut receiver) = broadcast::lossless(1);
        sender.send(1).unwrap();
        one(sender.send_source(2), || _ = receiver.recv().unwrap())
    }),
    fiber("a waker, by the drop of a broadcast's receiver", Refused(WAKER), || {
        let (sender, receiver) = broadcast::lossless(1);
        sender.send(1).unwrap();
        two(sender.send_source(2), sender.send_source(3), || drop(receiver))
    }),
    fiber("a waker, by watch::Sender::set", Refused(WAKER), || watched(|sender| _ = sender.set(2))),
    fiber("a waker, by watch::Sender::update", Refused(WAKER), || watched(|sender| _ = sender.update(|n| n + 1))),
    fiber("a waker, by the drop of a watched value's last sender", Refused(WAKER), || watched(drop)),
    fiber("segue::run", Apart, || segue::run(acts)),
    thread("segue::run, on a thread", Apart, || segue::run(acts)),
    fiber("segue::join", Refused("a join"), || segue::join(acts, || 1).0),
    fiber("segue::spawn", Apart, || segue::spawn(acts).join().unwrap()),
    fiber("segue::scope: the body", Captured, || scope(|_| acts())),
];

#[test]
fn what_a_structure_calls_is_a_body_or_is_not_captured() {
    table::check(ROWS, &["a waker, by the caller's cancelled acquire_many"]);
}
